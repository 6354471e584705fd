"""Campaigns: searches that share a GPU; when one ends, the profiler confirms its kernels and finalists meet."""

import dataclasses
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from kbench.benchmark.surrogates.resolve import module_of
from kbench.generation.assembly.assemble import Recipe, assemble
from kbench.generation.assembly.kernels import gather
from kbench.generation.campaign.campaign import CampaignProgress, Drive
from kbench.generation.campaign.closing import FINALISTS, NOISE, finalists
from kbench.generation.campaign.drive import drive, recorded_states
from kbench.generation.campaign.plan import CampaignSpec, read_spec, runs_of
from kbench.generation.campaign.status import render, summaries
from kbench.generation.executors.executor import Pair
from kbench.generation.executors.replay import ReplayExecutor, open_recording
from kbench.generation.log import read_log
from kbench.generation.proposers.genome.proposer import GenomeProposer
from kbench.generation.search.proposal import Answer, Ask, ProposalTask, Refusal
from kbench.generation.search.settings import Budget, FilterSettings
from kbench.generation.search.state import RunState
from kbench.harness.commands.compare import Comparison
from kbench.harness.timing.duel import Verdict
from kbench.harness.timing.second_clock import SecondTimes
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import DataError, KernelSource, Status, UserError

from .conftest import FAMILY, PROBLEM, Recorded, measurement, searched, settings_for


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


class Refereeing(ReplayExecutor):
    """Answers from a recording, with a profiler and a GPU for finales."""

    def __init__(self, recorded: Recorded, forged: set[str], ratios: Mapping[str, float]) -> None:
        super().__init__(recorded)
        self.forged, self.ratios = forged, ratios
        self.asked: list[str] = []
        self.pairs: list[tuple[str, str]] = []

    def second_clock(self, kernels: Sequence[KernelSource]) -> Mapping[str, SecondTimes]:
        self.asked += [kernel.kernel_id for kernel in kernels]
        times_us = {kernel.kernel_id: self._recorded[kernel.kernel_id][0].runtime_us or 0.0 for kernel in kernels}
        return {key: {"large": us * 9.0 if key in self.forged else us - 2.0} for key, us in times_us.items()}

    def compare(self, pairs: Sequence[Pair]) -> list[list[Comparison]]:
        self.pairs += [(one.kernel_id, other.kernel_id) for one, other in pairs]
        ratios = [self.ratios.get(other.kernel_id, 0.99) for _, other in pairs]
        return [[Comparison("large", Verdict.FASTER, "measured", r, r, r, 8, 50.0, 50.0 / r)] for r in ratios]


def driven(folder: Path, how: Drive, executor: ReplayExecutor) -> RunState:
    return searched(folder, settings_for("random"), dataclasses.replace(how, executor=executor))


@pytest.fixture
def recorded(recorded: Recorded) -> Recorded:
    """The recording with speeds that lie close together."""
    return {
        key: tuple(measurement(key, PROBLEM, row.status, (row.speedup or 1.0) ** 0.02) for row in rows)
        for key, rows in recorded.items()
    }


@pytest.fixture
def ranked(tmp_path: Path, how: Drive, recorded: Recorded) -> list[str]:
    """The finalists of a search that nobody closes."""
    state = driven(tmp_path / "open", how, ReplayExecutor(recorded))
    assert state.finalists == ()
    return [node.kernel_id for node in sorted(state.rewarded(), key=lambda node: node.reward or 0.0, reverse=True)]


def test_finalists_are_the_few_that_noise_could_have_kept_behind(ranked: list[str], tmp_path: Path) -> None:
    (state,) = recorded_states(tmp_path / "open").values()
    chosen = finalists(state)
    assert [node.kernel_id for node in chosen] == ranked[: len(chosen)]
    assert 1 < len(chosen) <= FINALISTS
    least = (1.0 - NOISE) * (chosen[0].reward or 0.0)
    assert all((node.reward or 0.0) >= least for node in chosen)


def test_the_best_follows_the_finale(tmp_path: Path, how: Drive, recorded: Recorded, ranked: list[str]) -> None:
    executor = Refereeing(recorded, set(), {ranked[1]: 1.02})
    state = driven(tmp_path / "run", how, executor)
    leader, best = state.leader(), state.best()
    assert (leader.kernel_id, best.kernel_id) == (ranked[0], ranked[1])
    assert executor.pairs == [(ranked[0], other) for other in state.finalists[1:]]
    (entry,) = (entry for entry in read_log(tmp_path / "run") if entry.kind == "finale_held")
    assert entry.payload["duels"][0]["ratio"] == pytest.approx(1.02)
    again = Refereeing(recorded, set(), {})
    assert driven(tmp_path / "run", how, again).best() == best
    assert (again.asked, again.pairs) == ([], []), "closed once"
    beaten = dataclasses.replace(state, finalists=state.finalists[1:])
    assert beaten.best() == leader


def test_a_contradicted_time_is_rejected(tmp_path: Path, how: Drive, recorded: Recorded, ranked: list[str]) -> None:
    executor = Refereeing(recorded, {ranked[0]}, {})
    state = driven(tmp_path / "run", how, executor)
    assert sorted(executor.asked) == sorted([*ranked, ranked[0]]), "asked again where it contradicts"
    forged = state.nodes[ranked[0]].outcome
    assert (forged.status, forged.speedup, state.finalists[0]) == (Status.REJECTED, None, ranked[1])
    assert "by the profiler" in (forged.error or "")
    (row,) = open_recording(tmp_path / "run")._recorded[ranked[0]]
    assert (row.status, row.runtime_us, row.clocks_disagree) == (Status.REJECTED, None, True)
    gathered = {one.node.kernel_id: one.measurements[0] for one in gather([tmp_path / "run"]).kernels}
    assert gathered[ranked[0]] == row
    assert (gathered[ranked[1]].status, gathered[ranked[1]].clocks_disagree) == (Status.OK, False)


def test_a_deadline_puts_closing_off(tmp_path: Path, how: Drive, recorded: Recorded, ranked: list[str]) -> None:
    hurried, patient = Refereeing(recorded, set(), {}), Refereeing(recorded, set(), {})
    settings = settings_for("random")
    drive(tmp_path / "run", [settings], dataclasses.replace(how, executor=hurried, deadline_s=1e-9))
    assert hurried.asked == []
    driven(tmp_path / "run", how, patient)
    assert len(patient.asked) == len(ranked)


ROOT = Path(__file__).parents[2]
ABSENT = ("polars", "datasets", "jsonschema", "matplotlib", "pandas", "openai", "ray", "scoringrules")
"""Packages a measuring machine need not have."""


def run(script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False,
        env={"PYTHONPATH": str(ROOT / "src")}, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_campaign_needs_none_of_the_packages_a_measuring_machine_lacks() -> None:
    script = f"""
import sys
for name in {ABSENT!r}:
    sys.modules[name] = None
import kbench.generation.cli
assert "numpy" not in sys.modules, "the command limits numpy's threads before it loads"
from pathlib import Path
from kbench.generation.campaign.plan import read_spec, runs_of
from kbench.generation.proposers.mixed import proposer
proposer("genome+rewrite")
runs, uncovered = runs_of(read_spec(Path("examples/campaign.json")))
assert "torch" not in sys.modules, "planning a campaign needs no torch"
print(len(runs))
"""
    assert int(run(script)) > 0
