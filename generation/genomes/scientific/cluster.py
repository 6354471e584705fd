# The nearest centroid of every point.
# family cluster_triton for kmeans_assign
# shape method = "fused", "persistent", "stored"
# shape form = "dot", "dot", "difference", "expanded"
# shape precision = "tf32x3", "ieee"
# pick rows = 16, 32, 64, 128
# pick block = 16, 32, 64, 128
# pick warps = 2, 4, 8
# refuse rows * block > 64 * 32 * warps or rows * block > 8192: too many distances per thread
# refuse form != "dot" and precision != "tf32x3": precision belongs to the dot form
# refuse form == "dot" and precision == "ieee" and (rows * block > 4 * 32 * warps): exact products unroll into so many
#     instructions that few threads compile for minutes

import torch
import triton
import triton.language as tl


@triton.jit
def distances(points_ptr, centroids_ptr, point, centroid, points, centroids, D: tl.constexpr, ROWS: tl.constexpr,
              BLOCK: tl.constexpr):
    dims = tl.arange(0, D)
    near = (point < points)[:, None]
    far = (centroid < centroids)[:, None]
%% if form == "dot"
    x = tl.load(points_ptr + point.to(tl.int64)[:, None] * D + dims[None, :], mask=near, other=0.0)
    c = tl.load(centroids_ptr + centroid[:, None] * D + dims[None, :], mask=far, other=0.0)
    cross = tl.dot(x, tl.trans(c), input_precision="${precision}")
    result = tl.sum(x * x, 1)[:, None] + tl.sum(c * c, 1)[None, :] - 2.0 * cross
%% else
    result = tl.zeros((ROWS, BLOCK), tl.float32)
    for d in range(D):
        x = tl.load(points_ptr + point.to(tl.int64) * D + d, mask=point < points, other=0.0)
        c = tl.load(centroids_ptr + centroid * D + d, mask=centroid < centroids, other=0.0)
%% if form == "difference"
        gap = x[:, None] - c[None, :]
        result += gap * gap
%% else
        result += x[:, None] * (x[:, None] - 2.0 * c[None, :]) + (c * c)[None, :]
%% endif
%% endif
    return tl.where((centroid < centroids)[None, :], result, float("inf"))


@triton.jit
def best_of(values, centroid, BLOCK: tl.constexpr):
    lowest = tl.min(values, 1)
    label = tl.min(tl.where(values == lowest[:, None], centroid[None, :], 2147483647), 1)
    return lowest, label


%% if method == "stored"
@triton.jit
def distance_kernel(points_ptr, centroids_ptr, table_ptr, points, centroids, D: tl.constexpr, ROWS: tl.constexpr,
                    BLOCK: tl.constexpr):
    point = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    centroid = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    values = distances(points_ptr, centroids_ptr, point, centroid, points, centroids, D, ROWS, BLOCK)
    inside = (point < points)[:, None] & (centroid < centroids)[None, :]
    tl.store(table_ptr + point.to(tl.int64)[:, None] * centroids + centroid[None, :], values, mask=inside)


@triton.jit
def choose_kernel(table_ptr, labels_ptr, lowest_ptr, points, centroids, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    point = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    lowest = tl.full((ROWS,), float("inf"), tl.float32)
    label = tl.zeros((ROWS,), tl.int32)
    for first in range(0, centroids, BLOCK):
        centroid = first + tl.arange(0, BLOCK)
        inside = (point < points)[:, None] & (centroid < centroids)[None, :]
        values = tl.load(table_ptr + point.to(tl.int64)[:, None] * centroids + centroid[None, :], mask=inside,
                         other=float("inf"))
        value, place = best_of(values, centroid, BLOCK)
        label = tl.where(value < lowest, place, label)
        lowest = tl.minimum(value, lowest)
    tl.store(labels_ptr + point, label, mask=point < points)
    tl.store(lowest_ptr + point, lowest, mask=point < points)
%% else
@triton.jit
def assign(points_ptr, centroids_ptr, labels_ptr, lowest_ptr, block, points, centroids, D: tl.constexpr,
           ROWS: tl.constexpr, BLOCK: tl.constexpr):
    point = block * ROWS + tl.arange(0, ROWS)
    lowest = tl.full((ROWS,), float("inf"), tl.float32)
    label = tl.zeros((ROWS,), tl.int32)
    for first in range(0, centroids, BLOCK):
        centroid = first + tl.arange(0, BLOCK)
        values = distances(points_ptr, centroids_ptr, point, centroid, points, centroids, D, ROWS, BLOCK)
        value, place = best_of(values, centroid, BLOCK)
        label = tl.where(value < lowest, place, label)
        lowest = tl.minimum(value, lowest)
    tl.store(labels_ptr + point, label, mask=point < points)
    tl.store(lowest_ptr + point, lowest, mask=point < points)


@triton.jit
def assign_kernel(points_ptr, centroids_ptr, labels_ptr, lowest_ptr, points, centroids, D: tl.constexpr,
                  ROWS: tl.constexpr, BLOCK: tl.constexpr):
%% if method == "persistent"
    for block in range(tl.program_id(0), tl.cdiv(points, ROWS), tl.num_programs(0)):
        assign(points_ptr, centroids_ptr, labels_ptr, lowest_ptr, block, points, centroids, D, ROWS, BLOCK)
%% else
    assign(points_ptr, centroids_ptr, labels_ptr, lowest_ptr, tl.program_id(0), points, centroids, D, ROWS, BLOCK)
%% endif
%% endif


def run(points, centroids):
    count, dim = points.shape
    clusters = centroids.shape[0]
    labels = torch.empty(count, dtype=torch.int32, device=points.device)
    lowest = torch.empty(count, dtype=torch.float32, device=points.device)
    blocks = triton.cdiv(count, ${rows})
%% if method == "stored"
    table = torch.empty((count, clusters), dtype=torch.float32, device=points.device)
    distance_kernel[(blocks, triton.cdiv(clusters, ${block}))](
        points, centroids, table, count, clusters, D=dim, ROWS=${rows}, BLOCK=${block}, num_warps=${warps}
    )
    choose_kernel[(blocks,)](
        table, labels, lowest, count, clusters, ROWS=${rows}, BLOCK=${block}, num_warps=${warps}
    )
%% else
%% if method == "persistent"
    blocks = min(blocks, 132 * 4)
%% endif
    assign_kernel[(blocks,)](
        points, centroids, labels, lowest, count, clusters, D=dim, ROWS=${rows}, BLOCK=${block}, num_warps=${warps}
    )
%% endif
    return labels, lowest
