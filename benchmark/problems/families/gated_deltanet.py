"""The GPU MODE tasks of a gated delta network, with their published shapes; references and inputs are our own."""

from __future__ import annotations

import functools

from kbench.benchmark.problems.adversarial.cases import InputCase, large, one_hot, zero_rows
from kbench.benchmark.problems.adversarial.changes import scale
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.inputs import Params, TensorSpec, normal, tensors, uniform
from kbench.benchmark.problems.lazy_torch import Generator, Tensor, torch

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
_h_inputs = tensors(
    "k w[batch,length,heads,key]", "u[batch,length,heads,value]", "g[batch,length,heads]", k=normal(0.125),
    w=normal(0.05), g=chunk_cumsum,
)  # fmt: skip
_o_inputs = tensors(
    "q k[batch,length,heads,key]", "v[batch,length,heads,value]", STATE, "g[batch,length,heads]", k=normal(0.125),
    g=chunk_cumsum,
)  # fmt: skip
_w_u_inputs = tensors(
    "k[batch,length,heads,key]", "v[batch,length,heads,value]", "beta[batch,length,heads]",
    f"a[batch,length,heads,{CHUNK}]", "g[batch,length,heads]", beta=uniform(0.1, 1.0), a=lower_triangle, g=chunk_cumsum,
)  # fmt: skip


def _gdn_tokens(p: Params) -> int:
    return int(p["batch"] * p["length"] * p["heads"])


def _gdn_size(name: str, batch: int, length: int, heads: int) -> Size:
    return Size(name, {"batch": batch, "length": length, "heads": heads, "key": 64, "value": 64})


GDN_PUBLISHED = _gdn_size("published_1024", 2, 1024, 3)
GDN_TINY = _gdn_size("tiny", 1, 128, 2)
GDN_TOLERANCE = Tolerance(
    1e-3, 1e-3, "the task's published 1e-3: float32 products over 64 terms, with room for three-pass tf32"
)


problem = functools.partial(
    ProblemDefinition,
    family="gpu_mode",
    sizes=(GDN_PUBLISHED, _gdn_size("long_4096", 4, 4096, 8)),
    tiny=GDN_TINY,
    tolerance=GDN_TOLERANCE,
    compute_unit="tf32",
)

PROBLEMS: tuple[ProblemDefinition, ...] = (
    problem(
        id="gdn_chunk_fwd_h", title="Gated DeltaNet: chunk states", reference=gdn_chunk_fwd_h,
        description="State recurrence of a gated delta network over chunks of 64 tokens, per batch and head, from a "
            "zero state S: output S as the chunk's state h; v_new = u - w S; then S becomes exp(g_last) S + kᵀ "
            "(exp(g_last - g) v_new), where g is the log decay summed up within the chunk and g_last its value at the "
            "chunk's last token. Outputs: h for every chunk, and v_new for every token.",
        inputs=_h_inputs, outputs=tensors(STATE, "v_new[batch,length,heads,value]"),
        flops=lambda p: 4 * _gdn_tokens(p) * p["key"] * p["value"],
        sizes=(_gdn_size("published_512", 2, 512, 3), _gdn_size("wide_512", 16, 512, 32)),
        cases=(STRONG_DECAY, NO_DECAY, large("u", factor=1e3), one_hot("u", dim=1), zero_rows("u")),
    ),
    problem(
        id="gdn_chunk_fwd_o", title="Gated DeltaNet: chunk outputs", reference=gdn_chunk_fwd_o,
        description="Output of a gated delta network from the states of its chunks of 64 tokens. Per chunk, batch and "
            "head: o = K^-0.5 (exp(g) q h + A v) with A[i, j] = (q_i · k_j) exp(g_i - g_j) for j <= i, else 0.",
        inputs=_o_inputs, outputs=tensors("o[batch,length,heads,value]"),
        flops=lambda p: 2 * _gdn_tokens(p) * (p["key"] * p["value"] + CHUNK * (p["key"] + p["value"])),
        cases=(STRONG_DECAY, NO_DECAY, large("v", "h", factor=1e3, atol_scale=1e3), zero_rows("h")),
    ),
    problem(
        id="gdn_recompute_w_u", title="Gated DeltaNet: recompute w and u", reference=gdn_recompute_w_u,
        description="Per chunk of 64 tokens, batch and head, with the chunk's lower-triangular 64 × 64 matrix A: w = A "
            "(k beta exp(g)) and u = A (v beta), where beta and g are one number per token.",
        inputs=_w_u_inputs, outputs=tensors("w[batch,length,heads,key]", "u[batch,length,heads,value]"),
        flops=lambda p: 2 * _gdn_tokens(p) * CHUNK * (p["key"] + p["value"]),
        cases=(STRONG_DECAY, NO_DECAY, large("k", "v", factor=1e3, atol_scale=1e3), zero_rows("beta"), MIXING),
    ),
)  # fmt: skip
