"""Sorts positions by their rest modulo 3 first: tap k then reads phase k at unit stride, k places further on."""

import torch
import triton
import triton.language as tl


@triton.jit
def sort_phases(x_ptr, s_ptr, L, Q, BLOCK: tl.constexpr):
    q = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    phase = tl.program_id(1)
    line = tl.program_id(2).to(tl.int64)
    at = 3 * q + phase
    v = tl.load(x_ptr + line * L + at, mask=at < L, other=0.0)
    tl.store(s_ptr + (line * 3 + phase) * Q + q, v, mask=q < Q)


@triton.jit
def phase_dots(s_ptr, w_ptr, y_ptr, C, Q, OC, OL, BO: tl.constexpr, BC: tl.constexpr, BP: tl.constexpr):
    n = tl.program_id(2).to(tl.int64)
    o = tl.program_id(1) * BO + tl.arange(0, BO)
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    acc = tl.zeros((BO, BP), dtype=tl.float32)
    for start in range(0, C, BC):
        c = start + tl.arange(0, BC)
        for k in tl.static_range(3):
            wt = tl.load(
                w_ptr + (o[:, None] * C + c[None, :]) * 3 + k, mask=(o < OC)[:, None] & (c < C)[None, :], other=0.0
            )
            xs = tl.load(
                s_ptr + ((n * C + c[:, None]) * 3 + k) * Q + p[None, :] + k,
                mask=(c < C)[:, None] & (p < OL)[None, :],
                other=0.0,
            )
            acc = tl.dot(wt, xs, acc, input_precision="ieee")
    tl.store(y_ptr + (n * OC + o[:, None]) * OL + p[None, :], acc, mask=(o < OC)[:, None] & (p < OL)[None, :])


def run(x, weight):
    N, C, L = x.shape
    OC = weight.shape[0]
    OL = (L - 9) // 3 + 1
    Q = triton.cdiv(L, 3)
    phases = torch.empty((N, C, 3, Q), device=x.device, dtype=torch.float32)
    y = torch.empty((N, OC, OL), device=x.device, dtype=torch.float32)
    sort_phases[(triton.cdiv(Q, 1024), 3, N * C)](x, phases, L, Q, BLOCK=1024, num_warps=4)
    grid = (triton.cdiv(OL, 64), triton.cdiv(OC, 64), N)
    phase_dots[grid](phases, weight, y, C, Q, OC, OL, BO=64, BC=16, BP=64, num_warps=4, num_stages=3)
    return y
