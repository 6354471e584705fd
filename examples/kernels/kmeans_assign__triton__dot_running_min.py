"""A tile of points against blocks of centroids by matrix product, keeping the nearest so far."""

import torch
import triton
import triton.language as tl


@triton.jit
def assign(p_ptr, c_ptr, labels_ptr, dist_ptr, N, K, D, BP: tl.constexpr, BK: tl.constexpr, BD: tl.constexpr):
    i = tl.program_id(0) * BP + tl.arange(0, BP)
    d = tl.arange(0, BD)
    p = tl.load(p_ptr + i.to(tl.int64)[:, None] * D + d[None, :], mask=(i < N)[:, None] & (d < D)[None, :], other=0.0)
    own = tl.sum(p * p, axis=1)
    best = tl.full((BP,), float("inf"), dtype=tl.float32)
    label = tl.zeros((BP,), dtype=tl.int32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        c = tl.load(c_ptr + k[None, :] * D + d[:, None], mask=(k < K)[None, :] & (d < D)[:, None], other=0.0)
        far = tl.sum(c * c, axis=0)[None, :] - 2.0 * tl.dot(p, c, input_precision="ieee")
        far = tl.where((k < K)[None, :], far, float("inf"))
        here = tl.min(far, axis=1)
        place = tl.min(tl.where(far == here[:, None], k[None, :], K), axis=1)
        label = tl.where(here < best, place, label)
        best = tl.minimum(best, here)
    tl.store(labels_ptr + i, label, mask=i < N)
    tl.store(dist_ptr + i, best + own, mask=i < N)


def run(points, centroids):
    n, d = points.shape
    labels = torch.empty((n,), device=points.device, dtype=torch.int32)
    distances = torch.empty((n,), device=points.device, dtype=torch.float32)
    assign[(triton.cdiv(n, 128),)](
        points,
        centroids,
        labels,
        distances,
        n,
        centroids.shape[0],
        d,
        BP=128,
        BK=64,
        BD=max(16, triton.next_power_of_2(d)),
        num_warps=8,
        num_stages=2,
    )
    return labels, distances
