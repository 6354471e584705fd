"""The k-th value is found bit by bit by counting; what reaches it is compacted, and a second kernel orders it."""

import torch
import triton
import triton.language as tl


@triton.jit
def select(x_ptr, values_ptr, places_ptr, N, k, BN: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BN)
    x = tl.load(x_ptr + row * N + i, mask=i < N, other=-float("inf"))
    bits = x.to(tl.int32, bitcast=True)
    key = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    # Sign first: then every lower bit stays set if at least k keys still reach the threshold.
    threshold = tl.where(tl.sum((key >= 0).to(tl.int32), axis=0) >= k, 0, -2147483648)
    for turn in range(0, 31):
        trial = threshold + (1 << (30 - turn))
        enough = tl.sum((key >= trial).to(tl.int32), axis=0) >= k
        threshold = tl.where(enough, trial, threshold)
    hit = (key >= threshold).to(tl.int32)
    at = tl.cumsum(hit, axis=0) - 1
    keep = (hit > 0) & (at < k)
    tl.store(values_ptr + row * k + at, x, mask=keep)
    tl.store(places_ptr + row * k + at, i, mask=keep)


@triton.jit
def order(v_ptr, p_ptr, values_ptr, places_ptr, k, BK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BK)
    v = tl.load(v_ptr + row * k + i, mask=i < k, other=-float("inf"))
    p = tl.load(p_ptr + row * k + i, mask=i < k, other=0)
    ahead = (v[None, :] > v[:, None]) | ((v[None, :] == v[:, None]) & (i[None, :] < i[:, None]))
    rank = tl.sum(ahead.to(tl.int32), axis=1)
    tl.store(values_ptr + row * k + rank, v, mask=i < k)
    tl.store(places_ptr + row * k + rank, p, mask=i < k)


def run(x, k):
    rows, n = x.shape
    values = torch.empty((rows, k), device=x.device, dtype=torch.float32)
    places = torch.empty((rows, k), device=x.device, dtype=torch.int32)
    v = torch.empty_like(values)
    p = torch.empty_like(places)
    wide = triton.next_power_of_2(n)
    select[(rows,)](x, v, p, n, k, BN=wide, num_warps=8 if wide >= 4096 else 4)
    order[(rows,)](v, p, values, places, k, BK=triton.next_power_of_2(k), num_warps=1)
    return values, places
