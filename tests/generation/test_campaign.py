from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from kbench.generation.campaign import Progress
from kbench.generation.log import read_log
from kbench.generation.proposers.genome.proposer import GenomeProposer
from kbench.generation.proposers.proposal import Answer, Ask, Task
from kbench.generation.session import Drive, drive, recorded_states
from kbench.generation.spec import CampaignSpec, read_spec, runs_of
from kbench.schemas import DataError, UnknownNameError, UserError

from .conftest import FAMILY, settings_for


class Stumbling(GenomeProposer):
    """Fails on every third ask."""

    def __init__(self) -> None:
        super().__init__({FAMILY.name: FAMILY})
        self.asked = 0

    def propose(self, task: Task, asks: Sequence[Ask]) -> Iterator[Answer]:
        for ask in asks:
            self.asked += 1
            if self.asked % 3 == 0:
                raise TypeError("two values for one gene")
            yield from super().propose(task, [ask])


def test_a_proposer_that_fails_costs_slots_not_the_campaign(run_folder: Path, how: Drive) -> None:
    drive(run_folder, [settings_for("evolve")], dataclasses.replace(how, proposer_for=lambda s: Stumbling()))
    (state,) = recorded_states(run_folder).values()
    assert state.charge.measurements == 24
    assert state.proposal_failures["proposer error"] > 3


class Short(GenomeProposer):
    """Answers only the first ask."""

    def propose(self, task: Task, asks: Sequence[Ask]) -> Iterator[Answer]:
        yield from super().propose(task, asks[:1])


def test_a_proposer_that_gives_too_few_answers_is_told_on(run_folder: Path, how: Drive) -> None:
    proposer = Short({FAMILY.name: FAMILY})
    drive(run_folder, [settings_for("random")], dataclasses.replace(how, proposer_for=lambda s: proposer))
    (state,) = recorded_states(run_folder).values()
    assert state.charge.measurements == 24
    assert state.proposal_failures["no answer"] > 24


def test_a_problem_without_a_family_is_the_users_mistake(run_folder: Path, how: Drive) -> None:
    settings = settings_for("random", problem_id="softmax")
    with pytest.raises(UserError, match="no genome family solves problem 'softmax' in backend 'triton'"):
        drive(run_folder, [settings], how)


def test_budgets_are_spent_evenly_when_a_campaign_is_cut_short(tmp_path: Path, how: Drive) -> None:
    runs = [settings_for(method, seed=seed) for method in ("random", "puct") for seed in range(60)]
    drive(tmp_path, runs, dataclasses.replace(how, gpu_seconds=40.0))
    measured = [state.charge.measurements for state in recorded_states(tmp_path).values()]
    assert len(measured) == len(runs)
    assert max(measured) - min(measured) <= 8


def test_runs_of_one_problem_are_submitted_together(tmp_path: Path, how: Drive) -> None:
    drive(tmp_path, [settings_for("random", seed=seed) for seed in range(3)], how)
    started = [entry.run_id for entry in read_log(tmp_path) if entry.kind == "step_started"]
    assert len(set(started[:3])) == 3


def test_by_problems_the_seeds_of_all_come_first(tmp_path: Path, how: Drive) -> None:
    runs = [settings_for("random", seed=seed) for seed in range(3)]
    drive(tmp_path, runs, dataclasses.replace(how, order="problems"))
    steps = [entry.step for entry in read_log(tmp_path) if entry.kind == "step_started"]
    assert steps[:3] == [0, 0, 0]
    assert {state.charge.measurements for state in recorded_states(tmp_path).values()} == {24}


def test_progress_is_one_line_with_what_matters(tmp_path: Path, how: Drive) -> None:
    told: list[Progress] = []
    progress = drive(tmp_path, [settings_for("random")], dataclasses.replace(how, report=told.append))
    assert told
    for word in ("24/24 kernels", "/s", "best", "ok", "failed: ", "reused 0", "lost 0"):
        assert word in progress.line()
    assert progress.best > 0
    assert sum(progress.failures.values()) + progress.ok == 24


def test_a_spec_names_one_run_for_every_cell() -> None:
    spec = CampaignSpec(problems=["matmul_square"], backends=["triton"], random_seeds=[0, 1])
    runs, uncovered = runs_of(spec)
    assert uncovered == []
    assert len({run.run_id for run in runs}) == len(runs) == 5 * 2
    assert {run.search_method for run in runs} == {"random", "hill_climb", "evolve", "puct", "puct+surrogate"}


def test_overrides_change_single_problems() -> None:
    spec = CampaignSpec(
        problems=["matmul_square", "matmul_batched"], backends=["triton"], methods=["random"],
        overrides={"matmul_square": {"batch": 7, "budget": {"measurements": 99}}},
    )  # fmt: skip
    one, two = runs_of(spec)[0]
    assert (one.batch, one.budget.measurements) == (7, 99)
    assert (two.batch, two.budget.measurements) == (4, 12)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "a campaign is a JSON object"),
        ("{", "not JSON"),
        ('{"backends": ["hip"], "problems": ["matmul_square"]}', "backend 'hip'"),
        ('{"settings": {"patients": 3}, "problems": ["matmul_square"]}', "unknown setting 'patients'"),
    ],
)
def test_a_spec_that_cannot_be_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "c.json").write_text(content)
    with pytest.raises(DataError, match=message):
        runs_of(read_spec(tmp_path / "c.json"))


@pytest.mark.parametrize(
    "field",
    [
        {"problems": ["matmul_sqare"]},
        {"problems": ["fp8_quant_float32"]},
        {"problems": ["matmul_square"], "methods": ["anneal"]},
    ],
)
def test_unknown_names_in_a_spec_are_named(tmp_path: Path, field: dict[str, list[str]]) -> None:
    (tmp_path / "c.json").write_text(json.dumps(field))
    with pytest.raises(UnknownNameError):
        runs_of(read_spec(tmp_path / "c.json"))


def test_the_example_campaigns_are_valid() -> None:
    examples = Path(__file__).parents[2] / "examples"
    for name in ("campaign.json", "live_search.json"):
        assert runs_of(read_spec(examples / name))[0]
