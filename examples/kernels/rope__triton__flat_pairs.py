import torch
import triton
import triton.language as tl


@triton.jit
def rope_flat(x_ptr, cos_ptr, sin_ptr, y_ptr, pairs, L, H, half, BLOCK: tl.constexpr):
    # All (first, second) pairs as one axis; position and table column come from division.
    k = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = k < pairs
    d = k % half
    head = k // half
    pos = (head // H) % L
    c = tl.load(cos_ptr + pos * half + d, mask=ok, other=0.0)
    s = tl.load(sin_ptr + pos * half + d, mask=ok, other=0.0)
    first = head * 2 * half + d
    a = tl.load(x_ptr + first, mask=ok, other=0.0).to(tl.float32)
    b = tl.load(x_ptr + first + half, mask=ok, other=0.0).to(tl.float32)
    tl.store(y_ptr + first, (a * c - b * s).to(y_ptr.dtype.element_ty), mask=ok)
    tl.store(y_ptr + first + half, (b * c + a * s).to(y_ptr.dtype.element_ty), mask=ok)


def run(x, cos, sin):
    B, L, H, D = x.shape
    y = torch.empty_like(x)
    pairs = B * L * H * (D // 2)
    rope_flat[(triton.cdiv(pairs, 1024),)](x, cos, sin, y, pairs, L, H, D // 2, BLOCK=1024, num_warps=4)
    return y
