"""Questions about imported kernels: against the reference, their parents, and others of their pool.

Which questions exist must tell nothing about the answer: kernels are drawn and paired by their ids, which are hashes,
and so is the side a kernel stands on. A kernel is in one edit or one pair at most.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from kbench.loaders.importers.context import Context
from kbench.loaders.importers.rows import Row
from kbench.schemas import AuthorClass, QuestionKind
from kbench.schemas.bins import bin_of
from kbench.schemas.ids import content_hash

PAIRS_PER_POOL = 200
"""Pairs between kernels of one problem on one GPU; a tuner's cache would give millions."""
FACTS = ("kernel_id", "parent_id", "problem_id", "family", "backend", "gpu", "split", "runtime_us", "speedup")


def questions_about(kernels: Iterable[tuple[bool, Row]], context: Context) -> Iterator[Row]:
    """The questions about kernels.

    Args:
        kernels: whether a kernel's text only names it, and its row; those of one problem and GPU together, so that
            one pool is held at a time.
        context: told how many kernels allow none, and why.
    """
    timed = _timed(kernels, context)
    for _, together in itertools.groupby(timed, key=lambda facts: (facts["problem_id"], facts["gpu"])):
        pool: list[Row] = []
        for facts in together:
            if facts["speedup"] is not None:
                yield _question(None, facts, QuestionKind.LEVEL, facts["speedup"])
            if facts["runtime_us"] is not None:
                _draw(pool, facts)
        drawn = sorted(pool, key=lambda facts: facts["kernel_id"])[: 2 * PAIRS_PER_POOL]
        drawn.sort(key=lambda facts: facts["backend"])
        for kind, anchor, candidate in (*_edits(drawn), *_pairs(drawn)):
            yield _question(anchor, candidate, kind, anchor["runtime_us"] / candidate["runtime_us"])


def _timed(kernels: Iterable[tuple[bool, Row]], context: Context) -> Iterator[Row]:
    """The facts of timed kernels that a pair can ask about."""
    for named, row in kernels:
        if row["runtime_us"] is None and row["speedup"] is None:
            continue
        reason = "their text is not known" if named else "their GPU is not known" if row["gpu"] is None else None
        if reason is None:
            yield {name: row[name] for name in FACTS}
        else:
            context.note(f"timed kernels in no question: {reason}")


def _draw(pool: list[Row], facts: Row) -> None:
    """Keep the kernels with the smallest ids, which are as good as drawn at random; a list stays short."""
    pool.append(facts)
    if len(pool) > 4 * PAIRS_PER_POOL:
        pool.sort(key=lambda one: one["kernel_id"])
        del pool[2 * PAIRS_PER_POOL :]


Ends = tuple[QuestionKind, Row, Row]
"""Kind, anchor and candidate."""


def _edits(drawn: list[Row]) -> Iterator[Ends]:
    """Kernels beside the one they were made from; both leave the list."""
    by_id = {facts["kernel_id"]: facts for facts in drawn}
    for candidate in list(by_id.values()):
        anchor = by_id.get(candidate["parent_id"])
        if anchor is None or anchor is candidate or candidate["kernel_id"] not in by_id:
            continue
        if anchor["backend"] == candidate["backend"]:
            for one in (anchor, candidate):
                del by_id[one["kernel_id"]]
                drawn.remove(one)
            yield QuestionKind.EDIT, anchor, candidate


def _pairs(drawn: Sequence[Row]) -> Iterator[Ends]:
    """Two kernels each, of one language."""
    for _, together in itertools.groupby(drawn, key=lambda facts: facts["backend"]):
        kernels = list(together)
        for one, other in zip(kernels[::2], kernels[1::2], strict=False):
            turned = int(content_hash("side", one["kernel_id"], other["kernel_id"]), 16) % 2
            yield QuestionKind.PAIR, *((other, one) if turned else (one, other))


def _question(anchor: Row | None, candidate: Row, kind: QuestionKind, speedup: float) -> Row:
    anchor_id = None if anchor is None else anchor["kernel_id"]
    shared = {name: candidate[name] for name in ("problem_id", "family", "backend", "gpu", "split")}
    names = (kind.value, anchor_id or "reference", candidate["kernel_id"], candidate["gpu"], "all")
    pool = None if anchor is not None else f"{candidate['problem_id']} {candidate['backend']} on {candidate['gpu']}"
    return shared | {
        "question_id": content_hash("question", *names), "kind": kind.value, "author": AuthorClass.OUTSIDE.value,
        "workload": None, "core": False, "anchor_id": anchor_id, "candidate_id": candidate["kernel_id"], "pool": pool,
        "known_ids": (), "speedup": speedup, "speedup_low": None, "speedup_high": None, "bin": bin_of(speedup),
    }  # fmt: skip
