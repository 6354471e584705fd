"""Products of block-scaled operands: float8 with scales of 128 × 128, mxfp8, mxfp4 and nvfp4."""

from __future__ import annotations

import dataclasses
import functools

from kbench.benchmark.problems.adversarial.cases import extremes, large, one_hot, outliers, zero_rows
from kbench.benchmark.problems.definition import ProblemDefinition, Size
from kbench.benchmark.problems.families.quantized_matmul import FP8_SUMS, blockwise_inputs
from kbench.benchmark.problems.families.shared import bf16, fp8, product_flops, sized, wide
from kbench.benchmark.problems.families.weight_quantised import NARROW_WEIGHTS, nibbles
from kbench.benchmark.problems.inputs import Fill, Sized, around, integers, tensors, uniform
from kbench.benchmark.problems.lazy_torch import F, Tensor, torch

BLOCK = 128
"""Elements along k, and rows of a weight, that share one float32 scale."""
MX, NV = 32, 16
"""Elements along k that share one scale in the mx formats and in nvfp4."""
FP4 = "4-bit floats (e2m1: one sign bit, then 0, 0.5, 1, 1.5, 2, 3, 4, 6), two a byte with the lower four bits first"
LAYER_CASES = (large("x", factor=16.0, atol_scale=16.0), outliers("x", factor=16.0, atol_scale=6.0), one_hot("x"))


def power_of_two(byte: Tensor, dtype: torch.dtype) -> Tensor:
    """The scale that a byte stands for in the mx formats: two to the byte less 127."""
    return torch.exp2(byte.to(dtype) - 127)


def fp4_numbers(packed: Tensor, dtype: torch.dtype) -> Tensor:
    """4-bit floats as numbers of a wider type."""
    code = nibbles(packed).to(torch.int32)
    exponent, mantissa = (code >> 1) & 3, code & 1
    quarters = torch.where(exponent == 0, 2 * mantissa, (2 + mantissa) << exponent)
    return (quarters * (1 - 2 * (code >> 3))).to(dtype) / 4


def scaled_blocks(x: Tensor, scale: Tensor, width: int) -> Tensor:
    """Each run of `width` neighbours times its scale."""
    return (x.view(*scale.shape, width) * scale.unsqueeze(-1)).view(x.shape)


def fp8_block_decode(x: Tensor, weight: Tensor, x_scale: Tensor, weight_scale: Tensor) -> Tensor:
    scales = weight_scale.repeat_interleave(128, dim=0)
    return F.linear(bf16(scaled_blocks(wide(x), x_scale, 128)), bf16(scaled_blocks(wide(weight), scales, 128)))


def fp8_quantise_linear(x: Tensor, weight: Tensor, weight_scale: Tensor) -> Tensor:
    groups = wide(x).view(x.shape[0], -1, 128)
    x_scale = groups.abs().amax(-1).clamp(min=1e-10) / 448.0
    rounded = wide(fp8(groups / x_scale.unsqueeze(-1))).view(x.shape)
    scales = weight_scale.repeat_interleave(128, dim=0)
    return F.linear(bf16(scaled_blocks(rounded, x_scale, 128)), bf16(scaled_blocks(wide(weight), scales, 128)))


def _quantised_oracle(x: Tensor, weight: Tensor, weight_scale: Tensor) -> Tensor:
    # In float32, as stated: a quotient between two float8 numbers may be rounded to the other one in float64.
    groups = x.float().view(x.shape[0], -1, 128)
    x_scale = groups.abs().amax(-1).clamp(min=1e-10) / 448.0
    rounded = fp8(groups / x_scale.unsqueeze(-1)).double().view(x.shape)
    scales = weight_scale.double().repeat_interleave(128, dim=0)
    return F.linear(scaled_blocks(rounded, x_scale.double(), 128), scaled_blocks(weight.double(), scales, 128))


def mxfp8_linear(x: Tensor, weight: Tensor, x_scale: Tensor, weight_scale: Tensor) -> Tensor:
    left = scaled_blocks(wide(x), power_of_two(x_scale, wide(x).dtype), 32)
    right = scaled_blocks(wide(weight), power_of_two(weight_scale, wide(x).dtype), 32)
    return F.linear(bf16(left), bf16(right))


def mxfp4_linear_bias(x: Tensor, packed: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    weight = scaled_blocks(fp4_numbers(packed, x.dtype), power_of_two(scale, x.dtype), 32)
    return F.linear(x, weight, bias)


def nvfp4_weight_linear(x: Tensor, packed: Tensor, scale: Tensor, overall: Tensor) -> Tensor:
    weight = scaled_blocks(fp4_numbers(packed, x.dtype), scale.to(x.dtype), 16)
    return bf16(wide(F.linear(x, weight)) * overall)


def nvfp4_linear(x: Tensor, packed: Tensor, x_scale: Tensor, scale: Tensor, overall: Tensor) -> Tensor:
    kind = torch.float64 if overall.dtype is torch.float64 else torch.bfloat16
    left = scaled_blocks(fp4_numbers(x, kind), x_scale.to(kind), 16)
    right = scaled_blocks(fp4_numbers(packed, kind), scale.to(kind), 16)
    return bf16(wide(F.linear(left, right)) * overall)


def scale_bytes(k: int, size: float = 1.0) -> Fill:
    """Bytes of scales that give sums of k products of numbers of this size about unit variance."""
    middle = 127 - round(0.5 * (k.bit_length() - 1)) - round(size)
    return integers(middle - 1, middle + 2)


problem = functools.partial(
    ProblemDefinition, family="block_scaled", outputs=tensors("y: bfloat16[m,n]"), flops=product_flops,
    tolerance=NARROW_WEIGHTS, compute_unit="bf16", tiny=Size("tiny", sized(9, 128, 256)),
)  # fmt: skip

PROBLEMS: tuple[ProblemDefinition, ...] = (
    problem(
        id="fp8_block_decode", title="Block-scaled float8 linear layer of a decode batch", reference=fp8_block_decode,
        description="y = X @ W.T in bfloat16, where X[i, j] = x[i, j] * x_scale[i, j // 128] and W[i, j] = weight[i, "
            "j] * weight_scale[i // 128, j // 128]; x and weight are float8_e4m3fn and the sums fp32. Few rows of x: "
            "reading the weight once is most of the work.",
        inputs=blockwise_inputs, tolerance=FP8_SUMS, compute_unit="fp8",
        sizes=(
            Size("deepseek_v3_out_m16", sized(16, 7168, 16384), "DeepSeek-V3 attention output projection, 16 tokens"),
            Size("deepseek_v3_up_m64", sized(64, 36864, 7168), "DeepSeek-V3 dense MLP gate and up, 64 tokens"),
            Size("deepseek_v3_down_m128", sized(128, 7168, 18432), "DeepSeek-V3 dense MLP down, 128 tokens"),
        ),
        cases=(*LAYER_CASES, large("x_scale", factor=8.0, atol_scale=8.0, case="large_scales")),
    ),
    problem(
        id="fp8_quantise_linear", title="Linear layer that rounds its input to block-scaled float8",
        reference=fp8_quantise_linear, oracle=_quantised_oracle,
        description="Every 128 neighbours of a row of bfloat16 x are divided by their scale, the largest magnitude (at "
            "least 1e-10) over 448, and rounded to float8_e4m3fn. The product of these, times their scales, with W[i, "
            "j] = weight[i, j] * weight_scale[i // 128, j // 128] (float8_e4m3fn and float32) is the bfloat16 result.",
        inputs=tensors(
            "x: bfloat16[m,k]", "weight: float8_e4m3fn[n,k]", f"weight_scale[n/{BLOCK},k/{BLOCK}]",
            weight_scale=around(lambda p: p["k"] ** -0.5),
        ),
        tolerance=dataclasses.replace(FP8_SUMS, mismatch_share=1e-5), compute_unit="fp8",
        sizes=(
            Size("deepseek_v3_up_m64", sized(64, 36864, 7168), "DeepSeek-V3 dense MLP gate and up, 64 tokens"),
            Size("deepseek_v3_q_m2048", sized(2048, 24576, 1536), "DeepSeek-V3 query up projection, 2048 tokens"),
            Size("qwen3_32b_m512", sized(512, 51200, 5120), "Qwen3-32B-FP8 MLP gate and up, 512 tokens"),
        ),
        cases=(*LAYER_CASES, large("weight_scale", factor=8.0, atol_scale=8.0, case="large_scales")),
    ),
    problem(
        id="mxfp8_linear", title="Linear layer with mxfp8 operands", reference=mxfp8_linear,
        description="y = X @ W.T in bfloat16 with fp32 sums, where each 32 neighbours along k of x and of weight "
            "(float8_e4m3fn) share a scale byte s that stands for 2 ** (s - 127).",
        inputs=tensors(
            "x: float8_e4m3fn[m,k]", "weight: float8_e4m3fn[n,k]", f"x_scale: uint8[m,k/{MX}]",
            f"weight_scale: uint8[n,k/{MX}]", x_scale=integers(126, 129),
            weight_scale=Sized(lambda p: scale_bytes(p["k"])),
        ),
        tolerance=FP8_SUMS, compute_unit="fp8",
        sizes=(
            Size("llama3_8b_m4096", sized(4096, 28672, 4096), "Llama-3-8B MLP gate and up projections, 4096 tokens"),
            Size("llama3_70b_m64", sized(64, 57344, 8192), "Llama-3-70B MLP gate and up projections, 64 tokens"),
            Size("qwen3_32b_m1024", sized(1024, 5120, 25600), "Qwen3-32B MLP down projection, 1024 tokens"),
        ),
        cases=(*LAYER_CASES, extremes("x_scale", values=(118, 132), atol_scale=32.0)),
    ),
    problem(
        id="mxfp4_linear_bias", title="Linear layer with mxfp4 weights and bias", reference=mxfp4_linear_bias,
        description=f"y = x @ W.T + bias in bfloat16 with fp32 sums. Weights are {FP4}; 32 neighbours along k share a "
            "scale byte s that stands for 2 ** (s - 127).",
        inputs=tensors(
            "x: bfloat16[m,k]", "packed: uint8[n,k/2]", f"scale: uint8[n,k/{MX}]", "bias: bfloat16[n]",
            packed=integers(0, 256), scale=Sized(lambda p: scale_bytes(p["k"], 2.0)),
        ),
        sizes=(
            Size("llama3_70b_m1", sized(1, 57344, 8192), "Llama-3-70B MLP gate and up projections, one token"),
            Size("qwen3_32b_m32", sized(32, 51200, 5120), "Qwen3-32B MLP gate and up projections, 32 tokens"),
            Size("llama3_8b_m256", sized(256, 28672, 4096), "Llama-3-8B MLP gate and up projections, 256 tokens"),
        ),
        cases=(*LAYER_CASES, extremes("packed", values=(0x77, 0xFF, 0x80, 0x08), atol_scale=2.0)),
    ),
    problem(
        id="nvfp4_weight_linear", title="Linear layer with nvfp4 weights", reference=nvfp4_weight_linear,
        description=f"y = (x @ W.T) * overall in bfloat16 with fp32 sums. Weights are {FP4}; 16 neighbours along k "
            "share a float8_e4m3fn scale, and overall is one float32 number.",
        inputs=tensors(
            "x: bfloat16[m,k]", "packed: uint8[n,k/2]", f"scale: float8_e4m3fn[n,k/{NV}]", "overall[1]",
            packed=integers(0, 256), scale=uniform(0.5, 1.5), overall=around(lambda p: p["k"] ** -0.5 / 3, 0.8, 1.2),
        ),
        sizes=(
            Size("llama3_70b_m4", sized(4, 57344, 8192), "Llama-3-70B MLP gate and up projections, 4 tokens"),
            Size("llama3_70b_m64", sized(64, 10240, 8192), "Llama-3-70B query, key and value projections, 64 tokens"),
            Size("qwen3_32b_m256", sized(256, 51200, 5120), "Qwen3-32B MLP gate and up projections, 256 tokens"),
        ),
        cases=(
            *LAYER_CASES, extremes("packed", values=(0x77, 0xFF, 0x80, 0x08), atol_scale=2.0), zero_rows("scale"),
        ),
    ),
    problem(
        id="nvfp4_linear", title="Linear layer with nvfp4 operands", reference=nvfp4_linear,
        description=f"y = (X @ W.T) * overall in bfloat16 with fp32 sums. x and packed hold {FP4}; 16 neighbours along "
            "k share a float8_e4m3fn scale (x_scale, scale), and overall is one float32 number.",
        inputs=tensors(
            "x: uint8[m,k/2]", "packed: uint8[n,k/2]", f"x_scale: float8_e4m3fn[m,k/{NV}]",
            f"scale: float8_e4m3fn[n,k/{NV}]", "overall[1]", x=integers(0, 256), packed=integers(0, 256),
            x_scale=uniform(0.5, 1.5), scale=uniform(0.5, 1.5), overall=around(lambda p: p["k"] ** -0.5 / 9, 0.8, 1.2),
        ),
        sizes=(
            Size("llama3_8b_m2048", sized(2048, 28672, 4096), "Llama-3-8B MLP gate and up projections, 2048 tokens"),
            Size("llama3_70b_m128", sized(128, 57344, 8192), "Llama-3-70B MLP gate and up projections, 128 tokens"),
            Size("qwen3_32b_m512", sized(512, 5120, 25600), "Qwen3-32B MLP down projection, 512 tokens"),
        ),
        cases=(
            extremes("x", "packed", values=(0x77, 0xFF, 0x80, 0x08), atol_scale=4.0),
            large("x_scale", factor=16.0, atol_scale=16.0), zero_rows("scale"),
        ),
    ),
)  # fmt: skip
