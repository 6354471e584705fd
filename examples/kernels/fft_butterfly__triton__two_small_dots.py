"""A row as a square: transform columns and rows by small matrix products with twiddles between, tables kept resident."""

import math

import torch
import triton
import triton.language as tl


@triton.jit
def transform(
    xr_ptr,
    xi_ptr,
    yr_ptr,
    yi_ptr,
    rows,
    scale,
    N: tl.constexpr,
    N1: tl.constexpr,
    N2: tl.constexpr,
    B1: tl.constexpr,
    B2: tl.constexpr,
):
    turn: tl.constexpr = 6.283185307179586
    i = tl.arange(0, B1)
    j = tl.arange(0, B2)
    first = ((i[:, None] * i[None, :]) % N1).to(tl.float32) * (-turn / N1)
    w1r = tl.cos(first)
    w1i = tl.sin(first)
    middle = (i[:, None] * j[None, :]).to(tl.float32) * (-turn / N)
    tr = tl.cos(middle) * scale
    ti = tl.sin(middle) * scale
    second = ((j[:, None] * j[None, :]) % N2).to(tl.float32) * (-turn / N2)
    w2r = tl.cos(second)
    w2i = tl.sin(second)
    ok = (i < N1)[:, None] & (j < N2)[None, :]
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        base = row * N
        at = base + i[:, None] * N2 + j[None, :]
        xr = tl.load(xr_ptr + at, mask=ok, other=0.0)
        xi = tl.load(xi_ptr + at, mask=ok, other=0.0)
        ar = tl.dot(w1r, xr, input_precision="ieee") - tl.dot(w1i, xi, input_precision="ieee")
        ai = tl.dot(w1r, xi, input_precision="ieee") + tl.dot(w1i, xr, input_precision="ieee")
        br = ar * tr - ai * ti
        bi = ar * ti + ai * tr
        yr = tl.dot(br, w2r, input_precision="ieee") - tl.dot(bi, w2i, input_precision="ieee")
        yi = tl.dot(br, w2i, input_precision="ieee") + tl.dot(bi, w2r, input_precision="ieee")
        to = base + i[:, None] + j[None, :] * N1
        tl.store(yr_ptr + to, yr, mask=ok)
        tl.store(yi_ptr + to, yi, mask=ok)


def run(real, imag):
    rows, n = real.shape
    levels = n.bit_length() - 1
    n1 = 1 << ((levels + 1) // 2)
    n2 = n // n1
    yr = torch.empty_like(real)
    yi = torch.empty_like(imag)
    transform[(min(rows, 1056),)](
        real, imag, yr, yi, rows, 1.0 / math.sqrt(n), N=n, N1=n1, N2=n2, B1=max(16, n1), B2=max(16, n2), num_warps=4
    )
    return yr, yi
