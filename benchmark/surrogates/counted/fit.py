"""Fit `static-compiler` from counted work, and say how good it is on families of problems that were left out.

    python -m kbench.benchmark.surrogates.counted.fit TOTALS... [--out FILE]

TOTALS are Parquet files with kernel_id, workload and work_json, as config `plans` has it. Only kernels of training
problems are learnt from, whatever the files hold. Everything is cross-fitted: a kernel is forecast
by constants and trees that saw no kernel of its family of problems, and widths learn from those forecasts.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, Ints
from kbench.benchmark.metrics.forecast import rps_rows
from kbench.benchmark.questions.asked import Tables
from kbench.benchmark.questions.build import training_kernels
from kbench.benchmark.questions.corpus_view import benchmark_of
from kbench.benchmark.surrogates.baselines import floor_us
from kbench.benchmark.surrogates.counted.model import (
    FEW,
    KERNELS,
    MODEL_FILE,
    REFERENCE,
    TIME,
    UNCERTAIN,
    CountedModel,
    Spread,
    bytes_of,
    kernel_row,
)
from kbench.benchmark.surrogates.static.calibration import ErrorShape
from kbench.benchmark.surrogates.static.forest import Forest, from_sklearn
from kbench.benchmark.surrogates.static.kernel_rows import problem_of
from kbench.benchmark.surrogates.static.model import Level
from kbench.benchmark.work.gpus import gpu_named
from kbench.benchmark.work.table import read_work_text
from kbench.benchmark.work.times import Fitted, launch_time, plan_time_us
from kbench.benchmark.work.totals import Work
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import QuestionKind, bins
from kbench.schemas.bins import bin_of

GPU = "NVIDIA H200"
FOLDS = 8
TREES, LEAF, SHARE = 100, 3, 0.4
"""Trees, kernels in a leaf at least, and columns a split chooses from."""
LIMITS: Mapping[str, tuple[float, float, float]] = {
    "launch_us": (0.8, 1.6, 6.0), "step_us": (0.5, 1.2, 5.0), "overlap": (1.2, 4.0, 8.0),
    "dram_share": (0.5, 0.85, 0.95), "l2_share": (0.3, 0.6, 1.0), "tensor_share": (0.3, 0.7, 1.0),
    "issue_share": (0.3, 0.7, 1.0), "shared_share": (0.3, 1.0, 1.0), "round_ns": (50.0, 600.0, 1500.0),
    "barrier_cycles": (5.0, 40.0, 200.0), "dependent_cycles": (1.0, 5.0, 10.0),
}  # fmt: skip
"""Constants of the time: the least, a guess and the most that is physical; no share of a rate exceeds one."""
GUESS = Fitted(**{name: guess for name, (_, guess, _) in LIMITS.items()})
ROUND, LEVEL_WEIGHT, PULL = 0.2, 0.1, 0.01
"""Octaves below which an error counts little; weights of the level's error and of the distance from the guess."""
Works = Mapping[str, Mapping[str, Sequence[Work]]]


@dataclasses.dataclass(frozen=True, slots=True)
class Material:
    """Training kernels whose work is counted, and pairs of them."""

    kernel_ids: list[str]
    works: list[Mapping[str, Sequence[Work]]]
    min_bytes: list[Mapping[str, float]]
    """What any kernel must move, by workload."""
    measured: Floats
    """log2 microseconds."""
    problem: Ints
    cell: Ints
    """Problem and backend."""
    fold: Ints
    """By family of problems."""
    reference: Floats
    """log2 microseconds of PyTorch."""
    least: Floats
    """log2 of the problem's least time."""
    facts: Floats
    """Rows of the problem's features."""
    pairs: Ints
    """[pairs, 2]: anchor and candidate."""
    edits: npt.NDArray[np.bool_]
    """Which candidates were made from their anchor."""


def read_works(paths: Sequence[Path]) -> Works:
    """Counted work by kernel and workload."""
    import pyarrow.parquet as pq

    works: defaultdict[str, dict[str, Sequence[Work]]] = defaultdict(dict)
    for path in paths:
        for row in pq.read_table(path).to_pylist():
            works[row["kernel_id"]][row["workload"]] = read_work_text(row["work_json"], str(path))
    return works


def read_material(works: Works, corpus: Tables) -> Material:
    """What is learnt from: counted kernels of the training split on the whole GPU, and the pairs drawn from them."""
    gpu = gpu_named(GPU)
    kernels = [
        (query, row)
        for query, row in training_kernels(corpus, ("train",))
        if row["gpu"] == GPU and row["speedup"] is not None and row["kernel_id"] in works
        if kernel_row(works[row["kernel_id"]], gpu, GUESS, {}) is not None
    ]
    rows = [row for _, row in kernels]
    families = sorted({row["family"] for row in rows})
    folds = {family: n % FOLDS for n, family in enumerate(np.random.default_rng(0).permutation(families).tolist())}
    place = {row["kernel_id"]: at for at, row in enumerate(rows)}
    drawn = [row for row in corpus.table("questions", split="train").to_pylist() if row["workload"] is None]
    drawn = [pair for pair in drawn if pair["gpu"] == GPU and {pair["anchor_id"], pair["candidate_id"]} <= place.keys()]
    return Material(
        kernel_ids=list(place),
        works=[works[name] for name in place],
        min_bytes=[bytes_of(query) for query, _ in kernels],
        measured=np.log2([row["runtime_us"] for row in rows]),
        problem=np.unique([row["problem_id"] for row in rows], return_inverse=True)[1],
        cell=np.unique([f"{row['problem_id']} {row['backend']}" for row in rows], return_inverse=True)[1],
        fold=np.array([folds[row["family"]] for row in rows]),
        reference=np.log2([row["runtime_us"] * row["speedup"] for row in rows]),
        least=np.log2([floor_us(query.workloads_json, query.gpu_facts_json) for query, _ in kernels]),
        facts=np.stack([problem_of(query) for query, _ in kernels]).astype(np.float64),
        pairs=np.array([[place[pair["anchor_id"]], place[pair["candidate_id"]]] for pair in drawn]).reshape(-1, 2),
        edits=np.array([pair["kind"] == QuestionKind.EDIT for pair in drawn], dtype=np.bool_),
    )


class Demands:
    """What every launch asks of every resource, so that times with other constants need no counting again."""

    def __init__(self, works: Sequence[Mapping[str, Sequence[Work]]]) -> None:
        gpu = gpu_named(GPU)
        ones = {name: 1.0 for name in LIMITS if name.endswith("_share")}
        waits = ("dependent_cycles", "barrier_cycles", "round_ns")
        one = Fitted(**ones, **dict.fromkeys(waits, 0.0))
        plans: list[tuple[int, float]] = []
        kernels: list[int] = []
        launches: list[list[float]] = []
        for kernel, work in enumerate(works):
            for configurations in work.values():
                counted = [each for each in configurations if each.launches and not each.errors]
                plan = min(counted, key=lambda each: plan_time_us(each, gpu, GUESS))
                for launch in plan.launches:
                    time = launch_time(launch, gpu, one)
                    alone = [launch_time(launch, gpu, dataclasses.replace(one, **{name: 1.0})) for name in waits]
                    rates = [getattr(time, name) for name in FEW if name != "latency"]
                    launches.append([*rates, *(each.latency for each in alone), launch.times, len(kernels)])
                kernels.append(kernel)
                moved = (plan.fill_bytes + 2 * plan.copy_bytes) / (1e3 * gpu.dram_gbps)
                plans.append((plan.fills + plan.copies, moved))
        self.launches, self.plans, self.kernels = np.array(launches), np.array(plans), np.array(kernels)

    def times(self, fitted: Fitted) -> Floats:
        """log2 microseconds of every kernel, the mean over its workloads."""
        rates, waits = self.launches[:, : len(FEW) - 1], self.launches[:, len(FEW) - 1 : -2]
        shares = [getattr(fitted, _SHARES.get(name, "issue_share")) for name in FEW if name != "latency"]
        latency = waits @ [fitted.dependent_cycles, fitted.barrier_cycles, fitted.round_ns]
        parts = np.column_stack([rates / shares, latency])
        whole = fitted.launch_us + np.power(np.power(parts, fitted.overlap).sum(axis=1), 1 / fitted.overlap)
        steps = self.plans[:, 0] * fitted.step_us + self.plans[:, 1] / fitted.dram_share
        plans = steps + np.bincount(self.launches[:, -1].astype(int), whole * self.launches[:, -2], len(steps))
        times: Floats = np.bincount(self.kernels, np.log2(plans)) / np.bincount(self.kernels)
        return times


_SHARES = {"tensor": "tensor_share", "shared": "shared_share", "l2": "l2_share", "dram": "dram_share"}


def fit_times(demands: Demands, material: Material, kept: npt.NDArray[np.bool_]) -> Fitted:
    """The constants with which white-box times order and scale the kernels of each problem best."""
    from scipy.optimize import minimize

    low, start, high = np.log(list(LIMITS.values())).T

    def at(logs: Floats) -> Fitted:
        return Fitted(**{name: float(f"{math.exp(log):.3g}") for name, log in zip(LIMITS, logs, strict=True)})

    def exact(logs: Floats) -> Fitted:
        return Fitted(**dict(zip(LIMITS, np.exp(logs).tolist(), strict=True)))

    def loss(logs: Floats) -> float:
        error = (material.measured - demands.times(exact(logs)))[kept]
        within = _centred(error, material.problem[kept])
        rounded = [np.sqrt(part**2 + ROUND**2).mean() for part in (within, error)]
        return float(rounded[0] + LEVEL_WEIGHT * rounded[1] + PULL * ((logs - start) ** 2).mean())

    bounds = list(zip(low, high, strict=True))
    return at(minimize(loss, start, method="L-BFGS-B", bounds=bounds, options={"maxiter": 40}).x)


def _centred(values: Floats, group: Ints) -> Floats:
    _, group = np.unique(group, return_inverse=True)
    centred: Floats = values - (np.bincount(group, values) / np.bincount(group))[group]
    return centred


@dataclasses.dataclass(frozen=True, slots=True)
class Learnt:
    """Constants, trees and the reference's line."""

    fitted: Fitted
    forest: Forest
    level: Level

    @classmethod
    def of(cls, demands: Demands, material: Material, kept: npt.NDArray[np.bool_]) -> Learnt:
        """Learn from the kernels kept."""
        from sklearn.ensemble import ExtraTreesRegressor

        fitted = fit_times(demands, material, kept)
        rows = kernel_rows(material, fitted)[kept]
        # Trees learn what tells kernels of one problem apart: the level of an unseen problem is another.
        late = _centred(material.measured[kept] - rows[:, TIME], material.problem[kept])
        trees = ExtraTreesRegressor(TREES, min_samples_leaf=LEAF, max_features=SHARE, random_state=0)
        forest = from_sklearn(trees.fit(rows.astype(np.float32), late))
        _, first = np.unique(material.problem[kept], return_index=True)
        level = Level.of(material.facts[kept][first], (material.reference - material.least)[kept][first])
        return cls(fitted, forest, level)

    def times(self, material: Material) -> tuple[Floats, Floats, Floats]:
        """log2 microseconds of kernels and of PyTorch, and the share that is uncertain."""
        rows = kernel_rows(material, self.fitted)
        times = rows[:, TIME] + self.forest.predict(rows.astype(np.float32))
        return times, material.least + self.level.predict(material.facts), rows[:, UNCERTAIN]


def kernel_rows(material: Material, fitted: Fitted) -> Floats:
    """COLUMNS of every kernel."""
    gpu = gpu_named(GPU)
    rows = [
        kernel_row(work, gpu, fitted, least) for work, least in zip(material.works, material.min_bytes, strict=True)
    ]
    return np.stack([row for row in rows if row is not None])


def fit_spread(difference: Floats, uncertain: Floats, target: Floats) -> Spread:
    """How far off differences are; every pair counts in both directions."""
    from scipy.optimize import minimize

    slope = float(difference @ target / (difference @ difference))
    point, error = slope * difference, target - slope * difference

    def unlikely(logs: Floats) -> float:
        least, grows, unsure = np.exp(logs)
        width = least + grows * np.abs(point) + unsure * uncertain
        return float(np.mean(np.log(width) + np.abs(error) / width))

    least, grows, unsure = np.exp(minimize(unlikely, [-1.5, -1.5, -2.0], method="Nelder-Mead").x).tolist()
    width = least + grows * np.abs(point) + unsure * uncertain
    counts = np.bincount([bin_of(2.0**value) - 1 for value in target], minlength=bins.COUNT) + 1.0
    quantiles = [round(float(value), 4) for value in ErrorShape.of(error / width).quantiles]
    return Spread(slope, least, grows, unsure, tuple(quantiles), tuple((counts / counts.sum()).tolist()))


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """Questions of one kind, with forecasts by models that saw no kernel of the family."""

    difference: Floats
    uncertain: Floats
    target: Floats
    kernel: Ints
    """The candidate."""

    def cross_fitted(self, material: Material) -> tuple[Floats, Floats]:
        """Distributions, and the other families' frequencies: [questions, 8] each."""
        given, prior = np.zeros((len(self.target), bins.COUNT)), np.zeros((len(self.target), bins.COUNT))
        fold = material.fold[self.kernel]
        for number in np.unique(fold):
            held = fold == number
            spread = fit_spread(self.difference[~held], self.uncertain[~held], self.target[~held])
            given[held] = spread.answer(self.difference[held], self.uncertain[held])[1]
            prior[held] = spread.prior
        return given, prior


def skill(given: Floats, prior: Floats, target: Floats, problem: Ints) -> dict[str, Any]:
    """RPS skill over the other families' frequencies, every problem alike, with an interval over problems."""
    truth = np.array([bin_of(2.0**value) for value in target])
    _, group = np.unique(problem, return_inverse=True)
    own, base = (np.bincount(group, rps_rows(each, truth)) / np.bincount(group) for each in (given, prior))
    draws = np.random.default_rng(0).integers(0, len(own), (2000, len(own)))
    interval = np.quantile(1 - own[draws].mean(axis=1) / base[draws].mean(axis=1), [0.025, 0.975])
    value = 1 - own.mean() / base.mean()
    return {"skill": round(float(value), 3), "interval_95": interval.round(3).tolist(), "questions": len(target)}


def order(times: Floats, material: Material) -> dict[str, Any]:
    """Spearman's correlation with measured times within problem and backend, mean over cells of four or more."""
    from scipy.stats import spearmanr

    cells = [np.flatnonzero(material.cell == number) for number in np.unique(material.cell)]
    found = [spearmanr(times[cell], material.measured[cell])[0] for cell in cells if len(cell) >= 4]
    return {"spearman": round(float(np.nanmean(found)), 3), "cells": len(found)}


def edit_auroc(asked: Asked, edits: npt.NDArray[np.bool_]) -> float:
    """Of edits that change the time by more than 2 %: is the difference larger where they are faster?"""
    decided = edits & (np.abs(asked.target) > math.log2(1.02))
    faster, difference = asked.target[decided] > 0, asked.difference[decided]
    wins = [(a > b) + (a == b) / 2 for a, b in itertools.product(difference[faster], difference[~faster])]
    return round(float(np.mean(wins)), 3) if wins else math.nan


def questions(material: Material, times: Floats, reference: Floats, uncertain: Floats) -> dict[str, Asked]:
    """Drawn pairs and kernels against PyTorch, with what is forecast of them."""
    anchor, candidate = material.pairs.T
    every = np.arange(len(times))
    return {
        KERNELS: Asked(
            times[anchor] - times[candidate],
            np.maximum(uncertain[anchor], uncertain[candidate]),
            material.measured[anchor] - material.measured[candidate],
            candidate,
        ),
        REFERENCE: Asked(reference - times, uncertain, material.reference - material.measured, every),
    }


def fit(material: Material) -> tuple[CountedModel, dict[str, Any]]:
    """The model, and what held-out families say about it."""
    demands = Demands(material.works)
    times, reference, uncertain, plain = (np.zeros(len(material.measured)) for _ in range(4))
    for number in range(FOLDS):
        held = material.fold == number
        if held.any():
            learnt = Learnt.of(demands, material, ~held)
            for whole, part in zip((times, reference, uncertain), learnt.times(material), strict=True):
                whole[held] = part[held]
            plain[held] = demands.times(learnt.fitted)[held]
    asked = questions(material, times, reference, uncertain)
    report: dict[str, Any] = {"kernels": len(times), "problems": len(np.unique(material.problem))}
    white = questions(material, plain, reference, uncertain)
    for name, each in (("pairs", asked[KERNELS]), ("white_box_pairs", white[KERNELS]), ("level", asked[REFERENCE])):
        given, prior = each.cross_fitted(material)
        report[name] = skill(given, prior, each.target, material.problem[each.kernel])
    report |= {"order": order(times, material), "white_box_order": order(plain, material)}
    report["edit_auroc"] = edit_auroc(asked[KERNELS], material.edits)
    error = np.abs(plain - material.measured)
    report["white_box_median_log2_error"] = round(float(np.median(error)), 3)
    # How much longer kernels of left-out families take than forecast, in octaves: the ends of four in five.
    report["time_log2_error"] = [round(float(q), 3) for q in np.quantile(material.measured - times, (0.1, 0.9))]
    learnt = Learnt.of(demands, material, np.ones(len(times), dtype=np.bool_))
    spreads = {name: fit_spread(each.difference, each.uncertain, each.target) for name, each in asked.items()}
    facts = {"gpu": GPU, "kernels": len(times), "problems": report["problems"], "cross_validation": report}
    return CountedModel(
        fitted=learnt.fitted, forest=learnt.forest, level=learnt.level, spreads=spreads, facts=facts
    ), report  # fmt: skip


@click.command()
@click.argument("totals", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--dataset", help="Corpus folder; the shipped dataset by default.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), default=MODEL_FILE, help="Model file.")
def main(totals: tuple[Path, ...], dataset: str | None, out: Path) -> None:
    """Fit static-compiler, print its cross-validation over families, and write its model file."""
    model, report = fit(read_material(read_works(totals), benchmark_of(Corpus.open(dataset))))
    model.save(out)
    click.echo(json.dumps({"fitted": dataclasses.asdict(model.fitted)} | report, indent=1))


if __name__ == "__main__":
    main()
