"""Matrix products of language models: grouped experts, and 8- and 4-bit operands scaled by row, block or output."""

from __future__ import annotations

import functools
import itertools

from kbench.benchmark.problems.adversarial.cases import InputCase, extremes, large, one_hot, outliers, small, zero_rows
from kbench.benchmark.problems.adversarial.changes import crowd_one, merge_ends
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.families.fused_matmul import BF16_EPILOGUE
from kbench.benchmark.problems.families.matmul import BF16_PRODUCT
from kbench.benchmark.problems.families.shared import product_flops, sized
from kbench.benchmark.problems.inputs import (
    Sized,
    Specs,
    TensorSpec,
    around,
    integers,
    normal,
    parameters,
    rooted,
    tensors,
    uniform,
)
from kbench.benchmark.problems.lazy_torch import F, Generator, Tensor, torch

EMPTY_GROUPS = InputCase(
    "empty_groups", "Groups without rows find starts and tiles that assume at least one.", {"offsets": merge_ends}
)
EXTREME_BYTES = extremes("x", "weight", values=(-128, -128, 127), atol_scale=4.0)
EXTREME_NIBBLES = extremes("packed", values=(0, 15, 240, 255))

FP8_SUMS = Tolerance(
    atol=4e-2,
    rtol=2e-2,
    reason="two roundings to bfloat16 are 4e-3 relative; float8 tensor cores keep about 14 bits of each partial sum, "
    "which over thousands of products is up to 2e-2 of the output's scale",
)
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


rowwise_inputs = tensors(
    "x: float8_e4m3fn[m,k]", "weight: float8_e4m3fn[n,k]", "x_scale[m]", "weight_scale[n]", x_scale=uniform(0.5, 1.5),
    weight_scale=around(lambda p: p["k"] ** -0.5),
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
        inputs=tensors(
            "x: bfloat16[tokens,k]", "weight: bfloat16[groups,k,n]", "offsets: int32[groups]", weight=rooted("k"),
            offsets=Sized(lambda p: lambda g, s, d: group_offsets(g, s, d, p["tokens"])),
        ),
        outputs=tensors("y: bfloat16[tokens,n]"),
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
        # 5400 is the variance of uniform bytes: scales around its reciprocal give outputs near one.
        inputs=tensors(
            "x: int8[m,k]", "weight: int8[n,k]", "x_scale[m]", "weight_scale[n]", x=integers(-127, 128),
            weight=integers(-127, 128), x_scale=uniform(0.5, 1.5), weight_scale=around(lambda p: p["k"] ** -0.5 / 5400),
        ),
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
        tolerance=FP8_SUMS, compute_unit="fp8",
        cases=(
            large("x", "weight", factor=64.0), small("x", factor=2.0**-6), one_hot("x"), zero_rows("x_scale", dims=()),
        ),
    ),
    problem(
        id="int4_weight_gemm", title="Matrix product with 4-bit weights", reference=int4_weight_gemm,
        description="y = x @ W.T in float16 for a decode batch. Byte (n, j) of packed holds weights 2j (low four bits) "
            "and 2j+1 (high four bits) of output n; W[n, k] = (nibble - 8) * scale[n, k // 128].",
        # 21.5 is the mean square of nibbles less the zero point 8.
        inputs=tensors(
            "x: float16[m,k]", "packed: uint8[n,k/2]", f"scale: float16[n,k/{INT4_GROUP}]", packed=integers(0, 256),
            scale=around(lambda p: (21.5 * p["k"]) ** -0.5),
        ),
        outputs=tensors("y: float16[m,n]"),
        sizes=(Size("decode16", sized(16, 8192, 8192)),), tiny=Size("tiny", sized(8, 40, 256)),
        tolerance=Tolerance(
            atol=4e-3, rtol=4e-3,
            reason="float16 rounds each dequantised weight and the result by 5e-4 relative; sums of k average it out",
        ),
        compute_unit="fp16", cases=(large("x", factor=100.0), EXTREME_NIBBLES, one_hot("x"), zero_rows("scale")),
    ),
)  # fmt: skip


BLOCK = 128
"""Elements along k, and rows of a weight, that share one scale."""

EXTREME_WEIGHTS = extremes("weight", values=(-128, -128, 127), atol_scale=2.0)
ZERO_SCALES = zero_rows("x_scale", dims=())


def fp8_linear_rowwise(x: Tensor, weight: Tensor, x_scale: Tensor, weight_scale: Tensor) -> Tensor:
    if x.is_cuda:
        return torch._scaled_mm(x, weight.t(), x_scale[:, None], weight_scale[None, :], out_dtype=torch.bfloat16)
    total = x.to(torch.bfloat16) @ weight.to(torch.bfloat16).t()
    return (total.float() * x_scale[:, None] * weight_scale[None, :]).to(torch.bfloat16)


def fp8_linear_blockwise(x: Tensor, weight: Tensor, x_scale: Tensor, weight_scale: Tensor) -> Tensor:
    rows, blocks = weight_scale.shape
    wide_x = x.float().view(x.shape[0], blocks, BLOCK) * x_scale[:, :, None]
    wide_weight = weight.float().view(rows, BLOCK, blocks, BLOCK) * weight_scale[:, None, :, None]
    return F.linear(wide_x.view(x.shape).to(torch.bfloat16), wide_weight.view(weight.shape).to(torch.bfloat16))


def _blockwise_oracle(x: Tensor, weight: Tensor, x_scale: Tensor, weight_scale: Tensor) -> Tensor:
    wide_x = x.double() * x_scale.double().repeat_interleave(BLOCK, dim=1)
    scales = weight_scale.double().repeat_interleave(BLOCK, dim=0).repeat_interleave(BLOCK, dim=1)
    return wide_x @ (weight.double() * scales).t()


def int8_weight_linear(x: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    return F.linear(x, weight.to(x.dtype)) * scale


def int8_linear_relu(x: Tensor, weight: Tensor, x_scale: Tensor, weight_scale: Tensor, bias: Tensor) -> Tensor:
    total = torch._int_mm(x, weight.t())
    return torch.relu(total.float() * x_scale[:, None] * weight_scale[None, :] + bias).to(torch.float16)


blockwise_inputs = tensors(
    "x: float8_e4m3fn[m,k]", "weight: float8_e4m3fn[n,k]", f"x_scale[m,k/{BLOCK}]",
    f"weight_scale[n/{BLOCK},k/{BLOCK}]", x_scale=uniform(0.5, 1.5), weight_scale=around(lambda p: p["k"] ** -0.5),
)  # fmt: skip


model_layer = functools.partial(
    ProblemDefinition, family="quantized_matmul", outputs=tensors("y: bfloat16[m,n]"), flops=product_flops,
    tiny=Size("tiny", sized(40, 48, 96)),
)  # fmt: skip

MODEL_LAYERS: tuple[ProblemDefinition, ...] = (
    model_layer(
        id="fp8_linear_rowwise", title="Linear layer with row-scaled float8 operands", reference=fp8_linear_rowwise,
        oracle=scaled_oracle,
        description="y = (x @ weight.T) * x_scale[:, None] * weight_scale[None, :], with float8_e4m3fn x and weight, "
            "fp32 accumulation and a bfloat16 result. On a GPU the reference is the vendor's own float8 product.",
        inputs=rowwise_inputs, tolerance=FP8_SUMS, compute_unit="fp8",
        sizes=(
            Size("llama3_8b_qkv", sized(4096, 6144, 4096), "Llama-3-8B query, key and value projections, 4096 tokens"),
            Size("llama3_8b_down", sized(4096, 4096, 14336), "Llama-3-8B MLP down projection, 4096 tokens"),
            Size("llama3_70b_out", sized(2048, 8192, 8192), "Llama-3-70B attention output projection, 2048 tokens"),
        ),
        cases=(large("x", "weight", factor=64.0), small("x", factor=2.0**-6), one_hot("x"), ZERO_SCALES),
    ),
    model_layer(
        id="fp8_linear_blockwise", title="Linear layer with block-scaled float8 operands",
        reference=fp8_linear_blockwise, oracle=_blockwise_oracle,
        description="y = X @ W.T in bfloat16, where X[i, j] = x[i, j] * x_scale[i, j // 128] and "
            "W[i, j] = weight[i, j] * weight_scale[i // 128, j // 128]; x and weight are float8_e4m3fn and the sums "
            "fp32.",
        inputs=blockwise_inputs, tolerance=FP8_SUMS, compute_unit="fp8",
        sizes=(
            Size("deepseek_v3_up", sized(2048, 4096, 7168), "DeepSeek-V3 shared expert gate and up, 2048 tokens"),
            Size("deepseek_v3_down", sized(4096, 7168, 2048), "DeepSeek-V3 shared expert down, 4096 tokens"),
            Size("deepseek_v3_q", sized(2048, 24576, 1536), "DeepSeek-V3 query up projection, 2048 tokens"),
        ),
        tiny=Size("tiny", sized(24, 128, 256)),
        cases=(large("x", "weight", factor=64.0), small("x", factor=2.0**-6), one_hot("x"), zero_rows("x_scale")),
    ),
    model_layer(
        id="int8_weight_linear", title="Linear layer of a decode batch with 8-bit weights",
        reference=int8_weight_linear,
        description="y = (x @ weight.T) * scale for bfloat16 x, int8 weight and one bfloat16 scale per output, summed "
            "in fp32. Reading the weight once is the work.",
        # 73 is the deviation of uniform bytes.
        inputs=tensors(
            "x: bfloat16[m,k]", "weight: int8[n,k]", "scale: bfloat16[n]", weight=integers(-127, 128),
            scale=around(lambda p: p["k"] ** -0.5 / 73),
        ),
        tolerance=BF16_EPILOGUE, compute_unit="bf16",
        sizes=(
            Size("llama3_8b_b16", sized(16, 14336, 4096), "Llama-3-8B MLP up projection, batch 16"),
            Size("llama2_13b_b32", sized(32, 13824, 5120), "Llama-2-13B MLP up projection, batch 32"),
            Size("llama3_70b_b64", sized(64, 8192, 8192), "Llama-3-70B attention output projection, batch 64"),
        ),
        tiny=Size("tiny", sized(6, 72, 160)),
        cases=(
            large("x", factor=1e5), EXTREME_WEIGHTS, one_hot("x"), outliers("x", atol_scale=20.0),
            zero_rows("scale", dims=()),
        ),
    ),
    model_layer(
        id="int8_linear_relu", title="8-bit integer linear layer with bias and ReLU", reference=int8_linear_relu,
        oracle=lambda x, weight, x_scale, weight_scale, bias: torch.relu(
            scaled_oracle(x, weight, x_scale, weight_scale) + bias.double()
        ),
        description="relu((x @ weight.T) * x_scale[:, None] * weight_scale[None, :] + bias), with int8 x and weight "
            "summed exactly in int32, fp32 scales and bias, and a float16 result.",
        inputs=tensors(
            "x: int8[m,k]", "weight: int8[n,k]", "x_scale[m]", "weight_scale bias[n]", x=integers(-127, 128),
            weight=integers(-127, 128), x_scale=uniform(0.5, 1.5),
            weight_scale=around(lambda p: p["k"] ** -0.5 / 73 ** 2), bias=normal(0.5),
        ),
        outputs=tensors("y: float16[m,n]"),
        tolerance=Tolerance(atol=1e-3, rtol=2e-3, reason="the sums are exact; one rounding to float16 is 5e-4"),
        compute_unit="int8",
        sizes=(
            Size("opt_6_7b", sized(2048, 16384, 4096), "OPT-6.7B MLP up projection by SmoothQuant, 2048 tokens"),
            Size("opt_13b", sized(2048, 20480, 5120), "OPT-13B MLP up projection by SmoothQuant, 2048 tokens"),
        ),
        cases=(EXTREME_BYTES, one_hot("x"), large("x_scale", factor=1e3), ZERO_SCALES),
    ),
)  # fmt: skip


CROWDED = InputCase(
    "crowded", "An expert with most of the rows finds grids made for even loads.", {"offsets": crowd_one}, strict=True
)
SORTED_ROWS = (
    "Rows of x are sorted by expert; offsets[g] (int32) is the end of expert g's rows and offsets[g-1] their start (0 "
    "for the first). Experts have uneven numbers of rows, or none."
)


def moe_swiglu_up(x: Tensor, weight: Tensor, offsets: Tensor) -> Tensor:
    gate, up = F.grouped_mm(x, weight, offs=offsets).chunk(2, dim=-1)
    return F.silu(gate) * up


def _swiglu_oracle(x: Tensor, weight: Tensor, offsets: Tensor) -> Tensor:
    gate, up = grouped_gemm_oracle(x, weight, offsets).chunk(2, dim=-1)
    return F.silu(gate) * up


def moe_weighted_down(x: Tensor, weight: Tensor, offsets: Tensor, row_weight: Tensor) -> Tensor:
    return F.grouped_mm(x, weight, offs=offsets) * row_weight[:, None]


def _inputs(columns: str) -> Specs:
    return tensors(
        "x: bfloat16[rows,k]", f"weight: bfloat16[experts,k,{columns}]", "offsets: int32[experts]", weight=rooted("k"),
        offsets=Sized(lambda p: lambda g, s, d: group_offsets(g, s, d, p["rows"])),
    )  # fmt: skip


_sized = parameters("rows experts n k")
expert_layer = functools.partial(
    ProblemDefinition, family="quantized_matmul", outputs=tensors("y: bfloat16[rows,n]"), tolerance=BF16_EPILOGUE,
    compute_unit="bf16", tiny=Size("tiny", _sized(88, 5, 40, 72)),
)  # fmt: skip

EXPERT_LAYERS: tuple[ProblemDefinition, ...] = (
    expert_layer(
        id="moe_swiglu_up", title="SwiGLU half of all experts", reference=moe_swiglu_up, oracle=_swiglu_oracle,
        description=f"{SORTED_ROWS} An expert's rows times its matrix weight[g] (k by 2n) give a gate (left half) and "
            "an input (right half) of n columns each; the result is silu(gate) * input, in bfloat16 with fp32 sums.",
        inputs=_inputs("2*n"), flops=lambda p: 4 * p["rows"] * p["n"] * p["k"],
        sizes=(
            Size("qwen3_30b", _sized(16384, 128, 768, 2048), "Qwen3-30B-A3B experts, 2048 tokens to 8 experts each"),
            Size("olmoe_1b_7b", _sized(32768, 64, 1024, 2048), "OLMoE-1B-7B experts, 4096 tokens to 8 experts each"),
            Size("deepseek_v2_lite", _sized(12288, 64, 1408, 2048), "DeepSeek-V2-Lite experts, 2048 tokens to 6 each"),
        ),
        cases=(
            large("x", factor=1e3, atol_scale=1e6), small("x", factor=1e-3, atol_scale=1e-6), one_hot("x"),
            EMPTY_GROUPS, CROWDED,
        ),
    ),
    expert_layer(
        id="moe_weighted_down", title="Down projection of all experts, weighted", reference=moe_weighted_down,
        oracle=lambda x, weight, offsets, row_weight: (
            grouped_gemm_oracle(x, weight, offsets) * row_weight.double()[:, None]
        ),
        description=f"{SORTED_ROWS} An expert's rows are multiplied by its matrix weight[g] (k by n), and each row by "
            "its bfloat16 row_weight; bfloat16 with fp32 sums.",
        inputs=tensors(_inputs("n"), "row_weight: bfloat16[rows]", row_weight=uniform(0.1, 1.0)),
        flops=lambda p: 2 * p["rows"] * p["n"] * p["k"],
        sizes=(
            Size("qwen3_30b", _sized(16384, 128, 2048, 768), "Qwen3-30B-A3B experts, 2048 tokens to 8 experts each"),
            Size("mixtral_8x7b", _sized(2048, 8, 4096, 14336), "Mixtral-8x7B experts, 1024 tokens to 2 experts each"),
        ),
        cases=(large("x", factor=1e5), small("x", factor=1e-6), one_hot("x"), EMPTY_GROUPS, CROWDED),
    ),
)  # fmt: skip
