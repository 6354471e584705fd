"""Linear attention of 2025's hybrid models: gated delta networks over prompts and in decoding, and constant decays."""

from __future__ import annotations

import functools

from kbench.benchmark.problems.adversarial.cases import InputCase, extremes, large, one_hot, outliers, zero_rows
from kbench.benchmark.problems.adversarial.changes import scale
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.families.mamba import decayed_scan
from kbench.benchmark.problems.families.shared import bf16, wide
from kbench.benchmark.problems.inputs import Params, Sized, Specs, TensorSpec, normal, parameters, tensors, uniform
from kbench.benchmark.problems.lazy_torch import Generator, Tensor, torch

CHUNK = 64
"""Tokens that the reference takes at once."""
DELTA = Tolerance(
    2e-2, 3e-2, "bfloat16 inputs and output; corrections and states may be rounded to bfloat16 (2^-9 relative each)"
)
STEP = Tolerance(1e-2, 1e-2, "a float32 state of unit scale; one rounding of o to bfloat16, 2^-9 relative")
SHARP_GATES = InputCase(
    "sharp_gates", "Gates that forget everything, or nothing, find exponentials made for usual ones.",
    {"g": scale(50.0, 0.0)}, unit=0,
)  # fmt: skip
BETA_ENDS = extremes("beta", values=(0.0, 1.0), case="beta_ends")
RULE = (
    "S becomes exp(g_t) S, then S + k_tᵀ beta_t (v_t - k_t S), and o_t = q_t S / sqrt(width). Keys have unit length; "
    "neighbouring value heads share a query and key head; beta and g are float32"
)


def unit_rows(generator: Generator, spec: TensorSpec, device: str) -> Tensor:
    """Gaussian vectors of unit length."""
    drawn = torch.randn(spec.shape, generator=generator, device=device)
    length = drawn.square().sum(-1, keepdim=True).sqrt()
    return (drawn / length).to(getattr(torch, spec.dtype))


def gated_delta_prefill(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, g: Tensor) -> Tensor:
    batch, length, heads, width = v.shape
    group = heads // k.shape[2]
    q, k = (wide(x).repeat_interleave(group, dim=2) for x in (q, k))
    q, k, v = (wide(x).reshape(batch, -1, CHUNK, heads, x.shape[-1]).transpose(2, 3) for x in (q, k, v))
    beta, g = (x.reshape(batch, -1, CHUNK, heads).transpose(2, 3) for x in (beta, g))
    cum = g.cumsum(-1)
    earlier = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=q.device).tril()
    gaps = (cum[..., :, None] - cum[..., None, :]).masked_fill(~earlier, float("-inf")).exp()
    written = (k @ k.transpose(-1, -2) * gaps * beta[..., None]).tril(-1)
    writes = torch.cat((v, k * cum.exp()[..., None]), dim=-1) * beta[..., None]
    solved = torch.linalg.solve_triangular(written, writes, upper=False, unitriangular=True)
    u, w = solved[..., :width], solved[..., width:]
    scores = q @ k.transpose(-1, -2) * gaps
    state, outputs = q.new_zeros(batch, heads, k.shape[-1], width), []
    for n in range(cum.shape[1]):
        new = u[:, n] - w[:, n] @ state
        outputs.append((q[:, n] * cum[:, n].exp()[..., None]) @ state + scores[:, n] @ new)
        last = cum[:, n, :, -1:]
        state = state * last.exp()[..., None] + (k[:, n] * (last - cum[:, n]).exp()[..., None]).transpose(-1, -2) @ new
    o = torch.stack(outputs, dim=1).transpose(2, 3).reshape(batch, length, heads, width)
    return bf16(o * k.shape[-1] ** -0.5)


def delta_step(state: Tensor, q: Tensor, k: Tensor, v: Tensor, beta: Tensor, decay: Tensor) -> tuple[Tensor, Tensor]:
    """One token: decay (batch, head, width of a key, or 1), the delta rule, and the reading."""
    kept = state * decay.unsqueeze(-1)
    error = wide(v) - (kept * k.unsqueeze(-1)).sum(-2)
    state = kept + k.unsqueeze(-1) * (beta.unsqueeze(-1) * error).unsqueeze(-2)
    return bf16((state * q.unsqueeze(-1)).sum(-2) * k.shape[-1] ** -0.5), state


def gated_delta_decode(
    state: Tensor, q: Tensor, k: Tensor, v: Tensor, beta: Tensor, g: Tensor
) -> tuple[Tensor, Tensor]:
    group = v.shape[1] // k.shape[1]
    q, k = (wide(x).repeat_interleave(group, dim=1) for x in (q, k))
    return delta_step(state, q, k, v, beta, g.exp().unsqueeze(-1))


def channel_delta_decode(
    state: Tensor, q: Tensor, k: Tensor, v: Tensor, beta: Tensor, g: Tensor
) -> tuple[Tensor, Tensor]:
    return delta_step(state, wide(q), wide(k), v, beta, g.exp())


def delta_verify(state: Tensor, q: Tensor, k: Tensor, v: Tensor, beta: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    group, outputs = v.shape[2] // k.shape[2], []
    q, k = (wide(x).repeat_interleave(group, dim=2) for x in (q, k))
    for t in range(q.shape[1]):
        o, state = delta_step(state, q[:, t], k[:, t], v[:, t], beta[:, t], g[:, t].exp().unsqueeze(-1))
        outputs.append(o)
    return torch.stack(outputs, dim=1), state


def decay_attention_prefill(q: Tensor, k: Tensor, v: Tensor, slope: Tensor) -> Tensor:
    decay = (-slope).expand(*q.shape[:3]).contiguous()
    return bf16(decayed_scan(wide(v), decay, wide(k), wide(q)))


_inputs = tensors(
    "q k: bfloat16[batch,length,key_heads,width]", "v: bfloat16[batch,length,heads,width]",
    "beta g[batch,length,heads]", k=unit_rows, beta=uniform(0.1, 0.9), g=uniform(-0.1, -0.001),
)  # fmt: skip


STATE = "state[batch,heads,width,width]"


def _step_inputs(gates: str) -> Specs:
    return tensors(
        STATE, "q k: bfloat16[batch,key_heads,width]", "v: bfloat16[batch,heads,width]", "beta[batch,heads]", gates,
        state=normal(0.5), q=normal(2.0), k=unit_rows, beta=uniform(0.1, 0.9), g=uniform(-0.5, -0.001),
    )  # fmt: skip


_unit = Sized(lambda p: normal(p["width"] ** -0.25))


_sized = parameters("batch length heads key_heads width", width=128)


def _flops(p: Params) -> int:
    """Per token a reading, a correction and a writing of the state."""
    return int(6 * p["batch"] * p["length"] * p["heads"] * p["width"] ** 2)


problem = functools.partial(ProblemDefinition, family="delta_net", flops=_flops, tolerance=STEP)
STEP_OUTPUTS = tensors("o: bfloat16[batch,heads,width]", "new_state[batch,heads,width,width]")
STEP_CASES = (
    large("state", factor=16.0, atol_scale=16.0), outliers("v", factor=16.0), SHARP_GATES,
    BETA_ENDS,
)  # fmt: skip

PROBLEMS: tuple[ProblemDefinition, ...] = (
    problem(
        id="gated_delta_prefill", title="Gated delta network over a prompt", reference=gated_delta_prefill,
        description="Per batch and value head a state S of width by width numbers starts at zero. For every token "
            f"{RULE}; q, k, v and o bfloat16, laid out [batch, token, head, width].",
        inputs=_inputs, outputs=tensors("o: bfloat16[batch,length,heads,width]"), tolerance=DELTA, compute_unit="bf16",
        sizes=(
            Size("qwen3_next_4k", _sized(1, 4096, 32, 16), "Qwen3-Next-80B, one prompt of 4096 tokens"),
            Size("qwen3_next_b8", _sized(8, 1024, 32, 16), "Qwen3-Next-80B, 8 prompts of 1024 tokens"),
            Size("qwen3_next_tp4_32k", _sized(1, 32768, 8, 4), "Qwen3-Next-80B on one of 4 GPUs, 32,768 tokens"),
        ),
        tiny=Size("tiny", _sized(1, 2 * CHUNK, 4, 2, 32)),
        cases=(outliers("v", factor=16.0), SHARP_GATES, BETA_ENDS, one_hot("v", dim=1)),
    ),
    problem(
        id="gated_delta_decode", title="Gated delta network, one decoding step", reference=gated_delta_decode,
        description=f"One token for every sequence of a gated delta network with float32 states S (width by width per "
            f"value head): {RULE}. Returns o (bfloat16) and the new states (float32).",
        inputs=_step_inputs("g[batch,heads]"), outputs=STEP_OUTPUTS,
        sizes=(
            Size("qwen3_next_b64", _sized(64, 1, 32, 16), "Qwen3-Next-80B, 64 sequences"),
            Size("qwen3_next_b16", _sized(16, 1, 32, 16), "Qwen3-Next-80B, 16 sequences"),
            Size("qwen3_next_tp4_b128", _sized(128, 1, 8, 4), "Qwen3-Next-80B on one of 4 GPUs, 128 sequences"),
        ),
        tiny=Size("tiny", _sized(5, 1, 4, 2, 32)), cases=STEP_CASES,
    ),
    problem(
        id="channel_delta_decode", title="Delta network with a gate per channel, one decoding step",
        reference=channel_delta_decode,
        description="One token for every sequence of a delta network with float32 states S (width by width per head) "
            "and a gate for every channel of the key: row i of S is multiplied by exp(g[i]), then S becomes S + kᵀ "
            "beta (v - k S), and o = q S / sqrt(width). Keys have unit length; beta and g are float32. Returns o "
            "(bfloat16) and the new states (float32).",
        inputs=_step_inputs("g[batch,heads,width]"), outputs=STEP_OUTPUTS,
        sizes=(
            Size("kimi_linear_b64", _sized(64, 1, 32, 32, channels=1), "Kimi-Linear-48B, 64 sequences"),
            Size("kimi_linear_b128", _sized(128, 1, 32, 32, channels=1), "Kimi-Linear-48B, 128 sequences"),
            Size("kimi_linear_tp4", _sized(128, 1, 8, 8, channels=1), "Kimi-Linear-48B on one of 4 GPUs"),
        ),
        tiny=Size("tiny", _sized(5, 1, 4, 4, 32, channels=1)), cases=STEP_CASES,
    ),
    problem(
        id="delta_verify", title="Gated delta network over a few drafted tokens", reference=delta_verify,
        description=f"A few drafted tokens one after another for every sequence, from float32 states S (width by width "
            f"per value head). For every token {RULE}. Returns o (bfloat16) and the states after the last token "
            "(float32).",
        inputs=tensors(STATE, _inputs, state=normal(0.5)),
        outputs=tensors("o: bfloat16[batch,length,heads,width]", "new_state[batch,heads,width,width]"),
        sizes=(
            Size("qwen3_next_b32", _sized(32, 4, 32, 16), "Qwen3-Next-80B, 4 drafted tokens, 32 sequences"),
            Size("qwen3_next_b64", _sized(64, 3, 32, 16), "Qwen3-Next-80B, 3 drafted tokens, 64 sequences"),
            Size("qwen3_next_tp4", _sized(128, 6, 8, 4), "Qwen3-Next-80B on one of 4 GPUs, 6 drafted tokens"),
        ),
        tiny=Size("tiny", _sized(3, 4, 4, 2, 32)), cases=STEP_CASES,
    ),
    problem(
        id="decay_attention_prefill", title="Linear attention with constant decay over a prompt",
        reference=decay_attention_prefill,
        description="o_t = sum over s <= t of exp(-slope (t - s)) (q_t · k_s) v_s per batch and head, with one float32 "
            "slope per head; q, k, v and o bfloat16, laid out [batch, token, head, width].",
        inputs=tensors(
            "q k v: bfloat16[batch,length,heads,width]", "slope[heads]", q=_unit, k=_unit, slope=uniform(0.02, 0.5),
        ),
        outputs=tensors("o: bfloat16[batch,length,heads,width]"),
        flops=lambda p: 4 * p["batch"] * p["length"] * p["heads"] * p["width"] ** 2, compute_unit="bf16",
        tolerance=Tolerance(6e-2, 3e-2, "sums of a size of 3, whose scores and states may be rounded to bfloat16"),
        sizes=(
            Size("minimax_01_tp8", _sized(1, 8192, 8, 8), "MiniMax-Text-01 on one of 8 GPUs, 8192 tokens"),
            Size("minimax_01", _sized(1, 4096, 64, 64), "MiniMax-Text-01, one prompt of 4096 tokens"),
            Size("ring_linear", _sized(4, 2048, 16, 16), "Ring-mini-linear-2.0, 4 prompts of 2048 tokens"),
        ),
        tiny=Size("tiny", _sized(1, 2 * CHUNK, 3, 3, 32)),
        cases=(
            outliers("v", factor=16.0), large("k", factor=16.0, atol_scale=16.0), zero_rows("q"),
            one_hot("v", dim=1),
        ),
    ),
)  # fmt: skip
