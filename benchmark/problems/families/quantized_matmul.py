"""Matrix products of today's language models: grouped experts and 8- and 4-bit operands."""

from __future__ import annotations

import functools
import itertools

from kbench.benchmark.problems.adversarial.cases import InputCase, extremes, large, one_hot, small, zero_rows
from kbench.benchmark.problems.adversarial.changes import merge_ends
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.families.matmul import BF16_PRODUCT
from kbench.benchmark.problems.families.shared import product_flops, sized
from kbench.benchmark.problems.inputs import Sized, TensorSpec, around, integers, rooted, tensors, uniform
from kbench.benchmark.problems.lazy_torch import F, Generator, Tensor, torch

EMPTY_GROUPS = InputCase(
    "empty_groups", "Groups without rows find starts and tiles that assume at least one.", {"offsets": merge_ends}
)
EXTREME_BYTES = extremes("x", "weight", values=(-128, -128, 127), atol_scale=4.0)
EXTREME_NIBBLES = extremes("packed", values=(0, 15, 240, 255))

INT4_GROUP = 128
"""Weights along k that share one scale."""


def grouped_gemm(x: Tensor, weight: Tensor, offsets: Tensor) -> Tensor:
    """Rows offsets[g−1]:offsets[g] of x times weight[g]."""
    return F.grouped_mm(x, weight, offs=offsets)


def grouped_gemm_oracle(x: Tensor, weight: Tensor, offsets: Tensor) -> Tensor:
    """The same in float64, one group at a time."""
    ends = [0, *offsets.tolist()]
    rows = [x[a:b].double() @ weight[g].double() for g, (a, b) in enumerate(itertools.pairwise(ends))]
    return torch.cat(rows)


def int8_gemm(x: Tensor, weight: Tensor, x_scale: Tensor, weight_scale: Tensor) -> Tensor:
    """Exact int32 sums, then a scale a row and a scale a column."""
    total = torch._int_mm(x, weight.t())
    return (total.float() * x_scale[:, None] * weight_scale[None, :]).to(torch.bfloat16)


def scaled_oracle(x: Tensor, weight: Tensor, x_scale: Tensor, weight_scale: Tensor) -> Tensor:
    """Row- and column-scaled product in float64."""
    return (x.double() @ weight.double().t()) * x_scale.double()[:, None] * weight_scale.double()[None, :]


def fp8_gemm(x: Tensor, weight: Tensor, x_scale: Tensor, weight_scale: Tensor) -> Tensor:
    """float8 operands, exact in bfloat16, then a scale a row and a scale a column."""
    total = x.to(torch.bfloat16) @ weight.to(torch.bfloat16).t()
    return (total.float() * x_scale[:, None] * weight_scale[None, :]).to(torch.bfloat16)


def int4_weight_gemm(x: Tensor, packed: Tensor, scale: Tensor) -> Tensor:
    """Unpack two 4-bit weights a byte (low nibble first, zero point 8), scale by group, multiply."""
    nibbles = torch.stack((packed & 15, packed >> 4), dim=-1).view(packed.shape[0], -1)
    groups = (nibbles.to(scale.dtype) - 8).view(packed.shape[0], -1, INT4_GROUP) * scale.unsqueeze(-1)
    return F.linear(x, groups.view(packed.shape[0], -1).to(x.dtype))


def group_offsets(generator: Generator, spec: TensorSpec, device: str, rows: int) -> Tensor:
    """Ends of contiguous groups of uneven lengths that cover all rows.

    The lengths are always the same ones, from a quarter to one and three quarters of the mean, in random order:
    lengths drawn freely would give every seed another amount of padding, and so another runtime.
    """
    share = torch.linspace(0.25, 1.75, spec.shape[0], device=device)
    share = share[torch.randperm(spec.shape[0], generator=generator, device=device)]
    ends = (share.cumsum(0) / share.sum() * rows).round()
    ends[-1] = rows
    return ends.to(torch.int32)


_grouped_inputs = tensors(
    "x: bfloat16[tokens,k]", "weight: bfloat16[groups,k,n]", "offsets: int32[groups]", weight=rooted("k"),
    offsets=Sized(lambda p: lambda g, s, d: group_offsets(g, s, d, p["tokens"])),
)  # fmt: skip


# 5400 is the variance of uniform bytes: scales around its reciprocal give outputs near one.
_int8_inputs = tensors(
    "x: int8[m,k]", "weight: int8[n,k]", "x_scale[m]", "weight_scale[n]", x=integers(-127, 128),
    weight=integers(-127, 128), x_scale=uniform(0.5, 1.5), weight_scale=around(lambda p: p["k"] ** -0.5 / 5400),
)  # fmt: skip


rowwise_inputs = tensors(
    "x: float8_e4m3fn[m,k]", "weight: float8_e4m3fn[n,k]", "x_scale[m]", "weight_scale[n]", x_scale=uniform(0.5, 1.5),
    weight_scale=around(lambda p: p["k"] ** -0.5),
)  # fmt: skip


# 21.5 is the mean square of nibbles less the zero point 8.
_int4_inputs = tensors(
    "x: float16[m,k]", "packed: uint8[n,k/2]", f"scale: float16[n,k/{INT4_GROUP}]", packed=integers(0, 256),
    scale=around(lambda p: (21.5 * p["k"]) ** -0.5),
)  # fmt: skip


problem = functools.partial(
    ProblemDefinition,
    family="quantized_matmul",
    outputs=tensors("y: bfloat16[m,n]"),
    flops=product_flops,
    sizes=(Size("prefill", sized(2048, 4096, 4096)),),
    tiny=Size("tiny", sized(40, 56, 96)),
)

PROBLEMS: tuple[ProblemDefinition, ...] = (
    problem(
        id="grouped_gemm", title="Grouped matrix product of mixture-of-experts layers", reference=grouped_gemm,
        oracle=grouped_gemm_oracle,
        description="Rows of x are sorted by expert; offsets[g] (int32) is the end of expert g's rows and offsets[g-1] "
            "their start (0 for the first). Each expert's rows are multiplied by its own matrix weight[g] (k by n). "
            "bfloat16 with an fp32 accumulator; groups are uneven and may be empty.",
        inputs=_grouped_inputs, outputs=tensors("y: bfloat16[tokens,n]"),
        flops=lambda p: 2 * p["tokens"] * p["n"] * p["k"],
        sizes=(Size("experts8", {"tokens": 4096, "groups": 8, "n": 2048, "k": 2048}),),
        tiny=Size("tiny", {"tokens": 88, "groups": 5, "n": 40, "k": 72}),
        tolerance=BF16_PRODUCT, compute_unit="bf16",
        cases=(large("x", factor=1e5), small("x", factor=1e-6), one_hot("x"), EMPTY_GROUPS),
    ),
    problem(
        id="int8_gemm", title="8-bit integer matrix product with row and column scales", reference=int8_gemm,
        oracle=scaled_oracle,
        description="y = (x @ weight.T) * x_scale[:, None] * weight_scale[None, :], with int8 x and weight summed "
            "exactly in int32, and a bfloat16 result.",
        inputs=_int8_inputs,
        tolerance=Tolerance(
            atol=1e-3, rtol=8e-3, reason="the sums are exact; one rounding to bfloat16 is 2e-3 relative",
        ),
        compute_unit="int8", cases=(EXTREME_BYTES, one_hot("x"), large("x_scale"), zero_rows("x_scale", dims=())),
    ),
    problem(
        id="fp8_gemm", title="8-bit float matrix product with row and column scales", reference=fp8_gemm,
        oracle=scaled_oracle,
        description="y = (x @ weight.T) * x_scale[:, None] * weight_scale[None, :], with float8_e4m3fn x and weight, "
            "fp32 accumulation and a bfloat16 result.",
        inputs=rowwise_inputs,
        tolerance=Tolerance(
            atol=4e-2, rtol=2e-2,
            reason="two roundings to bfloat16 are 4e-3 relative; float8 tensor cores keep about 14 bits of each "
            "partial sum, which over thousands of products is up to 2e-2 of the output's scale",
        ),
        compute_unit="fp8",
        cases=(
            large("x", "weight", factor=64.0), small("x", factor=2.0**-6), one_hot("x"), zero_rows("x_scale", dims=()),
        ),
    ),
    problem(
        id="int4_weight_gemm", title="Matrix product with 4-bit weights", reference=int4_weight_gemm,
        description="y = x @ W.T in float16 for a decode batch. Byte (n, j) of packed holds weights 2j (low four bits) "
            "and 2j+1 (high four bits) of output n; W[n, k] = (nibble - 8) * scale[n, k // 128].",
        inputs=_int4_inputs, outputs=tensors("y: float16[m,n]"),
        sizes=(Size("decode16", sized(16, 8192, 8192)),), tiny=Size("tiny", sized(8, 40, 256)),
        tolerance=Tolerance(
            atol=4e-3, rtol=4e-3,
            reason="float16 rounds each dequantised weight and the result by 5e-4 relative; sums of k average it out",
        ),
        compute_unit="fp16", cases=(large("x", factor=100.0), EXTREME_NIBBLES, one_hot("x"), zero_rows("scale")),
    ),
)  # fmt: skip
