"""Problems of a season, computed one element at a time."""

import itertools
import math

import numpy as np
import torch
from torch import Tensor


def bilateral_filter(image: Tensor) -> Tensor:
    given = image.numpy()
    images, height, width = given.shape
    y = np.zeros_like(given)
    for i, r, c in np.ndindex(images, height, width):
        total = weights = 0.0
        for dr in range(-2, 3):
            for dc in range(-2, 3):
                near = given[i, min(max(r + dr, 0), height - 1), min(max(c + dc, 0), width - 1)]
                weight = math.exp(-((dr * dr + dc * dc) / 4.5) - 2.0 * (near - given[i, r, c]) ** 2)
                total, weights = total + weight * near, weights + weight
        y[i, r, c] = total / weights
    return torch.from_numpy(y)


def hadamard_rows(x: Tensor) -> Tensor:
    size = x.shape[1]
    signs = [[(-1.0) ** bin(i & j).count("1") for j in range(size)] for i in range(size)]
    return x @ torch.tensor(signs, dtype=torch.float64) / math.sqrt(size)


def segment_softmax(starts: Tensor, values: Tensor) -> Tensor:
    ends = starts.tolist()
    parts = [values[a:b].softmax(0) for a, b in itertools.pairwise(ends)]
    return torch.cat(parts)


def ragged_mean_pool(x: Tensor, starts: Tensor) -> Tensor:
    y = torch.zeros(len(starts) - 1, x.shape[1], dtype=torch.float64)
    for number in range(len(y)):
        rows = x[starts[number] : starts[number + 1]]
        if len(rows):
            y[number] = rows.sum(0) / rows.sum(0).norm()
    return y


def nearest_point(a: Tensor, b: Tensor) -> Tensor:
    return torch.cdist(a, b).amin(2).square()


def box_iou(a: Tensor, b: Tensor) -> Tensor:
    y = torch.zeros(len(a), len(b))
    for i, one in enumerate(a.tolist()):
        for j, other in enumerate(b.tolist()):
            sides = [min(one[k + 2], other[k + 2]) - max(one[k], other[k]) for k in (0, 1)]
            shared = sides[0] * sides[1] if min(sides) > 0 else 0.0
            areas = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (one, other))
            y[i, j] = shared / (areas - shared)
    return y


def grid_sample_bilinear(x: Tensor, grid: Tensor) -> Tensor:
    batch, channels, height, width = x.shape
    y = torch.zeros(batch, channels, *grid.shape[1:3], dtype=torch.float64)
    for n, r, c in np.ndindex(batch, *grid.shape[1:3]):
        at_x, at_y = (((float(grid[n, r, c, k]) + 1) * side - 1) / 2 for k, side in ((0, width), (1, height)))
        for row in (math.floor(at_y), math.floor(at_y) + 1):
            for column in (math.floor(at_x), math.floor(at_x) + 1):
                if 0 <= row < height and 0 <= column < width:
                    y[n, :, r, c] += (1 - abs(at_y - row)) * (1 - abs(at_x - column)) * x[n, :, row, column]
    return y


def batched_cholesky(a: Tensor) -> Tensor:
    return torch.stack([torch.from_numpy(np.linalg.cholesky(matrix)) for matrix in a.numpy()])


CHECKS = {
    one.__name__: one
    for one in (
        bilateral_filter, hadamard_rows, segment_softmax, ragged_mean_pool, nearest_point, box_iou,
        grid_sample_bilinear, batched_cholesky,
    )
}  # fmt: skip
