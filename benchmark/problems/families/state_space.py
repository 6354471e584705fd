"""State-space models: the selective scan."""

from __future__ import annotations

import functools

from kbench.benchmark.problems.adversarial.cases import InputCase, large, one_hot, outliers, small, zero_rows
from kbench.benchmark.problems.adversarial.changes import scale
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.inputs import tensors, uniform
from kbench.benchmark.problems.lazy_torch import Tensor, torch

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


problem = functools.partial(ProblemDefinition, family="state_space")

PROBLEMS: tuple[ProblemDefinition, ...] = (
    problem(
        id="selective_scan", title="Selective scan of a state-space model", reference=selective_scan,
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
