"""How often a headline's 95 % interval holds the truth: problems are drawn from real ones whose figure is known.

The population is every problem of the splits test, test_near and validation of a corpus that states questions. Each
simulated benchmark draws as many problems as `test` has, with replacement; the truth is the figure over the whole
population. Differences of two entries are simulated too: how often their interval holds the truth, and what share of
the samples decides a difference as large as the board asks for. Records are compared with their repeats.

Run from the repository root: python docs/evidence/scripts/interval_coverage.py DATASET OUT.json
"""

from __future__ import annotations

import dataclasses
import json
import sys
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kbench.benchmark.evaluate.evaluate import Evaluation, evaluate_on
from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.metrics.arrays import Floats, Ints
from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure
from kbench.benchmark.metrics.metric import PairRows, PoolRows
from kbench.benchmark.metrics.registry import headline
from kbench.benchmark.scoring.compare import Power
from kbench.benchmark.scoring.rows import MACHINE_LOG_SIGMA, Z95, ranked_pools, surrogate_rows
from kbench.benchmark.scoring.score import Scored
from kbench.benchmark.tracks import OVERALL, PAIR_TRACKS
from kbench.loaders.corpus.corpus import Corpus

SPLITS = ("test", "test_near", "validation")
SURROGATES = ("static", "nearest", "length")
SIMULATIONS = 500
RESAMPLES = 300
VALUES = ("runtime", "speedup")
ENDS = {"runtime": ("_us", "_low_us", "_high_us"), "speedup": ("", "_low", "_high")}


@dataclasses.dataclass(frozen=True)
class Population:
    """One surrogate's rows of every track, with the problem of each, and what the headlines lie between."""

    rows: Mapping[str, Any]
    problems: Mapping[str, Sequence[str]]
    bounds: Scored

    @classmethod
    def of(cls, parts: Sequence[Evaluation]) -> Population:
        """The rows of several splits as one."""
        rows, problems = [], []
        for part in parts:
            rows.append(surrogate_rows(part.questions, part.table))
            labels, pairs = part.questions.pools, part.questions.over_all_workloads().pairs
            of_pools = [str(labels.problem[pool[0]]) for pool in ranked_pools(labels)]
            problems.append(dict.fromkeys(PAIR_TRACKS, pairs.problem.tolist()) | {"rank": of_pools})
        return cls(
            {track: _joined([one[track] for one in rows]) for track in rows[0]},
            {track: [name for one in problems for name in one[track]] for track in rows[0]},
            parts[0].scored,
        )

    def drawn(self, names: Sequence[str]) -> tuple[dict[str, Any], dict[str, Ints]]:
        """Rows of every track of some problems, each drawn problem a cluster of its own."""
        taken, clusters = {}, {}
        for track, rows in self.rows.items():
            places = [np.flatnonzero(np.asarray(self.problems[track], dtype=object) == name) for name in names]
            at = np.concatenate(places)
            pools = isinstance(rows, PoolRows)
            taken[track] = PoolRows(tuple(rows.pools[i] for i in at)) if pools else rows.take(at)
            clusters[track] = np.repeat(np.arange(len(names)), [len(each) for each in places])
        return taken, clusters

    def headlines(self, names: Sequence[str], resamples: int, seed: int) -> dict[str, Figure]:
        """Every headline, and overall, of some problems."""
        taken, clusters = self.drawn(names)
        every = [f"{at:04d}" for at in range(len(names))]
        found: dict[str, Mapping[str, Figure]] = {}
        for track, rows in taken.items():
            bootstrap = Bootstrap(np.array([every[at] for at in clusters[track]]), resamples, seed, every)
            figure = headline(track).measured(bootstrap, rows)
            assert figure is not None
            found[track] = {headline(track).name: figure}
        overall = dataclasses.replace(self.bounds, figures=found).overall
        assert overall is not None
        return {track: figures[headline(track).name] for track, figures in found.items()} | {OVERALL: overall}


def _joined(parts: Sequence[Any]) -> Any:
    if isinstance(parts[0], PoolRows):
        return PoolRows(tuple(pool for part in parts for pool in part.pools))
    assert isinstance(parts[0], PairRows)
    columns = {field.name: getattr(parts[0], field.name) for field in dataclasses.fields(PairRows)}
    arrays = [name for name, column in columns.items() if isinstance(column, np.ndarray)]
    return dataclasses.replace(parts[0], **{n: np.concatenate([getattr(p, n) for p in parts]) for n in arrays})


def simulated(populations: Mapping[str, Population], count: int) -> dict[str, Any]:
    """Coverage of every figure and difference, and the share of samples that decides the least difference."""
    names = sorted({name for one in populations.values() for part in one.problems.values() for name in part})
    truths = _with_differences({name: one.headlines(names, 0, 0) for name, one in populations.items()})
    generator = np.random.default_rng(7)
    samples: list[dict[str, dict[str, Figure]]] = []
    for index in range(SIMULATIONS):
        drawn = [names[at] for at in generator.choice(len(names), count)]
        headlines = {name: one.headlines(drawn, RESAMPLES, index) for name, one in populations.items()}
        samples.append(_with_differences(headlines))
    return {
        name: {track: _row(truth, [one[name][track] for one in samples]) for track, truth in of_tracks.items()}
        for name, of_tracks in truths.items()
    }


def _with_differences(headlines: Mapping[str, Mapping[str, Figure]]) -> dict[str, dict[str, Figure]]:
    first, *others = headlines
    differences = {
        f"{first} - {other}": {track: figure.minus(headlines[other][track]) for track, figure in of_first.items()}
        for other in others
        for of_first in [headlines[first]]
    }
    return {name: dict(of_tracks) for name, of_tracks in headlines.items()} | differences


def _row(truth: Figure, samples: Sequence[Figure]) -> dict[str, float]:
    known = [one for one in samples if np.isfinite(one.value)]
    lows, highs = np.array([one.interval for one in known]).T
    errors = np.array([one.value for one in known]) - truth.value
    least = [one for one in (Power.of([each]).least_difference for each in known) if one is not None]
    needed = float(np.median(least)) if least else float("nan")
    # The same samples, were the truth as far from zero as the board asks for.
    told = np.mean(np.abs(errors + needed) > (highs - lows) / 2)
    return {
        "truth": round(truth.value, 4),
        "width": round(float(np.mean(highs - lows)), 4),
        "coverage": round(float(np.mean((lows <= truth.value) & (truth.value <= highs))), 4),
        "least_difference": round(needed, 4),
        "decided_at_it": round(float(told), 4),
    }


def repeats_outside(corpus: Corpus) -> dict[str, dict[str, float]]:
    """Share of repeats on another machine that lie outside the 95 % interval of the difference, by spread added.

    `half` halves the problems, finds the spread that leaves 5 % outside in one half and gives the share in the other.
    """
    columns = ["kernel_id", "workload", "gpu", "problem_id", *(f"{name}{end}" for name in VALUES for end in ENDS[name])]
    ours, again = (corpus.table(name, columns=columns, status="ok").to_pylist() for name in ("measurements", "repeats"))
    first = {(row["kernel_id"], row["gpu"], row["workload"]): row for row in ours}
    pairs = [(first[key], row) for row in again if (key := (row["kernel_id"], row["gpu"], row["workload"])) in first]
    half = np.array([zlib.crc32(row["problem_id"].encode()) % 2 == 0 for _, row in pairs])
    found: dict[str, dict[str, float]] = {}
    for name in VALUES:
        value, low, high = (np.array([[row[f"{name}{end}"] for row in pair] for pair in pairs]) for end in ENDS[name])
        gap = np.log(value[:, 1] / value[:, 0])
        variance = ((np.log(high / low) / (2 * Z95)) ** 2).sum(axis=1)

        def outside(spread: float, rows: Any, gap: Floats = gap, variance: Floats = variance) -> float:
            z = gap[rows] / np.sqrt(variance[rows] + 2 * spread**2)
            return float((np.abs(z) > Z95).mean())

        grid = np.arange(0.0, 0.02, 0.0002)
        parts = {}
        for number, (learned, held) in enumerate(((half, ~half), (~half, half)), 1):
            chosen = min(grid, key=lambda spread: abs(outside(spread, learned) - 0.05))
            parts |= {f"half {number} spread": float(chosen), f"half {number} outside": outside(chosen, held)}
        everything = slice(None)
        found[name] = {"rows": len(pairs), "outside": outside(0.0, everything)}
        found[name] |= {"outside, widened": outside(MACHINE_LOG_SIGMA, everything), **parts}
    return found


def main() -> None:
    """Simulate every headline of every surrogate and write the table."""
    corpus, view = Corpus.open(None), Options(dataset=sys.argv[1]).corpus()
    made: dict[str, Any] = {"dataset": view.fingerprint, "simulations": SIMULATIONS, "resamples": RESAMPLES}
    made["repeats"] = repeats_outside(corpus)
    populations = {}
    for name in SURROGATES:
        parts = [evaluate_on(name, view, Options(split=split, resamples=0)) for split in SPLITS]
        populations[name] = Population.of(parts)
        made["problems"] = len(set(parts[0].questions.pairs.problem.tolist()))
        made["population"] = len({problem for problems in populations[name].problems.values() for problem in problems})
    made |= simulated(populations, made["problems"])
    Path(sys.argv[2]).write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(__doc__) if "--help" in sys.argv else main()
