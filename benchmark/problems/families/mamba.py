"""State-space models: the selective scan of Mamba, and of Mamba-2 the scan, its gradients, a step and the short
convolution."""

from __future__ import annotations

import functools

from kbench.benchmark.problems.adversarial.cases import InputCase, large, one_hot, outliers, small, zero_rows
from kbench.benchmark.problems.adversarial.changes import scale
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.families.shared import MIXED_STARTS, bf16, packed_starts, sequence_of, wide
from kbench.benchmark.problems.inputs import Params, Sized, Specs, normal, parameters, tensors, uniform
from kbench.benchmark.problems.lazy_torch import F, Tensor, torch

CHUNK = 64
"""Tokens that the references take at once."""
SCAN = Tolerance(
    3e-2, 3e-2, "bfloat16 inputs and output; decays, scores and states may be rounded to bfloat16 (2^-9 relative each)"
)
STEP_ENDS = InputCase(
    "step_ends", "Steps that forget everything, or nothing, find exponentials made for usual ones.",
    {"dt": scale(40.0, 0.0)}, atol_scale=8.0, unit=0,
)  # fmt: skip


def decayed_scan(u: Tensor, decay: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """y_t = sum over s <= t of exp(decay_(s+1) + ... + decay_t) (c_t · b_s) u_s, chunk by chunk.

    Args:
        u: (batch, token, head, width).
        decay: (batch, token, head), logarithms.
        b: (batch, token, head, state).
        c: (batch, token, head, state).
    """
    batch, length, heads, _ = u.shape
    u, b, c = (x.reshape(batch, -1, CHUNK, heads, x.shape[-1]).transpose(2, 3) for x in (u, b, c))
    cum = decay.reshape(batch, -1, CHUNK, heads).transpose(2, 3).cumsum(-1)
    earlier = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=u.device).tril()
    gaps = (cum[..., :, None] - cum[..., None, :]).masked_fill(~earlier, float("-inf"))
    y = (c @ b.transpose(-1, -2) * gaps.exp()) @ u
    added = (b * (cum[..., -1:] - cum).exp()[..., None]).transpose(-1, -2) @ u
    state, states = torch.zeros_like(added[:, 0]), []
    for chunk in range(added.shape[1]):
        states.append(state)
        state = state * cum[:, chunk, :, -1].exp()[..., None, None] + added[:, chunk]
    y = y + (c * cum.exp()[..., None]) @ torch.stack(states, dim=1)
    return y.transpose(2, 3).reshape(batch, length, heads, -1)


def backward_scan(u: Tensor, decay: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """The same over s >= t, with exp(decay_(t+1) + ... + decay_s)."""
    shifted = F.pad(decay.flip(1)[:, :-1], (0, 0, 1, 0))
    return decayed_scan(u.flip(1), shifted, b.flip(1), c.flip(1)).flip(1)


def mamba2_scan(x: Tensor, dt: Tensor, a: Tensor, b: Tensor, c: Tensor, skip: Tensor) -> Tensor:
    group = x.shape[2] // b.shape[2]
    b, c = (wide(v).repeat_interleave(group, dim=2) for v in (b, c))
    y = decayed_scan(wide(x) * dt.unsqueeze(-1), dt * a, b, c)
    return bf16(y + wide(x) * skip[:, None])


def mamba2_scan_backward(
    x: Tensor, dt: Tensor, a: Tensor, b: Tensor, c: Tensor, dy: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    batch, length, groups, states = b.shape
    b, c = (wide(v).repeat_interleave(x.shape[2] // groups, dim=2) for v in (b, c))
    u, dy, decay = wide(x) * dt.unsqueeze(-1), wide(dy), dt * a
    dx = backward_scan(dy, decay, c, b) * dt.unsqueeze(-1)
    db = backward_scan(c, decay, dy, u).view(batch, length, groups, -1, states).sum(3)
    dc = decayed_scan(b, decay, u, dy).view(batch, length, groups, -1, states).sum(3)
    return bf16(dx), bf16(db), bf16(dc)


def mamba2_decode(
    state: Tensor, x: Tensor, dt: Tensor, a: Tensor, b: Tensor, c: Tensor, skip: Tensor
) -> tuple[Tensor, Tensor]:
    group = x.shape[1] // b.shape[1]
    b, c = (wide(v).repeat_interleave(group, dim=1) for v in (b, c))
    kept = state * torch.exp(dt * a)[..., None, None]
    state = kept + (wide(x) * dt.unsqueeze(-1)).unsqueeze(-1) * b.unsqueeze(-2)
    y = (state * c.unsqueeze(-2)).sum(-1) + wide(x) * skip[:, None]
    return bf16(y), state


def causal_conv1d_varlen(x: Tensor, weight: Tensor, bias: Tensor, starts: Tensor) -> Tensor:
    sequence, taps = sequence_of(starts, x.shape[0]), weight.shape[1]
    total = wide(bias).expand(x.shape)
    for back in range(taps):
        earlier = F.pad(wide(x)[: x.shape[0] - back], (0, 0, back, 0))
        same = sequence == F.pad(sequence[: x.shape[0] - back], (back, 0), value=-1)
        total = total + earlier * same[:, None] * wide(weight)[:, taps - 1 - back]
    return bf16(F.silu(total))


def causal_conv1d_backward(x: Tensor, weight: Tensor, bias: Tensor, dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    length, taps = x.shape[1], weight.shape[1]
    earlier = [F.pad(wide(x)[:, : length - taps + 1 + tap], (0, 0, taps - 1 - tap, 0)) for tap in range(taps)]
    z = wide(bias) + sum(earlier[tap] * wide(weight)[:, tap] for tap in range(taps))
    s = torch.sigmoid(z)
    dz = wide(dy) * s * (1 + z * (1 - s))
    later = [F.pad(dz[:, taps - 1 - tap :], (0, 0, 0, taps - 1 - tap)) for tap in range(taps)]
    dx = sum(later[tap] * wide(weight)[:, tap] for tap in range(taps))
    dweight = torch.stack([(dz * earlier[tap]).sum((0, 1)) for tap in range(taps)], dim=1)
    return bf16(torch.as_tensor(dx)), dweight, dz.sum((0, 1))


_unit = Sized(lambda p: normal(p["states"] ** -0.25))


def _scan_inputs(last: str, x_size: float = 1.0) -> Specs:
    return tensors(
        "x: bfloat16[batch,length,heads,width]", "dt[batch,length,heads]", "a[heads]",
        "b c: bfloat16[batch,length,groups,states]", last, x=normal(x_size), dt=uniform(0.5, 1.5),
        a=uniform(-0.3, -0.02), b=_unit, c=_unit,
    )  # fmt: skip


_sized = parameters("batch length heads groups width states", width=64, states=128)


def _scan_flops(p: Params, scans: int = 1) -> int:
    """A state's update and its reading, per token: fewer operations than any chunked form."""
    return int(4 * scans * p["batch"] * p["length"] * p["heads"] * p["width"] * p["states"])


problem = functools.partial(
    ProblemDefinition, family="mamba", tolerance=SCAN, compute_unit="bf16",
    tiny=Size("tiny", _sized(1, 2 * CHUNK, 4, 2, 16, 32)),
)  # fmt: skip
SCAN_CASES = (outliers("x", factor=16.0), STEP_ENDS, one_hot("x", dim=1), large("b", factor=32.0, atol_scale=32.0))

PROBLEMS: tuple[ProblemDefinition, ...] = (
    problem(
        id="mamba2_scan", title="Mamba-2 scan over a prompt", reference=mamba2_scan,
        description="Per batch and head a state of `states` by `width` numbers starts at zero and follows S = exp(dt_t "
            "a) S + b_tᵀ (dt_t x_t); y_t = c_t S + skip x_t. b and c are shared by neighbouring heads of a group; dt, "
            "a and skip are float32, the rest and y bfloat16.",
        inputs=_scan_inputs("skip[heads]"),
        outputs=tensors("y: bfloat16[batch,length,heads,width]"), flops=_scan_flops,
        sizes=(
            Size("mamba2_2_7b", _sized(2, 2048, 80, 1), "Mamba-2-2.7B, 2 sequences of 2048 tokens"),
            Size("codestral_7b", _sized(1, 4096, 128, 8), "Mamba-Codestral-7B, one sequence of 4096 tokens"),
            Size("nemotron_h_8b", _sized(1, 8192, 128, 8), "Nemotron-H-8B, one sequence of 8192 tokens"),
        ),
        cases=SCAN_CASES,
    ),
    problem(
        id="mamba2_scan_backward", title="Mamba-2 scan, backward", reference=mamba2_scan_backward,
        description="Gradients of x, b and c (bfloat16) through y_t = sum over s <= t of exp(a (dt_(s+1) + ... + "
            "dt_t)) (c_t · b_s) dt_s x_s per batch and head, given dy. b and c are shared by neighbouring heads of a "
            "group, and their gradients are sums over them; dt and a are float32.",
        inputs=_scan_inputs("dy: bfloat16[batch,length,heads,width]", x_size=0.1),
        outputs=tensors("dx: bfloat16[batch,length,heads,width]", "db dc: bfloat16[batch,length,groups,states]"),
        flops=lambda p: _scan_flops(p, 3),
        sizes=(
            Size("mamba2_2_7b", _sized(2, 2048, 80, 1), "Mamba-2-2.7B, 2 sequences of 2048 tokens"),
            Size("codestral_7b", _sized(1, 2048, 128, 8), "Mamba-Codestral-7B, one sequence of 2048 tokens"),
            Size("mamba2_370m", _sized(8, 2048, 32, 1), "Mamba-2-370M, 8 sequences of 2048 tokens"),
        ),
        tolerance=Tolerance(
            8e-2, 3e-2, "sums over heads and tokens of products rounded to bfloat16; gradients have a size of 3 to 6"
        ),
        cases=(
            outliers("dy", factor=16.0), large("dy", factor=16.0, atol_scale=16.0), STEP_ENDS,
            one_hot("dy", dim=1),
        ),
    ),
    problem(
        id="mamba2_decode", title="Mamba-2 decoding step", reference=mamba2_decode,
        description="One token of Mamba-2 for every sequence: the float32 state (width by states per head) becomes "
            "exp(dt a) state + (dt x) bᵀ, and y = state c + skip x; b and c are shared by neighbouring heads of a "
            "group. Returns y (bfloat16) and the new state (float32).",
        inputs=tensors(
            "state[batch,heads,width,states]", "x: bfloat16[batch,heads,width]", "dt[batch,heads]", "a[heads]",
            "b c: bfloat16[batch,groups,states]", "skip[heads]", dt=uniform(0.5, 1.5), a=uniform(-0.3, -0.02), b=_unit,
            c=_unit,
        ),
        outputs=tensors("y: bfloat16[batch,heads,width]", "new_state[batch,heads,width,states]"),
        flops=lambda p: 5 * p["batch"] * p["heads"] * p["width"] * p["states"], compute_unit="fp32",
        tolerance=Tolerance(1e-2, 5e-3, "one rounding of y to bfloat16, 2^-9 relative, of a sum of 128 terms"),
        sizes=(
            Size("mamba2_2_7b_b64", _sized(64, 1, 80, 1), "Mamba-2-2.7B, 64 sequences"),
            Size("codestral_7b_b128", _sized(128, 1, 128, 8), "Mamba-Codestral-7B, 128 sequences"),
            Size("nemotron_h_8b_b16", _sized(16, 1, 128, 8), "Nemotron-H-8B, 16 sequences"),
        ),
        tiny=Size("tiny", _sized(5, 1, 4, 2, 16, 32)),
        cases=(
            large("state", atol_scale=32.0), outliers("state", factor=32.0), STEP_ENDS,
            zero_rows("x"),
        ),
    ),
    problem(
        id="causal_conv1d_varlen", title="Short causal convolution over packed sequences",
        reference=causal_conv1d_varlen,
        description="Per channel a convolution over the last 4 tokens of packed sequences, laid out [token, channel]: "
            "y_t = silu(bias + sum over j of weight[:, 3 - j] * x_(t-j)), where tokens before the start of a sequence "
            "count as zero. Sequence s has tokens starts[s] to starts[s + 1] (int32). bfloat16 in and out.",
        inputs=tensors(
            "x: bfloat16[tokens,channels]", "weight: bfloat16[channels,4]", "bias: bfloat16[channels]",
            "starts: int32[count+1]", weight=normal(0.5), starts=Sized(lambda p: packed_starts(p["tokens"])),
        ),
        outputs=tensors("y: bfloat16[tokens,channels]"), flops=lambda p: 8 * p["tokens"] * p["channels"],
        compute_unit="fp32", tolerance=Tolerance(1e-2, 1e-2, "sums in float32 of exact products, rounded to bfloat16"),
        sizes=(
            Size("mamba2_2_7b", {"tokens": 8192, "channels": 5376, "count": 8}, "Mamba-2-2.7B, 8 prompts"),
            Size("qwen3_next", {"tokens": 8192, "channels": 8192, "count": 32}, "Qwen3-Next-80B, 32 prompts"),
            Size("nemotron_h_8b", {"tokens": 16384, "channels": 10240, "count": 5}, "Nemotron-H-8B, 5 prompts"),
        ),
        tiny=Size("tiny", {"tokens": 60, "channels": 24, "count": 6}),
        cases=(
            large("x", atol_scale=32.0), outliers("x", factor=32.0), MIXED_STARTS, one_hot("x", dim=0),
        ),
    ),
    problem(
        id="causal_conv1d_backward", title="Short causal convolution, backward", reference=causal_conv1d_backward,
        description="The forward pass was silu(z) with z_t = bias + sum over j of weight[:, 3 - j] * x_(t-j) per "
            "channel (x: batch, token, channel; tokens before the first count as zero). Given dy, return the gradients "
            "of x (bfloat16) and of weight and bias (float32, summed over batch and tokens). bfloat16 inputs.",
        inputs=tensors(
            "x: bfloat16[batch,length,channels]", "weight: bfloat16[channels,4]", "bias: bfloat16[channels]",
            "dy: bfloat16[batch,length,channels]", weight=normal(0.5),
        ),
        outputs=tensors("dx: bfloat16[batch,length,channels]", "dweight[channels,4]", "dbias[channels]"),
        flops=lambda p: 30 * p["batch"] * p["length"] * p["channels"], compute_unit="fp32",
        tolerance=Tolerance(2e-2, 1e-2, "sums in float32 of exact products; one rounding of dx to bfloat16"),
        sizes=(
            Size("mamba2_2_7b", {"batch": 4, "length": 2048, "channels": 5376}, "Mamba-2-2.7B, 4 × 2048 tokens"),
            Size("qwen3_next", {"batch": 1, "length": 8192, "channels": 8192}, "Qwen3-Next-80B, 8192 tokens"),
            Size("mamba2_370m", {"batch": 8, "length": 2048, "channels": 2304}, "Mamba-2-370M, 8 × 2048 tokens"),
        ),
        tiny=Size("tiny", {"batch": 2, "length": 20, "channels": 24}),
        cases=(
            large("dy", atol_scale=32.0), outliers("x", factor=16.0, atol_scale=16.0), one_hot("dy", dim=1),
        ),
    ),
)  # fmt: skip


LARGE_STEPS = InputCase(
    "large_steps",
    "Steps in which a state decays to nothing find exponentials made for short ones.",
    {"delta": scale(8.0)},
    atol_scale=8.0,
)


def selective_scan(u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, skip: Tensor) -> Tensor:
    batch, channels, length = u.shape
    state = u.new_zeros(batch, channels, a.shape[1], 1)
    pieces = []
    for start in range(0, length, 32):
        part = slice(start, start + 32)
        decay = (delta[:, :, None, part] * a[:, :, None]).cumsum(-1)
        drive = (delta[..., part] * u[..., part]).unsqueeze(2) * b[:, None, :, part]
        states = decay.exp() * (state + (drive * (-decay).exp()).cumsum(-1))
        pieces.append((states * c[:, None, :, part]).sum(2))
        state = states[..., -1:]
    return torch.cat(pieces, -1) + skip.unsqueeze(-1) * u


SELECTIVE_SCAN: tuple[ProblemDefinition, ...] = (
    ProblemDefinition(
        id="selective_scan", title="Selective scan of a state-space model", family="state_space",
        reference=selective_scan,
        description="Per batch and channel a float32 state of a few numbers h follows h = exp(delta_t a) h + delta_t "
            "u_t b_t over the tokens t, from zero; the output is y_t = sum of c_t h + skip * u_t. b and c are shared "
            "by all channels of a batch; sequences run along the last dimension.",
        inputs=tensors(
            "u delta[batch,channels,length]", "a[channels,states]", "b c[batch,states,length]", "skip[channels]",
            delta=uniform(0.01, 0.2), a=uniform(-2.0, -0.5),
        ),
        outputs=tensors("y[batch,channels,length]"),
        flops=lambda p: 7 * p["batch"] * p["channels"] * p["length"] * p["states"],
        sizes=(Size("d2048_l512", {"batch": 1, "channels": 2048, "length": 512, "states": 16}),),
        tiny=Size("tiny", {"batch": 2, "channels": 6, "length": 64, "states": 16}),
        tolerance=Tolerance(1e-4, 1e-4, "float32 recurrence whose memory is some 10 tokens, and a sum over 16 states"),
        cases=(
            large("u"), one_hot("u"), small("delta", factor=1e-3, atol_scale=1.0),
            outliers("b", factor=100.0, atol_scale=10.0), zero_rows("u"), LARGE_STEPS,
        ),
    ),
)  # fmt: skip
