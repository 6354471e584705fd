import dataclasses
import random
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbench.generation.campaign.campaign import Drive
from kbench.generation.campaign.drive import drive, recorded_states
from kbench.generation.campaign.status import render as render_report
from kbench.generation.campaign.status import summaries
from kbench.generation.log import read_log
from kbench.generation.search.guide import Guess, OnlineGuide, decide
from kbench.generation.search.settings import Budget, FilterSettings
from kbench.generation.search.state import KernelOutcome, Node
from kbench.schemas import Forecast, Query, Status
from kbench.schemas.ids import content_hash

from .conftest import GENES, made_up, parent, settings_for

SETTINGS = FilterSettings(surrogate="x", draw=4, unsure_share=0.5, confidence=0.5)


def forecast(key: str, best: int, sure: float = 0.9, **more: object) -> Forecast:
    rest = (1 - sure) / 7
    probabilities = tuple(sure if number == best else rest for number in range(1, 9))
    return Forecast(query_id=content_hash(key), probabilities=probabilities, **more)


def chosen(forecasts: dict[str, Forecast], keep: int, settings: FilterSettings = SETTINGS) -> dict[str, str]:
    decisions = decide(list(forecasts), [Guess(one) for one in forecasts.values()], settings, keep)
    return {decision["kernel_id"]: decision["why"] for decision in decisions if decision["measure"]}


def silent(count: int) -> dict[str, Forecast]:
    return {f"x{i}": Forecast(query_id=content_hash(f"x{i}"), failure="no idea") for i in range(count)}


FAST, MID, SLOW = forecast("fast", 8), forecast("mid", 6), forecast("slow", 1)
UNSURE = forecast("unsure", 1, sure=0.2)


@pytest.mark.parametrize(
    ("asked", "keep", "share", "measured"),
    [
        ({"slow": SLOW, "mid": MID, "fast": FAST}, 2, 0.5, {"mid": "rank", "fast": "rank"}),
        ({"fast": FAST, "mid": MID, "unsure": UNSURE}, 2, 0.5, {"fast": "rank", "unsure": "unsure"}),
        ({"fast": FAST, "unsure": UNSURE}, 1, 0.0, {"fast": "rank"}),
        (
            {f"u{i}": UNSURE for i in range(3)} | {f"f{i}": FAST for i in range(3)}, 4, 0.5,
            {"u0": "unsure", "u1": "unsure", "f0": "rank", "f1": "rank"},
        ),
        (
            silent(2) | {"fast": FAST, "mid": MID}, 3, 0.5,
            {"x0": "no forecast", "x1": "no forecast", "fast": "rank"},
        ),
        (
            {"a": forecast("a", 2, confidence=0.1), "b": FAST, "c": forecast("c", 7)}, 2, 0.5,
            {"a": "unsure", "b": "rank"},
        ),
    ],
    ids=["rank without doubt", "an unsure one ranked low", "no share", "a bounded share", "silence first",
         "own confidence before the largest probability"],
)  # fmt: skip
def test_places_go_to_silent_unsure_and_highly_ranked_candidates(
    asked: dict[str, Forecast], keep: int, share: float, measured: dict[str, str]
) -> None:
    assert chosen(asked, keep, dataclasses.replace(SETTINGS, unsure_share=share)) == measured


def test_candidates_without_a_forecast_take_no_more_places_than_there_are() -> None:
    asked = silent(5) | {"fast": forecast("fast", 8)}
    decisions = decide(list(asked), [Guess(one) for one in asked.values()], SETTINGS, 2)
    assert chosen(asked, 2) == {"x0": "no forecast", "x1": "no forecast"}
    assert {d["why"] for d in decisions if not d["measure"]} == {"no place", "below"}


def test_a_candidate_that_was_passed_over_may_come_again(run_folder: Path, how: Drive) -> None:
    settings = settings_for("random", filter=FilterSettings(surrogate="online", draw=8), seeds=40, batch=40)
    drive(run_folder, [dataclasses.replace(settings, budget=Budget(measurements=120))], how)
    proposed = [e.payload["kernel_id"] for e in read_log(run_folder) if e.kind == "candidate_proposed"]
    measured = [e.payload["kernel_id"] for e in read_log(run_folder) if e.kind == "kernel_measured"]
    assert len(set(proposed)) < len(proposed)
    assert len(set(measured)) == len(measured) == 120


class Raising:
    """A surrogate that fails."""

    def forecast(self, queries: Sequence[Query]) -> Sequence[Forecast]:
        raise RuntimeError("out of order")


def test_a_surrogate_that_raises_costs_counted_forecasts_and_not_the_search(run_folder: Path, how: Drive) -> None:
    settings = settings_for("random", filter=FilterSettings(surrogate="raising", draw=2))
    progress = drive(run_folder, [settings], dataclasses.replace(how, surrogate_for=lambda name: Raising()))
    decisions = [d for e in read_log(run_folder) if e.kind == "candidates_filtered" for d in e.payload["decisions"]]
    assert {d["forecast"]["failure"] for d in decisions} == {"RuntimeError: out of order"}
    (state,) = recorded_states(run_folder).values()
    assert state.charge.measurements == progress.measured == 24
    assert state.stopped == "budget spent: measurements 24 of 24"
    told = "40 forecasts failed, the first: RuntimeError: out of order"
    assert progress.result().endswith(told)
    assert progress.line().endswith(told)
    rows = summaries(run_folder)
    assert (rows[0]["failed_forecasts"], rows[0]["forecast_failure"]) == (40, "RuntimeError: out of order")
    assert told in render_report(rows)


class Telling:
    """A surrogate that remembers what it was asked."""

    def __init__(self) -> None:
        self.queries: list[Query] = []

    def forecast(self, queries: Sequence[Query]) -> Sequence[Forecast]:
        self.queries.extend(queries)
        return [forecast("", 5).__class__(query_id=q.query_id, probabilities=(0.125,) * 8) for q in queries]


def test_queries_carry_no_comment_and_the_problem(run_folder: Path, how: Drive) -> None:
    surrogate = Telling()
    settings = settings_for("random", filter=FilterSettings(surrogate="telling", draw=2))
    drive(run_folder, [settings], dataclasses.replace(how, surrogate_for=lambda name: surrogate))
    assert surrogate.queries
    assert all("#" not in query.candidate_source for query in surrogate.queries)
    assert {query.problem_id for query in surrogate.queries} == {"gelu_tanh"}


def measured(key: str, genome: dict[str, object], speedup: float | None) -> Node:
    status = Status.OK if speedup else Status.INCORRECT
    outcome = KernelOutcome(status, None, None, speedup)
    return parent(key, kernel_id=key, recipe={"family": "f", "genome": genome}, outcome=outcome)


def test_the_guide_of_a_search_learns_genes_and_expects_improvement_near_the_best() -> None:
    rng = random.Random(0)
    genomes = [{gene.name: rng.choice(gene.choices) for gene in GENES} for _ in range(100)]
    nodes = [measured(f"k{at}", genome, made_up(genome)[1] or None) for at, genome in enumerate(genomes)]
    known, asked = nodes[:60], [node for node in nodes[60:] if node.reward]
    found = OnlineGuide().guess(known, asked, [content_hash(node.kernel_id) for node in asked], lambda nodes: [])
    pairs = [(guess.forecast.speedup or 0, node.reward or 0) for guess, node in zip(found, asked, strict=True)]
    agree = [(x[0] > y[0]) == (x[1] > y[1]) for x in pairs for y in pairs if abs(x[1] - y[1]) > 0.2]
    assert sum(agree) / len(agree) > 0.85
    gains = sorted(zip((guess.improvement or 0.0 for guess in found), asked, strict=True), key=lambda one: -one[0])
    rewards = sorted(node.reward or 0.0 for node in asked)
    assert (gains[0][1].reward or 0.0) > rewards[len(rewards) * 3 // 4]
    assert all(gain >= 0 for gain, _ in gains)


def test_a_prior_orders_candidates_before_much_is_measured_and_is_overruled_by_measurements() -> None:
    sizes = {f"k{size}": {"size": size} for size in range(16)}
    asked = [measured(key, genome, None) for key, genome in sizes.items()]
    names = [content_hash(node.kernel_id) for node in asked]

    class BySize:
        inputs = "source"

        def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
            at_least = [Forecast(query_id=q.query_id, probabilities=(0.125,) * 8, p_valid=1.0) for q in queries]
            speedups = [2.0 ** (int(q.candidate_source) / 4) for q in queries]
            return [dataclasses.replace(one, speedup=s) for one, s in zip(at_least, speedups, strict=True)]

    def asks(nodes: Sequence[Node]) -> list[Any]:
        sizes = [node.recipe["genome"]["size"] for node in nodes if node.recipe]
        return [SimpleNamespace(query_id=content_hash(str(size)), candidate_source=str(size)) for size in sizes]

    def best(known: list[Node]) -> int:
        found = OnlineGuide(BySize()).guess(known, asked, names, asks)
        return max(range(16), key=lambda at: found[at].forecast.speedup or 0.0)

    assert best([measured("a", {"size": 7}, 1.0)]) == 15
    assert best([measured(f"m{size}", {"size": size}, 2.0 ** (-size / 4)) for size in range(0, 16, 2)]) < 4
