"""GPU MODE tasks with their published shapes; references and inputs are our own."""

from __future__ import annotations

import functools

from kbench.benchmark.problems.adversarial.cases import (
    InputCase,
    constant_rows,
    large,
    outliers,
    shifted,
    small,
    zero_rows,
)
from kbench.benchmark.problems.adversarial.changes import scale, some_rows
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.inputs import (
    Sized,
    booleans,
    integers,
    normal,
    rooted,
    tensors,
    uniform,
    with_numbers,
)
from kbench.benchmark.problems.lazy_torch import F, Tensor, torch

EMPTY_MASK = InputCase(
    "empty_mask",
    "Rows whose mask is zero find terms that are counted all the same.",
    {"mask": some_rows(scale(0.0))},
    unit=0,
)
SHARP_GATES = InputCase(
    "sharp_gates",
    "Gates that are open or shut find sigmoids made for small numbers.",
    dict.fromkeys(("left_gate_weight", "right_gate_weight", "out_gate_weight"), scale(10.0)),
    atol_scale=4.0,
    unit=0,
)
HIDDEN = 128
"""Channels inside the triangle update."""


def trimul(
    x: Tensor,
    mask: Tensor,
    norm_weight: Tensor,
    norm_bias: Tensor,
    left_weight: Tensor,
    right_weight: Tensor,
    left_gate_weight: Tensor,
    right_gate_weight: Tensor,
    out_gate_weight: Tensor,
    out_norm_weight: Tensor,
    out_norm_bias: Tensor,
    out_weight: Tensor,
) -> Tensor:
    x = F.layer_norm(x, x.shape[-1:], norm_weight, norm_bias)
    left = (x @ left_weight.T) * mask.unsqueeze(-1) * torch.sigmoid(x @ left_gate_weight.T)
    right = (x @ right_weight.T) * mask.unsqueeze(-1) * torch.sigmoid(x @ right_gate_weight.T)
    gate = torch.sigmoid(x @ out_gate_weight.T)
    product = left.permute(0, 3, 1, 2) @ right.permute(0, 3, 2, 1)
    product = product.permute(0, 2, 3, 1)
    product = F.layer_norm(product, product.shape[-1:], out_norm_weight, out_norm_bias)
    return (product * gate) @ out_weight.T


_gates = "left_weight right_weight left_gate_weight right_gate_weight out_gate_weight"
_trimul_inputs = tensors(
    "x[batch,length,length,dim]", "mask[batch,length,length]", "norm_weight norm_bias[dim]", f"{_gates}[{HIDDEN},dim]",
    f"out_norm_weight out_norm_bias[{HIDDEN}]", f"out_weight[dim,{HIDDEN}]", mask=booleans(0.9),
    norm_weight=normal(0.2, 1.0), norm_bias=normal(0.2), out_norm_weight=normal(0.2, 1.0), out_norm_bias=normal(0.2),
    out_weight=normal(HIDDEN**-0.5), **dict.fromkeys(_gates.split(), rooted("dim")),
)  # fmt: skip


def cross_entropy_fwd_bwd(logits: Tensor, targets: Tensor, loss_grad: Tensor) -> tuple[Tensor, Tensor]:
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    log_probs = torch.log_softmax(wide, dim=-1)
    losses = -log_probs.gather(1, targets.unsqueeze(1)).squeeze(1)
    grad = log_probs.exp()
    grad.scatter_add_(1, targets.unsqueeze(1), torch.full_like(losses, -1.0).unsqueeze(1))
    return losses, (grad * loss_grad.unsqueeze(1)).to(logits.dtype)


_cross_entropy_inputs = tensors(
    "logits: bfloat16[rows,vocab]", "targets: int64[rows]", "loss_grad[rows]", logits=normal(2.0),
    targets=Sized(lambda p: integers(0, p["vocab"])), loss_grad=uniform(0.5, 1.5),
)  # fmt: skip


def fp8_quant(x: Tensor, group: int) -> tuple[Tensor, Tensor]:
    tokens, hidden = x.shape
    wide = x.to(torch.promote_types(x.dtype, torch.float32)).view(tokens, hidden // group, group)
    scales = wide.abs().amax(-1).clamp(min=1e-10) / 448.0
    quantised = (wide / scales.unsqueeze(-1)).clamp(-448.0, 448.0)
    return quantised.view(tokens, hidden).to(torch.float8_e4m3fn), scales


def _fp8_quant_oracle(x: Tensor, group: int) -> tuple[Tensor, Tensor]:
    quantised, scales = fp8_quant(x.to(torch.float64), group)
    return quantised.to(torch.float64), scales


problem = functools.partial(ProblemDefinition, family="gpu_mode")

PROBLEMS: tuple[ProblemDefinition, ...] = (
    problem(
        id="trimul", title="Triangle multiplicative update (outgoing)", reference=trimul,
        description="The outgoing triangle multiplicative update of protein-structure models, in float32. "
            "Layer-normalise x over its last dimension (eps 1e-5); project it to 128 left and 128 right channels, each "
            "multiplied by the mask and by the sigmoid of its own gate projection; for every channel form out[i, j] = "
            "sum over k of left[i, k] * right[j, k]; layer-normalise over the channels, multiply by the sigmoid of the "
            "output gate projection of the normalised x, and project back. The mask holds zeros and ones, drawn at "
            "random.",
        inputs=_trimul_inputs, outputs=tensors("y[batch,length,length,dim]"),
        flops=lambda p: 2 * p["batch"] * p["length"] ** 2 * HIDDEN * (6 * p["dim"] + p["length"]),
        sizes=(
            Size("n256_b2_d128", {"length": 256, "batch": 2, "dim": 128}),
            Size("n256_b2_d384", {"length": 256, "batch": 2, "dim": 384}),
        ),
        tiny=Size("tiny", {"length": 16, "batch": 1, "dim": 32}),
        tolerance=Tolerance(2e-2, 2e-2, "the task's published 2e-2: bfloat16 tensor cores inside are allowed"),
        compute_unit="bf16",
        cases=(
            large("x", factor=1e3, atol_scale=1.0), small("x", factor=1e-3, atol_scale=1.0), EMPTY_MASK,
            shifted("x", by=30.0), SHARP_GATES,
        ),
    ),
    problem(
        id="cross_entropy_fwd_bwd", title="Cross entropy, forward and backward", reference=cross_entropy_fwd_bwd,
        description="For each row of bfloat16 logits return the cross-entropy loss against the row's target class in "
            "float32, and the gradient with respect to the logits in bfloat16: (softmax - one-hot of the target) times "
            "the gradient of the row's loss.",
        inputs=_cross_entropy_inputs, outputs=tensors("losses[rows]", "logits_grad: bfloat16[rows,vocab]"),
        flops=lambda p: 5 * p["rows"] * p["vocab"],
        sizes=(Size("v32000", {"rows": 4096, "vocab": 32000}), Size("v50264", {"rows": 4096, "vocab": 50264})),
        tiny=Size("tiny", {"rows": 6, "vocab": 264}),
        tolerance=Tolerance(
            1e-6, 1e-2,
            "the task's published rtol 1e-2; atol far below it because a softmax over 32,000 classes is small",
        ),
        cases=(
            shifted("logits", by=96.0),
            # A loss is a difference of two numbers near 170, whose last digits are worth 1.5e-5.
            large("logits", factor=20.0, atol_scale=50.0),
            constant_rows("logits", rtol_scale=20.0), outliers("logits", factor=30.0, atol_scale=50.0),
        ),
    ),
    problem(
        id="fp8_quant", title="Per-group float8 quantisation", reference=fp8_quant, oracle=_fp8_quant_oracle,
        description="Split every row of a bfloat16 matrix into groups of `group` neighbours. A group's scale is its "
            "largest magnitude (at least 1e-10) divided by 448; each value divided by its group's scale and rounded to "
            "float8 e4m3 is the first output, the float32 scales are the second.",
        inputs=with_numbers(tensors("x: bfloat16[tokens,hidden]"), group="group"),
        outputs=tensors("quantised: float8_e4m3fn[tokens,hidden]", "scales[tokens,hidden/group]"),
        flops=lambda p: 2 * p["tokens"] * p["hidden"],
        sizes=(
            Size("t4096_h7168", {"tokens": 4096, "hidden": 7168, "group": 128}),
            Size("t256_h8192", {"tokens": 256, "hidden": 8192, "group": 128}),
        ),
        tiny=Size("tiny", {"tokens": 3, "hidden": 384, "group": 128}),
        tolerance=Tolerance(
            1e-6, 1e-3,
            "the task's published 1e-3; bfloat16 inputs often land on ties between two float8 values, where "
            "multiplying by the reciprocal scale may round the other way",
            mismatch_share=5e-3,
        ),
        cases=(
            # Powers of two, so that quotients round as those of the drawn values do.
            zero_rows("x"), large("x", factor=2.0**20, atol_scale=1.0), small("x", factor=2.0**-20, atol_scale=1e-6),
            outliers("x", atol_scale=1.0), constant_rows("x"),
        ),
    ),
)  # fmt: skip
