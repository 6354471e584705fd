"""Pairs of the release: the evaluation set, the training pool and the discovery pairs, which differ in column names."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kbench.loaders.importers.context import Context
from kbench.loaders.importers.fields import RowError, positive, text, whole
from kbench.loaders.importers.published import release as published
from kbench.loaders.importers.published.kernels import PublishedKernels
from kbench.loaders.importers.published.release import Origin, problem_of
from kbench.loaders.importers.rows import NOT_STATED, Row, backend_of, kernel_row
from kbench.schemas import PairKind
from kbench.schemas.bins import EDGES, bin_of
from kbench.schemas.ids import content_hash

BINFILLER = "binfiller/"
"""Source ids of candidates written to reach a stated speedup; their docstrings tell it."""
EDGE_TOLERANCE = 1e-9


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """One dataset's column names, and the split its pairs are of."""

    dataset: str
    identity: str
    problem: str
    anchor: str
    candidate: str
    speedup: str
    label: str
    split: str


LAYOUTS: Mapping[str, Layout] = {
    layout.dataset: layout
    for layout in (
        Layout(published.EVAL, "comparison_id", "pack", "anchor_code", "candidate_code", "aggregated_speedup",
               "true_bin", "test"),
        Layout(published.POOL, "row_id", "pack", "anchor_code", "candidate_code", "aggregated_speedup",
               "relative_bin", "train"),
        Layout(published.PAIRS, "pair_id", "problem_id", "parent_code", "child_code", "g_speedup",
               "true_bin", "test_seen"),
    )
}  # fmt: skip
KINDS = {"parent_edit": PairKind.PARENT_EDIT, "seed": PairKind.SIBLING, "pair": PairKind.SIBLING}


class PairImporter:
    """Turns rows of one dataset into pairs, and remembers what the other datasets join on."""

    def __init__(self, dataset: str, kernels: PublishedKernels, context: Context) -> None:
        self.layout, self.origin = LAYOUTS[dataset], Origin(dataset, context.settings.revisions.get(dataset))
        self._kernels, self._context = kernels, context
        self._occurrences: Counter[str] = Counter()
        self.pair_ids: dict[str, list[tuple[str, str]]] = {}
        """For each id of the release the pairs that have it, in order, each with the release's problem name."""
        self.hardware: dict[str, set[str]] = {}
        """For each search the GPUs its pairs name."""
        self.problems: dict[str, set[tuple[str, str]]] = {}
        """For each search our id and family of the problems its pairs name."""
        self._kernels_of_pairs: list[tuple[str, str]] = []

    def row(self, data: Mapping[str, Any], place: tuple[Path, object]) -> Row:
        """One pair.

        Raises:
            RowError: a value is missing or contradicts another.
        """
        layout = self.layout
        identity, gpu = text(data, layout.identity), text(data, "hardware")
        name = text(data, layout.problem)
        problem, family = problem_of(name, data.get("benchmark_family"), layout.problem)
        speedup = positive(data, layout.speedup)
        number = self._bin(data, speedup)
        source_id = text(data, "source_id")
        origin_word = "binfiller" if source_id.startswith(BINFILLER) else "harvested"
        kind = self._kind(data)
        anchor, candidate = text(data, layout.anchor), text(data, layout.candidate)
        proposer = "binfiller" if origin_word == "binfiller" else NOT_STATED
        rows = [
            kernel_row(problem, family, backend_of(source), source, gpu=gpu, origin=str(self.origin), license=None,
                       split=layout.split, proposer=writer)
            for source, writer in ((anchor, NOT_STATED), (candidate, proposer))
        ]  # fmt: skip
        first, second = (self._kernels.add(row, place) for row in rows)
        search = text(data, "source_search")
        self.hardware.setdefault(search, set()).add(gpu)
        self.problems.setdefault(search, set()).add((problem, family))
        occurrence = self._occurrences[identity]
        self._occurrences[identity] += 1
        pair_id = content_hash("pair", self.origin.dataset, identity, str(occurrence))
        self.pair_ids.setdefault(identity, []).append((pair_id, name))
        self._kernels_of_pairs.append((first["kernel_id"], second["kernel_id"]))
        return {
            "pair_id": pair_id, "problem_id": problem, "family": family, "backend": second["backend"], "gpu": gpu,
            "anchor_id": first["kernel_id"], "candidate_id": second["kernel_id"], "kind": kind.value,
            "speedup": speedup, "speedup_low": None, "speedup_high": None, "bin": number, "split": layout.split,
            "origin": f"{self.origin} {origin_word}",
        }  # fmt: skip

    def shared_with(self, other: PairImporter) -> int:
        """How many of these pairs hold a kernel that pairs of another dataset hold too."""
        theirs = {kernel for pair in other._kernels_of_pairs for kernel in pair}
        return sum(not theirs.isdisjoint(pair) for pair in self._kernels_of_pairs)

    def _kind(self, data: Mapping[str, Any]) -> PairKind:
        if self.layout.dataset == published.PAIRS:
            return PairKind.PARENT_EDIT
        if self.layout.dataset == published.EVAL:
            # The release does not say how these anchors and candidates are related.
            return PairKind.SIBLING
        found = text(data, "pair_type")
        if found not in KINDS:
            raise RowError("pair_type", found, f"must be one of {', '.join(KINDS)}")
        return KINDS[found]

    def _bin(self, data: Mapping[str, Any], speedup: float) -> int:
        """Our bin of the speedup; a label that says otherwise is refused unless the speedup lies on an edge."""
        label = whole(data, self.layout.label, 1)
        number = bin_of(speedup)
        if label != number:
            on_edge = any(math.isclose(speedup, edge, rel_tol=EDGE_TOLERANCE) for edge in EDGES)
            if label > 8 or abs(label - number) > 1 or not on_edge:
                raise RowError(self.layout.label, label, f"contradicts the speedup {speedup!r}, whose bin is {number}")
            self._context.note("labels on an edge that were recomputed from the speedup")
        return number
