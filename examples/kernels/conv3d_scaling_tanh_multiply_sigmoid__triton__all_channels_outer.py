"""All channels of a line of voxels at once: each of the 81 inputs meets a vector of weights."""

import torch
import triton
import triton.language as tl


@triton.jit
def outer(
    x_ptr, w_ptr, cb_ptr, s_ptr, b_ptr, y_ptr, C, D, H, W, O, OD, OH, OW, voxels, BO: tl.constexpr, BP: tl.constexpr
):
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    o = tl.arange(0, BO)
    ok = o < O
    volume = OD * OH * OW
    image = (p // volume).to(tl.int64)
    rest = p % volume
    corner = x_ptr + image * C * D * H * W + ((rest // (OH * OW)) * H + (rest // OW) % OH) * W + rest % OW
    acc = tl.zeros((BP, BO), dtype=tl.float32) + tl.load(cb_ptr + o, mask=ok, other=0.0)[None, :]
    for k in range(C * 3):
        base = corner + ((k // 3) * D + k % 3) * H * W
        for t in tl.static_range(9):
            x = tl.load(base + (t // 3) * W + t % 3, mask=p < voxels, other=0.0)
            w = tl.load(w_ptr + (o * C * 3 + k) * 9 + t, mask=ok, other=0.0)
            acc += x[:, None] * w[None, :]
    v = acc * tl.load(s_ptr + o, mask=ok, other=0.0)[None, :]
    v = (2.0 * tl.sigmoid(2.0 * v) - 1.0) * tl.load(b_ptr + o, mask=ok, other=0.0)[None, :]
    to = y_ptr + (image * O * volume + rest)[:, None] + o[None, :] * volume
    tl.store(to, tl.sigmoid(v), mask=(p < voxels)[:, None] & ok[None, :])


def run(x, weight, conv_bias, scale, bias):
    n, c, d, h, w = x.shape
    o = weight.shape[0]
    od, oh, ow = d - 2, h - 2, w - 2
    y = torch.empty((n, o, od, oh, ow), device=x.device, dtype=torch.float32)
    voxels = n * od * oh * ow
    wide = triton.next_power_of_2(o)
    outer[(triton.cdiv(voxels, 256),)](
        x, weight, conv_bias, scale, bias, y, c, d, h, w, o, od, oh, ow, voxels, BO=wide, BP=256, num_warps=8
    )
    return y
