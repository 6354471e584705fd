"""What a batch of prompts teaches: a loss to go down, and figures that say how the model does.

Reinforcement follows the plain policy gradient: each answer's reward less a baseline, times its log-probability.
Rewards are never divided by the group's standard deviation: under proper scores that teaches over-confidence.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from kbench.benchmark.metrics.arrays import Floats, Ints
from kbench.benchmark.metrics.forecast.accuracy import accuracy
from kbench.benchmark.metrics.forecast.ece import ece
from kbench.benchmark.metrics.forecast.rps import rps
from kbench.benchmark.rewards import FORECAST_REWARDS
from kbench.benchmark.surrogates.language.local import digits
from kbench.benchmark.surrogates.language.local.answers import implied
from kbench.benchmark.surrogates.language.local.model import DigitModel, ReadPrompts
from kbench.benchmark.training.lm.settings import RPS, WARM_UP, Settings
from kbench.schemas import bins

if TYPE_CHECKING:
    import torch

WIDTHS = (0.0, 0.5, 1.0, 2.0)
"""Spreads of the weights that the warm-up shows, drawn at random: one alone would leave nothing to explore."""


@dataclasses.dataclass(frozen=True, slots=True)
class Taught:
    """One pass over a batch."""

    loss: torch.Tensor
    """Sum over the prompts, to go down."""
    rewards: Floats
    """Of every answer; empty when nothing was rewarded."""
    forecasts: Floats
    """Distributions that the model stated or implied, [n, 8]."""
    bins: Ints
    """The measured bins of those."""


def teach(model: DigitModel, read: ReadPrompts, truth: Ints, settings: Settings, noise: Floats) -> Taught:
    """The loss of one batch under an objective.

    Args:
        model: what learns.
        read: the prompts, with gradients.
        truth: their measured bins.
        settings: the objective and its parameters.
        noise: uniform numbers [prompts, group, 9] that draw the answers, or the warm-up's spreads.
    """
    if settings.reinforced:
        return _reinforce(model, read, truth, settings, noise)
    if settings.objective == WARM_UP:
        return _warm_up(model, read, truth, noise)
    return _supervise(model, read, truth, settings.objective)


def _reinforce(model: DigitModel, read: ReadPrompts, truth: Ints, settings: Settings, noise: Floats) -> Taught:
    import torch

    answers = model.sample(read, noise)
    flat: Ints = answers.flatten(0, 1).cpu().numpy()
    numbers = np.repeat(truth, settings.group)
    texts = digits.texts(flat)
    rewards = np.sum([reward(texts, bin=numbers) for reward in FORECAST_REWARDS[settings.objective]], axis=0)
    advantage = advantages(rewards.reshape(-1, settings.group), settings.baseline)
    weight = torch.as_tensor(advantage, dtype=torch.float32, device=model.device)
    loss = -(weight * model.log_chances(read, answers).sum(-1)).mean(1).sum()
    return Taught(loss, rewards, digits.distributions(flat), numbers)


def advantages(rewards: Floats, baseline: str) -> Floats:
    """Rewards [prompts, group] less the mean of the group's other answers, or of all its answers."""
    centred: Floats = rewards - rewards.mean(axis=1, keepdims=True)
    group = rewards.shape[1]
    return centred * (group / (group - 1)) if baseline == "leave-one-out" else centred


def _warm_up(model: DigitModel, read: ReadPrompts, truth: Ints, noise: Floats) -> Taught:
    import torch

    widths = np.asarray(WIDTHS)[(noise[:, 0, 0] * len(WIDTHS)).astype(np.int64)]
    shown = torch.as_tensor(digits.spread(truth, widths), device=model.device)
    chances = model.log_chances(read, shown[:, None])[:, 0]
    return Taught(-chances.sum(), np.zeros(0), implied(model, read), truth)


def _supervise(model: DigitModel, read: ReadPrompts, truth: Ints, objective: str) -> Taught:
    """Teach the distribution of the first digit: by its log-likelihood, or by its ranked probability score."""
    import torch

    logits = model.bin_logits(read)
    number = torch.as_tensor(truth, device=model.device)
    if objective == RPS:
        below = torch.softmax(logits, dim=-1).cumsum(-1)[:, :-1]
        truly = number[:, None] <= torch.arange(1, bins.COUNT, device=model.device)
        loss = (below - truly.float()).square().mean(-1).sum()
    else:
        loss = torch.nn.functional.cross_entropy(logits, number - 1, reduction="sum")
    return Taught(loss, np.zeros(0), implied(model, read), truth)


def figures(forecasts: Floats, truth: Ints) -> dict[str, float]:
    """How good distributions are."""
    return {"rps": rps(forecasts, truth), "ece": ece(forecasts, truth), "accuracy": accuracy(forecasts, truth)}
