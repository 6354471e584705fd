"""Which pairs of kernels are asked: a draw that looks at ids alone, so that the set of questions tells nothing.

In every cell (problem, backend, GPU) kernels stand in an order of hashes. A first part of it are candidates, failed
ones included as they come; the correct kernels of the rest are their anchors. Every kernel of the draw occurs once,
on one side. Parents meet children where both sides allow it, whichever of the two is asked about. That they do is not
part of the query: kernels with relatives were kept by a search, so the word alone would tell that they are fast.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kbench.loaders.splits import pair_split
from kbench.schemas import PairKind, Status, bins
from kbench.schemas.ids import content_hash
from kbench.schemas.ratio import ratio

TRAINING_DRAWS = 4
"""Draws of the training splits: more pairs to learn from, of the same make as those asked."""

Row = Mapping[str, Any]
"""A row of the kernels table, its split set."""


def sampled_pairs(kernels: Iterable[Row]) -> Iterator[dict[str, Any]]:
    """Rows of a pairs table for kernels of all splits; a pair whose candidate failed has null figures.

    Training splits have no such pairs, and several draws of the others.
    """
    cells: defaultdict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in kernels:
        if row["status"]:
            cells[row["split"], row["problem_id"], row["backend"], row["gpu"] or ""].append(row)
    for (split, *_), members in sorted(cells.items()):
        training = split in ("train", "validation")
        for row in members:
            if is_timed(row) or not training:
                yield pair_row(None, row)
        seen: set[frozenset[str]] = set()
        for draw in range(TRAINING_DRAWS if training else 1):
            for anchor, candidate in drawn(members, draw):
                ends = frozenset((anchor["kernel_id"], candidate["kernel_id"]))
                if ends not in seen and (is_timed(candidate) or not training):
                    seen.add(ends)
                    yield pair_row(anchor, candidate)


def drawn(members: Sequence[Row], draw: int = 0) -> Iterator[tuple[Row, Row]]:
    """Anchor and candidate of every pair drawn from one cell."""
    order = sorted(members, key=lambda row: content_hash("side", str(draw), row["kernel_id"]))
    left = sum(map(is_timed, order))
    count = 0
    # Each step takes one more candidate; it may be one anchor less for them.
    while count < len(order) and left - is_timed(order[count]) >= count + 1:
        left -= is_timed(order[count])
        count += 1
    free = {row["kernel_id"]: row for row in order[count:] if is_timed(row)}
    waiting = []
    for candidate in order[:count]:
        found = next((key for key, anchor in free.items() if _related(anchor, candidate)), None)
        if found is None:
            waiting.append(candidate)
        else:
            yield free.pop(found), candidate
    yield from zip(free.values(), waiting, strict=False)


def is_timed(row: Row) -> bool:
    """Whether the kernel is correct and has a runtime."""
    return row["status"] == Status.OK and row["runtime_us"] is not None and row["speedup"] is not None


def _related(one: Row, other: Row) -> bool:
    return bool(one["parent_id"] == other["kernel_id"] or other["parent_id"] == one["kernel_id"])


def pair_row(anchor: Row | None, candidate: Row) -> dict[str, Any]:
    """A row of a pairs table, and the relation of its kernels; figures are null where one of them failed."""
    kind = PairKind.REFERENCE if anchor is None else PairKind.SIBLING
    relation = PairKind.PARENT_EDIT if anchor is not None and _related(anchor, candidate) else kind
    gpu = candidate["gpu"] or ""
    anchor_id = anchor["kernel_id"] if anchor is not None else None
    timed = is_timed(candidate) and (anchor is None or is_timed(anchor))
    value, low, high = _speedup(anchor, candidate) if timed else (None, None, None)
    return {
        "pair_id": content_hash("pair", anchor_id or "reference", candidate["kernel_id"], gpu, kind.value),
        "gpu": gpu, "anchor_id": anchor_id, "candidate_id": candidate["kernel_id"], "kind": kind.value,
        "relation": relation.value, "speedup": value, "speedup_low": low, "speedup_high": high,
        "bin": None if value is None else bins.bin_of(value),
        "split": pair_split(anchor["split"] if anchor is not None else None, candidate["split"]),
        **{name: candidate[name] for name in ("problem_id", "family", "backend", "origin")},
    }  # fmt: skip


def _speedup(anchor: Row | None, candidate: Row) -> tuple[float, float | None, float | None]:
    if anchor is None:
        return candidate["speedup"], candidate["speedup_low"], candidate["speedup_high"]
    ends = ("runtime_us", "runtime_low_us", "runtime_high_us")
    return ratio(tuple(anchor[name] for name in ends), tuple(candidate[name] for name in ends))
