"""Questions from imported kernels: pairs against the reference and between kernels of a pool, each kernel as often.

Which pairs exist must tell nothing about the answer: kernels are drawn and paired by their ids, which are hashes, and
so is the side a kernel stands on.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from kbench.loaders.importers.context import Context
from kbench.loaders.importers.rows import Row
from kbench.schemas import PairKind
from kbench.schemas.bins import bin_of
from kbench.schemas.ids import content_hash

PAIRS_PER_POOL = 200
"""Pairs between kernels of one problem on one GPU; a tuner's cache would give millions."""
FACTS = ("kernel_id", "problem_id", "family", "backend", "gpu", "split", "origin", "runtime_us", "speedup")


def pairs(kernels: Iterable[tuple[bool, Row]], context: Context) -> Iterator[Row]:
    """The pairs that timed kernels allow.

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
                yield _pair(None, facts, PairKind.REFERENCE, facts["speedup"])
            if facts["runtime_us"] is not None:
                _draw(pool, facts)
        drawn = sorted(pool, key=lambda facts: facts["kernel_id"])[: 2 * PAIRS_PER_POOL]
        for one, other in zip(drawn[::2], drawn[1::2], strict=False):
            turned = int(content_hash("side", one["kernel_id"], other["kernel_id"]), 16) % 2
            anchor, candidate = (other, one) if turned else (one, other)
            yield _pair(anchor, candidate, PairKind.SIBLING, anchor["runtime_us"] / candidate["runtime_us"])


def _timed(kernels: Iterable[tuple[bool, Row]], context: Context) -> Iterator[Row]:
    """The facts of timed kernels that a pair can ask about."""
    for named, row in kernels:
        if row["runtime_us"] is None and row["speedup"] is None:
            continue
        reason = "their text is not known" if named else "their GPU is not known" if row["gpu"] is None else None
        if reason is None:
            yield {name: row[name] for name in FACTS}
        else:
            context.note(f"timed kernels in no pair: {reason}")


def _draw(pool: list[Row], facts: Row) -> None:
    """Keep the kernels with the smallest ids, which are as good as drawn at random; a list stays short."""
    pool.append(facts)
    if len(pool) > 4 * PAIRS_PER_POOL:
        pool.sort(key=lambda one: one["kernel_id"])
        del pool[2 * PAIRS_PER_POOL :]


def _pair(anchor: Row | None, candidate: Row, kind: PairKind, speedup: float) -> Row:
    anchor_id = None if anchor is None else anchor["kernel_id"]
    shared = {name: candidate[name] for name in ("problem_id", "family", "backend", "gpu", "split", "origin")}
    identity = content_hash("pair", anchor_id or "reference", candidate["kernel_id"], candidate["gpu"], kind.value)
    return shared | {
        "pair_id": identity, "anchor_id": anchor_id, "candidate_id": candidate["kernel_id"], "kind": kind.value,
        "speedup": speedup, "speedup_low": None, "speedup_high": None, "bin": bin_of(speedup),
    }  # fmt: skip
