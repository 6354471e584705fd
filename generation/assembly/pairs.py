"""Pairs: questions with measured answers, drawn from assembled kernels and balanced over bins."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kbench.harness.timing.interval import Interval
from kbench.loaders.splits import pair_split
from kbench.schemas import Kernel, Pair, PairKind, bins
from kbench.schemas.ids import content_hash
from kbench.schemas.ratio import ratio

EDITS_PER_BIN = 6
"""Parent edits kept for each problem, backend, GPU, split and bin: most edits change little and would crowd one bin."""
SIBLINGS_PER_BIN = 4
"""Sibling pairs kept for each of the same; they fill the bins that edits and references leave thin."""

Ends = tuple[Kernel, Kernel]
"""Anchor and candidate."""


def build_pairs(kernels: Sequence[Kernel]) -> list[Pair]:
    """Reference, parent-edit and sibling pairs; a pair belongs to the more held-out of its kernels' splits."""
    timed = [kernel for kernel in kernels if kernel.speedup is not None]
    speedups = [_known(one.speedup, one.speedup_low, one.speedup_high) for one in timed]
    by_id = {(kernel.kernel_id, kernel.gpu): kernel for kernel in timed}
    edits = balanced(_edits(timed, by_id), EDITS_PER_BIN)
    used = {(anchor.kernel_id, candidate.kernel_id) for anchor, candidate in edits}
    siblings: list[Ends] = []
    for members in _cells(timed).values():
        siblings.extend(balanced(_siblings(members, used), SIBLINGS_PER_BIN))
    return [
        *(_pair(None, one, PairKind.REFERENCE, speedup) for one, speedup in zip(timed, speedups, strict=True)),
        *(_pair(anchor, one, PairKind.PARENT_EDIT, _ratio(anchor, one)) for anchor, one in edits),
        *(_pair(anchor, one, PairKind.SIBLING, _ratio(anchor, one)) for anchor, one in siblings),
    ]


def _cells(kernels: Iterable[Kernel]) -> Mapping[tuple[str, str, str], list[Kernel]]:
    cells: defaultdict[tuple[str, str, str], list[Kernel]] = defaultdict(list)
    for kernel in kernels:
        cells[kernel.problem_id, kernel.backend.value, kernel.gpu or ""].append(kernel)
    return cells


def _edits(kernels: Iterable[Kernel], by_id: Mapping[tuple[str, str | None], Kernel]) -> Iterator[Ends]:
    for child in kernels:
        parent = by_id.get((child.parent_id, child.gpu)) if child.parent_id else None
        if parent is not None:
            yield parent, child


def _siblings(members: Sequence[Kernel], used: set[tuple[str, str]]) -> Iterator[Ends]:
    """Every two kernels of a cell that no edit connects, in one of the two directions."""
    for place, one in enumerate(members):
        for other in members[:place]:
            ids = (one.kernel_id, other.kernel_id)
            if ids not in used and ids[::-1] not in used:
                # Chosen by the ids, so that neither direction is favoured and no pair answers its mirror image.
                yield (one, other) if _order(*ids) < _order(*ids[::-1]) else (other, one)


def _order(one: str, other: str) -> int:
    # Ids are hashes already: multiplying and adding mixes them well enough to shuffle by, and cheaply.
    return (int(one[:12], 16) * 2654435761 + int(other[:12], 16) * 40503) % 4294967291


def balanced(ends: Iterable[Ends], per_bin: int) -> list[Ends]:
    """At most `per_bin` of each problem, backend, GPU, split and bin, chosen by their ids."""
    groups: defaultdict[tuple[str, str, str, str, int], list[tuple[int, str, str, Ends]]] = defaultdict(list)
    for anchor, candidate in ends:
        number = bins.bin_of(_ratio(anchor, candidate).value)
        split = pair_split(anchor.split, candidate.split)
        key = (candidate.problem_id, candidate.backend.value, candidate.gpu or "", split, number)
        rank = _order(anchor.kernel_id, candidate.kernel_id)
        groups[key].append((rank, anchor.kernel_id, candidate.kernel_id, (anchor, candidate)))
    return [item[3] for group in groups.values() for item in sorted(group, key=lambda g: g[:3])[:per_bin]]


def _ratio(anchor: Kernel, candidate: Kernel) -> Interval:
    return quotient(_runtime(anchor), _runtime(candidate))


def quotient(one: Interval, other: Interval) -> Interval:
    """One figure divided by an independent one."""
    return _known(*ratio((one.value, one.low, one.high), (other.value, other.low, other.high)))


def _runtime(kernel: Kernel) -> Interval:
    return _known(kernel.runtime_us, kernel.runtime_low_us, kernel.runtime_high_us)


def _known(value: float | None, low: float | None, high: float | None) -> Interval:
    assert value is not None
    assert low is not None
    assert high is not None
    return Interval(value, low, high)


def _pair(anchor: Kernel | None, candidate: Kernel, kind: PairKind, speedup: Interval) -> Pair:
    anchor_id = anchor.kernel_id if anchor else None
    gpu = candidate.gpu or ""
    return Pair(
        pair_id=content_hash("pair", anchor_id or "reference", candidate.kernel_id, gpu, kind.value),
        problem_id=candidate.problem_id, family=candidate.family, backend=candidate.backend, gpu=gpu,
        anchor_id=anchor_id, candidate_id=candidate.kernel_id, kind=kind, speedup=speedup.value,
        speedup_low=speedup.low, speedup_high=speedup.high, bin=bins.bin_of(speedup.value),
        split=pair_split(anchor.split if anchor else None, candidate.split), origin=candidate.origin,
    )  # fmt: skip
