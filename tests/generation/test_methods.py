import dataclasses
import random
import re
from collections import Counter
from pathlib import Path

import pytest

from kbench.generation.campaign.campaign import Drive
from kbench.generation.search.methods import evolve
from kbench.generation.search.methods import method as operators
from kbench.generation.search.methods.catalogue import plan_climb, planned, searchable, with_hash
from kbench.generation.search.methods.puct import Branch, choose_parents, expansions, plan, scores
from kbench.generation.search.settings import Budget, FilterSettings, parse_budget, refuse_changes
from kbench.generation.search.state import KernelOutcome, Node, Operator, RunState
from kbench.schemas import Status, UserError

from .conftest import searched, settings_for


def final(folder: Path, how: Drive, method: str, **changes: object) -> RunState:
    return searched(folder, settings_for(method, **changes), how)


@pytest.mark.parametrize("method", ["random", "hill_climb", "evolve", "puct", "bayes"])
def test_every_method_spends_its_budget_exactly(run_folder: Path, how: Drive, method: str) -> None:
    state = final(run_folder, how, method, budget=Budget(measurements=22))
    assert state.charge.measurements == 22
    assert state.charge.gpu_seconds == pytest.approx(22 * 0.09375)
    assert state.charge.build_seconds == pytest.approx(22 * 0.25)
    assert state.stopped == "budget spent: measurements 22 of 22"


@pytest.mark.parametrize("method", ["hill_climb", "evolve", "puct"])
def test_methods_that_learn_have_parents_and_say_what_changed(run_folder: Path, how: Drive, method: str) -> None:
    state = final(run_folder, how, method)
    children = [n for n in state.nodes.values() if n.parent_id is not None]
    assert len(children) >= 8
    assert all(n.edit and n.parent_id in state.nodes for n in children)


@pytest.mark.parametrize("method", ["hill_climb", "evolve", "puct", "bayes"])
def test_over_twenty_seeds_search_beats_random_on_a_smooth_landscape(tmp_path: Path, how: Drive, method: str) -> None:
    def mean_best(name: str) -> float:
        best = []
        for seed in range(20):
            state = final(tmp_path / f"{name}{seed}", how, name, seed=seed, budget=Budget(measurements=32))
            found = state.best()
            best.append(found.reward or 0.0 if found else 0.0)
        return sum(best) / len(best)

    assert mean_best(method) > mean_best("random")


def test_a_small_family_is_exhausted_not_searched_forever(run_folder: Path, how: Drive) -> None:
    state = final(run_folder, how, "random", batch=400, budget=Budget(measurements=5000))
    assert state.stopped == "nothing new in 4 steps"
    assert "duplicate" in state.proposal_failures


def test_hill_climbing_changes_its_best_and_restarts_when_stuck() -> None:
    climbing = state_of(node("s", 1.0), node("a", 2.0, 1, "s"), step=2)
    assert {r.parent_id for r in plan_climb(climbing, 3, random.Random(0))} == {"a"}
    stuck = state_of(node("s", 3.0), *(node(f"n{step}", 2.0, step, "s") for step in range(1, 9)), step=9)
    assert {r.operator for r in plan_climb(stuck, 3, random.Random(0))} == {Operator.FRESH}
    begun = state_of(node("s", 9.0), node("a", 2.0, 1, "s"), node("f", 1.0, 5), node("g", 1.5, 5), step=6)
    assert {r.parent_id for r in plan_climb(begun, 2, random.Random(0))} == {"g"}


def test_evolution_breeds_from_the_best_and_crosses_within_a_family() -> None:
    nodes = [
        dataclasses.replace(node(key, reward), recipe={"family": family})
        for key, reward, family in (("a", 5.0, "x"), ("b", 1.0, "x"), ("c", 4.0, "y"), ("d", 0.5, "z"))
    ]
    requests = evolve.plan(state_of(*nodes), 60, random.Random(0))
    assert {r.parent_id for r in requests} == {None, "a"}
    assert {r.other_id for r in requests if r.operator is Operator.CROSS} == {"b"}


TEXTS = {name: f"def {name}({', '.join(f'{name}{n}' for n in range(20))}): pass" for name in "abc"}
"""Texts that have nothing in common."""


def authored(*nodes: Node) -> RunState:
    state = state_of(*nodes)
    return dataclasses.replace(state, settings=dataclasses.replace(state.settings, proposer="llm", method="evolve"))


def test_the_archive_has_the_fastest_of_each_structure() -> None:
    near = TEXTS["a"].replace("a19", "z")
    rewards = (("a", 1.0, TEXTS["a"]), ("n", 2.0, near), ("b", 0.5, TEXTS["b"]), ("c", 3.0, TEXTS["c"]))
    nodes = [dataclasses.replace(node(key, reward), source=source) for key, reward, source in rewards]
    assert [n.kernel_id for n in evolve.archive(nodes)] == ["c", "n", "b"]


def test_texts_evolve_from_fast_kernels_with_few_children_and_cross_with_different_ones() -> None:
    best, near, other = (
        dataclasses.replace(node(key, reward), source=TEXTS[text])
        for key, reward, text in (("best", 2.0, "a"), ("near", 1.9, "a"), ("other", 1.0, "b"))
    )
    requests = evolve.plan(authored(best, near, other), 200, random.Random(0))
    parents = Counter(one.parent_id for one in requests)
    assert parents["best"] > parents["near"] > parents["other"] > 0
    assert {one.operator for one in requests} == {Operator.FRESH, Operator.MUTATE, Operator.CROSS}
    crossed = {(one.parent_id, one.other_id) for one in requests if one.operator is Operator.CROSS}
    assert crossed == {("best", "other"), ("near", "other"), ("other", "best")}
    exhausted = [node(f"child{n}", 0.1, 1, "best") for n in range(20)]
    later = Counter(one.parent_id for one in evolve.plan(authored(best, near, other, *exhausted), 40, random.Random(0)))
    assert later["near"] > later["best"]


def test_an_operator_that_finds_better_kernels_is_used_more() -> None:
    seed = node("s", 1.0)
    gains = state_of(seed, *(node(f"m{n}", 2.0 + n, n + 1, "s") for n in range(6)), step=7)
    fails = state_of(seed, *(node(f"m{n}", 0.5, n + 1, "s") for n in range(6)), step=7)
    assert operators.outcomes(gains) == {Operator.MUTATE: [True] * 6}
    assert operators.chances(gains)[Operator.MUTATE] > 1.5 * operators.chances(fails)[Operator.MUTATE]
    assert min(operators.chances(gains).values()) >= operators.LEAST
    assert Operator.REWRITE not in operators.chances(gains)


def test_a_language_models_changes_are_an_operator_only_beside_genes() -> None:
    seed = node("s", 1.0)
    changed = [dataclasses.replace(node(f"m{n}", 2.0 + n, n + 1, "s"), proposer="llm") for n in range(3)]
    state = state_of(seed, *changed, step=4)

    def proposed_by(name: str) -> RunState:
        return dataclasses.replace(state, settings=dataclasses.replace(state.settings, proposer=name))

    assert operators.outcomes(proposed_by("genome+llm")) == {Operator.LLM: [True] * 3}
    assert operators.outcomes(proposed_by("llm")) == {Operator.MUTATE: [True] * 3}
    assert Operator.LLM in operators.chances(proposed_by("genome+rewrite+llm"))
    assert operators.chances(proposed_by("llm")).keys() == operators.AUTHORS_PRIOR.keys()
    drawn = {operators.derivation(proposed_by("genome+llm"), random.Random(n)) for n in range(40)}
    assert drawn == {Operator.MUTATE, Operator.LLM}


def test_a_method_comes_from_a_file(tmp_path: Path, how: Drive) -> None:
    example = Path(__file__).parents[2] / "examples" / "my_method.py"
    state = final(tmp_path / "run", how, f"{example}:METHOD")
    assert state.charge.measurements == 24
    assert state.settings.search_method == "METHOD"
    assert dataclasses.replace(state.settings, method=str(example)).search_method == "my_method"
    with pytest.raises(UserError, match="has no method 'OTHER'"):
        searchable(f"{example}:OTHER")
    with pytest.raises(UserError, match="does not exist"):
        searchable(str(tmp_path / "nothing.py"))


def test_a_run_goes_on_with_the_file_of_its_method_alone(tmp_path: Path, how: Drive) -> None:
    file = tmp_path / "mine.py"
    text = (Path(__file__).parents[2] / "examples" / "my_method.py").read_text()
    file.write_text(text)
    final(tmp_path / "run", how, str(file), budget=Budget(measurements=8))
    file.write_text(text + "# edited\n")
    with pytest.raises(UserError, match=r"the file of method '.*mine.py' has changed .* another --out"):
        final(tmp_path / "run", how, str(file))
    file.write_text(text)
    assert final(tmp_path / "run", how, str(file)).charge.measurements == 24
    # It may have moved.
    (tmp_path / "moved").mkdir()
    file = file.rename(tmp_path / "moved" / "mine.py")
    assert final(tmp_path / "run", how, str(file), budget=Budget(measurements=28)).charge.measurements == 28
    # A log from before the hash was kept goes on with whatever the file holds.
    entries = (tmp_path / "run" / "events.jsonl").read_text().splitlines()
    (tmp_path / "old").mkdir()
    old = [re.sub(r'"method_hash":"\w+"', '"method_hash":null', re.sub(',"sum":"\\w+"', "", one)) for one in entries]
    (tmp_path / "old" / "events.jsonl").write_text("\n".join(old) + "\n")
    file.write_text(text + "# edited\n")
    assert final(tmp_path / "old", how, str(file), budget=Budget(measurements=32)).charge.measurements == 32


def test_modules_beside_a_method_belong_to_its_text(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "examples" / "my_method.py").read_text()
    (tmp_path / "uses_parts.py").write_text("import os\nfrom parts_of_mine import deeper\n" + text)
    (tmp_path / "parts_of_mine").mkdir()
    (tmp_path / "parts_of_mine" / "__init__.py").write_text("")
    (tmp_path / "parts_of_mine" / "deeper.py").write_text("from . import deepest\n")
    deepest, other = tmp_path / "parts_of_mine" / "deepest.py", tmp_path / "other.py"
    hashes = []
    for written in (deepest, other, deepest):
        written.write_text(f"X = {len(hashes)}\n")
        hashes.append(with_hash(settings_for(str(tmp_path / "uses_parts.py"))).method_hash)
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_run_does_not_go_on_with_another_text_of_its_surrogate(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("X = 1\n")
    chosen = FilterSettings(surrogate=str(tmp_path / "mine.py"))
    settings = dataclasses.replace(settings_for("evolve"), filter=chosen)
    before = with_hash(settings)
    refuse_changes("run", before, with_hash(settings))
    refuse_changes("run", settings, before)
    (tmp_path / "mine.py").write_text("X = 2\n")
    with pytest.raises(UserError, match=r"the file of surrogate '.*mine.py' has changed .* another --out"):
        refuse_changes("run", before, with_hash(settings))


def test_a_file_s_method_cannot_change_the_run(tmp_path: Path) -> None:
    file = tmp_path / "clears.py"
    file.write_text(
        "from kbench.generation.search.methods.method import Method\nfrom kbench.generation.search.state import FRESH\n"
        "def plan(state, count, rng):\n    state.nodes.clear()\n    return (FRESH,) * count\n"
        "METHOD = Method('clears', plan)\n"
    )
    state = RunState(run_id="run", settings=settings_for(str(file)))
    with pytest.raises(UserError, match=r"clears.py, line 4: AttributeError: 'mappingproxy'"):
        planned(state, 2, random.Random(0))


def test_budgets_are_read_in_all_four_units() -> None:
    assert parse_budget("320, 600s,2000000t,3600w") == Budget(320, 600.0, 2_000_000, 3600.0)


def test_gpu_seconds_are_charged_from_the_log(run_folder: Path, how: Drive) -> None:
    state = final(run_folder, how, "random", budget=Budget(gpu_seconds=1.0))
    assert 1.0 <= state.charge.gpu_seconds < 1.0 + 4 * 0.09375


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
    expanded = scores([Branch("a", 1.0, 5.0, 1), Branch("b", 2.0, None, 0)], 1, 0.0, 1.0)
    assert expanded == {"a": 5.0, "b": 2.0}, "a node is worth its best child"


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


def test_correct_kernels_alone_are_parents_and_share_their_children_evenly() -> None:
    state = state_of(node("s", 1.0), node("t", 2.0), node("bad", None, 1, "s"))
    chosen = [request.parent_id for request in plan(state, 4, random.Random(0))]
    assert sorted(chosen, key=str) == ["s", "s", "t", "t"]
    requests = plan(state_of(node("bad", None)), 3, random.Random(0))
    assert [request.operator.value for request in requests] == ["fresh"] * 3
