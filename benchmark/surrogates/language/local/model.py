"""A network, and the three things asked of it: read prompts, sample answers, and weigh given answers.

A prompt is read once, whatever the number of its answers: they share its keys and values, and a mask keeps each from
seeing the others. Gradients flow back into the prompt through the same cache.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, Ints
from kbench.benchmark.surrogates.language.local import digits
from kbench.schemas import bins

if TYPE_CHECKING:
    import torch

ALIGNED = 64
"""Prompts are padded to multiples of this: fewer shapes to plan and memory to reuse on a GPU."""
Tokens = Sequence[int] | npt.NDArray[np.uint32]


@dataclasses.dataclass(frozen=True, slots=True)
class ReadPrompts:
    """A batch of prompts as the network has read them."""

    lengths: torch.Tensor
    """[prompts]."""
    last: torch.Tensor
    """State after the last token, [prompts, channels]."""
    keys_and_values: tuple[tuple[torch.Tensor, torch.Tensor], ...]
    """By layer."""


class DigitModel:
    """A causal language model that may only answer digits."""

    def __init__(self, network: Any, digit_tokens: Sequence[int]) -> None:
        """Wrap a network.

        Args:
            network: a causal language model of transformers.
            digit_tokens: the tokens of the digits 0 to 9.
        """
        import torch

        self.network = network
        self.digit_tokens = torch.tensor(list(digit_tokens), device=network.device)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        device: torch.device = self.network.device
        return device

    def read(self, prompts: Sequence[Tokens]) -> ReadPrompts:
        """Read prompts of any lengths; padding stands behind a prompt, where causal attention never looks."""
        import torch

        lengths = torch.tensor([len(prompt) for prompt in prompts])
        tokens = torch.zeros(len(prompts), -int(-lengths.max() // ALIGNED) * ALIGNED, dtype=torch.long)
        for row, prompt in zip(tokens, prompts, strict=True):
            row[: len(prompt)] = torch.as_tensor(np.asarray(prompt, dtype=np.int64))
        lengths = lengths.to(self.device)
        found = self.network.base_model(input_ids=tokens.to(self.device), use_cache=True)
        last = found.last_hidden_state[torch.arange(len(prompts), device=self.device), lengths - 1]
        pairs = tuple((layer.keys, layer.values) for layer in found.past_key_values.layers)
        return ReadPrompts(lengths, last, pairs)

    def bin_logits(self, read: ReadPrompts) -> torch.Tensor:
        """Logits of the eight bins as first digit, [prompts, 8]."""
        return self._digit_logits(read.last)[:, 1 : 1 + bins.COUNT]

    def sample(self, read: ReadPrompts, noise: Floats, temperature: float = 1.0) -> torch.Tensor:
        """Answers drawn from the model, [prompts, group, 9]; every one of them parses.

        Args:
            read: the prompts.
            noise: uniform numbers from 0 to 1 of the same shape, so that a draw depends on no batch and no device.
            temperature: 1 draws from the model's own distribution.
        """
        import torch

        group = noise.shape[1]
        with torch.no_grad():
            cuts = torch.as_tensor(noise, dtype=torch.float32, device=self.device)
            cache = self._cache(read, detached=True)
            mask = _mask(read, group)
            start = mask.shape[-1] - mask.shape[-2]
            logits = self._digit_logits(read.last)[:, None].expand(-1, group, -1)
            answers = torch.zeros(len(read.lengths), group, 0, dtype=torch.long, device=self.device)
            for step in range(digits.LENGTH):
                if step:
                    shown = mask[:, :, (step - 1) * group : step * group, : start + step * group]
                    logits = self._digit_logits(self._answer_states(read, cache, answers[..., -1:], shown))[:, :, 0]
                chances = torch.softmax(permitted(logits, answers) / temperature, dim=-1)
                below = (chances.cumsum(-1) <= cuts[..., step, None]).sum(-1)
                # Rounding may leave the sum below a cut; the last digit that can be drawn is then meant.
                last = digits.LARGEST - (chances.flip(-1) > 0).int().argmax(-1)
                answers = torch.cat([answers, torch.minimum(below, last)[..., None]], dim=-1)
        return answers

    def log_chances(self, read: ReadPrompts, answers: torch.Tensor) -> torch.Tensor:
        """Log-probability of every digit of given answers, [prompts, group, 9], with gradients."""
        import torch

        group = answers.shape[1]
        states = self._answer_states(read, self._cache(read), answers[..., :-1], _mask(read, group))
        first = self._digit_logits(read.last)[:, None, None].expand(-1, group, -1, -1)
        steps = torch.cat([first, self._digit_logits(states)], dim=2)
        allowed = torch.stack([permitted(steps[:, :, at], answers[..., :at]) for at in range(digits.LENGTH)], dim=2)
        chosen: torch.Tensor = torch.log_softmax(allowed, dim=-1).gather(-1, answers[..., None])[..., 0]
        return chosen

    def _digit_logits(self, states: torch.Tensor) -> torch.Tensor:
        rows = self.network.get_output_embeddings().weight[self.digit_tokens]
        logits: torch.Tensor = states.float() @ rows.float().T
        return logits

    def _cache(self, read: ReadPrompts, detached: bool = False) -> Any:
        """The prompts' keys and values as a cache to append to; `read` itself stays as it is."""
        from transformers import DynamicCache

        cache = DynamicCache()
        for layer, (keys, values) in enumerate(read.keys_and_values):
            cache.update(keys.detach() if detached else keys, values.detach() if detached else values, layer)
        return cache

    def _answer_states(self, read: ReadPrompts, cache: Any, answers: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """States after digits [prompts, group, steps]; the mask orders them by step, then by answer."""
        import torch

        steps, seen = answers.shape[2], mask.shape[-1] - mask.shape[-2]
        prompt_width = read.keys_and_values[0][0].shape[2]
        begun = (seen - prompt_width) // answers.shape[1]
        positions = read.lengths[:, None] + begun + torch.arange(steps, device=self.device)
        found = self.network.base_model(
            input_ids=self.digit_tokens[answers.transpose(1, 2).flatten(1)],
            position_ids=positions.repeat_interleave(answers.shape[1], dim=1),
            attention_mask=mask,
            past_key_values=cache,
            use_cache=True,
        )
        states: torch.Tensor = found.last_hidden_state
        return states.reshape(len(states), steps, answers.shape[1], -1).transpose(1, 2)


def permitted(logits: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
    """Logits of the next digit with those ruled out that would make no answer.

    The first digit is a bin. The last may not be 0 when no weight was given yet.
    """
    import torch

    step = before.shape[-1]
    digit = torch.arange(digits.LARGEST + 1, device=logits.device)
    allowed = torch.ones_like(logits, dtype=torch.bool)
    if step == 0:
        allowed &= (digit >= 1) & (digit <= bins.COUNT)
    elif step == digits.LENGTH - 1:
        allowed &= (digit > 0) | (before[..., 1:].sum(-1, keepdim=True) > 0)
    return logits.masked_fill(~allowed, -torch.inf)


def _mask(read: ReadPrompts, group: int) -> torch.Tensor:
    """What a group's digits see, [prompts, 1, digits, prompt + digits]: their prompt and their own past."""
    import torch

    device, width = read.lengths.device, read.keys_and_values[0][0].shape[2]
    place = torch.arange((digits.LENGTH - 1) * group, device=device)
    step, member = place // group, place % group
    own = (member[:, None] == member[None]) & (step[:, None] >= step[None])
    prompt = torch.arange(width, device=device)[None] < read.lengths[:, None]
    many = len(read.lengths)
    parts = (prompt[:, None, None].expand(many, 1, len(place), width), own.expand(many, 1, *own.shape))
    return torch.cat(parts, dim=-1)


def batches(lengths: Ints, most_tokens: int) -> Iterator[Ints]:
    """Indices in batches of similar length, each of at most so many tokens with its padding, longest first."""
    order = np.argsort(-lengths, kind="stable")
    while len(order):
        count = max(1, most_tokens // int(lengths[order[0]]))
        yield order[:count]
        order = order[count:]
