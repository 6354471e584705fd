"""What a split asks: its pairs and pool kernels as rows, each with the id of the query that asks about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kbench.benchmark.questions.benchmark_2.core import core_pairs, core_pools
from kbench.benchmark.questions.render import reference_query_id
from kbench.benchmark.tracks import PAIR_TRACKS, RANK
from kbench.schemas import PairKind, QuestionKind, Status

if TYPE_CHECKING:
    import pyarrow as pa

KERNEL_COLUMNS = [
    "kernel_id", "problem_id", "family", "backend", "gpu", "split", "proposer", "status", "run_id", "step",
    "runtime_us", "runtime_low_us", "runtime_high_us", "speedup", "registers", "shared_bytes", "spill_bytes",
]  # fmt: skip
PAIR_COLUMNS = [
    "pair_id", "problem_id", "family", "backend", "gpu", "anchor_id", "candidate_id", "kind",
    "speedup", "speedup_low", "speedup_high", "bin", "split", "origin",
]  # fmt: skip


class Tables(Protocol):
    """What is needed of a corpus: kbench.loaders.corpus.corpus.Corpus has it."""

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


class AskedRows:
    """The split's pairs and pool kernels, each with the id of the query that asks about it."""

    def __init__(self, corpus: Tables, split: str, tracks: tuple[str, ...]) -> None:
        drawn = version_of(corpus) is not None
        self.pairs: list[dict[str, Any]] = []
        self.pools: list[dict[str, Any]] = []
        columns = PAIR_COLUMNS + ["relation"] * drawn
        pairs = of_gpu(corpus.table("pairs", split=split, columns=columns).to_pylist(), corpus)
        kernels = of_gpu(corpus.table("kernels", columns=KERNEL_COLUMNS, split=split).to_pylist(), corpus)
        if not drawn:
            # Drawn pairs stay within their split; pairs that a corpus states may name kernels of any.
            named = {row[end] for row in pairs for end in ("anchor_id", "candidate_id")}
            others = kernels_named(corpus, named - {row["kernel_id"] for row in kernels}, KERNEL_COLUMNS)
            kernels += of_gpu(others, corpus)
        self.runtimes = {(row["kernel_id"], row["gpu"]): row["runtime_us"] for row in kernels}
        core = core_pools([row for row in kernels if row["split"] == split and row["status"]])
        if any(track in PAIR_TRACKS for track in tracks):
            asked = [{"relation": row["kind"]} | row | {"query_id": _query_id(row)} for row in pairs]
            chosen = core_pairs(asked, core, {row["kernel_id"]: row["proposer"] for row in kernels})
            self.pairs = [row | {"core": row["query_id"] in chosen} for row in asked]
        if any(track not in PAIR_TRACKS for track in tracks):
            described = None if "problems" in corpus.configs else set(known_problems())
            asked_valid = _asked_valid(pairs) if drawn else {row["kernel_id"] for row in kernels}
            self.pools = [
                row
                | {"query_id": reference_query_id(row["kernel_id"], row["gpu"] or "unknown")}
                | {"asked_valid": row["kernel_id"] in asked_valid}
                | {"core": (row["problem_id"], str(row["gpu"])) in core}
                for row in sorted(kernels, key=lambda row: (row["run_id"], row["step"], row["kernel_id"]))
                if row["split"] == split and row["status"] and (described is None or _can_be_asked(row, described))
            ]


QUESTION_COLUMNS = [
    "question_id", "kind", "author", "problem_id", "family", "backend", "gpu", "workload", "split", "core",
    "anchor_id", "candidate_id", "pool", "known_ids", "speedup", "speedup_low", "speedup_high",
]  # fmt: skip
KINDS = {
    QuestionKind.EDIT.value: PairKind.PARENT_EDIT.value,
    QuestionKind.PAIR.value: PairKind.SIBLING.value,
    QuestionKind.LEVEL.value: PairKind.REFERENCE.value,
}
"""What a query calls each kind of question."""
ONE_WORKLOAD = "workload"
"""The relation of a pair that is asked about one workload."""


class StatedRows:
    """The split's questions as pairs and pool kernels, as the corpus states them; `relation` keeps kinds apart."""

    def __init__(self, corpus: Tables, split: str, tracks: tuple[str, ...], shots: int) -> None:
        rows = of_gpu(corpus.table("questions", split=split, columns=QUESTION_COLUMNS).to_pylist(), corpus)
        asked = {row["candidate_id"] for row in rows}
        kernels = kernels_named(corpus, asked, ["kernel_id", "gpu", "runtime_us"], split=split)
        self.runtimes = {(row["kernel_id"], row["gpu"]): row["runtime_us"] for row in kernels}
        self.pairs: list[dict[str, Any]] = []
        self.pools: list[dict[str, Any]] = []
        for row in map(asked_row, rows):
            level = row["kind"] == PairKind.REFERENCE
            # The level against PyTorch has no honest zero until a query shows where its problem lies.
            if any(track in PAIR_TRACKS for track in tracks) and (shots or not level):
                self.pairs.append(row)
            if level and row["pool"] is not None and RANK.name in tracks:
                self.pools.append(row | _pool_figures(row))


def asked_row(question: dict[str, Any]) -> dict[str, Any]:
    """A row of the questions with the columns of a pair."""
    kind = KINDS[question["kind"]]
    relation = ONE_WORKLOAD if question["workload"] else kind
    same = dict.fromkeys(("query_id", "pair_id"), question["question_id"])
    return question | same | {"origin": "kbench", "kind": kind, "relation": relation}


def kernels_named(
    corpus: Tables, kernel_ids: Iterable[str | None], columns: Sequence[str], **within: Any
) -> list[dict[str, Any]]:
    """The rows of some kernels: of a large corpus, few are asked about."""
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = pa.array(sorted({kernel_id for kernel_id in kernel_ids if kernel_id is not None}), pa.string())
    if not len(wanted):
        return []
    parts = corpus.batches("kernels", columns=columns, **within)
    return [row for part in parts for row in part.filter(pc.field("kernel_id").isin(wanted)).to_pylist()]


def _pool_figures(row: dict[str, Any]) -> dict[str, Any]:
    """What a pool is ranked by: the time in units of the reference's, which is one over the speedup."""
    ends = {"runtime_us": "speedup", "runtime_low_us": "speedup_high", "runtime_high_us": "speedup_low"}
    times = {name: None if row[of] is None else 1.0 / row[of] for name, of in ends.items()}
    return {**times, "kernel_id": row["candidate_id"], "status": None if row["speedup"] is None else Status.OK,
            "proposer": row["author"], "asked_valid": False}  # fmt: skip


def _asked_valid(pairs: list[dict[str, Any]]) -> set[str]:
    """Kernels that are candidates of a drawn pair and nobody's anchor, on any GPU."""
    compared = [row for row in pairs if row["anchor_id"] is not None]
    return {row["candidate_id"] for row in compared} - {row["anchor_id"] for row in compared}


def asked_gpu(corpus: Tables) -> str | None:
    """The GPU that questions are about; None for every GPU of the corpus."""
    found: str | None = getattr(corpus, "gpu", None)
    return found


def of_gpu(rows: list[dict[str, Any]], corpus: Tables) -> list[dict[str, Any]]:
    """What may be asked: on one GPU alone, so that how often a kernel is asked about tells nothing of it.

    Rows that name no GPU stay; kernels say None and pairs say an empty text.
    """
    gpu = asked_gpu(corpus)
    return rows if gpu is None else [row for row in rows if not row["gpu"] or row["gpu"] == gpu]


def version_of(corpus: Tables) -> int | None:
    """The version of the benchmark that drew a corpus's pairs; None where the corpus states them itself."""
    found: int | None = getattr(corpus, "benchmark", None)
    return found


def _can_be_asked(row: dict[str, Any], described: set[str]) -> bool:
    """Whether an imported kernel can be compared with a reference: its problem is known and its runtime is stated."""
    return row["problem_id"] in described and (row["status"] != Status.OK or row["runtime_us"] is not None)


def _query_id(row: dict[str, Any]) -> str:
    """A pair against the reference is the same question as the pool's about that kernel, so it is asked once."""
    if row["kind"] == PairKind.REFERENCE and row["anchor_id"] is None:
        return reference_query_id(row["candidate_id"], row["gpu"])
    return str(row["pair_id"])


def known_problems() -> dict[str, dict[str, Any]]:
    """The registry's problems, for an imported corpus that brings none of its own."""
    from kbench.benchmark.problems.registry import known, users
    from kbench.schemas import to_dict

    return {problem_id: to_dict(definition.record()) for problem_id, definition in {**known(), **users()}.items()}
