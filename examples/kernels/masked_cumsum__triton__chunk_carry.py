import torch
import triton
import triton.language as tl


@triton.jit
def masked_scan(x_ptr, m_ptr, y_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    carry = 0.0
    for start in range(0, N, BLOCK):
        idx = start + lane
        ok = idx < N
        v = tl.load(x_ptr + row * N + idx, mask=ok, other=0.0)
        keep = tl.load(m_ptr + row * N + idx, mask=ok, other=0)
        v = tl.where(keep != 0, v, 0.0)
        tl.store(y_ptr + row * N + idx, tl.cumsum(v, 0) + carry, mask=ok)
        carry += tl.sum(v, 0)


def run(x, mask):
    M, N = x.shape
    y = torch.empty_like(x)
    masked_scan[(M,)](x, mask.view(torch.uint8), y, N, BLOCK=1024, num_warps=4)
    return y
