"""How well a corpus covers its problems."""

from __future__ import annotations

import dataclasses
import statistics
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy
import pyarrow as pa

from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.summary.timed import WRITERS, Timed

BACKENDS = ("triton", "cuda")
WELL, LEAST = 30, 10
"""Timed kernels that make a cell well covered, and covered at all."""


@dataclasses.dataclass(frozen=True, slots=True)
class ProblemCoverage:
    """The timed kernels of one problem."""

    problem_id: str
    kernels: dict[str, int]
    """By backend."""
    structures: dict[str, int]
    """Distinct structures by backend."""
    spread: float | None
    """95th over 5th percentile of the runtime."""
    best_speedup: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class CoverageFigure:
    """One property of a corpus."""

    name: str
    what: str
    value: float
    share: bool = False
    """Whether the value is a share, shown in percent."""

    @property
    def text(self) -> str:
        """The value, for people."""
        if self.share:
            return f"{self.value:.1%}"
        return f"{self.value:,.0f}" if self.value == int(self.value) else f"{self.value:.2f}"


@dataclasses.dataclass(frozen=True, slots=True)
class Coverage:
    """Every problem's coverage, and figures over all of them."""

    problems: tuple[ProblemCoverage, ...]
    figures: tuple[CoverageFigure, ...]

    @property
    def backends(self) -> list[str]:
        """Every backend a kernel has."""
        return sorted({name for problem in self.problems for name in problem.kernels}, reverse=True)


def coverage_of(corpus: Corpus, kernels: Timed) -> Coverage:
    """The coverage of a corpus.

    Args:
        corpus: the corpus.
        kernels: its timed kernels, of one GPU: runtimes on several would widen every problem's spread.
    """
    problems = tuple(_problems(corpus, kernels))
    return Coverage(problems, tuple(_figures(corpus, kernels, problems)))


def _problems(corpus: Corpus, kernels: Timed) -> Iterator[ProblemCoverage]:
    cells = dict(kernels.groups("problem_id", "backend"))
    whole = {name: at for (name,), at in kernels.groups("problem_id")}
    listed = corpus.table("problems", columns=["problem_id"]).column(0).to_pylist() if corpus.rows("problems") else []
    for name in sorted({*listed, *whole}):
        at = whole.get(name)
        backends = sorted({*BACKENDS, *(backend for problem, backend in cells if problem == name)}, reverse=True)
        found = {backend: cells.get((name, backend), numpy.empty(0, numpy.int64)) for backend in backends}
        runtimes = None if at is None else kernels.figures["runtime_us"][at]
        spread = None if runtimes is None else float(numpy.quantile(runtimes, 0.95) / numpy.quantile(runtimes, 0.05))
        yield ProblemCoverage(
            problem_id=name,
            kernels={backend: len(rows) for backend, rows in found.items()},
            structures={backend: len(numpy.unique(kernels.structures[rows])) for backend, rows in found.items()},
            spread=spread,
            best_speedup=None if at is None else float(kernels.figures["speedup"][at].max()),
        )


def _figures(corpus: Corpus, kernels: Timed, problems: tuple[ProblemCoverage, ...]) -> Iterator[CoverageFigure]:
    timed = [problem for problem in problems if problem.best_speedup is not None]
    cells = [problem.kernels[backend] for problem in problems for backend in BACKENDS]
    structures = [problem.structures[backend] for problem in problems for backend in BACKENDS]
    written = _written(kernels)
    methods = Counter({method: len(at) for (method,), at in kernels.groups("search_method")})
    bins = bins_of_test(corpus)
    yield CoverageFigure("kernels", "distinct kernels with status ok", len(numpy.unique(kernels.codes["kernel_id"])))
    yield CoverageFigure("problems", "problems with such kernels", len(timed))
    yield CoverageFigure("well_covered", f"cells (problem × backend) with at least {WELL}", _share(cells, WELL), True)
    yield CoverageFigure("covered", f"cells with at least {LEAST}", _share(cells, LEAST), True)
    yield CoverageFigure("method_share", "smallest share of a search method", _least_share(methods), True)
    yield CoverageFigure("written", "kernels written freely, not from templates", sum(written.values()))
    yield CoverageFigure("written_problems", "problems with kernels written freely", len(written))
    yield CoverageFigure("structures", "median of distinct structures in a cell", statistics.median(structures or [0]))
    spreads = [problem.spread or 0.0 for problem in timed]
    yield CoverageFigure("spread", "median within a problem of p95/p5 runtime", statistics.median(spreads or [0.0]))
    yield CoverageFigure("bin_share", "smallest share of a bin among test questions", _least_share(bins), True)
    beaten = sum((problem.best_speedup or 0) > 1 for problem in timed)
    yield CoverageFigure("beaten", "problems whose best kernel beats PyTorch", beaten / max(len(timed), 1), True)


def _share(cells: list[int], least: int) -> float:
    return sum(number >= least for number in cells) / max(len(cells), 1)


def _least_share(counted: Counter[Any]) -> float:
    return min(counted.values()) / counted.total() if counted.total() else 0.0


def _written(kernels: Timed) -> dict[str, int]:
    found: Counter[str] = Counter()
    for (proposer, problem), at in kernels.groups("proposer", "problem_id"):
        if proposer in WRITERS:
            found[problem] += len(at)
    return dict(found)


def bins_of_test(corpus: Corpus) -> Counter[int]:
    """Questions of the test split by bin; empty bins count zero."""
    from kbench.schemas.bins import NUMBERS

    found: Counter[int] = Counter(dict.fromkeys(NUMBERS, 0))
    if not any(entry.split == "test" for entry in corpus.files("questions")):
        return found
    for batch in corpus.select("questions", columns=["bin"], split="test").batches():
        for row in pa.table(batch).group_by("bin").aggregate([([], "count_all")]).to_pylist():
            found[row["bin"]] += row["count_all"]
    return found
