"""Ragged sequences: lengths, starts of packed sequences and page tables, drawn from a seed.

Lengths are always the same ones in random order: lengths drawn freely would give every seed another amount of work.
"""

from __future__ import annotations

from kbench.benchmark.problems.adversarial.cases import InputCase
from kbench.benchmark.problems.inputs import Fill, TensorSpec
from kbench.benchmark.problems.lazy_torch import Generator, Tensor, torch

SHORTEST, LONGEST = 0.25, 1.75
"""Range of lengths of packed sequences, as shares of their mean."""


def packed_starts(tokens: int) -> Fill:
    """Starts of sequences packed one after another, and the end of the last: int32, one more than there are."""

    def fill(generator: Generator, spec: TensorSpec, device: str) -> Tensor:
        count = spec.shape[0] - 1
        share = torch.linspace(SHORTEST, LONGEST, count, device=device)
        share = share[torch.randperm(count, generator=generator, device=device)]
        starts = torch.zeros(count + 1, device=device)
        starts[1:] = (share.cumsum(0) / share.sum() * tokens).round()
        starts[-1] = tokens
        return starts.to(torch.int32)

    return fill


def packed_pairs(tokens: int, count: int, window: int | None = None) -> int:
    """Pairs of a query and a key that it sees in packed causal sequences, near enough for counting work."""
    lengths = [tokens / count * (SHORTEST + (LONGEST - SHORTEST) * i / max(count - 1, 1)) for i in range(count)]
    seen = [min(window or length, length) for length in lengths]
    return int(sum(s * (length - s) + s * (s + 1) / 2 for s, length in zip(seen, lengths, strict=True)))


def sequence_of(starts: Tensor, tokens: int) -> Tensor:
    """The sequence that each packed token belongs to."""
    places = torch.arange(tokens, device=starts.device)
    return torch.searchsorted(starts[1:].long(), places, right=True)


def lengths_up_to(longest: int) -> Fill:
    """Lengths from half of the longest to the longest; of one sequence, the longest."""

    def fill(generator: Generator, spec: TensorSpec, device: str) -> Tensor:
        lengths = torch.linspace(longest, longest / 2, spec.shape[0], device=device).round()
        return lengths[torch.randperm(spec.shape[0], generator=generator, device=device)].to(torch.int32)

    return fill


def used_tokens(batch: int, longest: int) -> int:
    """Tokens of all sequences that `lengths_up_to` draws."""
    return batch * longest * 3 // 4 if batch > 1 else longest


def page_order(generator: Generator, spec: TensorSpec, device: str) -> Tensor:
    """Every page used once, in random order."""
    drawn = torch.rand(spec.numel, generator=generator, device=device)
    return drawn.argsort().view(spec.shape).to(torch.int32)


def few_short(generator: Generator, lengths: Tensor) -> Tensor:
    """A quarter of the sequences, at least one, has 1 to 20 tokens; the others keep their lengths."""
    order = torch.rand(lengths.shape, generator=generator, device=lengths.device).argsort()
    drawn = torch.randint(1, 21, lengths.shape, generator=generator, device=lengths.device)
    return torch.where(order < max(lengths.numel() // 4, 1), drawn, lengths)


def one_token_sequences(generator: Generator, starts: Tensor) -> Tensor:
    """About a quarter of the packed sequences keeps one token; the sequence after it takes the rest."""
    inner = starts[1:-1]
    picked = torch.rand(inner.shape, generator=generator, device=starts.device) < 0.25
    moved = torch.where(picked & (inner > starts[:-2]), starts[:-2] + 1, inner).cummax(0).values
    return torch.cat((starts[:1], moved.to(starts.dtype), starts[-1:]))


MIXED_LENGTHS = InputCase(
    "mixed_lengths",
    "Few tokens in some sequences find splits that assume a long cache.",
    {"lengths": few_short},
    mixed=True,
)
MIXED_STARTS = InputCase(
    "mixed_starts", "Sequences of one token among long ones find tiles that cross a start.",
    {"starts": one_token_sequences}, atol_scale=2.0, mixed=True,
)  # fmt: skip
