"""Point blocks and centroid blocks form the grid; packed distance-label keys meet in an atomic minimum."""

import torch
import triton
import triton.language as tl


@triton.jit
def compare(p_ptr, c_ptr, keys_ptr, N, K, D, BP: tl.constexpr, BK: tl.constexpr, BD: tl.constexpr):
    i = tl.program_id(0) * BP + tl.arange(0, BP)
    k = tl.program_id(1) * BK + tl.arange(0, BK)
    product = tl.zeros((BP, BK), dtype=tl.float32)
    own = tl.zeros((BP,), dtype=tl.float32)
    norm = tl.zeros((BK,), dtype=tl.float32)
    for start in range(0, D, BD):
        d = start + tl.arange(0, BD)
        p = tl.load(
            p_ptr + i.to(tl.int64)[:, None] * D + d[None, :], mask=(i < N)[:, None] & (d < D)[None, :], other=0.0
        )
        c = tl.load(c_ptr + k[:, None] * D + d[None, :], mask=(k < K)[:, None] & (d < D)[None, :], other=0.0)
        product = tl.dot(p, tl.trans(c), product, input_precision="ieee")
        own += tl.sum(p * p, axis=1)
        norm += tl.sum(c * c, axis=1)
    far = tl.maximum(own[:, None] + norm[None, :] - 2.0 * product, 0.0)
    far = tl.where((k < K)[None, :], far, 3.0e38)
    # Bits of non-negative floats order as integers do, so a key compares by distance and then by label.
    key = (far.to(tl.int32, bitcast=True).to(tl.int64) << 32) | k[None, :].to(tl.int64)
    tl.atomic_min(keys_ptr + i, tl.min(key, axis=1), mask=i < N, sem="relaxed")


@triton.jit
def unpack(keys_ptr, labels_ptr, dist_ptr, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(keys_ptr + i, mask=i < N, other=0)
    tl.store(labels_ptr + i, (key & 0xFFFFFFFF).to(tl.int32), mask=i < N)
    tl.store(dist_ptr + i, (key >> 32).to(tl.int32).to(tl.float32, bitcast=True), mask=i < N)


def run(points, centroids):
    n, d = points.shape
    k = centroids.shape[0]
    labels = torch.empty((n,), device=points.device, dtype=torch.int32)
    distances = torch.empty((n,), device=points.device, dtype=torch.float32)
    keys = torch.full((n,), 2**63 - 1, device=points.device, dtype=torch.int64)
    compare[(triton.cdiv(n, 64), triton.cdiv(k, 64))](
        points, centroids, keys, n, k, d, BP=64, BK=64, BD=16, num_warps=4, num_stages=3
    )
    unpack[(triton.cdiv(n, 512),)](keys, labels, distances, n, BLOCK=512, num_warps=4)
    return labels, distances
