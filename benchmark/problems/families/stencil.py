"""Stencils: time steps of physical fields, and the short causal convolution of state-space language models."""

from __future__ import annotations

import functools

from kbench.benchmark.problems.adversarial.cases import alternating, constant_rows, large, one_hot, outliers, small
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.families.shared import multiply_adds
from kbench.benchmark.problems.inputs import normal, tensors, uniform, with_numbers
from kbench.benchmark.problems.lazy_torch import F, Tensor


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


problem = functools.partial(ProblemDefinition, family="stencil")

PROBLEMS: tuple[ProblemDefinition, ...] = (
    problem(
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
    problem(
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
    problem(
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
