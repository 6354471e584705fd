"""Scores of one surrogate on one set of questions: every track, every slice, with interval and ceiling.

Slices say where a surrogate is good: by family, backend, kind, bin, runtime decade, seen or unseen, author class,
origin and GPU.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Ints, encode
from kbench.benchmark.metrics.bootstrap import RESAMPLES, Bootstrap, Figure
from kbench.benchmark.metrics.forecast import LEVEL_SKILL, WORKLOAD_SKILL
from kbench.benchmark.metrics.metric import PairRows
from kbench.benchmark.metrics.registry import METRICS, figures, headline
from kbench.benchmark.questions.asked import STATED_KINDS
from kbench.benchmark.questions.questions import Questions, Strings, strings
from kbench.benchmark.scoring.rows import ceiling_rows, floor_rows, pair_rows, ranked_pools, surrogate_rows
from kbench.benchmark.surrogates.forecasts import ForecastTable
from kbench.benchmark.tracks import FORECAST, OVERALL, PAIR_TRACKS, RANK
from kbench.schemas import Score

Figures = Mapping[str, Figure]
Clusters = TypeVar("Clusters", Strings, Ints)
LOWEST = -6
HIGHEST = 15
POWERS = np.array([float(f"1e{exponent}") for exponent in range(LOWEST, HIGHEST + 1)])
"""Edges of the decades of runtime, from 10 to the LOWEST on."""
DECADES = [f"{10.0**e:g}-{10.0 ** (e + 1):g} us" for e in range(LOWEST - 1, HIGHEST + 1)]
"""Between these edges, below and above them."""
LEAST_WIDTH = 0.05
"""Least distance of floor and ceiling that makes a scale: on a slice they may be the same but for noise."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapSettings:
    """How intervals are made."""

    resamples: int = RESAMPLES
    seed: int = 0

    def draws(self, clusters: npt.ArrayLike, names: Sequence[str] | None = None) -> Bootstrap:
        """A bootstrap over these clusters, or over more of them whose `names` are given."""
        return Bootstrap(clusters, self.resamples, self.seed, names)


@dataclasses.dataclass(frozen=True, slots=True)
class Bounds:
    """What questions alone decide, whoever answers them."""

    ceilings: Mapping[str, Mapping[str, float]]
    floors: Mapping[str, Mapping[str, float]]

    @classmethod
    def of(cls, questions: Questions, settings: BootstrapSettings) -> Bounds:
        """Ceilings and floors of every track that the questions ask."""
        bootstraps = _bootstraps(questions, dataclasses.replace(settings, resamples=0))

        def values(track: str, rows: Any) -> dict[str, float]:
            return {name: figure.value for name, figure in figures(track, bootstraps[track], rows).items()}

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
    bootstraps = _bootstraps(questions, settings, table.repeats)
    figures_by_track = {
        track: figures(track, bootstraps[track], given, headlines_alone) for track, given in rows.items()
    }
    if FORECAST.name in figures_by_track and not headlines_alone:
        figures_by_track[FORECAST.name] |= _apart(questions, table, settings)
    parts: tuple[Score, ...] = ()
    of_pairs = rows.get(FORECAST.name)
    if sliced and isinstance(of_pairs, PairRows):
        parts = _slices(questions.over_all_workloads(), of_pairs, settings)
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
    apart, clusters = ~questions.counted_pairs, clusters_of(questions.pairs.problem, questions.pairs.candidate)
    rows = pair_rows(dataclasses.replace(questions, pairs=questions.pairs.take(apart)), table)
    skills = {}
    for metric, asked in ((WORKLOAD_SKILL, rows.one_workload), (LEVEL_SKILL, rows.level)):
        if asked.any():
            bootstrap = settings.draws(np.tile(clusters[apart], table.repeats)[asked])
            skills[metric.name] = metric.measured(bootstrap, rows.take(np.flatnonzero(asked)))
    return {name: figure for name, figure in skills.items() if figure is not None}


def _bootstraps(questions: Questions, settings: BootstrapSettings, repeats: int = 1) -> dict[str, Bootstrap]:
    """The bootstrap of every track: all draw from the same problems, so that draw i is the same sample for each."""
    pairs, pools = questions.over_all_workloads().pairs, questions.pools
    problems = encode(np.concatenate([questions.pairs.problem, pools.problem]))[0]

    def draws(clusters: Strings) -> Bootstrap:
        return settings.draws(np.tile(clusters, repeats), problems if {*clusters.tolist()} <= {*problems} else None)

    by_track: dict[str, Bootstrap] = {}
    if len(questions.pairs):
        by_track |= dict.fromkeys(PAIR_TRACKS, draws(clusters_of(pairs.problem, pairs.candidate)))
    if ranked := ranked_pools(pools):
        by_track[RANK.name] = draws(pools.problem[[int(rows[0]) for rows in ranked]])
    return by_track


def clusters_of(problem: Clusters, kernel: Clusters) -> Clusters:
    """Rows of one problem are drawn together; where there is one problem only, rows of one kernel are."""
    return problem if (problem != problem[:1]).any() else kernel


def _slices(questions: Questions, rows: PairRows, settings: BootstrapSettings) -> tuple[Score, ...]:
    pairs = questions.pairs
    repeats = len(rows.bins) // len(pairs)
    records: list[Score] = []
    problem, kernel = encode(pairs.problem)[1], encode(pairs.candidate)[1]
    rows = rows.narrow()
    for name, positions in _facet_slices(questions):
        part = rows.take((np.arange(repeats)[:, None] * len(pairs) + positions).ravel())
        clusters = clusters_of(problem[positions], kernel[positions])
        bootstrap = settings.draws(np.tile(clusters, repeats))
        for metric in METRICS:
            if metric.sliced:
                figure = metric.measured(bootstrap, part)
                assert figure is not None
                records.append(_record(metric.track.name, metric.name, name, figure, None, len(positions)))
    return tuple(records)


def _renamed(column: npt.ArrayLike, name_of: Callable[[str], str]) -> tuple[list[str], Ints]:
    """Like `encode`, of other names for the values."""
    values, index = encode(column)
    names, place = encode([name_of(value) for value in values])
    return names, place[index]


def _facets(questions: Questions) -> dict[str, tuple[list[str], Ints]]:
    """Values of every facet, and the position of each pair's among them."""
    pairs = questions.pairs
    # By comparison, like the bins: a logarithm would put 1,000 us below or above its edge as the processor has it.
    decade = np.searchsorted(POWERS, pairs.runtime_us, side="right")
    decade[np.isnan(pairs.runtime_us)] = len(DECADES)
    facets = {
        "family": encode(pairs.family),
        "backend": encode(pairs.backend),
        # As the dataset's questions call it, which is what people look up.
        "kind": _renamed(pairs.kind, lambda kind: STATED_KINDS.get(kind, kind)),
        "bin": encode(pairs.bin),
        "runtime": _renamed(decade, lambda number: [*DECADES, "unknown"][int(number)]),
        "seen": _renamed(pairs.split, lambda split: "seen" if split in ("test_seen", "validation") else "unseen"),
        "author": encode(pairs.author),
    }
    # Where all are of one GPU, or of one origin, that is no slice.
    more = {"origin": pairs.origin, "gpu": strings([query.gpu for query in questions.queries])[pairs.query]}
    return facets | {name: coded for name, column in more.items() if len((coded := encode(column))[0]) > 1}


def _facet_slices(questions: Questions) -> Iterator[tuple[str, Ints]]:
    """Every slice as facet=value with the positions of its pairs."""
    for name, (values, index) in _facets(questions).items():
        # Small numbers are sorted by counting them.
        order = np.argsort(index.astype(np.min_scalar_type(len(values))), kind="stable")
        for value, rows in zip(values, np.split(order, np.cumsum(np.bincount(index))[:-1]), strict=True):
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
