from __future__ import annotations

import random

import pytest

from kbench.generation.search.methods.puct import Branch, choose_parents, expansions, plan, reward_scale, scores
from kbench.generation.search.state import KernelOutcome, Node, Operator, RunState
from kbench.schemas import Status

from .conftest import settings_for


def node(key: str, reward: float | None, step: int = 0, parent: str | None = None) -> Node:
    status = Status.OK if reward is not None else Status.INCORRECT
    return Node(
        kernel_id=key, source=key, step=step, slot=0, parent_id=parent, other_id=None, operator=Operator.MUTATE,
        proposer="genome",
        edit=None, recipe=None, niche="", outcome=KernelOutcome(status, None, None, reward),
    )  # fmt: skip


def state_of(*nodes: Node, parents: int = 2, step: int = 3) -> RunState:
    return RunState(
        run_id="r", settings=settings_for("puct", parents=parents), nodes={n.kernel_id: n for n in nodes}, step=step
    )


def test_the_published_numbers_come_out() -> None:
    rewards = {"a": 1.0, "b": 3.0, "c": 7.0}
    candidates = [Branch(key, reward, None, 0) for key, reward in rewards.items()]
    found = scores(candidates, total_visits=0, c=1.0, scale=6.0)
    assert found == pytest.approx({"a": 2.0, "b": 5.0, "c": 10.0})


def test_an_expanded_node_is_worth_its_best_child() -> None:
    found = scores([Branch("a", 1.0, 5.0, 1), Branch("b", 2.0, None, 0)], 1, 0.0, 1.0)
    assert found == {"a": 5.0, "b": 2.0}


def test_visits_lower_a_score_and_all_visits_raise_it() -> None:
    def score(visits: int, total: int) -> float:
        return scores([Branch("a", 1.0, 1.0, visits), Branch("b", 2.0, None, 0)], total, 1.0, 1.0)["a"]

    assert score(3, 9) < score(1, 9)
    assert score(1, 20) > score(1, 9)


def test_the_scale_is_the_range_of_rewards_that_are_not_seeds() -> None:
    nodes = [node("s", 100.0), node("a", 1.0, 1, "s"), node("b", 7.0, 1, "s")]
    assert reward_scale(nodes) == 6.0


def test_with_too_few_grown_kernels_the_scale_is_over_all() -> None:
    assert reward_scale([node("s", 2.0), node("t", 5.0)]) == 3.0


def test_parents_of_one_step_are_never_of_one_lineage() -> None:
    state = state_of(node("s", 1.0), node("a", 9.0, 1, "s"), node("b", 8.0, 2, "a"), node("t", 0.5))
    chosen = choose_parents(state)
    assert len(chosen) == 2
    assert "t" in chosen


def test_expansions_count_for_all_ancestors_once_a_step() -> None:
    state = state_of(node("s", 1.0), node("a", 2.0, 1, "s"), node("b", 2.0, 1, "s"), node("c", 3.0, 2, "a"))
    visits, total = expansions(state)
    assert visits == {"s": 2, "a": 1}
    assert total == 2


def test_failed_kernels_are_never_parents() -> None:
    state = state_of(node("s", 1.0), node("bad", None, 1, "s"))
    assert choose_parents(state) == ["s"]


def test_without_a_right_kernel_everything_is_fresh() -> None:
    requests = plan(state_of(node("bad", None)), 3, random.Random(0))
    assert [request.operator.value for request in requests] == ["fresh"] * 3


def test_children_are_shared_evenly_among_parents() -> None:
    state = state_of(node("s", 1.0), node("t", 2.0))
    chosen = [request.parent_id for request in plan(state, 4, random.Random(0))]
    assert sorted(chosen, key=str) == ["s", "s", "t", "t"]
