"""Linear layers of named models in 16 bits, with the steps around them that a compiler would fuse.

Weights are stored as torch.nn.Linear stores them (outputs by inputs). Their scale gives sums of a chosen deviation
whatever the inner dimension.
"""

from __future__ import annotations

import functools

from kbench.benchmark.problems.adversarial.cases import large, one_hot, outliers, small, zero_rows
from kbench.benchmark.problems.definition import ProblemDefinition, Size
from kbench.benchmark.problems.families.fused_matmul import BF16_EPILOGUE, FP16_EPILOGUE
from kbench.benchmark.problems.families.matmul import BF16_PRODUCT, product_cases
from kbench.benchmark.problems.families.shared import product_flops, sized
from kbench.benchmark.problems.inputs import Specs, normal, rooted, tensors
from kbench.benchmark.problems.lazy_torch import F, Tensor, torch

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


_qkv_inputs = tensors(
    "x: bfloat16[m,k]", "q_weight: bfloat16[q_width,k]", "k_weight v_weight: bfloat16[kv_width,k]",
    "q_bias: bfloat16[q_width]", "k_bias v_bias: bfloat16[kv_width]", q_weight=rooted("k"), k_weight=rooted("k"),
    v_weight=rooted("k"),
)  # fmt: skip


def _qkv(m: int, hidden: int, kv_width: int) -> dict[str, int]:
    return {"m": m, "k": hidden, "q_width": hidden, "kv_width": kv_width}


problem = functools.partial(
    ProblemDefinition, family="fused_matmul", outputs=tensors("y: bfloat16[m,n]"), flops=product_flops,
    tiny=Size("tiny", sized(40, 56, 96)), tolerance=BF16_EPILOGUE, compute_unit="bf16",
    cases=(large("x", factor=1e5), *UNEVEN),
)  # fmt: skip

PROBLEMS: tuple[ProblemDefinition, ...] = (
    problem(
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
    problem(
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
    problem(
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
    problem(
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
    problem(
        id="qkv_projection_bf16", title="Query, key and value projections in bfloat16", reference=qkv_projection_bf16,
        description="Three linear layers with bias of one bfloat16 input, accumulated in fp32: the queries, and the "
            "narrower keys and values of grouped-query attention, as three outputs.",
        inputs=_qkv_inputs,
        outputs=tensors("q: bfloat16[m,q_width]", "k: bfloat16[m,kv_width]", "v: bfloat16[m,kv_width]"),
        flops=lambda p: 2 * p["m"] * p["k"] * (p["q_width"] + 2 * p["kv_width"]),
        sizes=(
            Size("qwen25_7b", _qkv(4096, 3584, 512), "Qwen2.5-7B attention input projections, 4096 tokens"),
            Size("qwen25_1_5b", _qkv(8192, 1536, 256), "Qwen2.5-1.5B attention input projections, 8192 tokens"),
            Size("qwen25_32b", _qkv(2048, 5120, 1024), "Qwen2.5-32B attention input projections, 2048 tokens"),
        ),
        tiny=Size("tiny", {"m": 40, "k": 96, "q_width": 64, "kv_width": 24}),
    ),
    problem(
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
