"""Filters on recorded searches of other people, as docs/results/external-search.md laid down before the first replay.

    python docs/evidence/scripts/external_search.py ANSWERS SOL_FOLDER [FOLDER...]

ANSWERS holds what `external.py ask` wrote. Thresholds are chosen on the first folder, half against half; the others
are replayed with those chosen on all of it. Prints the tables and writes ANSWERS/external-search.json.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from external import answers
from external_questions import SEARCH, Asked, asked_of_all, opened, sample

from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import KbenchError
from kbench.schemas.ids import content_hash

LEAST_STEPS, SEEDS, RESAMPLES = 4, 20, 2000
GRID = 41
THRESHOLDS = (0.0, *np.geomspace(1e-3, 0.9, GRID - 1).tolist())
SHARES = np.linspace(0.0, 1.0, GRID, endpoint=False).tolist()
AIMS = (0.01, 0.03)
BUDGETS = (0.1, 0.25, 0.5, 0.75, 1.0)
EDGES = (-1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0)
WORD = re.compile(r"\w+|[^\w\s]")


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """A candidate."""

    asked: Asked
    speed: float | None
    """log2 of S; None for a failure."""
    seconds: float
    shingles: frozenset[int]
    characters: int


@dataclasses.dataclass(frozen=True, slots=True)
class Replayed:
    """What a policy did in one search: which steps it measured."""

    search: Sequence[Step]
    measured: Sequence[bool]

    def best(self, steps: Sequence[bool]) -> float:
        """log2 of the best S among these steps, the anchor included."""
        found = (step.speed for step, taken in zip(self.search, steps, strict=True) if taken and step.speed is not None)
        return max((0.0, *found))

    @property
    def loss(self) -> float:
        """Of the final best speed."""
        return 1 - 2 ** (self.best(self.measured) - self.best([True] * len(self.search)))

    @property
    def saved(self) -> float:
        """Share of measurements."""
        return 1 - float(np.mean(self.measured))

    @property
    def saved_time(self) -> float:
        """Share of GPU time."""
        times = np.array([step.seconds for step in self.search])
        return 1 - float(times[np.array(self.measured)].sum() / times.sum())

    def curve(self) -> list[float]:
        """Best speed after shares of the unfiltered number of measurements, as a share of the final best."""
        final, found = self.best([True] * len(self.search)), []
        for budget in BUDGETS:
            left, taken = round(budget * len(self.search)), []
            for one in self.measured:
                taken.append(one and left > 0)
                left -= one
            found.append(2 ** (self.best(taken) - final))
        return found


Policy = Callable[[Sequence[Step], float], list[bool]]
"""Which steps are measured, with a threshold or a share."""


def searches_of(folder: str) -> list[list[Step]]:
    """Searches of which every candidate was asked about."""
    one, every = opened(folder)
    seconds = gpu_seconds(folder)
    chosen = {asked.query_id for asked in asked_of_all(every)}
    by_search: defaultdict[str, list[Asked]] = defaultdict(list)
    for asked in every:
        stepless = one.kernels[asked.candidate_id, asked.gpu]["search_method"] == "evolve" and not asked_step(
            one, asked
        )
        if asked.kind == SEARCH and not stepless:
            by_search[asked.search].append(asked)
    found = []
    for texts in by_search.values():
        if len(texts) < LEAST_STEPS or not all(asked.query_id in chosen for asked in texts):
            continue
        known = [
            seconds[asked.candidate_id]
            for asked in texts
            if asked.speedup is not None and asked.candidate_id in seconds
        ]
        usual = float(np.median(known)) if known else 1.0
        steps = []
        for asked in sorted(texts, key=lambda asked: asked.order):
            source = one.kernels[asked.candidate_id, asked.gpu]["source"]
            speed = None if asked.speedup is None else math.log2(asked.speedup)
            time = usual if speed is None else seconds.get(asked.candidate_id, usual)
            steps.append(Step(asked, speed, time, shingles(source), len(source)))
        found.append(steps)
    return found


def asked_step(one: Any, asked: Asked) -> int:
    """The iteration of a candidate."""
    return int(one.kernels[asked.candidate_id, asked.gpu]["step"])


def gpu_seconds(folder: str) -> dict[str, float]:
    """Sum over workloads of a kernel's mean latency."""
    columns = ["kernel_id", "workload", "runtime_us"]
    table = Corpus.open(folder).table("measurements", columns=columns)
    means = table.filter(table["runtime_us"].is_valid()).group_by(columns[:2]).aggregate([("runtime_us", "mean")])
    sums = means.group_by("kernel_id").aggregate([("runtime_us_mean", "sum")]).to_pylist()
    return {row["kernel_id"]: row["runtime_us_mean_sum"] / 1e6 for row in sums}


def shingles(source: str) -> frozenset[int]:
    """Hashes of five tokens in a row."""
    words = WORD.findall(source)
    return frozenset(hash(tuple(words[at : at + 5])) for at in range(max(1, len(words) - 4)))


def above(probabilities: Sequence[float], log2_speed: float) -> float:
    """P(S > B) from the bins."""
    low, high = (EDGES[0] - 0.5, *EDGES), (*EDGES, EDGES[-1] + 0.5)
    total = 0.0
    for share, start, end in zip(probabilities[:-1], low, high, strict=False):
        total += share * min(1.0, max(0.0, (end - log2_speed) / (end - start)))
    return total + probabilities[-1] * min(1.0, 2.0 ** (-(log2_speed - EDGES[-1]) / 0.5))


def filtered(said: Mapping[str, Mapping[str, Any]], *, few_shot: bool = False) -> Policy:
    """The policy of a surrogate."""

    def policy(search: Sequence[Step], threshold: float) -> list[bool]:
        best, measured, residuals = 0.0, [], []
        for step in search:
            row = said[step.asked.query_id]
            point = math.log2(row["speedup"]) if row.get("speedup") else 0.0
            shift = learnt(step, residuals) if few_shot else 0.0
            chance = (row.get("p_valid") or 1.0) * above(row["probabilities"], best - shift)
            measured.append(chance >= threshold)
            if measured[-1] and step.speed is not None:
                residuals.append((step.shingles, step.speed - point))
                best = max(best, step.speed)
        return measured

    return policy


def learnt(step: Step, residuals: Sequence[tuple[frozenset[int], float]]) -> float:
    """The mean residual of kernels that were measured, weighted by likeness."""
    weights = [likeness(step.shingles, other) ** 4 for other, _ in residuals]
    return sum(w * value for w, (_, value) in zip(weights, residuals, strict=True)) / (1 + sum(weights))


@functools.cache
def likeness(one: frozenset[int], other: frozenset[int]) -> float:
    """Jaccard's."""
    return len(one & other) / max(1, len(one | other))


def late(search: Sequence[Step], share: float) -> list[bool]:
    """Skips the first share."""
    return [at >= share * len(search) for at in range(len(search))]


def long(search: Sequence[Step], share: float) -> list[bool]:
    """Measures what is longer than a quantile of the texts before."""
    measured, before = [], []
    for step in search:
        measured.append(not before or share == 0.0 or step.characters > np.quantile(before, share))
        before.append(step.characters)
    return measured


def improving(search: Sequence[Step], _: float) -> list[bool]:
    """The oracle."""
    best, measured = 0.0, []
    for step in search:
        measured.append(step.speed is not None and step.speed > best)
        best = max(best, step.speed or 0.0)
    return measured


def by_chance(seed: int) -> Policy:
    """Skips each candidate with the same chance."""

    def policy(search: Sequence[Step], share: float) -> list[bool]:
        random = np.random.default_rng([seed, int(content_hash("search", search[0].asked.search)[:8], 16)])
        return (random.random(len(search)) >= share).tolist()

    return policy


def over_problems(values: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Mean over problems with its interval."""
    means = np.array([np.mean(rows) for rows in values.values()])
    draws = means[np.random.default_rng(0).integers(0, len(means), (RESAMPLES, len(means)))].mean(axis=1)
    return {"value": round(float(means.mean()), 3), "interval_95": np.quantile(draws, [0.025, 0.975]).round(3).tolist()}


def grouped(done: Sequence[Replayed], figure: Callable[[Replayed], float]) -> dict[str, list[float]]:
    """A figure of every search, by problem."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for one in done:
        found[one.search[0].asked.problem].append(figure(one))
    return found


def replay(
    policies: Sequence[Policy], searches: Sequence[Sequence[Step]], at: Callable[[str], float]
) -> list[Replayed]:
    """A policy, or several that stand for its seeds, on searches; the threshold may depend on the problem."""
    return [Replayed(s, policy(s, at(s[0].asked.problem))) for policy in policies for s in searches]


def largest(policies: Sequence[Policy], searches: Sequence[Sequence[Step]], grid: Sequence[float], aim: float) -> float:
    """The largest threshold whose mean loss is within an aim."""
    kept = grid[0]
    for value in grid:
        done = replay(policies, searches, lambda _, value=value: value)  # type: ignore[misc]
        if np.mean([np.mean(rows) for rows in grouped(done, lambda one: one.loss).values()]) <= aim:
            kept = value
    return kept


def half(problem: str) -> int:
    """Which half of the problems one is in."""
    return int(content_hash("half", problem)[:8], 16) % 2


def described(done: Sequence[Replayed]) -> dict[str, Any]:
    """The figures of replayed searches."""
    figures = {name: over_problems(grouped(done, lambda one, name=name: getattr(one, name)))  # type: ignore[misc]
               for name in ("loss", "saved", "saved_time")}  # fmt: skip
    curve = [float(np.mean([one.curve()[at] for one in done])) for at in range(len(BUDGETS))]
    return figures | {"curve": [round(value, 3) for value in curve]}


def policies_for(folder: Path, name: str, asked: Sequence[Asked]) -> dict[str, tuple[list[Policy], Sequence[float]]]:
    """Every policy with its grid."""
    found: dict[str, tuple[list[Policy], Sequence[float]]] = {
        "random": ([by_chance(seed) for seed in range(SEEDS)], SHARES),
        "order": ([late], SHARES), "length": ([long], SHARES),
    }  # fmt: skip
    prior = answers(folder, name, "prior", asked)
    for surrogate in ("prior", "static", "static-compiler", "llm"):
        try:
            said = prior | answers(folder, name, surrogate, asked)
        except (OSError, KbenchError):
            continue
        found[surrogate] = [filtered(said)], THRESHOLDS
        if surrogate == "static-compiler":
            found["few-shot"] = [filtered(said, few_shot=True)], THRESHOLDS
    return found


@click.command(help=__doc__)
@click.argument("answers_folder", metavar="ANSWERS", type=click.Path(exists=True, file_okay=False))
@click.argument("folders", metavar="SOL_FOLDER [FOLDER]...", nargs=-1, required=True)
def main(answers_folder: str, folders: tuple[str, ...]) -> None:
    """Replay and print."""
    evidence: dict[str, Any] = {}
    chosen: dict[tuple[str, float], float] = {}
    for number, folder in enumerate(folders):
        one, every = opened(folder)
        asked, searches = asked_of_all(every), searches_of(folder)
        sampled = {each.query_id for each in sample(every)}
        small = [s for s in searches if all(step.asked.query_id in sampled for step in s)]
        click.echo(f"{one.name}: {len(searches)} searches, {sum(map(len, searches))} steps")
        evidence[one.name] = {"searches": len(searches), "steps": sum(map(len, searches)), "sampled": len(small)}
        policies = policies_for(Path(answers_folder), one.name, asked)
        none = lambda search, _: [True] * len(search)  # noqa: E731
        table = {"none": described(replay([none], searches, lambda _: 0.0))}
        table["oracle"] = described(replay([improving], searches, lambda _: 0.0))
        for name, (many, grid) in policies.items():
            for aim in AIMS:
                if name == "llm":
                    continue
                if number == 0:
                    halves = [[s for s in searches if half(s[0].asked.problem) == part] for part in (0, 1)]
                    at = [largest(many, part, grid, aim) for part in halves]
                    chosen[name, aim] = largest(many, searches, grid, aim)
                    done = replay(many, searches, lambda problem, at=at: at[1 - half(problem)])  # type: ignore[misc]
                else:
                    done = replay(many, searches, lambda _, name=name, aim=aim: chosen[name, aim])  # type: ignore[misc]
                table[f"{name} {aim:.0%}"] = described(done)
                click.echo(f"{one.name} {name} {aim:.0%} {json.dumps(table[f'{name} {aim:.0%}'])}")
        evidence[one.name]["all"] = table
        if small:
            evidence[one.name]["sample"] = {
                f"{name} {aim:.0%}": described(
                    replay(many, small, lambda _, name=name, aim=aim: chosen[name if name != "llm" else "static", aim])  # type: ignore[misc]
                )
                for name, (many, _) in policies.items()
                for aim in AIMS
            } | {"oracle": described(replay([improving], small, lambda _: 0.0))}
        for part in ("all", "sample"):
            for name, row in evidence[one.name].get(part, {}).items():
                click.echo(f"{one.name} {part} {name} {json.dumps(row)}")
    Path(answers_folder, "external-search.json").write_text(json.dumps(evidence, indent=1) + "\n")


if __name__ == "__main__":
    main()
