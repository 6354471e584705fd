import torch
import triton
import triton.language as tl


@triton.jit
def mean_kernel(x_ptr, out_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    pid_b = tl.program_id(0)
    pid_n = tl.program_id(1)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_m = tl.arange(0, BLOCK_M)
    mask_n = offs_n < N
    total = tl.zeros((BLOCK_N,), dtype=tl.float32)
    for m in range(0, M, BLOCK_M):
        rows = m + offs_m
        tile = tl.load(
            x_ptr + pid_b * M * N + rows[:, None] * N + offs_n[None, :],
            mask=(rows < M)[:, None] & mask_n[None, :],
            other=0.0,
        )
        total += tl.sum(tile, axis=0)
    tl.store(out_ptr + pid_b * N + offs_n, total / M, mask=mask_n)


def run(x):
    B, M, N = x.shape
    out = torch.empty((B, N), device=x.device, dtype=x.dtype)
    mean_kernel[(B, triton.cdiv(N, 32))](x, out, M, N, BLOCK_M=64, BLOCK_N=32, num_warps=4)
    return out
