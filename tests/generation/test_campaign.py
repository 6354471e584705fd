import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from kbench.benchmark.surrogates.resolve import module_of
from kbench.generation.assembly.assemble import Recipe, assemble
from kbench.generation.campaign.campaign import CampaignProgress, Drive
from kbench.generation.campaign.drive import drive, recorded_states
from kbench.generation.campaign.plan import CampaignSpec, read_spec, runs_of
from kbench.generation.campaign.status import render, summaries
from kbench.generation.log import read_log
from kbench.generation.proposers.genome.proposer import GenomeProposer
from kbench.generation.search.proposal import Answer, Ask, ProposalTask, Refusal
from kbench.generation.search.settings import Budget, FilterSettings
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import DataError, UserError

from .conftest import FAMILY, PROBLEM, searched, settings_for


class Cornered(GenomeProposer):
    """Fails whenever the slot's own generator draws low: asked the same again, it fails again."""

    def propose(self, task: ProposalTask, asks: Sequence[Ask]) -> Iterator[Answer]:
        for ask in asks:
            if ask.rng.random() < 0.1:
                raise ZeroDivisionError("a family's corner")
            yield from super().propose(task, [ask])


@pytest.mark.parametrize("seed", range(4))
def test_a_fault_that_fills_a_step_and_repeats_does_not_halt_the_run(run_folder: Path, how: Drive, seed: int) -> None:
    cornered = dataclasses.replace(how, proposer_for=lambda s: Cornered({FAMILY.name: FAMILY}))
    progress = drive(run_folder, [settings_for("random", seeds=1, batch=1, seed=seed)], cornered)
    (state,) = recorded_states(run_folder).values()
    assert progress.halted == {}
    assert state.proposal_failures["proposer error"] > 0
    assert state.charge.measurements == 24


class Short(GenomeProposer):
    """Answers only the first ask."""

    def propose(self, task: ProposalTask, asks: Sequence[Ask]) -> Iterator[Answer]:
        yield from super().propose(task, asks[:1])


def test_a_proposer_that_gives_too_few_answers_is_told_on(run_folder: Path, how: Drive) -> None:
    proposer = Short({FAMILY.name: FAMILY})
    state = searched(run_folder, settings_for("random"), dataclasses.replace(how, proposer_for=lambda s: proposer))
    assert state.charge.measurements == 24
    assert state.proposal_failures["no answer"] > 24


def test_a_problem_without_a_family_is_the_users_mistake(run_folder: Path, how: Drive) -> None:
    settings = settings_for("random", problem_id="softmax")
    with pytest.raises(UserError, match="no genome family solves problem 'softmax' in backend 'triton'"):
        drive(run_folder, [settings], how)


@pytest.mark.usefixtures("ticks")
def test_budgets_are_spent_evenly_when_a_campaign_is_cut_short(tmp_path: Path, how: Drive) -> None:
    runs = [settings_for("puct", seed=seed, label=str(seed)) for seed in range(60)]
    drive(tmp_path, runs, dataclasses.replace(how, deadline_s=200))
    steps = [state.step for state in recorded_states(tmp_path).values()]
    assert len(steps) == len(runs)
    assert 0 < max(steps) <= min(steps) + 1


@pytest.mark.parametrize("order", ["rounds", "problems"])
def test_in_either_order_the_seeds_of_all_come_first(tmp_path: Path, how: Drive, order: str) -> None:
    runs = [settings_for("random", seed=seed) for seed in range(3)]
    drive(tmp_path, runs, dataclasses.replace(how, order=order))
    started = [entry for entry in read_log(tmp_path) if entry.kind == "step_started"]
    assert {(entry.run_id, entry.step) for entry in started[:3]} == {(settings.run_id, 0) for settings in runs}
    assert {state.charge.measurements for state in recorded_states(tmp_path).values()} == {24}


def test_progress_is_one_line_with_what_matters_and_the_last_one_estimates_nothing(tmp_path: Path, how: Drive) -> None:
    told: list[CampaignProgress] = []
    progress = drive(tmp_path, [settings_for("random")], dataclasses.replace(how, report=told.append))
    assert told
    for word in ("24/24 kernels", "/s", "best", "ok", "failed: ", "reused 0", "lost 0"):
        assert word in progress.line()
    assert progress.best > 0
    assert sum(progress.failures.values()) + progress.ok == 24
    assert progress.result().startswith("this command: 24 kernels, ")
    for word in ("left", "in flight", "live", "24/24", "nan"):
        assert word not in progress.result()


@pytest.mark.parametrize("field", ["methods", "random_seeds", "problems", "backends"])
def test_a_search_named_twice_is_refused_before_anything_is_written(tmp_path: Path, how: Drive, field: str) -> None:
    fields = {"problems": ["gelu_tanh"], "backends": ["triton"], "methods": ["random"], "random_seeds": [3]}
    fields[field] *= 2
    with pytest.raises(UserError, match=r"'gelu_tanh', backend 'triton', method 'random', seed 3 is named twice"):
        drive(tmp_path / "run", runs_of(CampaignSpec(**fields))[0], how)
    assert not (tmp_path / "run").exists()


def test_an_unknown_proposer_or_surrogate_is_refused_before_anything_is_written(tmp_path: Path, how: Drive) -> None:
    drive_as_named = dataclasses.replace(how, proposer_for=None)
    chosen = FilterSettings(surrogate="onlin")
    for settings in (settings_for("random", proposer="genom"), settings_for("random", filter=chosen)):
        with pytest.raises(UserError, match=r"'genom'|'onlin'"):
            drive(tmp_path / "run", [settings], drive_as_named)
    assert not (tmp_path / "run").exists()


class Refusing(GenomeProposer):
    """Gives no kernel, by default because nobody can be reached."""

    reason = "connection error: refused"

    def propose(self, task: ProposalTask, asks: Sequence[Ask]) -> Iterator[Answer]:
        yield from [Refusal(reason=self.reason, proposer=self.name)] * len(asks)


def test_a_run_whose_proposer_cannot_be_reached_halts_and_the_others_go_on(tmp_path: Path, how: Drive) -> None:
    runs = [settings_for("random", seed=0), settings_for("random", seed=1)]
    proposers = {0: Refusing({}), 1: GenomeProposer({FAMILY.name: FAMILY})}
    progress = drive(tmp_path, runs, dataclasses.replace(how, proposer_for=lambda s: proposers[s.seed]))
    halted, done = (recorded_states(tmp_path)[settings.run_id] for settings in runs)
    assert progress.halted == {runs[0].run_id: "connection error: refused"}
    assert (halted.halted, halted.stopped, halted.step, halted.idle_steps) == ("connection error: refused", None, 0, 0)
    assert done.charge.measurements == 24
    assert "halted" in render(summaries(tmp_path))


def test_a_halted_run_takes_the_course_it_would_have_taken(tmp_path: Path, how: Drive) -> None:
    unreachable = dataclasses.replace(how, proposer_for=lambda s: Refusing({}))
    for _ in range(2):
        drive(tmp_path / "halted", [settings_for("evolve")], unreachable)
    drive(tmp_path / "halted", [settings_for("evolve")], how)
    drive(tmp_path / "straight", [settings_for("evolve")], how)
    one, two = (next(iter(recorded_states(tmp_path / name).values())) for name in ("halted", "straight"))
    assert one.nodes == two.nodes
    assert (one.step, one.halted, one.stopped) == (two.step, None, two.stopped)


@pytest.mark.parametrize("budget", [24, 32], ids=["same budget", "larger budget"])
def test_a_run_that_found_nothing_new_is_resumed(tmp_path: Path, how: Drive, budget: int) -> None:
    empty = Refusing({})
    empty.reason = "no code: the reply has none"
    state = searched(tmp_path, settings_for("random"), dataclasses.replace(how, proposer_for=lambda s: empty))
    assert state.stopped == "nothing new in 4 steps"
    state = searched(tmp_path, settings_for("random", budget=Budget(measurements=budget)), how)
    assert state.charge.measurements == budget


def test_independent_searches_share_nothing_and_pay_for_everything(run_folder: Path, how: Drive) -> None:
    spec = CampaignSpec(
        label="study", independent=True, problems=(PROBLEM,), backends=("triton",), methods=("random", "evolve"),
        proposer="genome", random_seeds=(0, 1), budget=Budget(measurements=200), batch=50,
    )  # fmt: skip
    runs, _ = runs_of(spec)
    assert len({settings.label for settings in runs}) == 4
    drive(run_folder, runs, how)
    states = list(recorded_states(run_folder).values())
    assert [state.charge.measurements for state in states] == [200] * 4
    kernels = [key for state in states for key, node in state.nodes.items() if node.outcome is not None]
    assert len(set(kernels)) < len(kernels) == 800


def test_the_live_study_is_analysed_and_assembled_from_its_log(tmp_path: Path, how: Drive) -> None:
    spec = CampaignSpec(
        label="study", independent=True, problems=(PROBLEM,), backends=("triton",), proposer="genome", seeds=8,
        methods=("random", "evolve", "random+surrogate", "evolve+surrogate"), budget=Budget(measurements=24),
    )  # fmt: skip
    runs, _ = runs_of(spec)
    for deadline_s in (0.05, None):
        drive(tmp_path / "run", runs, dataclasses.replace(how, deadline_s=deadline_s))
    live = module_of(Path(__file__).parents[2] / "docs" / "evidence" / "scripts" / "live.py")
    courses, pace, proposed = live.read(tmp_path / "run")
    found = live.study(courses, live.PAIRS, live.PAIRS, live.AT)
    assert list(found["by_measurements"]) == [8, 16, 24, 48, 64]
    assert found["by_measurements"][24] == found["by_measurements"][64]
    last = found["by_measurements"][24]
    assert max(last["share"].values()) == 1.0
    gain = last["share"]["evolve"] - last["share"]["random"]
    assert last["pairs"]["evolve - random"]["gain"] == pytest.approx(gain)
    assert pace["measurements"] == 4 * 24
    (row,) = live.per_cell(courses, proposed)
    assert row["arms"]["random"]["gpu_seconds"] == pytest.approx(24 * 0.09375)
    assemble(Recipe(runs=(tmp_path / "run",)), tmp_path / "corpus")
    kernels = Corpus.open(tmp_path / "corpus").table("kernels").num_rows
    assert kernels == len({key for arm in courses.values() for course in arm.values() for key in course.measured})


def test_the_live_study_of_a_folder_without_a_log_is_one_line(tmp_path: Path) -> None:
    live = module_of(Path(__file__).parents[2] / "docs" / "evidence" / "scripts" / "live.py")
    result = CliRunner().invoke(live.main, [str(tmp_path), "--out", str(tmp_path / "out.json")])
    assert result.output == f"Error: no search log in {str(tmp_path)!r}; give a run folder or a log file\n"


def test_a_spec_names_one_run_for_every_cell() -> None:
    spec = CampaignSpec(problems=["matmul_square"], backends=["triton"], random_seeds=[0, 1])
    runs, uncovered = runs_of(spec)
    assert uncovered == []
    assert len({run.run_id for run in runs}) == len(runs) == 5 * 2
    assert {run.search_method for run in runs} == {"random", "hill_climb", "evolve", "puct", "puct+surrogate"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", r"campaign is \[\]; it must be an object"),
        ("{", "/c.json: not JSON"),
        ('{"backends": ["hip"], "problems": ["matmul_square"]}', "backend 'hip'"),
        ('{"patients": 3, "problems": ["matmul_square"]}', "unknown field 'patients'"),
    ],
)
def test_a_spec_that_cannot_be_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "c.json").write_text(content)
    with pytest.raises(DataError, match=message):
        runs_of(read_spec(tmp_path / "c.json"))


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ({"budget": {"measurments": 4}}, "campaign.budget has unknown field 'measurments'"),
        ({"budget": 4}, "campaign.budget is 4; it must be an object"),
        ({"budget": {"measurements": -4}}, "campaign.budget.measurements is -4; it must be more than 0"),
        ({"seeds": 0}, "campaign.seeds is 0; it must be at least 1"),
        ({"random_seeds": 0}, "campaign.random_seeds is 0; it must be a list"),
        ({"draw": 1, "methods": ["puct+surrogate"]}, "campaign.filter.draw is 1; it must be at least 2"),
        ({"patience": "3"}, "campaign.patience is '3' (str); it must be int"),
        ({"methods": ["evolve+static"]}, "name 'evolve+surrogate', and 'static' as surrogate"),
        ({"surrogate": "static", "methods": ["evolve"]}, "campaign.surrogate changes nothing without a method such as"),
        ({"order": "names"}, "campaign.order is 'names'; it must be one of rounds, problems"),
        ({"methods": ["none"]}, "unknown method 'none'; known: bayes, evolve, hill_climb, puct, random"),
        ({"problems": ["fp8_quant_float32"]}, "unknown problem 'fp8_quant_float32'"),
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_field_is_one_line_with_its_value(tmp_path: Path, field: dict[str, object], message: str) -> None:
    (tmp_path / "c.json").write_text(json.dumps({"problems": ["softmax"]} | field))
    with pytest.raises(UserError) as caught:
        runs_of(read_spec(tmp_path / "c.json"))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_campaign_that_is_no_file_is_named(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing.json"):
        with pytest.raises(UserError, match=f"campaign file '{path}' cannot be read"):
            read_spec(path)
