"""Findings: all that the card says about a corpus beyond its counts, computed once."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import polars
import yaml

from kbench.loaders.card.plots import render_plots
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.summary.coverage import Coverage, coverage_of
from kbench.loaders.summary.ledger import Costs, costs_of
from kbench.loaders.summary.remarks import Remarks, remarks_of
from kbench.loaders.summary.timed import timed
from kbench.loaders.summary.trust import Repeats, Trust, repeats_of, trust_of
from kbench.schemas import Status

PEAKS = 10
"""How many of the largest speedups are shown and explained."""
UNEXPLAINED = "No explanation has been written yet: treat this figure with suspicion."


@cache
def weaknesses() -> Mapping[str, str]:
    """What the PyTorch reference of a problem does badly, by problem."""
    return _texts("weaknesses.yaml")


@cache
def errata() -> Mapping[str, str]:
    """What is wrong with kernels that a release calls correct, by kernel id."""
    return _texts("errata.yaml")


def _texts(name: str) -> dict[str, str]:
    texts: dict[str, str] = yaml.safe_load(Path(__file__).with_name(name).read_text(encoding="utf-8"))
    return texts


@dataclasses.dataclass(frozen=True, slots=True)
class Peak:
    """The fastest kernel of a problem, against the PyTorch reference."""

    problem_id: str
    kernel_id: str
    backend: str
    runtime_us: float
    speedup: float
    speedup_best: float | None
    """Over the best reference; None where none but eager PyTorch was timed."""

    @property
    def reason(self) -> str:
        """What the reference does badly."""
        return weaknesses().get(self.problem_id, UNEXPLAINED)


@dataclasses.dataclass(frozen=True, slots=True)
class Erratum:
    """A kernel that is recorded as correct and is not."""

    kernel_id: str
    problem_id: str
    wrong: str


@dataclasses.dataclass(frozen=True, slots=True)
class Findings:
    """What a corpus shows."""

    gpu: str | None
    """Of several GPUs the one that peaks, coverage and plots of kernels are about; None where there is one."""
    peaks: tuple[Peak, ...]
    """The problems with the largest speedups, largest first."""
    coverage: Coverage
    trust: Trust
    errata: tuple[Erratum, ...]
    repeats: Repeats | None
    costs: Costs | None
    remarks: Remarks
    plots: Mapping[str, str]
    """SVG by file name."""
    parquet_bytes: int


def findings_of(corpus: Corpus) -> Findings:
    """Compute the findings of a corpus."""
    gpu = corpus.main_gpu()
    kernels = timed(corpus, gpu)
    everywhere = timed(corpus) if gpu else kernels
    return Findings(
        gpu=gpu,
        peaks=peaks_of(kernels),
        coverage=coverage_of(corpus, kernels),
        trust=trust_of(corpus),
        errata=errata_of(corpus),
        repeats=repeats_of(corpus),
        costs=costs_of(corpus, everywhere["kernel_id"].n_unique()),
        remarks=remarks_of(corpus),
        plots=render_plots(corpus, kernels),
        parquet_bytes=sum(entry.bytes for name in corpus.configs for entry in corpus.files(name)),
    )


def peaks_of(kernels: polars.DataFrame, number: int = PEAKS) -> tuple[Peak, ...]:
    """The problems with the largest speedups, each by its fastest kernel."""
    fastest = polars.col("runtime_us") == polars.col("runtime_us").min().over("problem_id")
    best = kernels.filter(fastest).unique("problem_id", keep="first", maintain_order=True)
    names = [field.name for field in dataclasses.fields(Peak)]
    ordered = best.sort(polars.col("speedup"), polars.col("problem_id").cast(polars.String), descending=[True, False])
    return tuple(Peak(**row) for row in ordered.select(names).head(number).to_dicts())


def errata_of(corpus: Corpus) -> tuple[Erratum, ...]:
    """The errata that a corpus has, in the order of their problems."""
    rows = corpus.table(
        "kernels", columns=["kernel_id", "problem_id"], kernel_id=list(errata()), status=Status.OK.value
    )
    errata_here = {Erratum(row["kernel_id"], row["problem_id"], errata()[row["kernel_id"]]) for row in rows.to_pylist()}
    return tuple(sorted(errata_here, key=lambda one: (one.problem_id, one.kernel_id)))
