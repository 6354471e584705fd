"""A tile in y and x marches through the depth with five planes in registers."""

import torch
import triton
import triton.language as tl


@triton.jit
def load_plane(u_ptr, z, D, line, yx, ok):
    depth = z + tl.zeros_like(yx)
    return tl.load(u_ptr + z * line + yx, mask=ok & (depth >= 0) & (depth < D), other=0.0)


@triton.jit
def wave_march(u_ptr, prev_ptr, v_ptr, courant, D, H, W, span, BY: tl.constexpr, BX: tl.constexpr):
    x = tl.program_id(0) * BX + tl.arange(0, BX)[None, :]
    y = tl.program_id(1) * BY + tl.arange(0, BY)[:, None]
    ok = (x < W) & (y < H)
    yx = y * W + x
    line = H * W
    z0 = tl.program_id(2) * span
    back2 = load_plane(u_ptr, z0 - 2, D, line, yx, ok)
    back1 = load_plane(u_ptr, z0 - 1, D, line, yx, ok)
    here = load_plane(u_ptr, z0, D, line, yx, ok)
    front1 = load_plane(u_ptr, z0 + 1, D, line, yx, ok)
    for z in range(z0, min(z0 + span, D)):
        front2 = load_plane(u_ptr, z + 2, D, line, yx, ok)
        at = u_ptr + z * line + yx
        near = back1 + front1
        far = back2 + front2
        near += tl.load(at - 1, mask=ok & (x >= 1), other=0.0) + tl.load(at + 1, mask=ok & (x + 1 < W), other=0.0)
        near += tl.load(at - W, mask=ok & (y >= 1), other=0.0) + tl.load(at + W, mask=ok & (y + 1 < H), other=0.0)
        far += tl.load(at - 2, mask=ok & (x >= 2), other=0.0) + tl.load(at + 2, mask=ok & (x + 2 < W), other=0.0)
        far += tl.load(at - 2 * W, mask=ok & (y >= 2), other=0.0) + tl.load(
            at + 2 * W, mask=ok & (y + 2 < H), other=0.0
        )
        lap = 1.3333333333333333 * near - 0.08333333333333333 * far - 7.5 * here
        prev = tl.load(prev_ptr + z * line + yx, mask=ok, other=0.0)
        tl.store(v_ptr + z * line + yx, 2.0 * here - prev + courant * lap, mask=ok)
        back2 = back1
        back1 = here
        here = front1
        front1 = front2


def run(u, previous, courant):
    d, h, w = u.shape
    v = torch.empty_like(u)
    span = 32
    wave_march[(triton.cdiv(w, 64), triton.cdiv(h, 8), triton.cdiv(d, span))](
        u, previous, v, courant, d, h, w, span, BY=8, BX=64, num_warps=4
    )
    return v
