"""Images, clouds, boxes, ragged rows and small factors: problems of a season, which no release holds.

Nobody has published kernels for them, so there is nothing to look up.
"""

from __future__ import annotations

import dataclasses
import functools
import math

from kbench.benchmark.problems.adversarial.cases import (
    InputCase,
    constant_rows,
    large,
    one_hot,
    outliers,
    small,
    zero_rows,
)
from kbench.benchmark.problems.adversarial.changes import scale
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.families.scientific import EMPTY_ROWS, LONG_ROW, STIFF, positive_definite, row_starts
from kbench.benchmark.problems.inputs import Sized, TensorSpec, parameters, tensors, uniform
from kbench.benchmark.problems.lazy_torch import F, Generator, Tensor, torch

REACH, BLUR, LIKENESS = 2, 1.5, 0.5
"""Pixels to each side that a bilateral filter looks at; its deviations in space and in brightness."""
FAR_BOXES = InputCase(
    "far",
    "Boxes far from the origin find areas that lose more digits than their corners.",
    dict.fromkeys("ab", lambda generator, x: x + 500.0),
    atol_scale=1e4,
    unit=1,
)
NEAR_BOXES = InputCase(
    "near", "Tiny boxes find areas compared with a constant.", dict.fromkeys("ab", scale(1e-3)), unit=1
)
SHARED_EDGES = InputCase(
    "shared_edges",
    "Boxes on a grid share edges and find overlaps of no width that count.",
    dict.fromkeys("ab", lambda generator, x: torch.cat(((x[..., :2] * 16).floor(), (x[..., 2:] * 16).ceil()), -1) / 16),
    unit=1,
)
LARGE_SYSTEMS = dataclasses.replace(
    STIFF, name="large_systems", stresses="Matrices far above unit scale find pivots compared with a constant.",
    changes={"a": scale(1e4)}, atol_scale=1e2,
)  # fmt: skip
DIAGONAL = InputCase(
    "diagonal",
    "Matrices with nothing beside the diagonal find divisions by what is there.",
    {"a": lambda generator, x: torch.diag_embed(x.diagonal(dim1=-2, dim2=-1))},
    unit=2,
)


def bilateral_filter(image: Tensor) -> Tensor:
    height, width = image.shape[1:]
    padded = F.pad(image.unsqueeze(1), (REACH,) * 4, mode="replicate").squeeze(1)
    total, weights = torch.zeros_like(image), torch.zeros_like(image)
    for dy in range(-REACH, REACH + 1):
        for dx in range(-REACH, REACH + 1):
            near = padded[:, REACH + dy : REACH + dy + height, REACH + dx : REACH + dx + width]
            apart = (near - image) / LIKENESS
            weight = torch.exp(-0.5 * ((dx * dx + dy * dy) / BLUR**2 + apart * apart))
            total, weights = total + weight * near, weights + weight
    return total / weights


def hadamard_rows(x: Tensor) -> Tensor:
    rows, size = x.shape
    y = x if x.dtype is torch.float64 else x.float()
    half = 1
    while half < size:
        pairs = y.view(rows, size // (2 * half), 2, half)
        y = torch.stack((pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]), dim=2)
        half *= 2
    rounded: Tensor = (y.reshape(rows, size) * size**-0.5).to(x.dtype)
    return rounded


def _segments(starts: Tensor, entries: int) -> Tensor:
    count = starts.numel() - 1
    return torch.repeat_interleave(torch.arange(count, device=starts.device), starts.diff().long(), output_size=entries)


def segment_softmax(starts: Tensor, values: Tensor) -> Tensor:
    segment, count = _segments(starts, values.numel()), starts.numel() - 1
    most = values.new_full((count,), -math.inf).scatter_reduce_(0, segment, values, "amax")
    raised = torch.exp(values - most[segment])
    return raised / values.new_zeros(count).index_add_(0, segment, raised)[segment]


def ragged_mean_pool(x: Tensor, starts: Tensor) -> Tensor:
    wide = x if x.dtype is torch.float64 else x.float()
    count = starts.numel() - 1
    sums = wide.new_zeros(count, x.shape[1]).index_add_(0, _segments(starts, len(x)), wide)
    mean = sums / starts.diff().clamp(min=1).to(wide.dtype).unsqueeze(1)
    return F.normalize(mean, dim=1, eps=1e-12).to(x.dtype)


def nearest_point(a: Tensor, b: Tensor) -> Tensor:
    parts = [(a[:, :, None, axis] - b[:, None, :, axis]).square() for axis in range(3)]
    return (parts[0] + parts[1] + parts[2]).amin(dim=2)


def box_iou(a: Tensor, b: Tensor) -> Tensor:
    low, high = torch.maximum(a[:, None, :2], b[None, :, :2]), torch.minimum(a[:, None, 2:], b[None, :, 2:])
    shared = (high - low).clamp(min=0).prod(dim=2)
    areas = [(boxes[:, 2:] - boxes[:, :2]).prod(dim=1) for boxes in (a, b)]
    return shared / (areas[0][:, None] + areas[1][None] - shared)


def grid_sample_bilinear(x: Tensor, grid: Tensor) -> Tensor:
    return F.grid_sample(x, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def batched_cholesky(a: Tensor) -> Tensor:
    factor: Tensor = torch.linalg.cholesky_ex(a).L
    return factor


def boxes(generator: Generator, spec: TensorSpec, device: str) -> Tensor:
    """Boxes as two corners, the lower one first."""
    drawn = torch.rand((spec.shape[0], 2, 2), generator=generator, device=device)
    low, side = 0.75 * drawn[:, 0], 0.02 + 0.23 * drawn[:, 1]
    return torch.cat((low, low + side), dim=1)


problem = functools.partial(ProblemDefinition, family="season")
_image = parameters("images height width")
_cloud = parameters("clouds n m")
_sampled = parameters("batch channels height width tall wide")

PROBLEMS: tuple[ProblemDefinition, ...] = (
    problem(
        id="bilateral_filter", title="Bilateral filter of images", reference=bilateral_filter,
        description="Every pixel of a float32 image becomes the mean of the 5 x 5 pixels around it, weighted by "
            "exp(-((dx^2 + dy^2) / 2.25 + (difference of brightness / 0.5)^2) / 2). Pixels beyond an edge repeat it.",
        inputs=tensors("image[images,height,width]"), outputs=tensors("y[images,height,width]"),
        flops=lambda p: 300 * p["images"] * p["height"] * p["width"],
        sizes=(
            Size("i8_1080p", _image(8, 1080, 1920)), Size("i64_512", _image(64, 512, 512)),
            Size("i2_4k", _image(2, 2160, 3840)),
        ),
        tiny=Size("tiny", _image(2, 9, 13)), tolerance=Tolerance(2e-5, 2e-5, "float32 mean of 25 numbers of size 1"),
        cases=(large("image", factor=16.0), small("image"), constant_rows("image"), one_hot("image")),
    ),
    problem(
        id="hadamard_rows", title="Walsh-Hadamard transform of rows", reference=hadamard_rows,
        description="y = x H / sqrt(size) for every bfloat16 row, with H the Hadamard matrix in natural (Sylvester) "
            "order and size a power of two; sums in float32, result in bfloat16.",
        inputs=tensors("x: bfloat16[rows,size]"), outputs=tensors("y: bfloat16[rows,size]"),
        flops=lambda p: p["rows"] * p["size"] * (p["size"].bit_length() - 1),
        sizes=(
            Size("r16384_n4096", {"rows": 16384, "size": 4096}), Size("r65536_n1024", {"rows": 65536, "size": 1024}),
            Size("r2048_n16384", {"rows": 2048, "size": 16384}),
        ),
        tiny=Size("tiny", {"rows": 3, "size": 64}),
        tolerance=Tolerance(1e-2, 1e-2, "one rounding to bfloat16 of numbers of size 1"),
        cases=(
            large("x", factor=16.0, atol_scale=16.0), one_hot("x"), constant_rows("x"),
            outliers("x", factor=16.0, atol_scale=6.0),
        ),
    ),
    problem(
        id="segment_softmax", title="Softmax within ragged segments", reference=segment_softmax,
        description="Softmax of float32 values within segments: segment s holds entries starts[s] to starts[s + 1] - "
            "1 (int32, sorted); lengths vary widely and segments may be empty.",
        inputs=tensors(
            "starts: int32[segments+1]", "values[entries]", starts=Sized(lambda p: row_starts(p["entries"]))
        ),
        outputs=tensors("y[entries]"), flops=lambda p: 5 * p["entries"],
        sizes=(
            Size("s131072_e8m", {"segments": 131072, "entries": 1 << 23}),
            Size("s1m_e8m", {"segments": 1 << 20, "entries": 1 << 23}),
            Size("s4096_e16m", {"segments": 4096, "entries": 1 << 24}),
        ),
        tiny=Size("tiny", {"segments": 23, "entries": 150}),
        tolerance=Tolerance(1e-6, 1e-4, "float32 shares of a sum of up to 2^24 numbers"),
        cases=(EMPTY_ROWS, LONG_ROW, large("values", factor=30.0), small("values")),
    ),
    problem(
        id="ragged_mean_pool", title="Normalised mean of ragged sequences", reference=ragged_mean_pool,
        description="The mean over each sequence's rows of bfloat16 x, divided by its Euclidean length (at least "
            "1e-12). Sequence s holds rows starts[s] to starts[s + 1] - 1 (int32, sorted); an empty one gives zeros. "
            "Sums in float32, bfloat16 out.",
        inputs=tensors(
            "x: bfloat16[tokens,hidden]", "starts: int32[batch+1]", starts=Sized(lambda p: row_starts(p["tokens"]))
        ),
        outputs=tensors("y: bfloat16[batch,hidden]"), flops=lambda p: p["tokens"] * p["hidden"],
        sizes=(
            Size("t65536_h1024_b256", {"tokens": 65536, "hidden": 1024, "batch": 256}),
            Size("t131072_h768_b4096", {"tokens": 131072, "hidden": 768, "batch": 4096}),
            Size("t16384_h4096_b16", {"tokens": 16384, "hidden": 4096, "batch": 16}),
        ),
        tiny=Size("tiny", {"tokens": 50, "hidden": 48, "batch": 7}),
        tolerance=Tolerance(1e-3, 2e-2, "one rounding to bfloat16; numbers near 1 / sqrt(hidden)"),
        cases=(EMPTY_ROWS, large("x", factor=16.0), zero_rows("x"), outliers("x", factor=16.0)),
    ),
    problem(
        id="nearest_point", title="Squared distance to the nearest point of another cloud", reference=nearest_point,
        description="For every point of cloud a the least squared Euclidean distance to a point of cloud b; float32 "
            "coordinates [cloud, point, 3], differences taken before they are squared.",
        inputs=tensors("a[clouds,n,3]", "b[clouds,m,3]"), outputs=tensors("y[clouds,n]"),
        flops=lambda p: 9 * p["clouds"] * p["n"] * p["m"],
        sizes=(
            Size("c16_n4096", _cloud(16, 4096, 4096)), Size("c128_n1024", _cloud(128, 1024, 1024)),
            Size("c1_n32768", _cloud(1, 32768, 16384)),
        ),
        tiny=Size("tiny", _cloud(2, 37, 50)),
        tolerance=Tolerance(1e-6, 1e-4, "float32 sum of three squares of exact differences"),
        cases=(large("a", "b", factor=64.0), small("a", "b"), zero_rows("b"), outliers("a")),
    ),
    problem(
        id="box_iou", title="Overlap of all pairs of boxes", reference=box_iou,
        description="Intersection over union of every float32 box of a with every one of b; a box is (left, top, "
            "right, bottom).",
        inputs=tensors("a[n,4]", "b[m,4]", a=boxes, b=boxes), outputs=tensors("y[n,m]"),
        flops=lambda p: 14 * p["n"] * p["m"],
        sizes=(
            Size("n8192_m8192", {"n": 8192, "m": 8192}), Size("n100000_m256", {"n": 100000, "m": 256}),
            Size("n2000_m2000", {"n": 2000, "m": 2000}),
        ),
        tiny=Size("tiny", {"n": 21, "m": 34}),
        tolerance=Tolerance(2e-6, 2e-4, "float32 quotient of areas of a few digits less"),
        cases=(FAR_BOXES, NEAR_BOXES, SHARED_EDGES),
    ),
    problem(
        id="grid_sample_bilinear", title="Bilinear samples of an image at given places", reference=grid_sample_bilinear,
        description="torch.nn.functional.grid_sample of float32 x[batch, channel, height, width] at grid[batch, tall, "
            "wide, (x, y)] from -1 to 1 between the outer edges of the outermost pixels: bilinear, zeros beyond, "
            "align_corners false.",
        inputs=tensors("x[batch,channels,height,width]", "grid[batch,tall,wide,2]", grid=uniform(-1.05, 1.05)),
        outputs=tensors("y[batch,channels,tall,wide]"),
        flops=lambda p: 8 * p["batch"] * p["channels"] * p["tall"] * p["wide"],
        sizes=(
            Size("b8_c64_128", _sampled(8, 64, 128, 128, 128, 128)),
            Size("b16_c3_720p", _sampled(16, 3, 720, 1280, 512, 512)),
            Size("b4_c256_64", _sampled(4, 256, 64, 64, 96, 96)),
        ),
        tiny=Size("tiny", _sampled(2, 3, 9, 7, 5, 6)),
        tolerance=Tolerance(5e-4, 1e-4, "float32 weights from places good to 2^-13 pixels"),
        cases=(large("x", factor=64.0), small("x"), zero_rows("x"), one_hot("x")),
    ),
    problem(
        id="batched_cholesky", title="Cholesky factors of many small matrices", reference=batched_cholesky,
        description="The lower Cholesky factor of many small, well-conditioned symmetric positive definite float32 "
            "matrices, zeros above the diagonal.",
        inputs=tensors("a[systems,size,size]", a=positive_definite), outputs=tensors("y[systems,size,size]"),
        flops=lambda p: p["systems"] * p["size"] ** 3 // 3,
        sizes=(
            Size("b65536_n16", {"systems": 65536, "size": 16}), Size("b16384_n32", {"systems": 16384, "size": 32}),
            Size("b4096_n64", {"systems": 4096, "size": 64}),
        ),
        tiny=Size("tiny", {"systems": 5, "size": 8}),
        tolerance=Tolerance(1e-5, 1e-4, "float32 elimination of at most 64 columns, condition about 5"),
        cases=(STIFF, LARGE_SYSTEMS, DIAGONAL),
    ),
)  # fmt: skip
