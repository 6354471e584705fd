"""Answers of a local model to many prompts: what it implies by its first digit, and what it states when sampled."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from kbench.benchmark.metrics.arrays import Floats
from kbench.benchmark.surrogates.language.local import digits
from kbench.benchmark.surrogates.language.local.model import DigitModel, ReadPrompts, Tokens, batches
from kbench.schemas import bins


@dataclasses.dataclass(frozen=True, slots=True)
class Answers:
    """Distributions over the bins, in the order of the prompts."""

    implied: Floats
    """Probability of each bin as first digit, [prompts, 8]."""
    stated: Floats
    """Distributions of sampled answers, [prompts, samples, 8]."""


def answers(
    model: DigitModel,
    prompts: Sequence[Tokens],
    noise: Floats,
    batch_tokens: int,
    temperature: float = 1.0,
    advance: Callable[[int], object] = lambda _: None,
) -> Answers:
    """Ask a model.

    Args:
        model: the weights.
        prompts: tokens.
        noise: uniform numbers [prompts, samples, 9]; without samples nothing is stated.
        batch_tokens: most tokens read at once.
        temperature: of the sampled answers.
        advance: told how many prompts were answered.
    """
    import torch

    found = Answers(np.zeros((len(prompts), bins.COUNT)), np.zeros((*noise.shape[:2], bins.COUNT)))
    with torch.no_grad():
        for chosen in batches(np.array([len(prompt) for prompt in prompts]), batch_tokens):
            read = model.read([prompts[index] for index in chosen])
            found.implied[chosen] = implied(model, read)
            if noise.shape[1]:
                drawn = model.sample(read, noise[chosen], temperature)
                found.stated[chosen] = digits.distributions(drawn.cpu().numpy())
            advance(len(chosen))
    return found


def implied(model: DigitModel, read: ReadPrompts) -> Floats:
    """Probability of each bin as first digit, [prompts, 8]."""
    import torch

    shares: Floats = torch.softmax(model.bin_logits(read).detach().double(), dim=-1).cpu().numpy()
    return shares


def noise_of(query_id: str, seed: int, samples: int) -> Floats:
    """A question's own uniform numbers, [samples, 9]: a resumed run draws the same answers."""
    return np.random.default_rng([seed, int(query_id[:16], 16)]).random((samples, digits.LENGTH))
