import torch
import triton
import triton.language as tl


@triton.jit
def log_softmax_kernel(in_ptr, out_ptr, N, BLOCK_N: tl.constexpr):
    pid = tl.program_id(0)
    offs = tl.arange(0, BLOCK_N)
    mask = offs < N
    row = tl.load(in_ptr + pid * N + offs, mask=mask, other=float("-inf"))
    row_max = tl.max(row, 0)
    shifted = row - row_max
    lse = tl.log(tl.sum(tl.exp(shifted), 0))
    tl.store(out_ptr + pid * N + offs, shifted - lse, mask=mask)


def run(x):
    M, N = x.shape
    out = torch.empty_like(x)
    BLOCK_N = triton.next_power_of_2(N)
    log_softmax_kernel[(M,)](x, out, N, BLOCK_N=BLOCK_N, num_warps=16 if BLOCK_N > 4096 else 4)
    return out
