# Low-rank adapters of a decode batch, an adapter per token: down to the rank, then up to the layer's outputs.
# family lora_decode_tuned for lora_decode
# pick rows = 1, 2, 4, 8, 16
# pick block_k = 256, 512, 1024, 2048
# pick block_n = 16, 32, 64, 128, 256
# pick warps = 2, 4, 8
# pick stages = 1, 2, 3, 4
# refuse rows * block_k > 2048 * warps: more than 64 sums per thread

import torch
import triton
import triton.language as tl


@triton.jit
def shrink(
    x_ptr, a_ptr, adapter_ptr, low_ptr, R, K, ROWS: tl.constexpr, BK: tl.constexpr, STAGES: tl.constexpr
):
    token = tl.program_id(1)
    adapter = tl.load(adapter_ptr + token).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    acc = tl.zeros((ROWS, BK), dtype=tl.float32)
    for start in tl.range(0, K, BK, num_stages=STAGES):
        k = start + tl.arange(0, BK)
        known = (row < R)[:, None] & (k < K)[None, :]
        a = tl.load(a_ptr + (adapter * R + row)[:, None] * K + k[None, :], mask=known, other=0.0)
        x = tl.load(x_ptr + token * K + k, mask=k < K, other=0.0)
        acc += a.to(tl.float32) * x.to(tl.float32)[None, :]
    tl.store(low_ptr + token * R + row, tl.sum(acc, 1), mask=row < R)


@triton.jit
def expand(low_ptr, b_ptr, base_ptr, adapter_ptr, y_ptr, R, N, RANK: tl.constexpr, BN: tl.constexpr):
    token = tl.program_id(1)
    adapter = tl.load(adapter_ptr + token).to(tl.int64)
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    r = tl.arange(0, RANK)
    known = (n < N)[:, None] & (r < R)[None, :]
    b = tl.load(b_ptr + (adapter * N + n)[:, None] * R + r[None, :], mask=known, other=0.0).to(tl.float32)
    low = tl.load(low_ptr + token * R + r, mask=r < R, other=0.0)
    base = tl.load(base_ptr + token * N + n, mask=n < N, other=0.0).to(tl.float32)
    tl.store(y_ptr + token * N + n, (base + tl.sum(b * low[None, :], 1)).to(tl.bfloat16), mask=n < N)


def run(x, base, a, b, adapter):
    (T, K), N, R = x.shape, base.shape[1], a.shape[1]
    y = torch.empty_like(base)
    low = torch.empty((T, R), dtype=torch.float32, device=x.device)
    shrink[(triton.cdiv(R, ${rows}), T)](
        x, a, adapter, low, R, K, ROWS=${rows}, BK=${block_k}, STAGES=${stages}, num_warps=${warps}
    )
    expand[(triton.cdiv(N, ${block_n}), T)](
        low, b, base, adapter, y, R, N, RANK=triton.next_power_of_2(R), BN=${block_n}, num_warps=${warps}
    )
    return y
