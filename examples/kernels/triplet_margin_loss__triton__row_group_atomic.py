import torch
import triton
import triton.language as tl


@triton.jit
def squared_gap(a, b, ok):
    d = a - b + 1e-6
    return tl.sum(tl.where(ok, d * d, 0.0), axis=1)


@triton.jit
def triplet_group(a_ptr, p_ptr, n_ptr, out_ptr, rows, cols, R: tl.constexpr, C: tl.constexpr):
    r = tl.program_id(0) * R + tl.arange(0, R)
    c0 = tl.arange(0, C)
    near = tl.zeros((R,), tl.float32)
    far = tl.zeros((R,), tl.float32)
    for start in range(0, cols, C):
        c = start + c0
        ok = (r[:, None] < rows) & (c[None, :] < cols)
        at = r[:, None] * cols + c[None, :]
        a = tl.load(a_ptr + at, mask=ok, other=0.0)
        near += squared_gap(a, tl.load(p_ptr + at, mask=ok, other=0.0), ok)
        far += squared_gap(a, tl.load(n_ptr + at, mask=ok, other=0.0), ok)
    hinge = tl.maximum(tl.sqrt(near) - tl.sqrt(far) + 1.0, 0.0)
    tl.atomic_add(out_ptr, tl.sum(tl.where(r < rows, hinge, 0.0), axis=0) / rows)


def run(anchor, positive, negative):
    rows, cols = anchor.shape
    out = torch.zeros((), device=anchor.device, dtype=torch.float32)
    triplet_group[(triton.cdiv(rows, 4),)](anchor, positive, negative, out, rows, cols, R=4, C=256, num_warps=4)
    return out
