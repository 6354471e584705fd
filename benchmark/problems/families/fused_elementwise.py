"""Fused memory-bound steps of a transformer layer: residual norms, rotary embedding, gated units, likelihoods."""

from __future__ import annotations

import functools

from kbench.benchmark.problems.adversarial.cases import (
    constant_rows,
    large,
    one_hot,
    outliers,
    shifted,
    small,
    wide,
    zero_rows,
)
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.inputs import Sized, integers, normal, parameters, tensors, uniform
from kbench.benchmark.problems.lazy_torch import F, Tensor, torch

BF16_ONCE = Tolerance(
    1e-3, 1e-2, "computed in float32, rounded to bfloat16 once: 2^-8 relative, and some for the order"
)


def rmsnorm_residual(x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    hidden = x + residual
    wide = hidden.to(torch.promote_types(hidden.dtype, torch.float32))
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
    return (wide * scale * weight).to(x.dtype), hidden


def rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    first, second = x[..., :half], x[..., half:]
    cos, sin = cos[None, :, None, :], sin[None, :, None, :]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)


def swiglu(gate_up: Tensor) -> Tensor:
    gate, up = gate_up.chunk(2, dim=-1)
    return F.silu(gate) * up


def geglu(gate: Tensor, up: Tensor) -> Tensor:
    return F.gelu(gate, approximate="tanh") * up


def layernorm_backward(grad: Tensor, x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    shape = x.shape[-1:]
    _, mean, rstd = torch.native_layer_norm(x, shape, weight, None, 1e-5)
    wanted = [True, True, True]
    bias = torch.zeros_like(weight)
    return torch.ops.aten.native_layer_norm_backward(grad, x, shape, mean, rstd, weight, bias, wanted)  # type: ignore[no-any-return]


problem = functools.partial(ProblemDefinition, family="fused_elementwise")

PROBLEMS: tuple[ProblemDefinition, ...] = (
    problem(
        id="rmsnorm_residual", title="Residual add and RMS norm", reference=rmsnorm_residual,
        description="Add a bfloat16 residual to x, RMS-normalise each row of the sum in float32 (eps 1e-6) and scale "
            "it by weight; return the normalised rows and the sum, both bfloat16.",
        inputs=tensors(
            "x residual: bfloat16[tokens,hidden]", "weight: bfloat16[hidden]", x=normal(1.5), residual=normal(2.0),
            weight=uniform(0.5, 1.5),
        ),
        outputs=tensors("y hidden: bfloat16[tokens,hidden]"), flops=lambda p: 5 * p["tokens"] * p["hidden"],
        sizes=(Size("prefill", {"tokens": 8192, "hidden": 5120}), Size("decode", {"tokens": 64, "hidden": 8192})),
        tiny=Size("tiny", {"tokens": 5, "hidden": 48}),
        tolerance=Tolerance(1e-2, 1.6e-2, "bfloat16 output of a bfloat16-rounded sum: two roundings of 2^-8 relative"),
        cases=(
            large("x", "residual", factor=1e4, atol_scale=1.0), small("x", "residual", factor=1e-3, atol_scale=1.0),
            zero_rows("x", "residual"), outliers("x", factor=100.0, atol_scale=10.0),
        ),
    ),
    problem(
        id="rope", title="Rotary position embedding", reference=rope,
        description="Rotate the halves of each head vector of a bfloat16 tensor (batch, length, heads, dim) by tables "
            "cos and sin (length, dim/2): first*cos - second*sin, then second*cos + first*sin.",
        # A kernel gets the two tables as they are, so they need not be sines and cosines of the same angles.
        inputs=tensors(
            "x: bfloat16[batch,length,heads,dim]", "cos sin[length,dim/2]", cos=uniform(-1.0, 1.0),
            sin=uniform(-1.0, 1.0),
        ),
        outputs=tensors("y: bfloat16[batch,length,heads,dim]"),
        flops=lambda p: 3 * p["batch"] * p["length"] * p["heads"] * p["dim"],
        sizes=(
            Size("prefill", {"batch": 4, "length": 4096, "heads": 32, "dim": 128}),
            Size("short", {"batch": 2, "length": 1024, "heads": 40, "dim": 96}),
        ),
        tiny=Size("tiny", {"batch": 2, "length": 5, "heads": 3, "dim": 16}),
        tolerance=BF16_ONCE, cases=(large("x"), one_hot("x"), outliers("x", atol_scale=1.0), zero_rows("x")),
    ),
    problem(
        id="swiglu", title="SwiGLU", reference=swiglu,
        description="SiLU of the left half of each bfloat16 row times the right half.",
        inputs=tensors("gate_up: bfloat16[tokens,2*width]", gate_up=normal(1.5)),
        outputs=tensors("y: bfloat16[tokens,width]"), flops=lambda p: 6 * p["tokens"] * p["width"],
        sizes=(Size("prefill", {"tokens": 4096, "width": 14336}), Size("decode", {"tokens": 128, "width": 11008})),
        tiny=Size("tiny", {"tokens": 5, "width": 40}),
        tolerance=Tolerance(2e-3, 1.6e-2, "bfloat16: the reference rounds the gate and the product, 2^-8 each"),
        cases=(
            large("gate_up", factor=30.0, atol_scale=1.0), wide("gate_up", decades=4.0), zero_rows("gate_up"),
            outliers("gate_up", factor=100.0, atol_scale=1.0),
        ),
    ),
    problem(
        id="geglu", title="GeGLU", reference=geglu,
        description="Tanh-form GELU of a bfloat16 gate times a bfloat16 matrix of the same shape.",
        inputs=tensors("gate: bfloat16[tokens,width]", "up: bfloat16[tokens,width]", gate=normal(2.0)),
        outputs=tensors("y: bfloat16[tokens,width]"), flops=lambda p: 9 * p["tokens"] * p["width"],
        sizes=(Size("prefill", {"tokens": 4096, "width": 12288}), Size("decode", {"tokens": 128, "width": 9216})),
        tiny=Size("tiny", {"tokens": 5, "width": 40}),
        tolerance=Tolerance(2e-3, 1.6e-2, "bfloat16: the reference rounds the gate and the product, 2^-8 each"),
        cases=(
            large("gate", factor=30.0, atol_scale=1.0), wide("gate", "up", decades=4.0), zero_rows("gate"),
            outliers("gate", factor=100.0, atol_scale=1.0),
        ),
    ),
    problem(
        id="layernorm_backward", title="Layer norm, backward", reference=layernorm_backward,
        description="Gradients of layer norm (eps 1e-5) over the rows of a float32 matrix x with a weight: given the "
            "gradient of its output, return the gradients of x, of the weight and of the bias. Mean and variance are "
            "not given.",
        inputs=tensors("grad x[rows,cols]", "weight[cols]", x=normal(1.5, 0.5), weight=uniform(0.5, 1.5)),
        outputs=tensors("grad_x[rows,cols]", "grad_weight[cols]", "grad_bias[cols]"),
        flops=lambda p: 14 * p["rows"] * p["cols"],
        sizes=(Size("large", {"rows": 8192, "cols": 4096}), Size("small", {"rows": 2048, "cols": 1024})),
        tiny=Size("tiny", {"rows": 11, "cols": 40}),
        tolerance=Tolerance(5e-4, 1e-4, "float32 column sums of 8192 unit terms: sums of size 90, errors of 1e-4"),
        cases=(
            shifted("x", by=30.0, atol_scale=20.0), small("x", factor=1e-3, atol_scale=1e3), large("grad"),
            constant_rows("x", atol_scale=100.0), one_hot("grad"),
        ),
    ),
)  # fmt: skip


BF16_NORM = Tolerance(1e-2, 1.6e-2, "float32 statistics, bfloat16 output: one rounding of 2^-8 relative, or two")


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps=1e-5)


def layer_norm_residual(x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    hidden = x + residual
    return F.layer_norm(hidden, hidden.shape[-1:], weight, bias, eps=1e-5), hidden


def qk_norm_rope(x: Tensor, weight: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6) * weight
    first, second = wide.chunk(2, dim=-1)
    cos, sin = cos[:, None, :], sin[:, None, :]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)


def token_log_probs(logits: Tensor, targets: Tensor) -> Tensor:
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return torch.log_softmax(wide, dim=-1).gather(1, targets[:, None]).squeeze(1)


_rows = parameters("tokens hidden")
row_layer = functools.partial(ProblemDefinition, family="norm", tiny=Size("tiny", _rows(7, 48)), tolerance=BF16_NORM)
STATISTICS = (
    small("x", factor=1e-3, atol_scale=1.0),
    large("x", factor=1e6, atol_scale=1.0),
    outliers("x", factor=100.0, atol_scale=10.0),
)

ROW_LAYERS: tuple[ProblemDefinition, ...] = (
    row_layer(
        id="layer_norm", title="Layer norm in bfloat16", reference=layer_norm,
        description="Normalise each row of a bfloat16 matrix by its mean and biased variance in float32 (eps 1e-5), "
            "then scale by weight and add bias; bfloat16 out.",
        # Neither centred nor of unit deviation: otherwise returning the input would pass for normalising it.
        inputs=tensors(
            "x: bfloat16[tokens,hidden]", "weight bias: bfloat16[hidden]", x=normal(1.5, 0.5), weight=uniform(0.5, 1.5),
            bias=normal(0.5),
        ),
        outputs=tensors("y: bfloat16[tokens,hidden]"),
        flops=lambda p: 8 * p["tokens"] * p["hidden"],
        sizes=(
            Size("gpt2_xl", _rows(16384, 1600), "GPT-2 XL layer norm, 16 sequences of 1024 tokens"),
            Size("bert_large", _rows(32768, 1024), "BERT-large layer norm, 64 sequences of 512 tokens"),
            Size("opt_66b", _rows(4096, 9216), "OPT-66B layer norm, 2 sequences of 2048 tokens"),
        ),
        cases=(shifted("x", by=30.0, atol_scale=2.0), constant_rows("x", atol_scale=2.0), *STATISTICS),
    ),
    row_layer(
        id="layer_norm_residual", title="Residual add and layer norm in bfloat16", reference=layer_norm_residual,
        description="Add a bfloat16 residual to x, then layer-normalise each row of the sum in float32 (eps 1e-5), "
            "scale by weight and add bias; return the normalised rows and the sum, both bfloat16.",
        inputs=tensors(
            "x residual: bfloat16[tokens,hidden]", "weight bias: bfloat16[hidden]", x=normal(1.5, 0.5),
            residual=normal(2.0), weight=uniform(0.5, 1.5), bias=normal(0.5),
        ),
        outputs=tensors("y: bfloat16[tokens,hidden]", "hidden: bfloat16[tokens,hidden]"),
        flops=lambda p: 9 * p["tokens"] * p["hidden"],
        sizes=(
            Size("opt_13b", _rows(8192, 5120), "OPT-13B residual and layer norm, 4 sequences of 2048 tokens"),
            Size("gpt2_xl", _rows(8192, 1600), "GPT-2 XL residual and layer norm, 8 sequences of 1024 tokens"),
        ),
        tolerance=Tolerance(3e-2, 2e-2, "bfloat16 output of a bfloat16-rounded sum: two roundings of 2^-8 relative"),
        cases=(
            zero_rows("x", "residual"), large("x", "residual", factor=1e4, atol_scale=1.0),
            outliers("x", factor=100.0, atol_scale=10.0), constant_rows("residual", atol_scale=2.0),
            small("x", "residual", factor=1e-3, atol_scale=1.0),
        ),
    ),
    row_layer(
        id="qk_norm_rope", title="RMS norm and rotary embedding of heads in bfloat16", reference=qk_norm_rope,
        family="fused_elementwise",
        description="RMS-normalise each head vector of a bfloat16 tensor (tokens, heads, dim) in float32 (eps 1e-6), "
            "scale it by weight, and rotate its halves by tables cos and sin (tokens, dim/2): first*cos - second*sin, "
            "then second*cos + first*sin; rounded to bfloat16 once.",
        # A kernel gets the two tables as they are, so they need not be sines and cosines of the same angles.
        inputs=tensors(
            "x: bfloat16[tokens,heads,dim]", "weight: bfloat16[dim]", "cos sin[tokens,dim/2]", x=normal(2.0),
            weight=uniform(0.5, 1.5), cos=uniform(-1.0, 1.0), sin=uniform(-1.0, 1.0),
        ),
        outputs=tensors("y: bfloat16[tokens,heads,dim]"),
        flops=lambda p: 7 * p["tokens"] * p["heads"] * p["dim"],
        sizes=(
            Size("qwen3_8b", {"tokens": 8192, "heads": 32, "dim": 128}, "Qwen3-8B queries, 8192 tokens"),
            Size("qwen3_32b", {"tokens": 4096, "heads": 64, "dim": 128}, "Qwen3-32B queries, 4096 tokens"),
        ),
        tiny=Size("tiny", {"tokens": 5, "heads": 3, "dim": 16}),
        cases=(
            large("x", factor=1e6, atol_scale=1.0), small("x", factor=1e-2, atol_scale=1.0), zero_rows("x"),
            one_hot("x"), outliers("x", factor=100.0, atol_scale=1.0),
        ),
    ),
    row_layer(
        id="token_log_probs", title="Log-likelihood of tokens over a vocabulary", reference=token_log_probs,
        family="loss",
        description="For each row of bfloat16 logits the float32 logarithm of the softmax at the row's int64 target: "
            "what cross entropy and policy gradients need of a language model's output.",
        inputs=tensors(
            "logits: bfloat16[tokens,vocab]", "targets: int64[tokens]", logits=normal(2.0),
            targets=Sized(lambda p: integers(0, p["vocab"])),
        ),
        outputs=tensors("y[tokens]"), flops=lambda p: 4 * p["tokens"] * p["vocab"],
        sizes=(
            Size("llama3", {"tokens": 1024, "vocab": 128256}, "Llama-3 vocabulary, 1024 tokens"),
            Size("qwen25", {"tokens": 1024, "vocab": 151936}, "Qwen2.5 vocabulary, 1024 tokens"),
            Size("gemma2", {"tokens": 512, "vocab": 256000}, "Gemma-2 vocabulary, 512 tokens"),
        ),
        tiny=Size("tiny", {"tokens": 6, "vocab": 264}),
        tolerance=Tolerance(1e-4, 1e-5, "float32 logarithm of a sum of up to 256,000 exponentials; results of size 15"),
        cases=(
            shifted("logits", by=96.0), large("logits", factor=20.0, atol_scale=1.0),
            constant_rows("logits"), outliers("logits", factor=30.0, atol_scale=1.0),
        ),
    ),
)  # fmt: skip
