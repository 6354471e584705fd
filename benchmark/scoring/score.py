"""Scores of one surrogate on one set of questions: every track, every slice, with interval and ceiling.

Slices say where a surrogate is good: by family, backend, kind, bin, runtime decade, seen or unseen, author class,
origin and GPU.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kbench.benchmark.metrics.arrays import Floats, Ints, encode
from kbench.benchmark.metrics.bootstrap import RESAMPLES, Bootstrap, Figure
from kbench.benchmark.metrics.forecast import LEVEL_SKILL, WORKLOAD_SKILL
from kbench.benchmark.metrics.metric import PairRows
from kbench.benchmark.metrics.registry import METRICS, figures, headline
from kbench.benchmark.questions.asked import STATED_KINDS
from kbench.benchmark.questions.questions import PairLabels, Questions, Strings, strings
from kbench.benchmark.scoring.rows import ceiling_rows, floor_rows, pair_rows, ranked_pools, surrogate_rows
from kbench.benchmark.surrogates.forecasts import ForecastTable
from kbench.benchmark.tracks import FORECAST, OVERALL, PAIR_TRACKS, RANK
from kbench.schemas import Score

Figures = Mapping[str, Figure]
FACETS = ("family", "backend", "kind", "bin", "runtime", "seen", "author")
LOWEST = -6
POWERS = np.array([float(f"1e{exponent}") for exponent in range(LOWEST, 16)])
"""Edges of the decades of runtime, from 10 to the LOWEST on."""
LEAST_WIDTH = 0.05
"""Least distance of floor and ceiling that makes a scale: on a slice they may be the same but for noise."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapSettings:
    """How intervals are made."""

    resamples: int = RESAMPLES
    seed: int = 0

    def draws(self, clusters: Sequence[str] | Strings, names: Sequence[str] | None = None) -> Bootstrap:
        """A bootstrap over these clusters, or over more of them whose `names` are given."""
        return Bootstrap(np.asarray(clusters, dtype=object), self.resamples, self.seed, names)


@dataclasses.dataclass(frozen=True, slots=True)
class Bounds:
    """What questions alone decide, whoever answers them."""

    ceilings: Mapping[str, Mapping[str, float]]
    floors: Mapping[str, Mapping[str, float]]

    @classmethod
    def of(cls, questions: Questions, settings: BootstrapSettings) -> Bounds:
        """Ceilings and floors of every track that the questions ask."""
        clusters = _clusters(questions)

        def values(track: str, rows: Any) -> dict[str, float]:
            bootstrap = Bootstrap(clusters[track], 0)
            return {name: figure.value for name, figure in figures(track, bootstrap, rows).items()}

        both = (ceiling_rows(questions, settings.seed), floor_rows(questions))
        return cls(*({track: values(track, given) for track, given in rows.items()} for rows in both))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """Every figure of one surrogate, draws included, so that two surrogates can be compared draw by draw."""

    figures: Mapping[str, Figures]
    """By track, then metric."""
    ceilings: Mapping[str, Mapping[str, float]]
    """By track, then metric: what a second measurement scores; absent where there is none to draw."""
    floors: Mapping[str, Mapping[str, float]]
    """By track, then metric: what the training frequencies and a random order score."""
    slices: tuple[Score, ...]
    rows: Mapping[str, int]
    """Rows of each track."""

    def headline(self, track: str) -> Figure | None:
        """A track's headline, or overall under its own name; None where it has none."""
        return self.overall if track == OVERALL else self.figures.get(track, {}).get(headline(track).name)

    @property
    def overall(self) -> Figure | None:
        """Mean over tracks of the headline on a scale from the floor (0) to the ceiling (1); None without a ceiling.

        A track that was asked and not answered counts as its floor. One that the questions cannot score is left out.
        """
        scaled: list[Figure] = []
        count = 0
        for track, floors in self.floors.items():
            name = headline(track).name
            floor, ceiling = floors.get(name), self.ceilings.get(track, {}).get(name)
            if floor is not None and math.isnan(floor):
                continue
            if floor is None or ceiling is None or not abs(ceiling - floor) > LEAST_WIDTH:
                return None
            count += 1
            figure = self.figures.get(track, {}).get(name)
            if figure is not None:
                width = ceiling - floor
                scaled.append(Figure((figure.value - floor) / width, (figure.draws - floor) / width, figure.level))
        if not scaled:
            return None
        value = sum(one.value for one in scaled) / count
        # A track of one problem has no draws, and then the mean has none.
        paired = len({len(one.draws) for one in scaled}) == 1
        draws = np.sum([one.draws for one in scaled], axis=0) / count if paired else np.empty(0)
        return Figure(value, draws, max(one.level for one in scaled))

    def scores(self) -> tuple[Score, ...]:
        """As records, slices included."""
        records = [
            _record(track, name, "all", figure, self.ceilings.get(track, {}).get(name), self.rows[track])
            for track, found in self.figures.items()
            for name, figure in found.items()
        ]
        if self.overall is not None:
            records.append(_record(OVERALL, OVERALL, "all", self.overall, 1.0, sum(self.rows.values())))
        return (*records, *self.slices)


def score(
    questions: Questions,
    table: ForecastTable,
    settings: BootstrapSettings | None = None,
    *,
    sliced: bool = True,
    bounds: Bounds | None = None,
    headlines_alone: bool = False,
) -> Scored:
    """Score forecasts on every track the questions ask."""
    settings = settings or BootstrapSettings()
    rows = surrogate_rows(questions, table)
    clusters = _clusters(questions)
    # All tracks draw from the same problems, so that draw i is the same sample for each.
    problems = sorted({*map(str, questions.pairs.problem.tolist()), *map(str, questions.pools.problem.tolist())})
    figures_by_track = {}
    for track, given in rows.items():
        shared = problems if set(clusters[track].tolist()) <= set(problems) else None
        bootstrap = settings.draws(np.tile(clusters[track], table.repeats), shared)
        figures_by_track[track] = figures(track, bootstrap, given, headlines_alone)
    if FORECAST.name in figures_by_track and not headlines_alone:
        figures_by_track[FORECAST.name] |= _apart(questions, table, settings)
    parts: tuple[Score, ...] = ()
    if sliced and FORECAST.name in rows:
        counted = questions.over_all_workloads()
        parts = _slices(counted, pair_rows(counted, table), settings)
    bounds = bounds or Bounds.of(questions, settings)
    return Scored(
        figures=figures_by_track,
        ceilings=bounds.ceilings,
        floors=bounds.floors,
        slices=parts,
        rows={track: len(questions.pairs if track in PAIR_TRACKS else questions.pools) for track in figures_by_track},
    )


def _apart(questions: Questions, table: ForecastTable, settings: BootstrapSettings) -> dict[str, Figure]:
    """Skills on questions that no other figure counts: about one workload, and about the level."""
    everything, pairs = pair_rows(questions, table), questions.pairs
    counted = np.tile(questions.counted_pairs, table.repeats)
    skills = {}
    for metric, asked in ((WORKLOAD_SKILL, everything.one_workload), (LEVEL_SKILL, everything.level)):
        positions = np.flatnonzero(asked & ~counted)
        if len(positions):
            clusters = np.tile(clusters_of(pairs.problem, pairs.candidate), table.repeats)[positions]
            skills[metric.name] = metric.measured(settings.draws(clusters), everything.take(positions))
    return {name: figure for name, figure in skills.items() if figure is not None}


def _clusters(questions: Questions) -> dict[str, Strings]:
    """The cluster of each row of every track, for one repeat."""
    pairs, labels = questions.over_all_workloads().pairs, questions.pools
    by_track = dict.fromkeys(PAIR_TRACKS, clusters_of(pairs.problem, pairs.candidate))
    return by_track | {RANK.name: labels.problem[[int(rows[0]) for rows in ranked_pools(labels)]]}


def clusters_of(problem: Strings, kernel: Strings) -> Strings:
    """Rows of one problem are drawn together; where there is one problem only, rows of one kernel are."""
    return problem if len(set(problem.tolist())) > 1 else kernel


def _slices(questions: Questions, rows: PairRows, settings: BootstrapSettings) -> tuple[Score, ...]:
    pairs = questions.pairs
    repeats = len(rows.bins) // len(pairs)
    records: list[Score] = []
    gpus = strings([questions.queries[at].gpu for at in pairs.query.tolist()])
    for name, positions in _facet_slices(pairs, gpus):
        part = rows.take((np.arange(repeats)[:, None] * len(pairs) + positions).ravel())
        clusters = clusters_of(pairs.problem[positions], pairs.candidate[positions])
        bootstrap = settings.draws(np.tile(clusters, repeats))
        for metric in METRICS:
            if metric.sliced:
                figure = metric.measured(bootstrap, part)
                assert figure is not None
                records.append(_record(metric.track.name, metric.name, name, figure, None, len(positions)))
    return tuple(records)


def _decades(runtime_us: Floats) -> Strings:
    timed = ~np.isnan(runtime_us)
    # By comparison, like the bins: a logarithm would put 1,000 us below or above its edge as the processor has it.
    exponents = np.searchsorted(POWERS, np.where(timed, runtime_us, 1.0), side="right") - 1 + LOWEST
    names = {e: f"{10.0**e:g}-{10.0 ** (e + 1):g} us" for e in np.unique(exponents).tolist()}
    decades = strings([names[e] for e in exponents.tolist()])
    decades[~timed] = "unknown"
    return decades


def _facet(labels: PairLabels, name: str) -> Strings:
    """The value of one facet for every row."""
    if name == "kind":
        # As the dataset's questions call it, which is what people look up.
        return strings([STATED_KINDS.get(kind, kind) for kind in labels.kind.tolist()])
    if name == "bin":
        return strings([str(number) for number in labels.bin.tolist()])
    if name == "runtime":
        return _decades(labels.runtime_us)
    if name == "seen":
        return strings(["seen" if split in ("test_seen", "validation") else "unseen" for split in labels.split])
    return getattr(labels, name)


def _facet_slices(labels: PairLabels, gpus: Strings) -> Iterator[tuple[str, Ints]]:
    """Every slice as facet=value with its row positions.

    Args:
        labels: the rows.
        gpus: the GPU of each; where all are of one GPU, or of one origin, that is no slice.
    """
    facets = {name: _facet(labels, name) for name in FACETS}
    facets |= {name: column for name, column in (("origin", labels.origin), ("gpu", gpus)) if len(set(column)) > 1}
    for name, column in facets.items():
        values, index = encode(column)
        order = np.argsort(index, kind="stable")
        parts = np.split(order, np.flatnonzero(np.diff(index[order])) + 1)
        for value, rows in zip(values, parts, strict=True):
            yield f"{name}={value}", rows


def _record(track: str, metric: str, name: str, figure: Figure, ceiling: float | None, rows: int) -> Score:
    low, high = figure.interval
    return Score(
        track=track,
        metric=metric,
        slice=name,
        value=finite(figure.value),
        low=finite(low),
        high=finite(high),
        ceiling=None if ceiling is None else finite(ceiling),
        rows=rows,
    )


def finite(value: float) -> float | None:
    """The number, or None where it is not defined."""
    return float(value) if math.isfinite(value) else None
