"""Questions about recorded searches of other people: what they ask, and what was measured.

A search is a list of texts in the order of their evaluation; a text that comes again is no new step. Its anchor is its
first timed kernel. Every later text is asked about against the anchor (`search`), and every timed one that has a timed
predecessor against that (`edit`): the stated parent, or the text that was evaluated before. A set without searches is
asked about against PyTorch (`reference`). Nothing in a question tells order, time or result.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kbench.benchmark.questions.build import problems_of
from kbench.benchmark.questions.render import gpu_facts, render_query
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.importers.rows import with_workloads
from kbench.schemas import PairKind, Query
from kbench.schemas.ids import content_hash

TOLD = "Workloads, with"
SEARCH, EDIT, REFERENCE = "search", "edit", "reference"
KINDS = {SEARCH: PairKind.SIBLING, EDIT: PairKind.PARENT_EDIT, REFERENCE: PairKind.REFERENCE}
MOST_WHOLE, MOST_ASKED = 200, 600
"""Questions of a set that every surrogate is asked, where the set has more: whole searches, then parts of others."""
FEW = {SEARCH: 8, EDIT: 3}
"""Questions of a search of which not all are asked."""
SAMPLED = 120
"""Questions of a set that a language model is asked."""
WHOLE = (8, 14)
"""Later texts of a search that is asked about whole."""


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """A question, and what is known about its answer."""

    query_id: str
    kind: str
    problem: str
    gpu: str
    pool: str
    """Search and backend: kernels of one author class."""
    search: str
    order: int
    """Place of the candidate in its search."""
    anchor_id: str | None
    candidate_id: str
    speedup: float | None
    """None where the candidate failed."""


@dataclasses.dataclass(frozen=True, slots=True)
class ForeignSet:
    """An imported set."""

    name: str
    kernels: Mapping[tuple[str, str], Mapping[str, Any]]
    """By id and GPU."""
    searches: Mapping[str, Sequence[Mapping[str, Any]]]
    """Kernels in the order of their evaluation."""
    problems: Mapping[str, Mapping[str, Any]]

    def query(self, asked: Asked) -> Query:
        """The question as surrogates see it."""
        candidate = self.kernels[asked.candidate_id, asked.gpu]
        anchor = None if asked.anchor_id is None else self.kernels[asked.anchor_id, asked.gpu]["source"]
        return render_query(
            query_id=asked.query_id, problem=self.problems[asked.problem], backend=candidate["backend"],
            kind=KINDS[asked.kind].value, candidate_source=candidate["source"], gpu=asked.gpu,
            gpu_facts_json=gpu_facts(asked.gpu), anchor_source=anchor,
        )  # fmt: skip


def read_set(folder: Path) -> ForeignSet:
    """Open an imported corpus."""
    corpus = Corpus.open(str(folder))
    rows = corpus.table("kernels").to_pylist()
    kernels = {(row["kernel_id"], row["gpu"]): row for row in rows}
    searches: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    if "events" in corpus.configs:
        gpu_of = {row["kernel_id"]: row["gpu"] for row in rows}
        for event in sorted(corpus.table("events").to_pylist(), key=lambda row: (row["run_id"], row["index"])):
            kernel_id = json.loads(event["payload_json"])["kernel_id"]
            searches[event["run_id"]].append(kernels[kernel_id, gpu_of[kernel_id]])
    else:
        for row in sorted(rows, key=lambda row: (row["run_id"], row["step"], row["kernel_id"])):
            searches[row["run_id"]].append(row)
    once = {run: list({row["kernel_id"]: row for row in steps}.values()) for run, steps in searches.items()}
    problems = {
        name: row if TOLD in row["prompt"] else with_workloads(row, row["workloads"])
        for name, row in problems_of(corpus).items()
    }
    return ForeignSet(folder.name, kernels, once, problems)


def questions(one: ForeignSet) -> list[Asked]:
    """All questions of a set, by id."""
    found = [asked for run, steps in one.searches.items() for asked in _of_search(run, steps)]
    if not found:
        found = [
            _asked(REFERENCE, row["run_id"], row, None, at, row["speedup"])
            for at, row in enumerate(one.kernels.values())
            if row["speedup"] is not None
        ]
    return sorted({asked.query_id: asked for asked in found}.values(), key=lambda asked: asked.query_id)


def _of_search(run: str, steps: Sequence[Mapping[str, Any]]) -> Iterator[Asked]:
    first = next((at for at, row in enumerate(steps) if row["runtime_us"] is not None), None)
    if first is None:
        return
    anchor, by_id = steps[first], {row["kernel_id"]: row for row in steps}
    before = anchor
    for order, row in enumerate(steps[first + 1 :], first + 1):
        time = row["runtime_us"]
        yield _asked(SEARCH, run, row, anchor, order, None if time is None else anchor["runtime_us"] / time)
        parent = (
            by_id.get(row["parent_id"]) if row["parent_id"] else before if row["search_method"] == "agent" else None
        )
        if time is not None and parent is not None and parent["runtime_us"] is not None:
            yield _asked(EDIT, run, row, parent, order, parent["runtime_us"] / time)
        if time is not None:
            before = row


def _asked(
    kind: str, run: str, row: Mapping[str, Any], anchor: Mapping[str, Any] | None, order: int, speedup: float | None
) -> Asked:
    anchor_id = None if anchor is None else anchor["kernel_id"]
    query_id = content_hash("external", kind, str(anchor_id), row["kernel_id"], str(row["gpu"]))
    pool = f"{run} {row['problem_id'] if kind != REFERENCE else row['gpu']} {row['backend']}"
    return Asked(query_id, kind, row["problem_id"], row["gpu"], pool, run, order, anchor_id, row["kernel_id"], speedup)


def sample(every: Sequence[Asked]) -> list[Asked]:
    """The questions that a language model is asked: chosen by hash and by the form of searches, not by results.

    Whole searches first, one to a problem, until two thirds are taken; where searches are too long for that, the same
    number of texts of each. Then edits, in turns over the problems of other searches; or references, one to a problem.
    """
    searches: defaultdict[str, list[Asked]] = defaultdict(list)
    for asked in every:
        if asked.kind == SEARCH:
            searches[asked.search].append(asked)
    chosen: list[Asked] = []
    problems: set[str] = set()
    least, most = WHOLE
    for run in sorted(searches, key=lambda run: content_hash("sample", run)):
        texts = searches[run]
        whole = least <= len(texts) <= most and texts[0].problem not in problems
        if whole and len(chosen) + len(texts) <= SAMPLED * 2 // 3 + most:
            chosen += texts
            problems.add(texts[0].problem)
        if len(chosen) >= SAMPLED * 2 // 3:
            break
    if not chosen and searches:
        each = SAMPLED * 2 // 3 // len(searches)
        chosen = [asked for texts in searches.values() for asked in texts[:each]]
    taken = {asked.query_id for asked in chosen}
    rest: defaultdict[str, list[Asked]] = defaultdict(list)
    for asked in every:
        if asked.kind != SEARCH and asked.query_id not in taken:
            rest[asked.problem].append(asked)
    turns = sorted(
        ((n, content_hash("turn", problem), asked) for problem, many in rest.items() for n, asked in enumerate(many)),
        key=lambda turn: turn[:2],
    )
    chosen += [asked for _, _, asked in turns][: SAMPLED - len(chosen)]
    return sorted(chosen, key=lambda asked: asked.query_id)


def asked_of_all(every: Sequence[Asked]) -> list[Asked]:
    """The questions that every surrogate is asked: all of a small set, else a part that hashes choose.

    The sample; whole searches, one to a problem; then, so that more problems have a say, some texts and edits of one
    search of each other problem. Of a set without searches single questions. Counting work takes seconds a kernel.
    """
    chosen = {asked.query_id: asked for asked in sample(every)}
    searches: defaultdict[str, list[Asked]] = defaultdict(list)
    for asked in every:
        searches[asked.search if asked.kind != REFERENCE else asked.query_id].append(asked)
    runs = sorted(searches, key=lambda run: content_hash("asked", run))
    problems: set[str] = set()
    for run in runs:
        problem = searches[run][0].problem
        single = searches[run][0].kind == REFERENCE
        whole = single or len(every) <= MOST_ASKED or len(chosen) < MOST_WHOLE
        if len(chosen) >= MOST_ASKED:
            break
        if problem not in problems or single or len(every) <= MOST_ASKED:
            problems.add(problem)
            of_kind = {kind: [one for one in searches[run] if one.kind == kind] for kind in FEW}
            some = searches[run] if whole else [one for kind, few in FEW.items() for one in of_kind[kind][:few]]
            chosen |= {asked.query_id: asked for asked in some}
    return sorted(chosen.values(), key=lambda asked: asked.query_id)


@functools.cache
def opened(folder: str) -> tuple[ForeignSet, tuple[Asked, ...]]:
    """A set and its questions."""
    if not Path(folder).is_dir():
        sys.exit(f"folder {folder!r} does not exist; docs/results/external.md says how it is fetched")
    one = read_set(Path(folder))
    return one, tuple(questions(one))
