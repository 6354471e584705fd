"""Selection: which kernels of a corpus are measured again."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from kbench.harness.kernel.adapters import problem_of
from kbench.schemas import Backend, KernelSource, Status, UserError
from kbench.schemas.ids import content_hash

EACH = 8
"""Kernels of every problem and backend that a limited selection has at least, where the limit allows it."""


@dataclasses.dataclass(frozen=True, slots=True)
class StoredKernel:
    """A kernel as our problem has it, and its rows in the corpus."""

    kernel: KernelSource
    rows: dict[str, dict[str, Any]]
    """By GPU."""

    @property
    def first(self) -> dict[str, Any]:
        """The row of the GPU the corpus names first."""
        return next(iter(self.rows.values()))


Selection = dict[str, StoredKernel]
"""By the id of the kernel as our problem has it."""


def select(corpus: str | None, where: str | None, limit: int | None) -> tuple[Selection, list[str]]:
    """Kernels of a corpus that can be measured here, and why others cannot.

    Raises:
        UserError: nothing is left to measure.
    """
    from kbench.loaders.corpus.corpus import Corpus

    stored, left_out = measurable(Corpus.open(corpus).select(where=where).to_arrow().to_pylist())
    if not stored:
        reason = f"; {left_out[0]}" if left_out else ""
        condition = f" that --where {where!r} selects" if where else ""
        raise UserError(f"{corpus!r} has no kernel to measure{condition}{reason}")
    return endless_last(stored if limit is None else spread(stored, limit)), left_out


def endless_last(stored: Selection) -> Selection:
    """Kernels that did not end before come last: each keeps the device waiting until its timeout."""
    endless = {key for key, one in stored.items() if one.first.get("status") == Status.TIMEOUT}
    return {key: stored[key] for key in sorted(stored, key=endless.__contains__)}


def measurable(rows: Sequence[dict[str, Any]]) -> tuple[Selection, list[str]]:
    """Rows that can be measured here, and why others cannot.

    Imported rows may name a problem as another suite does, and tuning configurations have no source to run. Rows keep
    the problem they were stored with; the kernel has the one it is measured on.
    """
    from kbench.benchmark.problems.registry import resolve, users

    own = users()
    selection: Selection = {}
    left_out: list[str] = []
    for row in rows:
        problem = row["problem_id"] if row["problem_id"] in own else resolve(row["problem_id"])
        if problem is None:
            left_out.append(f"of problem {row['problem_id']!r} we have no reference; --problem takes its file")
        elif row["backend"] != Backend.CONFIG and row["source"]:
            kernel = KernelSource(problem_of(row["source"], problem), Backend(row["backend"]), row["source"])
            stored = selection.setdefault(kernel.kernel_id, StoredKernel(kernel, {}))
            stored.rows.setdefault(row.get("gpu") or "", row)
    return selection, left_out


def spread(stored: Selection, limit: int) -> Selection:
    """So many kernels, if there are: some of every problem and backend, then whole pools of problems.

    Of a problem and backend the fastest kernel is taken and others evenly from there to the slowest, so that it is
    known where the best ones stand. The whole pools, which ranking is judged on, are those of test problems first,
    and then of as many families as possible. The choice depends on the rows alone, not on their order.
    """
    if limit >= len(stored):
        return stored
    cells: dict[tuple[str, str], list[str]] = {}
    for key in sorted(stored, key=lambda key: (stored[key].first.get("speedup") or 0.0, key), reverse=True):
        kernel = stored[key].kernel
        cells.setdefault((kernel.problem_id, kernel.backend.value), []).append(key)
    rows = {problem: stored[keys[0]].first for (problem, _), keys in sorted(cells.items())}
    order = rotation({problem: str(row.get("family")) for problem, row in rows.items()})
    order.sort(key=lambda problem: rows[problem].get("split") != "test")
    ranked = sorted(cells, key=lambda cell: (order.index(cell[0]), cell))
    share = max(1, min(EACH, limit // len(cells)))
    some = [key for cell in ranked for key in evenly(cells[cell], share)]
    chosen = set(list(dict.fromkeys([*some, *(key for cell in ranked for key in cells[cell])]))[:limit])
    # Kernels of a problem one after another: a worker makes the problem's inputs once.
    return {key: stored[key] for cell in sorted(cells) for key in cells[cell] if key in chosen}


def evenly(keys: Sequence[str], count: int) -> list[str]:
    """Some of a list's items, the first and the last among them."""
    if count >= len(keys):
        return list(keys)
    return [keys[round(at * (len(keys) - 1) / max(1, count - 1))] for at in range(count)]


def rotation(families: Mapping[str, str]) -> list[str]:
    """Problems in an order in which each family has its turn before one has its second."""
    groups: dict[str, list[str]] = {}
    for problem in sorted(families, key=lambda name: content_hash("rotation", name)):
        groups.setdefault(families[problem], []).append(problem)
    turns = itertools.zip_longest(*(groups[family] for family in sorted(groups)))
    return [problem for turn in turns for problem in turn if problem is not None]
