"""When a search ends: the profiler confirms its correct kernels, and finalists meet in the same rounds."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from kbench.generation.assembly.gather import gather
from kbench.generation.campaign.campaign import Drive
from kbench.generation.campaign.closing import FINALISTS, NOISE, finalists
from kbench.generation.campaign.drive import drive, recorded_states
from kbench.generation.executors.executor import Pair
from kbench.generation.executors.replay import ReplayExecutor, open_recording
from kbench.generation.log import read_log
from kbench.generation.search.state import RunState
from kbench.harness.commands.compare import Comparison
from kbench.harness.timing.duel import Verdict
from kbench.harness.timing.second_clock import SecondTimes
from kbench.schemas import KernelSource, Status

from .conftest import PROBLEM, Recorded, measurement, searched, settings_for


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
