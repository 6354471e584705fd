"""One launch a level: self-sorting radix-2 butterflies over all rows at once, back and forth between two buffers."""

import math

import torch
import triton
import triton.language as tl


@triton.jit
def level(xr_ptr, xi_ptr, yr_ptr, yi_ptr, total, N, span, scale, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    ok = i < total
    half = N // 2
    t = (i % half).to(tl.int32)
    base = (i // half) * N
    k = t % span
    angle = k.to(tl.float32) / span * -3.141592653589793
    cs = tl.cos(angle)
    sn = tl.sin(angle)
    ar = tl.load(xr_ptr + base + t, mask=ok, other=0.0)
    ai = tl.load(xi_ptr + base + t, mask=ok, other=0.0)
    br = tl.load(xr_ptr + base + t + half, mask=ok, other=0.0)
    bi = tl.load(xi_ptr + base + t + half, mask=ok, other=0.0)
    wr = br * cs - bi * sn
    wi = br * sn + bi * cs
    to = base + 2 * (t - k) + k
    tl.store(yr_ptr + to, (ar + wr) * scale, mask=ok)
    tl.store(yi_ptr + to, (ai + wi) * scale, mask=ok)
    tl.store(yr_ptr + to + span, (ar - wr) * scale, mask=ok)
    tl.store(yi_ptr + to + span, (ai - wi) * scale, mask=ok)


def run(real, imag):
    rows, n = real.shape
    levels = n.bit_length() - 1
    buffers = [(torch.empty_like(real), torch.empty_like(imag)) for _ in range(2)]
    total = rows * (n // 2)
    source = (real, imag)
    for number in range(levels):
        target = buffers[number % 2]
        # The whole scale goes into the last level.
        scale = 1.0 / math.sqrt(n) if number == levels - 1 else 1.0
        level[(triton.cdiv(total, 512),)](*source, *target, total, n, 1 << number, scale, BLOCK=512, num_warps=4)
        source = target
    return source
