import torch
import triton
import triton.language as tl


@triton.jit
def softmax_online(x_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x_ptr += row * n_cols
    y_ptr += row * n_cols
    lane = tl.arange(0, BLOCK)
    # Running maximum and rescaled sum per lane, merged once at the end.
    m = tl.full((BLOCK,), -1e30, tl.float32)
    s = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n_cols, BLOCK):
        idx = start + lane
        v = tl.load(x_ptr + idx, mask=idx < n_cols, other=-1e30)
        new_m = tl.maximum(m, v)
        s = s * tl.exp(m - new_m) + tl.where(idx < n_cols, tl.exp(v - new_m), 0.0)
        m = new_m
    top = tl.max(m, axis=0)
    total = tl.sum(s * tl.exp(m - top), axis=0)
    scale = 1.0 / total
    for start in range(0, n_cols, BLOCK):
        idx = start + lane
        v = tl.load(x_ptr + idx, mask=idx < n_cols, other=0.0)
        tl.store(y_ptr + idx, tl.exp(v - top) * scale, mask=idx < n_cols)


def run(x):
    rows, cols = x.shape
    y = torch.empty_like(x)
    softmax_online[(rows,)](x, y, cols, BLOCK=1024, num_warps=4)
    return y
