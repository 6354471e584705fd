import torch
import triton
import triton.language as tl


@triton.jit
def rope_token(x_ptr, cos_ptr, sin_ptr, y_ptr, L, H, half, HB: tl.constexpr, DB: tl.constexpr):
    # One program per token: its row of the tables serves all heads.
    token = tl.program_id(0)
    pos = token % L
    h = tl.arange(0, HB)
    d = tl.arange(0, DB)
    c = tl.load(cos_ptr + pos * half + d, mask=d < half, other=0.0)
    s = tl.load(sin_ptr + pos * half + d, mask=d < half, other=0.0)
    at = token * H * 2 * half + h[:, None] * 2 * half + d[None, :]
    ok = (h[:, None] < H) & (d[None, :] < half)
    a = tl.load(x_ptr + at, mask=ok, other=0.0).to(tl.float32)
    b = tl.load(x_ptr + at + half, mask=ok, other=0.0).to(tl.float32)
    ty = y_ptr.dtype.element_ty
    tl.store(y_ptr + at, (a * c[None, :] - b * s[None, :]).to(ty), mask=ok)
    tl.store(y_ptr + at + half, (b * c[None, :] + a * s[None, :]).to(ty), mask=ok)


def run(x, cos, sin):
    B, L, H, D = x.shape
    y = torch.empty_like(x)
    half = D // 2
    rope_token[(B * L,)](
        x, cos, sin, y, L, H, half, HB=triton.next_power_of_2(H), DB=triton.next_power_of_2(half), num_warps=4
    )
    return y
