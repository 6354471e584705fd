"""Rewards for reinforcement learning, as TRL takes them: `reward(completions, **columns) -> list[float]`.

The forecast rewards read a model's answer, as JSON or as the nine digits of local models, and the columns of
`kbench data export --format trl-prompt`. They run from 0 to 1, and an answer that states no distribution gets 0. The
kernel rewards read a verdict: `judged` makes one out of a completion, with whatever measures kernels where the training
runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from kbench.benchmark.llm.extract import NoKernelError, extract
from kbench.benchmark.metrics.arrays import LOG2_CENTERS, Floats
from kbench.benchmark.metrics.forecast import brier_rows, rps_rows
from kbench.benchmark.problems.registry import input_count
from kbench.benchmark.surrogates.llm import parse
from kbench.benchmark.surrogates.lm import read_digits
from kbench.schemas import Backend, KernelSource, Status

Completion = str | Sequence[Mapping[str, str]]
"""Plain text, or the messages a model wrote."""

MOST_OCTAVES = 4.0
"""Speedups count up to 16 and down to 1/16: one lucky measurement must not outweigh a batch."""
FAILED = -MOST_OCTAVES - 1.0
"""Below any correct kernel, however slow."""


class Verdict(Protocol):
    """What became of a kernel; the harness's results and the corpus's rows have it."""

    @property
    def status(self) -> Status:
        """Whether it is correct, or how it failed."""

    @property
    def speedup(self) -> float | None:
        """Reference time over kernel time; None unless it is correct."""


Reward = Callable[..., list[float]]


def text_of(completion: Completion) -> str:
    """What a model wrote, whether TRL hands it over as text or as messages."""
    if isinstance(completion, str):
        return completion
    return "\n".join(message.get("content") or "" for message in completion)


def hit(completions: Sequence[Completion], *, bin: Sequence[int], **columns: Any) -> list[float]:
    """1 where the answer's bin is the measured one, else 0; in JSON the likeliest bin counts as the answer's."""
    stated = [_stated(completion) for completion in completions]
    return [float(one is not None and one[0] == number) for one, number in zip(stated, bin, strict=True)]


def brier(completions: Sequence[Completion], *, bin: Sequence[int], **columns: Any) -> list[float]:
    """1 − half-Brier of the stated distribution."""
    return _forecast_reward(brier_rows, completions, bin)


def rps(completions: Sequence[Completion], *, bin: Sequence[int], **columns: Any) -> list[float]:
    """1 − ranked probability score of the stated distribution: a near miss earns more than a far one."""
    return _forecast_reward(rps_rows, completions, bin)


def crps(completions: Sequence[Completion], *, speedup: Sequence[float], **columns: Any) -> list[float]:
    """1 − CRPS in octaves over the range of the bins: the distribution sits on bin centers, the truth between them."""
    span = LOG2_CENTERS[-1] - LOG2_CENTERS[0]
    spread = np.abs(LOG2_CENTERS[:, None] - LOG2_CENTERS[None, :])

    def score(probabilities: Floats, truth: Floats) -> Floats:
        far = np.abs(LOG2_CENTERS[None, :] - np.clip(np.log2(truth), LOG2_CENTERS[0], LOG2_CENTERS[-1])[:, None])
        expected: Floats = (probabilities * far).sum(axis=1)
        own: Floats = np.einsum("ni,ij,nj->n", probabilities, spread, probabilities)
        return (expected - own / 2) / span

    return _forecast_reward(score, completions, speedup)


def _forecast_reward(
    score: Callable[[Floats, Any], Floats], completions: Sequence[Completion], truths: Sequence[float]
) -> list[float]:
    """1 − score of each stated distribution against its truth; 0 where none is stated."""
    stated = {at: found for at, completion in enumerate(completions) if (found := _stated(completion)) is not None}
    rewards = [0.0] * len(completions)
    if stated:
        values = 1.0 - score(np.array([found[1] for found in stated.values()]), np.array([truths[at] for at in stated]))
        for index, value in zip(stated, values, strict=True):
            rewards[index] = float(value)
    return rewards


def _stated(completion: Completion) -> tuple[int, tuple[float, ...]] | None:
    """The bin and the distribution an answer states; None where it states none."""
    text = text_of(completion)
    digits = read_digits(text)
    shares = None if digits is not None else parse(text, "0" * 16).probabilities
    return digits if shares is None else (int(np.argmax(shares)) + 1, shares)


FORECAST_REWARDS: Mapping[str, tuple[Reward, ...]] = MappingProxyType(
    {"correctness": (hit,), "+brier": (hit, brier), "+crps": (hit, rps)}
)
"""The rewards that calibration studies compare; each is a sum. On bins the CRPS is the ranked probability score."""


def correctness(completions: Sequence[Completion], *, status: Sequence[str], **columns: Any) -> list[float]:
    """1 for a kernel that compiles, runs and is correct, else 0."""
    return [float(one == Status.OK) for one in status]


def log_speedup(
    completions: Sequence[Completion], *, status: Sequence[str], speedup: Sequence[float | None], **columns: Any
) -> list[float]:
    """log2 of the speedup over PyTorch behind a gate: no kernel that failed scores as high as a correct one."""
    return [kernel_score(*outcome) for outcome in zip(status, speedup, strict=True)]


def kernel_score(status: str, speedup: float | None) -> float:
    """log2 of a correct kernel's speedup, within ±4; −5 for one that failed."""
    if status != Status.OK or speedup is None:
        return FAILED
    return max(-MOST_OCTAVES, min(MOST_OCTAVES, math.log2(speedup)))


def judged(reward: Reward, judge: Callable[[KernelSource], Verdict]) -> Reward:
    """A kernel reward that measures what a model wrote before it scores it.

    Args:
        reward: `correctness`, `log_speedup` or one of your own.
        judge: measures one kernel; each distinct kernel is measured once.

    Returns:
        a reward that reads the columns problem_id and backend. An answer without a kernel is `rejected`.
    """
    verdicts: dict[KernelSource, tuple[Status, float | None]] = {}

    def verdict(completion: Completion, problem_id: str, backend: str) -> tuple[Status, float | None]:
        try:
            source = extract(text_of(completion), input_count(problem_id))
        except NoKernelError:
            return Status.REJECTED, None
        kernel = KernelSource(problem_id, Backend(backend), source)
        if kernel not in verdicts:
            result = judge(kernel)
            verdicts[kernel] = result.status, result.speedup
        return verdicts[kernel]

    def measured(
        completions: Sequence[Completion], *, problem_id: Sequence[str], backend: Sequence[str], **columns: Any
    ) -> list[float]:
        verdicts = [verdict(*one) for one in zip(completions, problem_id, backend, strict=True)]
        outcome = {"status": [status for status, _ in verdicts], "speedup": [speedup for _, speedup in verdicts]}
        return reward(completions, **columns | outcome | {"problem_id": problem_id, "backend": backend})

    # TRL logs a reward by its function's name.
    measured.__name__ = getattr(reward, "__name__", "reward")
    return measured
