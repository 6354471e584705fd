import torch
import triton
import triton.language as tl


@triton.jit
def grad_x_rows(g_ptr, x_ptr, w_ptr, gx_ptr, mean_ptr, rstd_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    ok = c < N
    x = tl.load(x_ptr + row * N + c, mask=ok, other=0.0)
    g = tl.load(g_ptr + row * N + c, mask=ok, other=0.0)
    w = tl.load(w_ptr + c, mask=ok, other=0.0)
    mean = tl.sum(x, 0) / N
    xc = tl.where(ok, x - mean, 0.0)
    rstd = 1.0 / tl.sqrt(tl.sum(xc * xc, 0) / N + 1e-5)
    xhat = xc * rstd
    gw = g * w
    c1 = tl.sum(gw, 0) / N
    c2 = tl.sum(gw * xhat, 0) / N
    tl.store(gx_ptr + row * N + c, (gw - c1 - xhat * c2) * rstd, mask=ok)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)


@triton.jit
def column_sums(g_ptr, x_ptr, mean_ptr, rstd_ptr, gw_ptr, gb_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    m0 = tl.arange(0, BM)
    acc_w = tl.zeros((BM, BN), tl.float32)
    acc_b = tl.zeros((BM, BN), tl.float32)
    for start in range(0, M, BM):
        m = start + m0
        ok = (m[:, None] < M) & (n[None, :] < N)
        at = m[:, None] * N + n[None, :]
        g = tl.load(g_ptr + at, mask=ok, other=0.0)
        x = tl.load(x_ptr + at, mask=ok, other=0.0)
        mean = tl.load(mean_ptr + m, mask=m < M, other=0.0)
        rstd = tl.load(rstd_ptr + m, mask=m < M, other=0.0)
        acc_w += g * (x - mean[:, None]) * rstd[:, None]
        acc_b += g
    tl.store(gw_ptr + n, tl.sum(acc_w, 0), mask=n < N)
    tl.store(gb_ptr + n, tl.sum(acc_b, 0), mask=n < N)


def run(grad, x, weight):
    M, N = x.shape
    grad_x = torch.empty_like(x)
    grad_weight = torch.empty_like(weight)
    grad_bias = torch.empty_like(weight)
    mean = torch.empty((M,), device=x.device, dtype=torch.float32)
    rstd = torch.empty((M,), device=x.device, dtype=torch.float32)
    block = triton.next_power_of_2(N)
    grad_x_rows[(M,)](grad, x, weight, grad_x, mean, rstd, N, BLOCK=block, num_warps=8)
    column_sums[(triton.cdiv(N, 32),)](
        grad, x, mean, rstd, grad_weight, grad_bias, M, N, BM=32, BN=32, num_warps=4
    )
    return grad_x, grad_weight, grad_bias
