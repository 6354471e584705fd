"""What a split asks: the rows of config `questions` that are about one GPU, as pairs and as kernels of pools."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kbench.benchmark.tracks import PAIR_TRACKS, RANK
from kbench.schemas import PairKind
from kbench.schemas.records.benchmark import QUESTION_WORDS

if TYPE_CHECKING:
    import pyarrow as pa

KERNEL_COLUMNS = [
    "kernel_id", "problem_id", "family", "backend", "gpu", "split", "proposer", "status", "run_id", "step",
    "runtime_us", "runtime_low_us", "runtime_high_us", "speedup", "registers", "shared_bytes", "spill_bytes",
]  # fmt: skip
QUESTION_COLUMNS = [
    "question_id", "kind", "author", "problem_id", "family", "backend", "gpu", "workload", "split", "core",
    "anchor_id", "candidate_id", "pool", "known_ids", "speedup", "speedup_low", "speedup_high",
]  # fmt: skip
OURS = "kbench"
"""The origin of kernels that were measured here."""


class Tables(Protocol):
    """What is needed of a corpus: kbench.benchmark.questions.corpus_view.CorpusView has it."""

    @property
    def fingerprint(self) -> str:
        """Content fingerprint of the whole corpus."""

    @property
    def configs(self) -> Sequence[str]:
        """Names of the tables it holds."""

    @property
    def folders(self) -> Sequence[Path]:
        """The folders that hold the answers, which a user's surrogate must not read."""

    def table(self, name: str, *, columns: list[str] | None = None, **filters: Any) -> pa.Table:
        """One table, filtered."""

    def batches(self, name: str, *, columns: Sequence[str], **filters: Any) -> Iterator[pa.Table]:
        """Columns of one table, filtered, in parts: for tables that need not fit in memory."""


KINDS = QUESTION_WORDS
"""What a query calls each kind of question."""
STATED_KINDS = {asked: stated for stated, asked in KINDS.items()}
"""What the dataset calls each kind of query."""
ONE_WORKLOAD = "workload"
"""The relation of a pair that is asked about one workload."""


class AskedRows:
    """The split's questions as pairs and as kernels of pools; `relation` keeps kinds of pairs apart."""

    def __init__(self, corpus: Tables, split: str, tracks: tuple[str, ...], shots: int) -> None:
        rows = of_gpu(corpus.table("questions", split=split, columns=QUESTION_COLUMNS).to_pylist(), corpus)
        asked = {row["candidate_id"] for row in rows}
        kernels = kernels_named(corpus, asked, ["kernel_id", "gpu", "runtime_us", "origin"], split)
        self.runtimes = {(row["kernel_id"], row["gpu"]): row["runtime_us"] for row in kernels}
        origins = {row["kernel_id"]: row["origin"] for row in kernels}
        self.pairs: list[dict[str, Any]] = []
        self.pools: list[dict[str, Any]] = []
        for row in map(asked_row, rows):
            row["origin"] = origins.get(row["candidate_id"], OURS)
            level = row["kind"] == PairKind.REFERENCE
            # The level against PyTorch has no honest zero until a query shows where its problem lies. Of kernels of
            # others it is often all that is known.
            if any(track in PAIR_TRACKS for track in tracks) and (shots or not level or row["origin"] != OURS):
                self.pairs.append(row)
            if level and row["pool"] is not None and RANK.name in tracks:
                # What a pool is ranked by: the time in units of the reference's, which is one over the speedup.
                ends = {"runtime_us": "speedup", "runtime_low_us": "speedup_high", "runtime_high_us": "speedup_low"}
                times = {name: None if row[of] is None else 1.0 / row[of] for name, of in ends.items()}
                self.pools.append(row | times)


def asked_row(question: dict[str, Any]) -> dict[str, Any]:
    """A row of the questions with the kind that queries state."""
    kind = KINDS[question["kind"]]
    relation = ONE_WORKLOAD if question["workload"] else kind
    return question | {"query_id": question["question_id"], "kind": kind, "relation": relation}


def kernels_named(
    corpus: Tables, kernel_ids: Iterable[str | None], columns: Sequence[str], split: str | None, **within: Any
) -> list[dict[str, Any]]:
    """The rows of some kernels: of a large corpus, few are asked about.

    Args:
        corpus: the corpus.
        kernel_ids: those wanted.
        columns: to read; kernel_id is the first.
        split: where they are looked for first; questions about imported kernels may name those of another one.
        within: further filters.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = pa.array(sorted({kernel_id for kernel_id in kernel_ids if kernel_id is not None}), pa.string())
    if not len(wanted):
        return []
    parts = corpus.batches("kernels", columns=columns, split=split, **within)
    rows = [row for part in parts for row in part.filter(pc.field("kernel_id").isin(wanted)).to_pylist()]
    missing = set(wanted.to_pylist()) - {row["kernel_id"] for row in rows}
    return rows if split is None or not missing else rows + kernels_named(corpus, missing, columns, None, **within)


def asked_gpu(corpus: Tables) -> str | None:
    """The GPU that questions are about; None for every GPU of the corpus."""
    return getattr(corpus, "gpu", None)


def of_gpu(rows: list[dict[str, Any]], corpus: Tables) -> list[dict[str, Any]]:
    """What may be asked: on one GPU alone, so that how often a kernel is asked about tells nothing of it."""
    gpu = asked_gpu(corpus)
    return rows if gpu is None else [row for row in rows if not row["gpu"] or row["gpu"] == gpu]


def known_problems() -> dict[str, dict[str, Any]]:
    """The registry's problems, for an imported corpus that brings none of its own."""
    from kbench.benchmark.problems.registry import known, users
    from kbench.schemas import to_dict

    return {problem_id: to_dict(definition.record()) for problem_id, definition in {**known(), **users()}.items()}
