"""Linear layers of named models with 8-bit operands: scales by row, by block and by output."""

from __future__ import annotations

import functools

from kbench.benchmark.problems.adversarial.cases import extremes, large, one_hot, outliers, small, zero_rows
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.families.fused_matmul import BF16_EPILOGUE
from kbench.benchmark.problems.families.quantized_matmul import EXTREME_BYTES, rowwise_inputs, scaled_oracle
from kbench.benchmark.problems.families.shared import product_flops, sized
from kbench.benchmark.problems.inputs import around, integers, normal, tensors, uniform
from kbench.benchmark.problems.lazy_torch import F, Tensor, torch

BLOCK = 128
"""Elements along k, and rows of a weight, that share one scale."""

FP8_SUMS = Tolerance(
    atol=4e-2,
    rtol=2e-2,
    reason="two roundings to bfloat16 are 4e-3 relative; float8 tensor cores keep about 14 bits of each partial sum, "
    "which over thousands of products is up to 2e-2 of the output's scale",
)
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


# 73 is the deviation of uniform bytes.
_weight_only_inputs = tensors(
    "x: bfloat16[m,k]", "weight: int8[n,k]", "scale: bfloat16[n]", weight=integers(-127, 128),
    scale=around(lambda p: p["k"] ** -0.5 / 73),
)  # fmt: skip


_int8_relu_inputs = tensors(
    "x: int8[m,k]", "weight: int8[n,k]", "x_scale[m]", "weight_scale bias[n]", x=integers(-127, 128),
    weight=integers(-127, 128), x_scale=uniform(0.5, 1.5), weight_scale=around(lambda p: p["k"] ** -0.5 / 73 ** 2),
    bias=normal(0.5),
)  # fmt: skip


problem = functools.partial(
    ProblemDefinition, family="quantized_matmul", outputs=tensors("y: bfloat16[m,n]"), flops=product_flops,
    tiny=Size("tiny", sized(40, 48, 96)),
)  # fmt: skip

PROBLEMS: tuple[ProblemDefinition, ...] = (
    problem(
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
    problem(
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
    problem(
        id="int8_weight_linear", title="Linear layer of a decode batch with 8-bit weights",
        reference=int8_weight_linear,
        description="y = (x @ weight.T) * scale for bfloat16 x, int8 weight and one bfloat16 scale per output, summed "
            "in fp32. Reading the weight once is the work.",
        inputs=_weight_only_inputs, tolerance=BF16_EPILOGUE, compute_unit="bf16",
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
    problem(
        id="int8_linear_relu", title="8-bit integer linear layer with bias and ReLU", reference=int8_linear_relu,
        oracle=lambda x, weight, x_scale, weight_scale, bias: torch.relu(
            scaled_oracle(x, weight, x_scale, weight_scale) + bias.double()
        ),
        description="relu((x @ weight.T) * x_scale[:, None] * weight_scale[None, :] + bias), with int8 x and weight "
            "summed exactly in int32, fp32 scales and bias, and a float16 result.",
        inputs=_int8_relu_inputs, outputs=tensors("y: float16[m,n]"),
        tolerance=Tolerance(atol=1e-3, rtol=2e-3, reason="the sums are exact; one rounding to float16 is 5e-4"),
        compute_unit="int8",
        sizes=(
            Size("opt_6_7b", sized(2048, 16384, 4096), "OPT-6.7B MLP up projection by SmoothQuant, 2048 tokens"),
            Size("opt_13b", sized(2048, 20480, 5120), "OPT-13B MLP up projection by SmoothQuant, 2048 tokens"),
        ),
        cases=(EXTREME_BYTES, one_hot("x"), large("x_scale", factor=1e3), ZERO_SCALES),
    ),
)  # fmt: skip
