"""Gradients of linear layers and of what is fused with them: input and weight gradients, losses over a vocabulary."""

from __future__ import annotations

import functools
import math

from kbench.benchmark.problems.adversarial.cases import InputCase, extremes, large, one_hot, outliers, zero_rows
from kbench.benchmark.problems.adversarial.changes import repeat_one
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.families.shared import bf16, product_flops, sized, wide
from kbench.benchmark.problems.inputs import Sized, integers, normal, parameters, rooted, tensors, uniform
from kbench.benchmark.problems.lazy_torch import Tensor, torch

BF16_GRADIENT = Tolerance(
    2e-2, 2e-2, "bfloat16 rounds the product and what is made of it by 2^-9 relative each; fp32 sums add far less"
)
REPEATED_TARGETS = InputCase(
    "repeated", "One token as the target of many rows finds sums that assume different ones.", {"targets": repeat_one}
)


def linear_dgrad(dy: Tensor, weight: Tensor) -> Tensor:
    return dy @ weight


def linear_wgrad_accumulate(dy: Tensor, x: Tensor, grad: Tensor) -> Tensor:
    return grad + dy.t() @ x


def swiglu_down_backward(dy: Tensor, weight: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    dh, gate, up = wide(dy @ weight), wide(gate), wide(up)
    s = torch.sigmoid(gate)
    return bf16(dh * up * s * (1 + gate * (1 - s))), bf16(dh * gate * s)


def gelu_linear_backward(dy: Tensor, weight: Tensor, before: Tensor) -> Tensor:
    z = wide(before)
    normal_cdf = 0.5 * (1 + torch.erf(z * 0.5**0.5))
    slope = normal_cdf + z * torch.exp(-0.5 * z * z) * (2 * math.pi) ** -0.5
    return bf16(wide(dy @ weight) * slope)


def logits_of(x: Tensor, weight: Tensor) -> Tensor:
    """x @ weight.T with a float32 result: rounding to bfloat16 would move probabilities by per cents."""
    if x.is_cuda and x.dtype is torch.bfloat16:
        return torch.mm(x, weight.t(), out_dtype=torch.float32)
    return wide(x) @ wide(weight).t()


def linear_cross_entropy(x: Tensor, weight: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    logits = logits_of(x, weight)
    lse = torch.logsumexp(logits, dim=-1)
    return lse - logits.gather(1, targets[:, None]).squeeze(1), lse


def _entropy_oracle(x: Tensor, weight: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    wider = weight.double()
    parts = [
        linear_cross_entropy(a.double(), wider, b)
        for a, b in zip(torch.split(x, 256), torch.split(targets, 256), strict=True)
    ]
    return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])


def linear_cross_entropy_backward(x: Tensor, weight: Tensor, targets: Tensor, lse: Tensor, dloss: Tensor) -> Tensor:
    p = torch.exp(logits_of(x, weight) - lse[:, None])
    p.scatter_add_(1, targets[:, None], torch.full_like(lse, -1.0)[:, None])
    return bf16(p * dloss[:, None]) @ weight


def _entropy_backward_oracle(x: Tensor, weight: Tensor, targets: Tensor, lse: Tensor, dloss: Tensor) -> Tensor:
    wider = weight.double()
    rows = zip(*(torch.split(t, 256) for t in (x, targets, lse, dloss)), strict=True)
    parts = [linear_cross_entropy_backward(a.double(), wider, b, c.double(), d.double()) for a, b, c, d in rows]
    return torch.cat(parts)


_dgrad_inputs = tensors("dy: bfloat16[m,n]", "weight: bfloat16[n,k]", weight=rooted("n"))


# Logits of deviation 3: sharp as a trained model's, so that the sum over other tokens than the target counts.
_entropy_inputs = tensors(
    "x: bfloat16[tokens,hidden]", "weight: bfloat16[vocab,hidden]", "targets: int64[tokens]", x=rooted("hidden", 60),
    weight=normal(0.05), targets=Sized(lambda p: integers(0, p["vocab"])),
)  # fmt: skip


_vocabulary = parameters("tokens hidden vocab")
problem = functools.partial(
    ProblemDefinition, family="linear_backward", flops=product_flops, tolerance=BF16_GRADIENT, compute_unit="bf16",
    tiny=Size("tiny", sized(40, 48, 56)),
)  # fmt: skip

PROBLEMS: tuple[ProblemDefinition, ...] = (
    problem(
        id="linear_dgrad", title="Input gradient of a linear layer", reference=linear_dgrad,
        description="dx = dy @ weight for bfloat16 dy (m by n) and weight (n by k) as the forward layer stores it; "
            "summed in fp32, bfloat16 out.",
        inputs=_dgrad_inputs, outputs=tensors("dx: bfloat16[m,k]"),
        sizes=(
            Size("llama3_8b_up", sized(4096, 28672, 4096), "Llama-3-8B MLP gate and up projections, 4096 tokens"),
            Size("qwen3_4b_down", sized(8192, 2560, 9728), "Qwen3-4B MLP down projection, 8192 tokens"),
            Size("gpt2_xl_qkv", sized(8192, 4800, 1600), "GPT-2 XL query, key and value projections, 8192 tokens"),
        ),
        cases=(
            large("dy", factor=64.0, atol_scale=64.0), outliers("dy", factor=64.0, atol_scale=16.0),
            one_hot("dy"), zero_rows("weight"),
        ),
    ),
    problem(
        id="linear_wgrad_accumulate", title="Weight gradient of a linear layer, added to earlier ones",
        reference=linear_wgrad_accumulate,
        description="grad + dyᵀ x for bfloat16 dy (m by n) and x (m by k) and a float32 gradient (n by k) of earlier "
            "steps; the product is summed in fp32 and may be rounded to bfloat16 before it is added.",
        inputs=tensors("dy: bfloat16[m,n]", "x: bfloat16[m,k]", "grad[n,k]", dy=rooted("m")),
        outputs=tensors("total[n,k]"),
        sizes=(
            Size("llama3_8b_down", sized(8192, 4096, 14336), "Llama-3-8B MLP down projection, 8192 tokens"),
            Size("qwen3_4b_qkv", sized(8192, 6144, 2560), "Qwen3-4B query, key and value projections, 8192 tokens"),
            Size("gpt2_xl_up", sized(16384, 6400, 1600), "GPT-2 XL MLP up projection, 16 sequences of 1024 tokens"),
        ),
        cases=(
            large("dy", factor=16.0, atol_scale=16.0), outliers("x", factor=16.0, atol_scale=8.0),
            large("grad", factor=32.0, atol_scale=1.0, case="large_sums"),
        ),
    ),
    problem(
        id="swiglu_down_backward", title="Gradients through a down projection and SwiGLU",
        reference=swiglu_down_backward,
        description="dh = dy @ weight for bfloat16 dy (m by n) and weight (n by k), then the gradients of silu(gate) * "
            "up: dgate = dh * up * (s + gate * s * (1 - s)) with s = sigmoid(gate), and dup = dh * silu(gate); both "
            "bfloat16. dh may be rounded to bfloat16.",
        inputs=tensors(_dgrad_inputs, "gate up: bfloat16[m,k]"),
        outputs=tensors("dgate: bfloat16[m,k]", "dup: bfloat16[m,k]"),
        sizes=(
            Size("llama3_8b", sized(4096, 4096, 14336), "Llama-3-8B MLP, 4096 tokens"),
            Size("qwen3_4b", sized(8192, 2560, 9728), "Qwen3-4B MLP, 8192 tokens"),
            Size("llama32_1b", sized(16384, 2048, 8192), "Llama-3.2-1B MLP, 16384 tokens"),
        ),
        cases=(
            large("dy", factor=16.0, atol_scale=16.0), outliers("gate", factor=16.0, atol_scale=16.0),
            zero_rows("up"), one_hot("dy"),
        ),
    ),
    problem(
        id="gelu_linear_backward", title="Gradient through a linear layer and GELU",
        reference=gelu_linear_backward,
        description="dz = (dy @ weight) * gelu'(before) for bfloat16 dy (m by n), weight (n by k) and before (m by k, "
            "what went into the exact GELU), in bfloat16. dy @ weight may be rounded to bfloat16.",
        inputs=tensors(_dgrad_inputs, "before: bfloat16[m,k]"), outputs=tensors("dz: bfloat16[m,k]"),
        sizes=(
            Size("gpt2_xl", sized(8192, 1600, 6400), "GPT-2 XL MLP, 8 sequences of 1024 tokens"),
            Size("bert_large", sized(16384, 1024, 4096), "BERT-large MLP, 32 sequences of 512 tokens"),
            Size("vit_h14", sized(16448, 1280, 5120), "ViT-H/14 MLP, 64 images of 257 tokens"),
        ),
        cases=(
            large("dy", factor=16.0, atol_scale=16.0), outliers("before", factor=8.0, atol_scale=4.0),
            one_hot("dy"),
        ),
    ),
    problem(
        id="linear_cross_entropy", title="Output projection and cross entropy", reference=linear_cross_entropy,
        oracle=_entropy_oracle,
        description="For bfloat16 rows x and the bfloat16 output matrix weight (vocabulary by hidden): the cross "
            "entropy of softmax(x @ weight.T) against each row's int64 target, and the logarithm of the row's sum of "
            "exponentials (lse), both float32. Logits are summed in fp32 and need not be stored.",
        inputs=_entropy_inputs, outputs=tensors("losses[tokens]", "lse[tokens]"),
        flops=lambda p: 2 * p["tokens"] * p["hidden"] * p["vocab"],
        sizes=(
            Size("llama32_1b", _vocabulary(4096, 2048, 128256), "Llama-3.2-1B output layer, 4096 tokens"),
            Size("qwen3_06b", _vocabulary(4096, 1024, 151936), "Qwen3-0.6B output layer, 4096 tokens"),
            Size("llama3_8b", _vocabulary(2048, 4096, 128256), "Llama-3-8B output layer, 2048 tokens"),
        ),
        tiny=Size("tiny", _vocabulary(10, 64, 272)),
        tolerance=Tolerance(
            2e-3, 1e-4, "exact bfloat16 products summed in fp32 over thousands of terms, logits of size 15"
        ),
        cases=(
            large("x", factor=4.0, atol_scale=8.0), outliers("x", factor=8.0, atol_scale=8.0),
            REPEATED_TARGETS, zero_rows("weight"),
        ),
    ),
    problem(
        id="linear_cross_entropy_backward", title="Gradient of output projection and cross entropy",
        reference=linear_cross_entropy_backward, oracle=_entropy_backward_oracle,
        description="Gradient of the rows x: ((exp(x @ weight.T - lse) - one-hot of the target) * dloss) @ weight, for "
            "bfloat16 x and weight (vocabulary by hidden), int64 targets and float32 lse and dloss per row. lse is "
            "used as given. Logits are summed in fp32; their gradients may be rounded to bfloat16; bfloat16 out.",
        inputs=tensors(
            _entropy_inputs, "lse dloss[tokens]", lse=Sized(lambda p: normal(0.2, math.log(p["vocab"]) + 4.7)),
            dloss=uniform(0.5, 1.5),
        ),
        outputs=tensors("dx: bfloat16[tokens,hidden]"),
        flops=lambda p: 4 * p["tokens"] * p["hidden"] * p["vocab"],
        sizes=(
            Size("llama32_1b", _vocabulary(2048, 2048, 128256), "Llama-3.2-1B output layer, 2048 tokens"),
            Size("qwen3_06b", _vocabulary(4096, 1024, 151936), "Qwen3-0.6B output layer, 4096 tokens"),
            Size("smollm2", _vocabulary(8192, 2048, 49152), "SmolLM2-1.7B output layer, 8192 tokens"),
        ),
        tiny=Size("tiny", _vocabulary(10, 64, 272)),
        tolerance=Tolerance(
            1e-3, 1.5e-2, "bfloat16 rounds probabilities and result by 2^-9 relative; elements of weight are near 0.05"
        ),
        cases=(
            outliers("x", factor=2.0, atol_scale=4.0), REPEATED_TARGETS,
            extremes("dloss", values=(0.0, 8.0), atol_scale=8.0),
        ),
    ),
)  # fmt: skip
