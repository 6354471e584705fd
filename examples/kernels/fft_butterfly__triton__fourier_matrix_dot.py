"""The whole transform as a product with the Fourier matrix, which a first kernel writes out."""

import math

import torch
import triton
import triton.language as tl


@triton.jit
def roots(re_ptr, im_ptr, N, scale, step, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    k = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    angle = ((row * k) % N).to(tl.float32) * step
    tl.store(re_ptr + row * N + k, tl.cos(angle) * scale, mask=k < N)
    tl.store(im_ptr + row * N + k, tl.sin(angle) * -scale, mask=k < N)


@triton.jit
def product(
    xr_ptr, xi_ptr, wr_ptr, wi_ptr, yr_ptr, yi_ptr, rows, N, BR: tl.constexpr, BK: tl.constexpr, BN: tl.constexpr
):
    k = tl.program_id(0) * BK + tl.arange(0, BK)
    r = tl.program_id(1) * BR + tl.arange(0, BR)
    re = tl.zeros((BR, BK), dtype=tl.float32)
    im = tl.zeros((BR, BK), dtype=tl.float32)
    for start in range(0, N, BN):
        n = start + tl.arange(0, BN)
        at = r.to(tl.int64)[:, None] * N + n[None, :]
        ok = (r < rows)[:, None] & (n < N)[None, :]
        xr = tl.load(xr_ptr + at, mask=ok, other=0.0)
        xi = tl.load(xi_ptr + at, mask=ok, other=0.0)
        w_ok = (n < N)[:, None] & (k < N)[None, :]
        wr = tl.load(wr_ptr + n[:, None] * N + k[None, :], mask=w_ok, other=0.0)
        wi = tl.load(wi_ptr + n[:, None] * N + k[None, :], mask=w_ok, other=0.0)
        re = tl.dot(xr, wr, re, input_precision="ieee")
        re = tl.dot(-xi, wi, re, input_precision="ieee")
        im = tl.dot(xr, wi, im, input_precision="ieee")
        im = tl.dot(xi, wr, im, input_precision="ieee")
    at = r.to(tl.int64)[:, None] * N + k[None, :]
    ok = (r < rows)[:, None] & (k < N)[None, :]
    tl.store(yr_ptr + at, re, mask=ok)
    tl.store(yi_ptr + at, im, mask=ok)


def run(real, imag):
    rows, n = real.shape
    yr = torch.empty_like(real)
    yi = torch.empty_like(imag)
    wr = torch.empty((n, n), device=real.device, dtype=torch.float32)
    wi = torch.empty((n, n), device=real.device, dtype=torch.float32)
    roots[(n, triton.cdiv(n, 256))](wr, wi, n, 1.0 / math.sqrt(n), 2.0 * math.pi / n, BLOCK=256, num_warps=2)
    product[(triton.cdiv(n, 64), triton.cdiv(rows, 64))](
        real, imag, wr, wi, yr, yi, rows, n, BR=64, BK=64, BN=16, num_warps=8, num_stages=2
    )
    return yr, yi
