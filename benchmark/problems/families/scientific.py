"""Scientific computing: sparse products, small solves, Fourier transforms, clustering, forces, stencils of fields."""

from __future__ import annotations

import dataclasses
import functools
import math

from kbench.benchmark.problems.adversarial.cases import (
    InputCase,
    alternating,
    constant_rows,
    large,
    one_hot,
    outliers,
    small,
    zero_rows,
)
from kbench.benchmark.problems.adversarial.changes import (
    lengthen_one,
    merge_ends,
    multiply_some,
    resemble,
    scale,
    some_rows,
)
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.families.shared import multiply_adds
from kbench.benchmark.problems.inputs import Fill, Sized, TensorSpec, integers, normal, tensors, uniform, with_numbers
from kbench.benchmark.problems.lazy_torch import F, Generator, Tensor, torch

EMPTY_ROWS = InputCase(
    "empty_rows", "Many empty rows beside long ones find sums that run into the next row.", {"starts": merge_ends}
)
LONG_ROW = InputCase(
    "long_row",
    "One row with far more entries than any drawn one finds loops that end early.",
    {"starts": lengthen_one},
    atol_scale=10.0,
    strict=True,
)
STIFF = InputCase(
    "scaled",
    "Matrices far from unit scale find pivots compared with a constant.",
    {"a": some_rows(scale(1e-4), (-1, -2))},
    atol_scale=1e4,
    unit=2,
)
DECOUPLED = InputCase(
    "decoupled",
    "Rows without neighbours find divisions by an off-diagonal number.",
    {"lower": scale(0.0), "upper": some_rows(scale(0.0))},
    unit=1,
)
SCALED_SYSTEMS = dataclasses.replace(
    STIFF, stresses="Systems far from unit scale find pivots compared with a constant.",
    changes=dict.fromkeys(("lower", "diagonal", "upper"), scale(1e-4)), unit=1,
)  # fmt: skip
BARELY_DOMINANT = InputCase(
    "barely_dominant",
    "Diagonals barely above the sum of their neighbours find eliminations that stop early.",
    {
        "lower": lambda generator, x: 1.2 * x.sign(),
        "diagonal": lambda generator, x: 2.5 + (x - 2.5) / 15.0,
        "upper": lambda generator, x: 1.2 * x.sign(),
    },
    unit=1,
)
NEARLY_SINGULAR = InputCase(
    "nearly_singular",
    "Diagonals a hair above the sum of their neighbours carry every number far along its row.",
    {
        "lower": lambda generator, x: torch.full_like(x, -1.2),
        "diagonal": lambda generator, x: 2.4 * (1.0 + 3e-3 * (0.5 + (x - 2.5) / 1.5)),
        "upper": lambda generator, x: torch.full_like(x, -1.2),
    },
    # Scans over the row, which are honest, lose more digits there than elimination from its start.
    atol_scale=100.0,
    rtol_scale=5.0,
    unit=1,
)
FAMILIES = InputCase(
    "families",
    "Centroids in groups that differ by little find distances compared in rounded numbers.",
    {"centroids": resemble(0.01)},
)
COINCIDENT = InputCase(
    "coincident",
    "Bodies at one place attract each other with no force and find divisions by a distance.",
    {"positions": lambda generator, x: x.round()},
    unit=0,
)
HEAVY = InputCase(
    "heavy",
    "A few bodies with nearly all the mass find sums that lose small terms.",
    {"masses": multiply_some(1e3)},
    atol_scale=1e2,
    unit=0,
)


def row_starts(entries: int) -> Fill:
    """Starts of sparse rows: sorted random cuts, so that row lengths vary widely and some rows are empty."""

    def fill(spec_generator: Generator, spec: TensorSpec, device: str) -> Tensor:
        cuts = torch.randint(0, entries + 1, (spec.numel - 2,), generator=spec_generator, device=device)
        ends = torch.tensor([0, entries], device=device)
        return torch.cat((ends, cuts)).sort().values.to(torch.int32)

    return fill


def positive_definite(spec_generator: Generator, spec: TensorSpec, device: str) -> Tensor:
    """Well-conditioned symmetric positive definite matrices."""
    size = spec.shape[-1]
    root = torch.randn(spec.shape, generator=spec_generator, device=device, dtype=torch.float32)
    return root @ root.transpose(-1, -2) / size + torch.eye(size, device=device)


def spmv_csr(starts: Tensor, columns: Tensor, values: Tensor, x: Tensor) -> Tensor:
    rows = starts.numel() - 1
    row = torch.repeat_interleave(
        torch.arange(rows, device=x.device), starts.diff().long(), output_size=columns.numel()
    )
    return x.new_zeros(rows).index_add_(0, row, values * x[columns.long()])


def batched_solve(a: Tensor, b: Tensor) -> Tensor:
    factor = torch.linalg.cholesky_ex(a).L
    # cholesky_solve would wait for the device; two triangular solves do not.
    half = torch.linalg.solve_triangular(factor, b.unsqueeze(-1), upper=False)
    solution: Tensor = torch.linalg.solve_triangular(factor.mT, half, upper=True)
    return solution.squeeze(-1)


def fft_butterfly(real: Tensor, imag: Tensor) -> tuple[Tensor, Tensor]:
    spectrum = torch.fft.fft(torch.complex(real, imag), norm="ortho")
    return spectrum.real.contiguous(), spectrum.imag.contiguous()


def kmeans_assign(points: Tensor, centroids: Tensor) -> tuple[Tensor, Tensor]:
    distances = (points * points).sum(1, keepdim=True) + (centroids * centroids).sum(1) - 2 * (points @ centroids.T)
    nearest = distances.min(dim=1)
    return nearest.indices.to(torch.int32), nearest.values


def tridiagonal_solve(lower: Tensor, diagonal: Tensor, upper: Tensor, rhs: Tensor) -> Tensor:
    size = diagonal.shape[1]
    a, b, c, d = lower.clone(), diagonal, upper.clone(), rhs
    a[:, 0] = 0
    c[:, -1] = 0
    stride = 1
    while stride < size:
        pad = a.new_zeros(a.shape[0], stride)
        ones = pad + 1
        before = [torch.cat((fill, x[:, :-stride]), 1) for fill, x in ((pad, a), (ones, b), (pad, c), (pad, d))]
        after = [torch.cat((x[:, stride:], fill), 1) for fill, x in ((pad, a), (ones, b), (pad, c), (pad, d))]
        up, down = -a / before[1], -c / after[1]
        b = b + up * before[2] + down * after[0]
        d = d + up * before[3] + down * after[3]
        a, c = up * before[0], down * after[2]
        stride *= 2
    return d / b


def nbody_forces(positions: Tensor, masses: Tensor, softening: float) -> Tensor:
    x, y, z = positions.unbind(1)
    dx, dy, dz = (axis.unsqueeze(0) - axis.unsqueeze(1) for axis in (x, y, z))
    weight = masses * (dx * dx + dy * dy + dz * dz + softening).pow(-1.5)
    return torch.stack([(gap * weight).sum(1) for gap in (dx, dy, dz)], dim=1)


problem = functools.partial(ProblemDefinition, family="scientific")

PROBLEMS: tuple[ProblemDefinition, ...] = (
    problem(
        id="spmv_csr", title="Sparse matrix times vector, CSR", reference=spmv_csr,
        description="Multiply a float32 sparse matrix by a vector. Row r holds entries starts[r] to starts[r + 1] - 1 "
            "of `columns` and `values`; row lengths vary widely and rows may be empty or name a column twice.",
        inputs=tensors(
            "starts: int32[rows+1]", "columns: int32[entries]", "values[entries]", "x[cols]",
            starts=Sized(lambda p: row_starts(p["entries"])), columns=Sized(lambda p: integers(0, p["cols"])),
        ),
        outputs=tensors("y[rows]"), flops=lambda p: 2 * p["entries"],
        sizes=(
            Size("r131072_e8m", {"rows": 131072, "cols": 131072, "entries": 1 << 23}),
            Size("r524288_e4m", {"rows": 524288, "cols": 131072, "entries": 1 << 22}),
        ),
        tiny=Size("tiny", {"rows": 23, "cols": 17, "entries": 150}),
        tolerance=Tolerance(2e-4, 1e-4, "float32 sums of up to about 1,000 products of size 1, in any order"),
        cases=(EMPTY_ROWS, LONG_ROW, large("values"), one_hot("x"), outliers("x", atol_scale=100.0)),
    ),
    problem(
        id="batched_solve", title="Many small positive definite systems", reference=batched_solve,
        description="Solve a x = b for many small, well-conditioned symmetric positive definite float32 matrices.",
        inputs=tensors("a[systems,size,size]", "b[systems,size]", a=positive_definite),
        outputs=tensors("x[systems,size]"), flops=lambda p: p["systems"] * (p["size"] ** 3 // 3 + 2 * p["size"] ** 2),
        sizes=(Size("b32768_n16", {"systems": 32768, "size": 16}), Size("b8192_n32", {"systems": 8192, "size": 32})),
        tiny=Size("tiny", {"systems": 5, "size": 8}),
        tolerance=Tolerance(1e-5, 1e-4, "float32 elimination of at most 32 columns, condition number about 5"),
        cases=(large("b"), small("b"), one_hot("b"), STIFF),
    ),
    problem(
        id="fft_butterfly", title="Fast Fourier transform of rows", reference=fft_butterfly,
        description="Forward discrete Fourier transform of every row, given and returned as separate float32 real and "
            "imaginary parts, scaled by 1 / sqrt(size); the size is a power of two.",
        inputs=tensors("real imag[rows,size]"), outputs=tensors("spectrum_real spectrum_imag[rows,size]"),
        flops=lambda p: int(5 * p["rows"] * p["size"] * math.log2(p["size"])),
        sizes=(Size("r8192_n1024", {"rows": 8192, "size": 1024}), Size("r32768_n256", {"rows": 32768, "size": 256})),
        tiny=Size("tiny", {"rows": 3, "size": 64}),
        tolerance=Tolerance(5e-5, 1e-4, "float32 butterflies, 10 levels, twiddle factors good to 2^-20"),
        cases=(large("real", factor=1e6), one_hot("real", "imag"), alternating("real"), constant_rows("real", "imag")),
    ),
    problem(
        id="kmeans_assign", title="Nearest centroid of every point", reference=kmeans_assign,
        description="For every float32 point return the int32 number of the nearest centroid and the squared Euclidean "
            "distance to it: the assignment step of k-means.",
        inputs=tensors("points[points,dim]", "centroids[centroids,dim]"),
        outputs=tensors("labels: int32[points]", "distances[points]"),
        flops=lambda p: 2 * p["points"] * p["centroids"] * p["dim"],
        sizes=(Size("n131072_k256_d64", {"points": 131072, "centroids": 256, "dim": 64}),),
        tiny=Size("tiny", {"points": 70, "centroids": 32, "dim": 16}),
        tolerance=Tolerance(
            1e-3, 1e-5, "float32 sum of 64 squares near 100; a point half-way between two centroids may go to either",
            mismatch_share=1e-3,
        ),
        compute_unit="tf32",
        cases=(
            large("points", "centroids", factor=100.0), small("points", "centroids", factor=1e-2),
            outliers("points", factor=30.0, atol_scale=900.0), FAMILIES,
        ),
    ),
    problem(
        id="tridiagonal_solve", title="Many tridiagonal systems", reference=tridiagonal_solve,
        description="Solve lower[i] x[i - 1] + diagonal[i] x[i] + upper[i] x[i + 1] = rhs[i] for every row of float32 "
            "matrices; diagonally dominant. The first lower and the last upper number of a row take no part.",
        inputs=tensors(
            "lower diagonal upper rhs[systems,size]", lower=uniform(-1.0, 1.0), diagonal=uniform(2.5, 4.0),
            upper=uniform(-1.0, 1.0),
        ),
        outputs=tensors("x[systems,size]"), flops=lambda p: 8 * p["systems"] * p["size"],
        sizes=(Size("b8192_n256", {"systems": 8192, "size": 256}),), tiny=Size("tiny", {"systems": 5, "size": 32}),
        tolerance=Tolerance(1e-5, 1e-4, "float32, diagonally dominant: errors do not grow along the row"),
        cases=(large("rhs"), one_hot("rhs"), DECOUPLED, SCALED_SYSTEMS, BARELY_DOMINANT, NEARLY_SINGULAR),
    ),
    problem(
        id="nbody_forces", title="Gravity between all bodies", reference=nbody_forces,
        description="Acceleration of every body: sum over all others of mass * gap / (|gap|^2 + softening)^1.5, with "
            "float32 positions [body, 3] and masses; the body itself adds nothing.",
        inputs=with_numbers(
            tensors(
                "positions[bodies,3]", "masses[bodies]",
                masses=Sized(lambda p: uniform(0.5 / p["bodies"], 1.5 / p["bodies"])),
            ),
            softening=0.01,
        ),
        outputs=tensors("accelerations[bodies,3]"), flops=lambda p: 18 * p["bodies"] ** 2,
        sizes=(Size("n8192", {"bodies": 8192}),), tiny=Size("tiny", {"bodies": 70}),
        tolerance=Tolerance(2e-5, 1e-4, "float32 sum of 8,192 terms, the largest about 0.02"),
        cases=(large("positions", factor=100.0, atol_scale=1e-4), COINCIDENT, zero_rows("masses", dims=()), HEAVY),
    ),
)  # fmt: skip


def _stencil_2d(u: Tensor, diffusivity: Tensor) -> Tensor:
    p = F.pad(u, (1, 1, 1, 1))
    laplacian = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * u
    return u + diffusivity * laplacian


def _stencil_3d(u: Tensor, previous: Tensor, courant: float) -> Tensor:
    p = F.pad(u, (2, 2, 2, 2, 2, 2))
    depth, height, width = u.shape
    near = p[1:-3, 2:-2, 2:-2] + p[3:-1, 2:-2, 2:-2] + p[2:-2, 1:-3, 2:-2] + p[2:-2, 3:-1, 2:-2]
    near = near + p[2:-2, 2:-2, 1:-3] + p[2:-2, 2:-2, 3:-1]
    far = p[:depth, 2:-2, 2:-2] + p[4:, 2:-2, 2:-2] + p[2:-2, :height, 2:-2] + p[2:-2, 4:, 2:-2]
    far = far + p[2:-2, 2:-2, :width] + p[2:-2, 2:-2, 4:]
    laplacian = 4 / 3 * near - 1 / 12 * far - 7.5 * u
    return 2 * u - previous + courant * laplacian


def _causal_conv1d(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    channels, taps = weight.shape
    return F.silu(F.conv1d(F.pad(x, (taps - 1, 0)), weight.unsqueeze(1), bias, groups=channels))


stencil = functools.partial(ProblemDefinition, family="stencil")

STENCILS: tuple[ProblemDefinition, ...] = (
    stencil(
        id="stencil_2d", title="2D heat equation, one step", reference=_stencil_2d,
        description="One explicit step of heat flow on a grid: u + diffusivity · (north + south + west + east − 4u), "
            "with a diffusivity per cell and zero outside the grid.",
        inputs=tensors("u[height,width]", "diffusivity[height,width]", diffusivity=uniform(0.05, 0.25)),
        outputs=tensors("v[height,width]"), flops=lambda p: 7 * p["height"] * p["width"],
        sizes=(Size("large", {"height": 4096, "width": 4096}), Size("ragged", {"height": 3001, "width": 4999})),
        tiny=Size("tiny", {"height": 19, "width": 23}),
        tolerance=Tolerance(5e-6, 5e-6, "seven fp32 operations on unit values; fp16 inputs err by about 3e-4"),
        cases=(large("u", factor=1e6), small("u", factor=1e-6), alternating("u"), one_hot("u")),
    ),
    stencil(
        id="stencil_3d", title="3D wave equation, one fourth-order step", reference=_stencil_3d,
        description="One leapfrog step of the wave equation on a grid: 2u − previous + courant · laplacian(u), where "
            "the Laplacian reaches two cells along each axis (weights 4/3 and −1/12, centre −15/2) and u is zero "
            "outside.",
        inputs=with_numbers(tensors("u previous[depth,height,width]"), courant=0.15),
        outputs=tensors("v[depth,height,width]"),
        flops=lambda p: 19 * p["depth"] * p["height"] * p["width"],
        sizes=(Size("large", {"depth": 256, "height": 256, "width": 256}),),
        tiny=Size("tiny", {"depth": 6, "height": 9, "width": 13}),
        tolerance=Tolerance(1e-5, 1e-5, "nineteen fp32 operations on unit values; fp16 inputs err by about 1e-3"),
        cases=(
            large("u", "previous", factor=1e6, atol_scale=1e6), alternating("u"), one_hot("u", "previous"),
            constant_rows("u"),
        ),
    ),
    stencil(
        id="causal_conv1d", title="Causal depthwise 1D convolution with SiLU (bfloat16)", reference=_causal_conv1d,
        description="The short convolution of state-space language models: every channel is filtered by its own 4 taps "
            "over the current and the three previous positions (zero before the start), plus a bias, then SiLU.",
        inputs=tensors(
            "x: bfloat16[n,channels,length]", "weight: bfloat16[channels,4]", "bias: bfloat16[channels]",
            weight=normal(0.5), bias=normal(0.5),
        ),
        outputs=tensors("y: bfloat16[n,channels,length]"),
        flops=lambda p: multiply_adds(p["n"], [p["length"]], 1, p["channels"], 4),
        sizes=(Size("large", {"n": 4, "channels": 4096, "length": 2048}),),
        tiny=Size("tiny", {"n": 2, "channels": 5, "length": 21}),
        tolerance=Tolerance(
            1.6e-2, 1.6e-2, "bfloat16 keeps 8 bits; the reference rounds after the sum and after SiLU"
        ),
        compute_unit="bf16",
        cases=(large("x", factor=50.0), one_hot("x"), alternating("x"), outliers("x", factor=100.0)),
    ),
)  # fmt: skip
