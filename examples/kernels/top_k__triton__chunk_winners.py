"""Chunks of a row are sorted as packed value-place keys; the leaders of all chunks are sorted again."""

import torch
import triton
import triton.language as tl

CHUNK = 512


@triton.jit
def leaders(x_ptr, keys_ptr, N, K, CHUNK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    chunk = tl.program_id(1)
    lane = tl.arange(0, CHUNK)
    i = chunk * CHUNK + lane
    bits = tl.load(x_ptr + row * N + i, mask=i < N, other=-float("inf")).to(tl.int32, bitcast=True)
    # Negative floats order backwards as integers: flipping their lower bits puts all in rising order.
    ordered = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    key = (ordered.to(tl.int64) << 32) | i.to(tl.int64)
    best = tl.sort(key, descending=True)
    tl.store(keys_ptr + (row * tl.num_programs(1) + chunk) * K + lane, best, mask=lane < K)


@triton.jit
def finals(keys_ptr, values_ptr, places_ptr, M, K, BM: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BM)
    key = tl.load(keys_ptr + row * M + i, mask=i < M, other=-9223372036854775807)
    best = tl.sort(key, descending=True)
    ordered = (best >> 32).to(tl.int32)
    bits = tl.where(ordered < 0, ordered ^ 0x7FFFFFFF, ordered)
    tl.store(values_ptr + row * K + i, bits.to(tl.float32, bitcast=True), mask=i < K)
    tl.store(places_ptr + row * K + i, (best & 0xFFFFFFFF).to(tl.int32), mask=i < K)


def run(x, k):
    rows, n = x.shape
    values = torch.empty((rows, k), device=x.device, dtype=torch.float32)
    places = torch.empty((rows, k), device=x.device, dtype=torch.int32)
    size = CHUNK if n > CHUNK else max(triton.next_power_of_2(k), triton.next_power_of_2(n) // 4)
    chunks = triton.cdiv(n, size)
    keys = torch.empty((rows, chunks * k), device=x.device, dtype=torch.int64)
    leaders[(rows, chunks)](x, keys, n, k, CHUNK=size, num_warps=4)
    finals[(rows,)](keys, values, places, chunks * k, k, BM=triton.next_power_of_2(chunks * k), num_warps=4)
    return values, places
