"""Sorting and selection: sorted rows, the largest of a row, and drawing a token."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from kbench.benchmark.problems.adversarial.cases import (
    InputCase,
    constant_rows,
    huge,
    large,
    negative,
    shifted,
    sorted_rows,
    strided_rows,
    ties,
)
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.inputs import InputSpec, Params, ScalarSpec, TensorSpec, distinct_in_row, normal, tensors
from kbench.benchmark.problems.lazy_torch import torch

if TYPE_CHECKING:
    from torch import Generator, Tensor

# Drawn values lie in [-7, 7] on a grid that a shift by 8 keeps, so that they stay distinct.
NEGATIVE = InputCase(
    "negative",
    "Values below zero find selections that start from zero.",
    {"x": lambda generator, x: x - 8.0},
    unit=0,
)
FAR_BELOW = InputCase(
    "far_below",
    "Values far below zero find selections that start from a constant such as -1e30.",
    {"x": lambda generator, x: (x - 8.0) * 2.0**110},
    unit=0,
)
EVEN_NOISE = InputCase(
    "rare_tokens",
    "Noise that spans twelve powers of ten lets unlikely tokens win and finds probabilities that underflow.",
    {"noise": lambda generator, x: x.pow(4.0)},
    unit=0,
)


def exponential(spec_generator: Generator, spec: TensorSpec, device: str) -> Tensor:
    """Exponential values with mean 1, never zero."""
    drawn = torch.rand(spec.shape, generator=spec_generator, device=device, dtype=torch.float32)
    return -torch.log1p(-drawn.clamp_(min=1e-7))


def sort(x: Tensor) -> Tensor:
    return torch.sort(x, dim=-1).values


def top_k(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    values, places = torch.topk(x, k, dim=-1)
    return values, places.to(torch.int32)


def _top_k_inputs(p: Params) -> tuple[InputSpec, ...]:
    return TensorSpec("x", (p["rows"], p["cols"]), fill=distinct_in_row), ScalarSpec("k", p["k"])


def sampling_softmax(logits: Tensor, noise: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    log_probs = torch.log_softmax(logits / temperature, dim=-1)
    tokens = (log_probs.exp() / noise).argmax(dim=-1, keepdim=True)
    return tokens.squeeze(1).to(torch.int32), log_probs.gather(1, tokens).squeeze(1)


def _sampling_inputs(p: Params) -> tuple[InputSpec, ...]:
    shape = (p["rows"], p["vocab"])
    return (
        TensorSpec("logits", shape, fill=normal(2.0)),
        TensorSpec("noise", shape, fill=exponential),
        ScalarSpec("temperature", 0.8),
    )


problem = functools.partial(ProblemDefinition, family="sorting")

PROBLEMS: tuple[ProblemDefinition, ...] = (
    problem(
        id="sort", title="Sort rows", reference=sort,
        description="Sort every row of a float32 matrix in rising order; rows are a power of two long.",
        inputs=tensors("x[rows,cols]"), outputs=tensors("y[rows,cols]"), flops=lambda p: 0,
        sizes=(Size("r4096_c1024", {"rows": 4096, "cols": 1024}), Size("r16384_c256", {"rows": 16384, "cols": 256})),
        tiny=Size("tiny", {"rows": 3, "cols": 64}),
        tolerance=Tolerance(0.0, 0.0, "values are moved, never computed: exact"),
        # Minima and maxima by which networks exchange two values may flush subnormal ones.
        ends=False,
        cases=(ties("x"), sorted_rows("x"), constant_rows("x"), huge("x", factor=1e35), negative("x")),
    ),
    problem(
        id="top_k", title="Largest k of every row", reference=top_k,
        description="Return the k largest values of every row of a float32 matrix in falling order, and their int32 "
            "places. Values within a row are distinct.",
        inputs=_top_k_inputs, outputs=tensors("values[rows,k]", "places: int32[rows,k]"),
        flops=lambda p: p["rows"] * p["cols"],
        sizes=(
            Size("r2048_c8192_k16", {"rows": 2048, "cols": 8192, "k": 16}),
            Size("r8192_c1024_k8", {"rows": 8192, "cols": 1024, "k": 8}),
        ),
        tiny=Size("tiny", {"rows": 3, "cols": 128, "k": 4}),
        tolerance=Tolerance(0.0, 0.0, "values are moved and places are distinct: exact"),
        cases=(NEGATIVE, FAR_BELOW, sorted_rows("x"), strided_rows("x"), huge("x", factor=2.0**100)),
    ),
    problem(
        id="sampling_softmax", title="Draw a token from softmax probabilities", reference=sampling_softmax,
        description="Divide each row of float32 logits by the temperature and take its softmax; the drawn token is the "
            "place of the largest probability / noise, where noise holds given exponential random numbers. Return the "
            "int32 token and its float32 log probability.",
        inputs=_sampling_inputs, outputs=tensors("tokens: int32[rows]", "log_probs[rows]"),
        flops=lambda p: 5 * p["rows"] * p["vocab"],
        sizes=(Size("r512_v32000", {"rows": 512, "vocab": 32000}),), tiny=Size("tiny", {"rows": 5, "vocab": 200}),
        tolerance=Tolerance(
            1e-4, 1e-5,
            "float32 log of a sum over 32,000 terms; two leading quotients may be equal to float32 in a rare row",
            mismatch_share=0.005,
        ),
        cases=(
            shifted("logits", by=100.0, atol_scale=2.0), large("logits", factor=20.0, atol_scale=2.0),
            sorted_rows("logits"), EVEN_NOISE,
        ),
    ),
)  # fmt: skip
