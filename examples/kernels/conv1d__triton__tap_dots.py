"""For every tap the filters' channel matrix multiplies the shifted sequence; the taps' products add up."""

import torch
import triton
import triton.language as tl


@triton.jit
def tap_dots(x_ptr, w_ptr, y_ptr, C, L, OC, OL, K: tl.constexpr, BO: tl.constexpr, BC: tl.constexpr, BP: tl.constexpr):
    n = tl.program_id(2).to(tl.int64)
    o = tl.program_id(1) * BO + tl.arange(0, BO)
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    acc = tl.zeros((BO, BP), dtype=tl.float32)
    for start in range(0, C, BC):
        c = start + tl.arange(0, BC)
        for k in tl.static_range(K):
            wt = tl.load(
                w_ptr + (o[:, None] * C + c[None, :]) * K + k, mask=(o < OC)[:, None] & (c < C)[None, :], other=0.0
            )
            xs = tl.load(
                x_ptr + (n * C + c[:, None]) * L + p[None, :] + k, mask=(c < C)[:, None] & (p < OL)[None, :], other=0.0
            )
            acc = tl.dot(wt, xs, acc, input_precision="ieee")
    tl.store(y_ptr + (n * OC + o[:, None]) * OL + p[None, :], acc, mask=(o < OC)[:, None] & (p < OL)[None, :])


def run(x, weight):
    N, C, L = x.shape
    OC, _, K = weight.shape
    OL = L - K + 1
    y = torch.empty((N, OC, OL), device=x.device, dtype=torch.float32)
    grid = (triton.cdiv(OL, 128), triton.cdiv(OC, 64), N)
    tap_dots[grid](x, weight, y, C, L, OC, OL, K=K, BO=64, BC=16, BP=128, num_warps=8, num_stages=2)
    return y
