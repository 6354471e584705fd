"""GPU MODE tasks, those of a gated delta network among them, with their published shapes.

References and inputs are our own.
"""

from __future__ import annotations

import functools

from kbench.benchmark.problems.adversarial.cases import (
    InputCase,
    constant_rows,
    large,
    one_hot,
    outliers,
    shifted,
    small,
    zero_rows,
)
from kbench.benchmark.problems.adversarial.changes import scale, some_rows
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.inputs import (
    Params,
    Sized,
    TensorSpec,
    booleans,
    integers,
    normal,
    rooted,
    tensors,
    uniform,
    with_numbers,
)
from kbench.benchmark.problems.lazy_torch import F, Generator, Tensor, torch

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


def cross_entropy_fwd_bwd(logits: Tensor, targets: Tensor, loss_grad: Tensor) -> tuple[Tensor, Tensor]:
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    log_probs = torch.log_softmax(wide, dim=-1)
    losses = -log_probs.gather(1, targets.unsqueeze(1)).squeeze(1)
    grad = log_probs.exp()
    grad.scatter_add_(1, targets.unsqueeze(1), torch.full_like(losses, -1.0).unsqueeze(1))
    return losses, (grad * loss_grad.unsqueeze(1)).to(logits.dtype)


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
        inputs=tensors(
            "x[batch,length,length,dim]", "mask[batch,length,length]", "norm_weight norm_bias[dim]",
            f"{_gates}[{HIDDEN},dim]", f"out_norm_weight out_norm_bias[{HIDDEN}]", f"out_weight[dim,{HIDDEN}]",
            mask=booleans(0.9), norm_weight=normal(0.2, 1.0), norm_bias=normal(0.2), out_norm_weight=normal(0.2, 1.0),
            out_norm_bias=normal(0.2), out_weight=normal(HIDDEN**-0.5), **dict.fromkeys(_gates.split(), rooted("dim")),
        ),
        outputs=tensors("y[batch,length,length,dim]"),
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
        inputs=tensors(
            "logits: bfloat16[rows,vocab]", "targets: int64[rows]", "loss_grad[rows]", logits=normal(2.0),
            targets=Sized(lambda p: integers(0, p["vocab"])), loss_grad=uniform(0.5, 1.5),
        ),
        outputs=tensors("losses[rows]", "logits_grad: bfloat16[rows,vocab]"),
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


CHUNK = 64
"""Tokens of a gated-deltanet chunk."""
STRONG_DECAY = InputCase(
    "strong_decay",
    "A decay beyond the range of exp finds factors exp(g) and exp(-g) that are taken apart.",
    {"g": scale(50.0)},
)
NO_DECAY = InputCase(
    "no_decay", "No decay at all keeps the oldest tokens and finds decays that are assumed.", {"g": scale(0.0)}
)

MIXING = InputCase(
    "mixing",
    "Larger matrices find products in a single rounded pass, and a diagonal that is assumed.",
    {"a": scale(4.0)},
    unit=0,
)


def chunk_cumsum(spec_generator: Generator, spec: TensorSpec, device: str) -> Tensor:
    """Log decay of a gated recurrence: negative steps, summed up from the start of each chunk of 64 tokens."""
    steps = torch.rand(spec.shape, generator=spec_generator, device=device, dtype=torch.float32) * -0.1
    batch, length, heads = spec.shape
    return steps.view(batch, length // CHUNK, CHUNK, heads).cumsum(2).view(spec.shape)


def lower_triangle(spec_generator: Generator, spec: TensorSpec, device: str) -> Tensor:
    """One lower-triangular 64 × 64 matrix with a unit diagonal per chunk and head, laid out by token."""
    batch, length, heads, _ = spec.shape
    shape = (batch, length // CHUNK, CHUNK, heads, CHUNK)
    drawn = torch.randn(shape, generator=spec_generator, device=device, dtype=torch.float32) * 0.1
    row = torch.arange(CHUNK, device=device).view(CHUNK, 1, 1)
    column = torch.arange(CHUNK, device=device)
    return (drawn * (column < row) + (column == row)).view(spec.shape)


def gdn_chunk_fwd_h(k: Tensor, w: Tensor, u: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    batch, length, heads, width = k.shape
    chunks = length // 64

    def by_chunk(x: Tensor) -> Tensor:
        return x.view(batch, chunks, 64, heads, -1).permute(1, 0, 3, 2, 4)

    keys, weights, values, decay = by_chunk(k), by_chunk(w), by_chunk(u), by_chunk(g.unsqueeze(-1))
    state = u.new_zeros(batch, heads, width, u.shape[-1])
    states, new_values = [], []
    for n in range(chunks):
        states.append(state)
        fresh = values[n] - weights[n] @ state
        new_values.append(fresh)
        last = decay[n][:, :, -1:]
        state = state * last.exp() + keys[n].transpose(-1, -2) @ (fresh * (last - decay[n]).exp())
    v_new = torch.stack(new_values, 1).permute(0, 1, 3, 2, 4).reshape(u.shape)
    return torch.stack(states, 1), v_new


def gdn_chunk_fwd_o(q: Tensor, k: Tensor, v: Tensor, h: Tensor, g: Tensor) -> Tensor:
    batch, length, heads, width = q.shape

    def by_chunk(x: Tensor) -> Tensor:
        return x.view(batch, length // 64, 64, heads, -1).transpose(2, 3)

    queries, keys, values, decay = by_chunk(q), by_chunk(k), by_chunk(v), by_chunk(g.unsqueeze(-1))
    across = (queries * decay.exp()) @ h
    gap = (decay - decay.transpose(-1, -2)).tril().exp()
    within = ((queries @ keys.transpose(-1, -2)) * gap).tril() @ values
    scale: float = width**-0.5
    return ((across + within) * scale).transpose(2, 3).reshape(v.shape)


def gdn_recompute_w_u(k: Tensor, v: Tensor, beta: Tensor, a: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    batch, length, heads, _ = k.shape

    def by_chunk(x: Tensor) -> Tensor:
        return x.view(batch, length // 64, 64, heads, -1).transpose(2, 3)

    matrix = by_chunk(a)
    w = matrix @ by_chunk(k * (beta * g.exp()).unsqueeze(-1))
    u = matrix @ by_chunk(v * beta.unsqueeze(-1))
    return w.transpose(2, 3).reshape(k.shape), u.transpose(2, 3).reshape(v.shape)


STATE = f"h[batch,length/{CHUNK},heads,key,value]"


def _gdn_tokens(p: Params) -> int:
    return int(p["batch"] * p["length"] * p["heads"])


def _gdn_size(name: str, batch: int, length: int, heads: int) -> Size:
    return Size(name, {"batch": batch, "length": length, "heads": heads, "key": 64, "value": 64})


GDN_PUBLISHED = _gdn_size("published_1024", 2, 1024, 3)
GDN_TINY = _gdn_size("tiny", 1, 128, 2)
GDN_TOLERANCE = Tolerance(
    1e-3, 1e-3, "the task's published 1e-3: float32 products over 64 terms, with room for three-pass tf32"
)


gated_deltanet = functools.partial(
    ProblemDefinition,
    family="gpu_mode",
    sizes=(GDN_PUBLISHED, _gdn_size("long_4096", 4, 4096, 8)),
    tiny=GDN_TINY,
    tolerance=GDN_TOLERANCE,
    compute_unit="tf32",
)

GATED_DELTANET: tuple[ProblemDefinition, ...] = (
    gated_deltanet(
        id="gdn_chunk_fwd_h", title="Gated DeltaNet: chunk states", reference=gdn_chunk_fwd_h,
        description="State recurrence of a gated delta network over chunks of 64 tokens, per batch and head, from a "
            "zero state S: output S as the chunk's state h; v_new = u - w S; then S becomes exp(g_last) S + kᵀ "
            "(exp(g_last - g) v_new), where g is the log decay summed up within the chunk and g_last its value at the "
            "chunk's last token. Outputs: h for every chunk, and v_new for every token.",
        inputs=tensors(
            "k w[batch,length,heads,key]", "u[batch,length,heads,value]", "g[batch,length,heads]", k=normal(0.125),
            w=normal(0.05), g=chunk_cumsum,
        ),
        outputs=tensors(STATE, "v_new[batch,length,heads,value]"),
        flops=lambda p: 4 * _gdn_tokens(p) * p["key"] * p["value"],
        sizes=(_gdn_size("published_512", 2, 512, 3), _gdn_size("wide_512", 16, 512, 32)),
        cases=(STRONG_DECAY, NO_DECAY, large("u", factor=1e3), one_hot("u", dim=1), zero_rows("u")),
    ),
    gated_deltanet(
        id="gdn_chunk_fwd_o", title="Gated DeltaNet: chunk outputs", reference=gdn_chunk_fwd_o,
        description="Output of a gated delta network from the states of its chunks of 64 tokens. Per chunk, batch and "
            "head: o = K^-0.5 (exp(g) q h + A v) with A[i, j] = (q_i · k_j) exp(g_i - g_j) for j <= i, else 0.",
        inputs=tensors(
            "q k[batch,length,heads,key]", "v[batch,length,heads,value]", STATE, "g[batch,length,heads]",
            k=normal(0.125), g=chunk_cumsum,
        ),
        outputs=tensors("o[batch,length,heads,value]"),
        flops=lambda p: 2 * _gdn_tokens(p) * (p["key"] * p["value"] + CHUNK * (p["key"] + p["value"])),
        cases=(STRONG_DECAY, NO_DECAY, large("v", "h", factor=1e3, atol_scale=1e3), zero_rows("h")),
    ),
    gated_deltanet(
        id="gdn_recompute_w_u", title="Gated DeltaNet: recompute w and u", reference=gdn_recompute_w_u,
        description="Per chunk of 64 tokens, batch and head, with the chunk's lower-triangular 64 × 64 matrix A: w = A "
            "(k beta exp(g)) and u = A (v beta), where beta and g are one number per token.",
        inputs=tensors(
            "k[batch,length,heads,key]", "v[batch,length,heads,value]", "beta[batch,length,heads]",
            f"a[batch,length,heads,{CHUNK}]", "g[batch,length,heads]", beta=uniform(0.1, 1.0), a=lower_triangle,
            g=chunk_cumsum,
        ),
        outputs=tensors("w[batch,length,heads,key]", "u[batch,length,heads,value]"),
        flops=lambda p: 2 * _gdn_tokens(p) * CHUNK * (p["key"] + p["value"]),
        cases=(STRONG_DECAY, NO_DECAY, large("k", "v", factor=1e3, atol_scale=1e3), zero_rows("beta"), MIXING),
    ),
)  # fmt: skip
