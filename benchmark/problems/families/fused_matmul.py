"""Linear layers with an epilogue, in float32 and at the sizes of named models in 16 bits: what a compiler would fuse.

Weights are stored as torch.nn.Linear stores them (outputs by inputs). Weight scales give pre-activations of a chosen
standard deviation whatever the inner dimension, so that every branch of an activation is exercised.
"""

from __future__ import annotations

import functools
import math

from kbench.benchmark.problems.adversarial.cases import large, one_hot, outliers, shifted, small, zero_rows
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.families.matmul import BF16_PRODUCT, FP32_UNIT, product_cases
from kbench.benchmark.problems.families.shared import product_flops, sized
from kbench.benchmark.problems.inputs import Sized, Specs, normal, rooted, tensors
from kbench.benchmark.problems.lazy_torch import F, Tensor, torch

BEYOND_FP16 = large("x", factor=1e5)
LINEAR_CASES = (BEYOND_FP16, one_hot("x"), outliers("x", atol_scale=20.0), zero_rows("x"))
# bfloat16 rounds a logit near 120 by a quarter, and so an output by the factor 1.65; a missing maximum gives NaN.
SHIFTED_LOGITS = shifted("bias", by=96.0, rtol_scale=20.0)

FP32_EPILOGUE = Tolerance(
    atol=2e-4,
    rtol=1e-4,
    reason="fp32 sums of 8192 products of unit scale err by about 2e-6 in any order; tf32 or fp16 operands err by 3e-4 "
    "times the pre-activation's scale of two and more, with maxima near 3e-3, and are meant to fail",
)
BF16_EPILOGUE = Tolerance(
    atol=2e-2,
    rtol=2e-2,
    reason="bfloat16 rounds by 2e-3 relative; an unfused chain rounds after each of up to four steps",
)
FP16_EPILOGUE = Tolerance(
    atol=4e-3, rtol=4e-3, reason="float16 rounds by 5e-4 relative; an unfused chain rounds after each of a few steps"
)


def linear_subtract_multiply_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """relu((x Wᵀ + b − 2) · 1.5)."""
    return torch.relu((F.linear(x, weight, bias) - 2.0) * 1.5)


def linear_multiply_leaky_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """leaky_relu(2 · (x Wᵀ + b), slope 0.1)."""
    return F.leaky_relu(F.linear(x, weight, bias) * 2.0, negative_slope=0.1)


def linear_mish_mish(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """mish(mish(x Wᵀ + b))."""
    return F.mish(F.mish(F.linear(x, weight, bias)))


def linear_swish_sum_group_norm(
    x: Tensor, weight: Tensor, bias: Tensor, added: Tensor, gamma: Tensor, beta: Tensor
) -> Tensor:
    """Group norm over groups of 32 features of silu(x Wᵀ + b) + added."""
    return F.group_norm(F.silu(F.linear(x, weight, bias)) + added, weight.shape[0] // 32, gamma, beta, eps=1e-5)


def linear_sigmoid_sum(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Sum over features of sigmoid(x Wᵀ + b), one number a row."""
    return torch.sigmoid(F.linear(x, weight, bias)).sum(dim=1, keepdim=True)


def linear_logsumexp_leaky_gelu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """gelu(gelu(leaky(leaky(logsumexp over features of x Wᵀ + b)))), slope 0.01, one number a row."""
    row = torch.logsumexp(F.linear(x, weight, bias), dim=1, keepdim=True)
    leaky = F.leaky_relu(F.leaky_relu(row, negative_slope=0.01), negative_slope=0.01)
    return F.gelu(F.gelu(leaky))


def linear_add_relu(x: Tensor, weight: Tensor, added: Tensor) -> Tensor:
    """relu(x Wᵀ + added), the layer itself without a bias."""
    return torch.relu(F.linear(x, weight) + added)


def linear_divide_gelu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """gelu((x Wᵀ + b) / 10), the exact (erf) form."""
    return F.gelu(F.linear(x, weight, bias) / 10.0)


def linear_gelu_softmax(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Softmax over features of gelu(x Wᵀ + b), the exact (erf) form."""
    return F.softmax(F.gelu(F.linear(x, weight, bias)), dim=1)


def _layer(dtype: str, scale: float, bias: str = "bias", biases: Sized | None = None) -> Specs:
    """Inputs of a linear layer whose pre-activations have the given standard deviation."""
    drawn = {"weight": rooted("k", scale), bias: biases or normal(0.5)}
    return tensors(f"x: {dtype}[m,k]", f"weight: {dtype}[n,k]", f"{bias}: {dtype}[n]", **drawn)


# The expected maximum of n Gaussians of deviation 3 is subtracted, so that results fall on both sides of zero, where
# the activations bend.
_below_maximum = Sized(lambda p: normal(0.5, 1.5 - 3.0 * math.sqrt(2.0 * math.log(p["n"]))))


_WIDTH_NOTE = " The input has KernelBench's shape; the output width is our own choice."


problem = functools.partial(ProblemDefinition, family="fused_matmul", flops=product_flops)

PROBLEMS: tuple[ProblemDefinition, ...] = (
    problem(
        id="linear_subtract_multiply_relu", title="Linear, subtract, multiply, ReLU",
        reference=linear_subtract_multiply_relu,
        description="y = relu((x @ weight.T + bias - 2) * 1.5) in fp32." + _WIDTH_NOTE,
        inputs=_layer("float32", 3.0), outputs=tensors("y[m,n]"),
        sizes=(Size("kb_v01_input", sized(1024, 1024, 8192)),), tiny=Size("tiny", sized(40, 72, 80)),
        tolerance=FP32_EPILOGUE, compute_unit=FP32_UNIT, aliases=("kernelbench/v0.1/L2/9",),
        cases=(BEYOND_FP16, outliers("x", atol_scale=20.0), zero_rows("x")),
    ),
    problem(
        id="linear_multiply_leaky_relu", title="Linear, multiply, leaky ReLU", reference=linear_multiply_leaky_relu,
        description="y = leaky_relu((x @ weight.T + bias) * 2, slope 0.1) in bfloat16." + _WIDTH_NOTE,
        inputs=_layer("bfloat16", 1.0), outputs=tensors("y: bfloat16[m,n]"),
        sizes=(Size("kb_v01_input", sized(1024, 4096, 8192)),), tiny=Size("tiny", sized(40, 72, 96)),
        tolerance=BF16_EPILOGUE, compute_unit="bf16", aliases=("kernelbench/v0.1/L2/12",), cases=LINEAR_CASES,
    ),
    problem(
        id="linear_mish_mish", title="Linear, Mish, Mish", reference=linear_mish_mish,
        description="y = mish(mish(x @ weight.T + bias)) in fp32, mish(v) = v tanh(log(1 + exp(v)))." + _WIDTH_NOTE,
        inputs=_layer("float32", 3.0), outputs=tensors("y[m,n]"),
        sizes=(Size("kb_v01_input", sized(1024, 1024, 8192)),), tiny=Size("tiny", sized(40, 56, 80)),
        tolerance=FP32_EPILOGUE, compute_unit=FP32_UNIT, aliases=("kernelbench/v0.1/L2/29",), cases=LINEAR_CASES,
    ),
    problem(
        id="linear_swish_sum_group_norm", title="Linear, Swish, bias, group norm",
        reference=linear_swish_sum_group_norm,
        description="v = silu(x @ weight.T + bias) + added; each row's features are normalised in groups of 32 "
            "(population variance, eps 1e-5) and then scaled by gamma and shifted by beta; bfloat16." + _WIDTH_NOTE,
        inputs=tensors(
            _layer("bfloat16", 1.0), "added gamma beta: bfloat16[n]", gamma=normal(0.3, 1.0), beta=normal(0.5),
        ),
        outputs=tensors("y: bfloat16[m,n]"),
        sizes=(Size("kb_v01_input", sized(32768, 1024, 1024)),), tiny=Size("tiny", sized(40, 96, 80)),
        tolerance=Tolerance(
            atol=4e-2, rtol=2e-2,
            reason="bfloat16 rounds by 2e-3 relative after each unfused step, and dividing by a group's deviation of "
            "about one half doubles it",
        ),
        compute_unit="bf16", aliases=("kernelbench/v0.1/L2/37",),
        cases=(
            large("x", factor=100.0, atol_scale=1.0), one_hot("x"), zero_rows("x"),
            outliers("x", factor=100.0, atol_scale=2.0),
        ),
    ),
    problem(
        id="linear_sigmoid_sum", title="Linear, sigmoid, sum over features", reference=linear_sigmoid_sum,
        description="y[i] = sum over j of sigmoid(x[i] . weight[j] + bias[j]) in fp32, one number a row." + _WIDTH_NOTE,
        inputs=_layer("float32", 2.0), outputs=tensors("y[m,1]"),
        sizes=(Size("kb_v01_input", sized(128, 512, 32768)),), tiny=Size("tiny", sized(24, 40, 160)),
        tolerance=Tolerance(
            atol=4e-4, rtol=2e-6,
            reason="a sum of n sigmoids near n/2 rounds by a few eps; fp32 products add 1e-5·sqrt(n)/5; tf32 operands "
            "would err by 1e-3 and more",
        ),
        compute_unit=FP32_UNIT, aliases=("kernelbench/v0.1/L2/56",),
        cases=(large("x", factor=50.0, atol_scale=10.0), one_hot("x"), zero_rows("x")),
    ),
    problem(
        id="linear_logsumexp_leaky_gelu", title="Linear, log-sum-exp, leaky ReLU twice, GELU twice",
        reference=linear_logsumexp_leaky_gelu,
        description="v = logsumexp over features of x @ weight.T + bias; y = gelu(gelu(leaky_relu(leaky_relu(v)))) "
            "with slope 0.01 and the exact GELU; float16, one number a row." + _WIDTH_NOTE,
        inputs=_layer("float16", 3.0, biases=_below_maximum), outputs=tensors("y: float16[m,1]"),
        sizes=(Size("kb_v01_input", sized(1024, 2048, 8192)),), tiny=Size("tiny", sized(40, 72, 80)),
        tolerance=FP16_EPILOGUE, compute_unit="fp16", aliases=("kernelbench/v0.1/L2/64",),
        cases=(large("x", factor=30.0), shifted("bias", by=200.0), zero_rows("x")),
    ),
    problem(
        id="linear_add_relu", title="Linear, add, ReLU", reference=linear_add_relu,
        description="y = relu(x @ weight.T + added) in fp32." + _WIDTH_NOTE,
        inputs=_layer("float32", 2.0, "added"), outputs=tensors("y[m,n]"),
        sizes=(Size("kb_v01_input", sized(1024, 1024, 8192)),), tiny=Size("tiny", sized(56, 40, 80)),
        tolerance=FP32_EPILOGUE, compute_unit=FP32_UNIT, aliases=("kernelbench/v0.1/L2/76",), cases=LINEAR_CASES,
    ),
    problem(
        id="linear_divide_gelu", title="Linear, divide, GELU", reference=linear_divide_gelu,
        description="y = gelu((x @ weight.T + bias) / 10) in float16, the exact (erf) GELU." + _WIDTH_NOTE,
        inputs=_layer("float16", 10.0), outputs=tensors("y: float16[m,n]"),
        sizes=(Size("kb_v01_input", sized(1024, 4096, 8192)),), tiny=Size("tiny", sized(40, 72, 96)),
        tolerance=FP16_EPILOGUE, compute_unit="fp16", aliases=("kernelbench/v0.1/L2/86",),
        cases=(large("x", factor=100.0), one_hot("x"), zero_rows("x"), outliers("x", factor=100.0)),
    ),
    problem(
        id="linear_gelu_softmax", title="Linear, GELU, softmax", reference=linear_gelu_softmax,
        description="y = softmax over features of gelu(x @ weight.T + bias) in bfloat16, the exact (erf) "
            "GELU." + _WIDTH_NOTE,
        inputs=_layer("bfloat16", 1.0), outputs=tensors("y: bfloat16[m,n]"),
        sizes=(Size("kb_v01_input", sized(1024, 4096, 8192)),), tiny=Size("tiny", sized(40, 72, 96)),
        tolerance=Tolerance(
            atol=1e-6, rtol=4e-2,
            reason="an error of a logit becomes a relative error of the output: bfloat16 rounds logits below 5 by "
            "8e-3, twice in an unfused chain, and the output by 2e-3",
        ),
        compute_unit="bf16", aliases=("kernelbench/v0.1/L2/99",), cases=(SHIFTED_LOGITS, one_hot("x"), zero_rows("x")),
    ),
)  # fmt: skip


UNEVEN = (one_hot("x"), outliers("x", atol_scale=20.0), zero_rows("x"))


def linear_gelu_fp16(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.gelu(F.linear(x, weight, bias))


def linear_residual_bf16(x: Tensor, weight: Tensor, residual: Tensor) -> Tensor:
    return F.linear(x, weight) + residual


def linear_decode_bf16(x: Tensor, weight: Tensor) -> Tensor:
    return F.linear(x, weight)


def swiglu_up_bf16(x: Tensor, gate_weight: Tensor, up_weight: Tensor) -> Tensor:
    return F.silu(F.linear(x, gate_weight)) * F.linear(x, up_weight)


def qkv_projection_bf16(
    x: Tensor, q_weight: Tensor, k_weight: Tensor, v_weight: Tensor, q_bias: Tensor, k_bias: Tensor, v_bias: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    return F.linear(x, q_weight, q_bias), F.linear(x, k_weight, k_bias), F.linear(x, v_weight, v_bias)


def lm_head_softcap_bf16(x: Tensor, weight: Tensor) -> Tensor:
    return 30.0 * torch.tanh(F.linear(x, weight) / 30.0)


def _linear(*weights: str, scale: float = 1.0) -> Specs:
    """An input of m rows and weights whose products with it have the given deviation."""
    drawn = dict.fromkeys(weights, rooted("k", scale))
    return tensors("x: bfloat16[m,k]", f"{' '.join(weights)}: bfloat16[n,k]", **drawn)


def _qkv(m: int, hidden: int, kv_width: int) -> dict[str, int]:
    return {"m": m, "k": hidden, "q_width": hidden, "kv_width": kv_width}


model_layer = functools.partial(
    ProblemDefinition, family="fused_matmul", outputs=tensors("y: bfloat16[m,n]"), flops=product_flops,
    tiny=Size("tiny", sized(40, 56, 96)), tolerance=BF16_EPILOGUE, compute_unit="bf16",
    cases=(large("x", factor=1e5), *UNEVEN),
)  # fmt: skip

MODEL_LAYERS: tuple[ProblemDefinition, ...] = (
    model_layer(
        id="linear_gelu_fp16", title="Linear layer, bias and GELU in float16", reference=linear_gelu_fp16,
        description="First half of a transformer encoder's MLP in float16: gelu(x @ weight.T + bias), the exact (erf) "
            "form, accumulated in fp32.",
        inputs=tensors(
            "x: float16[m,k]", "weight: float16[n,k]", "bias: float16[n]", weight=rooted("k", 2.0), bias=normal(0.5),
        ),
        outputs=tensors("y: float16[m,n]"),
        sizes=(
            Size("bert_large", sized(8192, 4096, 1024), "BERT-large MLP up projection, 16 sequences of 512"),
            Size("vit_l16", sized(12608, 4096, 1024), "ViT-L/16 MLP up projection, 64 images of 197 tokens"),
            Size("whisper_large", sized(6000, 5120, 1280), "Whisper-large-v3 encoder MLP, 4 windows of 1500 frames"),
        ),
        tolerance=FP16_EPILOGUE, compute_unit="fp16", cases=(large("x", factor=1e3), *UNEVEN),
    ),
    model_layer(
        id="linear_residual_bf16", title="Linear layer and residual add in bfloat16", reference=linear_residual_bf16,
        description="Second half of a gated MLP in bfloat16: x @ weight.T accumulated in fp32, plus the residual "
            "stream.",
        inputs=tensors(_linear("weight"), "residual: bfloat16[m,n]"),
        sizes=(
            Size("llama3_8b", sized(4096, 4096, 14336), "Llama-3-8B MLP down projection, 4096 tokens"),
            Size("qwen25_7b", sized(2048, 3584, 18944), "Qwen2.5-7B MLP down projection, 2048 tokens"),
            Size("llama32_1b", sized(8192, 2048, 8192), "Llama-3.2-1B MLP down projection, 8192 tokens"),
        ),
    ),
    model_layer(
        id="linear_decode_bf16", title="Linear layer of a decode batch in bfloat16", reference=linear_decode_bf16,
        description="y = x @ weight.T in bfloat16 for a few rows against a large weight: reading the weight once is "
            "the work.",
        inputs=_linear("weight"),
        sizes=(
            Size("llama3_8b_b16", sized(16, 14336, 4096), "Llama-3-8B MLP up projection, batch 16"),
            Size("llama3_70b_b64", sized(64, 8192, 8192), "Llama-3-70B attention output projection, batch 64"),
            Size("qwen25_32b_b1", sized(1, 27648, 5120), "Qwen2.5-32B MLP up projection, batch 1"),
        ),
        tiny=Size("tiny", sized(5, 72, 160)), tolerance=BF16_PRODUCT, cases=product_cases("x"),
    ),
    model_layer(
        id="swiglu_up_bf16", title="SwiGLU half of a gated MLP in bfloat16", reference=swiglu_up_bf16,
        description="silu(x @ gate_weight.T) * (x @ up_weight.T) in bfloat16, both products accumulated in fp32.",
        inputs=_linear("gate_weight", "up_weight", scale=1.5), flops=lambda p: 2 * product_flops(p),
        sizes=(
            Size("llama3_8b", sized(2048, 14336, 4096), "Llama-3-8B MLP gate and up projections, 2048 tokens"),
            Size("qwen25_7b", sized(1024, 18944, 3584), "Qwen2.5-7B MLP gate and up projections, 1024 tokens"),
            Size("llama32_1b", sized(4096, 8192, 2048), "Llama-3.2-1B MLP gate and up projections, 4096 tokens"),
        ),
        cases=(large("x", factor=1e3, atol_scale=1e6), small("x", factor=1e-3, atol_scale=1e-6), *UNEVEN[:1],
               zero_rows("x")),
    ),
    model_layer(
        id="qkv_projection_bf16", title="Query, key and value projections in bfloat16", reference=qkv_projection_bf16,
        description="Three linear layers with bias of one bfloat16 input, accumulated in fp32: the queries, and the "
            "narrower keys and values of grouped-query attention, as three outputs.",
        inputs=tensors(
            "x: bfloat16[m,k]", "q_weight: bfloat16[q_width,k]", "k_weight v_weight: bfloat16[kv_width,k]",
            "q_bias: bfloat16[q_width]", "k_bias v_bias: bfloat16[kv_width]", q_weight=rooted("k"),
            k_weight=rooted("k"), v_weight=rooted("k"),
        ),
        outputs=tensors("q: bfloat16[m,q_width]", "k: bfloat16[m,kv_width]", "v: bfloat16[m,kv_width]"),
        flops=lambda p: 2 * p["m"] * p["k"] * (p["q_width"] + 2 * p["kv_width"]),
        sizes=(
            Size("qwen25_7b", _qkv(4096, 3584, 512), "Qwen2.5-7B attention input projections, 4096 tokens"),
            Size("qwen25_1_5b", _qkv(8192, 1536, 256), "Qwen2.5-1.5B attention input projections, 8192 tokens"),
            Size("qwen25_32b", _qkv(2048, 5120, 1024), "Qwen2.5-32B attention input projections, 2048 tokens"),
        ),
        tiny=Size("tiny", {"m": 40, "k": 96, "q_width": 64, "kv_width": 24}),
    ),
    model_layer(
        id="lm_head_softcap_bf16", title="Logits of a decode batch with a soft cap", reference=lm_head_softcap_bf16,
        description="30 * tanh((x @ weight.T) / 30) in bfloat16 for a few rows against a whole vocabulary, summed in "
            "fp32.",
        inputs=_linear("weight", scale=20.0),
        sizes=(
            Size("gemma2_2b_b16", sized(16, 256000, 2304), "Gemma-2-2B output logits, batch 16"),
            Size("gemma2_2b_b128", sized(128, 256000, 2304), "Gemma-2-2B output logits, batch 128"),
        ),
        tiny=Size("tiny", sized(6, 136, 96)),
        cases=(large("x", factor=50.0, atol_scale=1.0), small("x", factor=1e-3), *UNEVEN[:1], zero_rows("x")),
    ),
)  # fmt: skip
