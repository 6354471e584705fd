"""What a corpus holds, counted: for `kbench data info`, the card and its metadata; and how well it covers problems."""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars
import pyarrow as pa
import pyarrow.compute as pc

from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.selection import Selection
from kbench.schemas import arrow_schema
from kbench.schemas.bins import NUMBERS

UNMEASURED = "unmeasured"
"""Where a kernel's gpu or status is null."""
FACETS = ("split", "backend", "gpu", "status", "search_method", "proposer", "family", "origin")


@dataclasses.dataclass(frozen=True, slots=True)
class Counts:
    """What a corpus holds; a kernel has a row for each GPU it was measured on."""

    rows: Mapping[str, int]
    """By config."""
    distinct_kernels: int
    facets: Mapping[str, Mapping[str, int]]
    """For each of FACETS the rows of kernels by value, most frequent first."""
    problems: int
    """Problems that have kernels, or those listed when there are more."""
    problems_with_kernels: int
    first_measured: str | None
    last_measured: str | None

    @property
    def repeated(self) -> bool:
        """Whether kernels have rows on several GPUs, so that counted rows are more than kernels."""
        return self.rows.get("kernels", 0) > self.distinct_kernels


def count(corpus: Corpus) -> Counts:
    """Count a corpus; reads only the facet columns, a batch at a time."""
    # Numbers that stand for ids tell ten million kernels apart and take a fraction of the memory their texts would.
    identities = polars.col("kernel_id", "problem_id").hash()
    facets = polars.col(FACETS).fill_null(UNMEASURED).cast(polars.Categorical)
    kernels = gathered(corpus.select("kernels", columns=["kernel_id", "problem_id", *FACETS]), identities, facets)
    spans = [
        pc.min_max(batch.column(0)).as_py() for batch in corpus.select("measurements", columns=["started_at"]).batches()
    ]
    with_kernels = kernels["problem_id"].n_unique()
    values = {name: kernels[name].cast(polars.String).value_counts().iter_rows() for name in FACETS}
    return Counts(
        rows={name: corpus.rows(name) for name in corpus.configs},
        distinct_kernels=kernels["kernel_id"].n_unique(),
        facets={name: dict(sorted(found, key=lambda item: (-item[1], item[0]))) for name, found in values.items()},
        problems_with_kernels=with_kernels,
        problems=max(corpus.rows("problems"), with_kernels),
        first_measured=min((span["min"] for span in spans if span["min"]), default=None),
        last_measured=max((span["max"] for span in spans if span["max"]), default=None),
    )


BACKENDS = ("triton", "cuda")
WELL, LEAST = 30, 10
"""Timed kernels that make a cell well covered, and covered at all."""


def coverage_of(corpus: Corpus, kernels: polars.DataFrame) -> dict[str, Any]:
    """The coverage of a corpus: of every problem, as `problems`, and figures over all of them, as `figures`.

    Args:
        corpus: the corpus.
        kernels: its timed kernels, of one GPU: runtimes on several would widen every problem's spread.
    """
    problems = list(_problems(corpus, kernels))
    return {"problems": problems, "figures": list(_figures(corpus, kernels, problems))}


def _problems(corpus: Corpus, kernels: polars.DataFrame) -> Iterator[dict[str, Any]]:
    """Each problem's kernels and structures by backend, the 95th over the 5th percentile of their runtimes, and the
    speedup of the fastest with its interval."""
    col = polars.col
    cells = kernels.group_by("problem_id", "backend").agg(polars.len(), structures=col("structure_id").n_unique())
    low, high = (col("runtime_us").quantile(share, "linear") for share in (0.05, 0.95))
    # The fastest by its own time: the largest speedup is often one whose reference was slow that day.
    best = col("speedup", "speedup_low", "speedup_high").sort_by("runtime_us", "kernel_id").first()
    whole = kernels.group_by("problem_id").agg((high / low).alias("spread"), best)
    counted = {(problem, backend): counts for problem, backend, *counts in cells.iter_rows()}
    ranges = {problem: figures for problem, *figures in whole.iter_rows()}
    listed = corpus.table("problems", columns=["problem_id"]).column(0).to_pylist() if corpus.rows("problems") else []
    backends = sorted({*BACKENDS, *(backend for _, backend in counted)}, reverse=True)
    for name in sorted({*listed, *ranges}):
        counts = {backend: counted.get((name, backend), (0, 0)) for backend in backends}
        spread, *speedups = ranges.get(name, (None,) * 4)
        yield {
            "problem_id": name,
            "kernels": {backend: count for backend, (count, _) in counts.items()},
            "structures": {backend: structures for backend, (_, structures) in counts.items()},
            "spread": spread,
            **dict(zip(("best_speedup", "best_speedup_low", "best_speedup_high"), speedups, strict=True)),
        }


def _figures(
    corpus: Corpus, kernels: polars.DataFrame, problems: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    timed = [problem for problem in problems if problem["best_speedup"] is not None]
    cells = [problem["kernels"][backend] for problem in problems for backend in BACKENDS]
    structures = [problem["structures"][backend] for problem in problems for backend in BACKENDS]
    written = kernels.filter(polars.col("proposer").cast(polars.String).is_in(WRITERS))
    methods = Counter(dict(kernels.group_by("search_method").len().iter_rows()))
    test = bins_by_split(corpus).get("test", Counter())
    bins = Counter({number: test[number] for number in NUMBERS})
    yield _figure("kernels", "distinct kernels with status ok", kernels["kernel_id"].n_unique())
    yield _figure("problems", "problems with such kernels", len(timed))
    yield _figure("well_covered", f"cells (problem × backend) with at least {WELL}", _share(cells, WELL), True)
    yield _figure("covered", f"cells with at least {LEAST}", _share(cells, LEAST), True)
    yield _figure("method_share", "smallest share of a search method", _least_share(methods), True)
    yield _figure("written", "kernels written freely, not from templates", len(written))
    yield _figure("written_problems", "problems with kernels written freely", written["problem_id"].n_unique())
    yield _figure("structures", "median of distinct structures in a cell", statistics.median(structures or [0]))
    spreads = [problem["spread"] or 0.0 for problem in timed]
    yield _figure("spread", "median within a problem of p95/p5 runtime", statistics.median(spreads or [0.0]))
    yield _figure("bin_share", "smallest share of a bin among test questions", _least_share(bins), True)
    beaten = sum((problem["best_speedup"] or 0) > 1 for problem in timed)
    share = beaten / max(len(timed), 1)
    yield _figure("beaten", "problems whose best kernel beats PyTorch", share, True, len(timed))


def _figure(name: str, what: str, value: float, share: bool = False, of: int | None = None) -> dict[str, Any]:
    """One property of a corpus, and its value for people: a share in percent, or as so many of so many."""
    if of is not None:
        text = f"{round(value * of):,} of {of:,}"
    elif share:
        text = f"{value:.1%}"
    else:
        text = f"{value:,.0f}" if value == int(value) else f"{value:.2f}"
    return {"name": name, "what": what, "value": value, "share": share, "of": of, "text": text}


def _share(cells: Sequence[int], least: int) -> float:
    return sum(number >= least for number in cells) / max(len(cells), 1)


def _least_share(counted: Counter[Any]) -> float:
    return min(counted.values()) / counted.total() if counted.total() else 0.0


def bins_by_split(corpus: Corpus) -> dict[str, Counter[int]]:
    """Questions by bin, of each split."""
    counts: dict[str, Counter[int]] = {}
    for batch in corpus.select("questions", columns=["split", "bin"]).batches():
        for row in pa.table(batch).group_by(["split", "bin"]).aggregate([([], "count_all")]).to_pylist():
            counts.setdefault(row["split"], Counter())[row["bin"]] += row["count_all"]
    return counts


WORDS = ("problem_id", "family", "backend", "gpu", "search_method", "proposer", "run_id")
"""Columns of few distinct texts; a null is an empty one."""
FIGURES = ("kernel_id", "runtime_us", "speedup", "speedup_low", "speedup_high", "speedup_best", "step")
COLUMNS = (*WORDS, "structure_id", *FIGURES)
WRITERS = ("llm", "human")
"""Proposers that write whole kernels freely, not from a family of templates."""
# A damaged corpus is described as well: what is wrong with it is said by validation, not by a crash here.
_TIMED = (pc.field("status") == "ok") & pc.is_finite(pc.field("runtime_us")) & pc.is_finite(pc.field("speedup"))
_TIMED = _TIMED & (pc.field("runtime_us") > 0) & (pc.field("speedup") > 0)


def timed(corpus: Corpus, gpu: str | None = None) -> polars.DataFrame:
    """The kernels with status ok and a runtime on one GPU or on all, read a batch at a time, without their sources.

    A kernel measured on several GPUs has a row for each: runtimes of all of them are no distribution of anything.
    """
    words = polars.col(WORDS).fill_null("").cast(polars.Categorical)
    # Half of an id tells structures apart in a fraction of the memory.
    structure = polars.col("structure_id").str.slice(0, 16).str.to_integer(base=16, dtype=polars.UInt64)
    selection = corpus.select("kernels", columns=COLUMNS, where=_TIMED, gpu=gpu)
    return gathered(selection, words, structure, *FIGURES)


def gathered(selection: Selection, *columns: polars.Expr | str) -> polars.DataFrame:
    """What is computed of selected rows, in one frame: a batch of rows is gone when the next is read."""
    empty = arrow_schema(selection.config.record).empty_table().select(selection.columns or ())
    parts = itertools.chain([empty], map(pa.table, selection.batches()))
    return polars.concat([polars.DataFrame(part).select(*columns) for part in parts])
