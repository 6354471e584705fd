"""How often a headline's 95 % interval holds the truth: problems are drawn from real ones whose figure is known.

The population is every problem of the splits test and validation, with the dataset's own pairs and pools. Each
simulated benchmark draws as many problems as `test` has, with replacement; the truth is the figure over the whole
population. Run from the repository root: python docs/evidence/scripts/interval_coverage.py OUT.json
"""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kbench.benchmark.evaluate.evaluate import evaluate_on
from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.metrics.arrays import Floats, Ints
from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure
from kbench.benchmark.metrics.metric import Metric
from kbench.benchmark.metrics.registry import METRICS
from kbench.benchmark.metrics.rows import PairRows, PoolRows, SearchRows, ValidityRows
from kbench.benchmark.questions import Questions
from kbench.benchmark.scoring.bounds import MACHINE_LOG_SIGMA, Z95
from kbench.benchmark.scoring.rows import ranked_pools, searched_pools, surrogate_rows
from kbench.benchmark.tracks import PAIR_TRACKS
from kbench.loaders.corpus.corpus import Corpus

SPLITS = ("test", "validation")
SIMULATIONS = 1000
RESAMPLES = 300
BESIDE = ("rps_skill", "level_skill", "ece_per_problem", "spearman", "regret_at_10", "median_regret_at_10",
          "capped_regret_at_10", "gain_at_10", "auroc")  # fmt: skip
"""Metrics that are no headline and are simulated too."""
SURROGATES = ("static", "length")
VALUES = ("runtime", "speedup")
ENDS = {"runtime": ("_us", "_low_us", "_high_us"), "speedup": ("", "_low", "_high")}
SEARCHED = ("log_gain", "best_share", "oracle_log_gain")


def rows_of(questions: Questions, table: Any) -> dict[str, tuple[Any, list[str]]]:
    """Rows of every track with the problem of each."""
    labels = questions.pools
    problems = dict.fromkeys(PAIR_TRACKS, questions.pairs.problem.tolist()) | {
        "validity": labels.problem[labels.asked_valid].tolist()
    }
    for track, pools in (("rank", ranked_pools(labels)), ("search", searched_pools(labels))):
        problems[track] = [labels.problem[rows[0]] for rows in pools]
    return {track: (rows, problems[track]) for track, rows in surrogate_rows(questions, table, 0).items()}


def joined(parts: list[Any]) -> Any:
    """The rows of several splits as one."""
    first = parts[0]
    if isinstance(first, PoolRows):
        return PoolRows(tuple(pool for part in parts for pool in part.pools))
    if isinstance(first, SearchRows):
        budgets = list(first.log_gain)
        return SearchRows(*({b: np.concatenate([getattr(p, n)[b] for p in parts]) for b in budgets} for n in SEARCHED))
    whole = ("prior", "measure_seconds", "valid_rate")
    names = [name for name in type(first).__dataclass_fields__ if name not in whole]
    kept = {name: getattr(first, name) for name in type(first).__dataclass_fields__ if name in whole}
    return type(first)(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names}, **kept)


def taken(rows: Any, at: Ints) -> Any:
    """The rows at these positions."""
    if isinstance(rows, PairRows):
        return rows.take(at)
    if isinstance(rows, PoolRows):
        return PoolRows(tuple(rows.pools[i] for i in at))
    if isinstance(rows, SearchRows):
        return SearchRows(*({b: values[at] for b, values in getattr(rows, name).items()} for name in SEARCHED))
    assert isinstance(rows, ValidityRows)
    return ValidityRows(rows.stated[at], rows.valid[at], rows.proposer[at], rows.valid_rate)


def simulated(metric: Metric, rows: Any, problems: list[str], count: int, seed: int) -> dict[str, float]:
    """Truth, mean of the estimates, mean width, and the share of intervals that hold the truth."""
    names = sorted(set(problems))
    places = {name: np.flatnonzero(np.asarray(problems, dtype=object) == name) for name in names}
    figure: Callable[[Bootstrap, Any], Figure | None] = metric.figure
    truth = figure(Bootstrap(np.asarray(problems, dtype=object), 0), rows)
    assert truth is not None
    generator = np.random.default_rng(seed)
    found: list[Figure] = []
    for index in range(SIMULATIONS):
        drawn = generator.choice(len(names), count)
        parts = [places[names[i]] for i in drawn]
        clusters = np.repeat(np.arange(count), [len(part) for part in parts])
        one = figure(Bootstrap(clusters, RESAMPLES, index), taken(rows, np.concatenate(parts)))
        assert one is not None
        found.append(one)
    lows, highs = (np.array([getattr(one, end) for one in found]) for end in ("low", "high"))
    held: Floats = (lows <= truth.value) & (truth.value <= highs)
    return {
        "truth": truth.value,
        "mean": float(np.mean([one.value for one in found])),
        "width": float(np.mean(highs - lows)),
        "coverage": float(held.mean()),
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
    """Simulate every metric for every surrogate and write the table."""
    corpus = Corpus.open(None)
    made: dict[str, Any] = {"dataset": corpus.fingerprint, "simulations": SIMULATIONS, "resamples": RESAMPLES}
    made["repeats"] = repeats_outside(corpus)
    print(made["repeats"], flush=True)  # noqa: T201
    for name in SURROGATES:
        done = [evaluate_on(name, corpus, Options(split=split, resamples=0)) for split in SPLITS]
        count = len(set(done[0].questions.pairs.problem.tolist()))
        parts = [rows_of(each.questions, each.table) for each in done]
        made["problems"] = count
        made["population"] = sum(len(set(each.questions.pairs.problem.tolist())) for each in done)
        for metric in METRICS:
            if not (metric.headline or metric.name in BESIDE):
                continue
            track = metric.track.name
            rows = joined([part[track][0] for part in parts])
            problems = [problem for part in parts for problem in part[track][1]]
            found = simulated(metric, rows, problems, count, seed=7)
            made.setdefault(name, {})[f"{track}.{metric.name}"] = {key: round(value, 4) for key, value in found.items()}
            print(name, track, metric.name, found, flush=True)  # noqa: T201
    Path(sys.argv[1]).write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
