from __future__ import annotations

from pathlib import Path

import pytest

from kbench.generation.assembly.assemble import assemble
from kbench.generation.assembly.recipe import Recipe
from kbench.generation.campaign.drive import Drive, drive, recorded_states
from kbench.generation.executors.local import LocalExecutor, open_harness, workload_count
from kbench.generation.log import read_environments
from kbench.generation.search.settings import Budget, FilterSettings, RunSettings
from kbench.schemas import Backend

pytestmark = pytest.mark.gpu


@pytest.mark.timeout(300)
def test_a_live_campaign_finds_right_kernels_in_both_backends_and_assembles(tmp_path: Path) -> None:
    runs = [
        RunSettings(
            problem_id="swiglu", backend=backend, method=method, proposer="genome+rewrite", seeds=4, batch=4,
            filter=chosen, budget=Budget(measurements=8),
        )
        for backend in (Backend.TRITON, Backend.CUDA)
        for method, chosen in (("evolve", None), ("puct", FilterSettings(surrogate="online", draw=2)))
    ]  # fmt: skip
    executor = LocalExecutor(lambda: open_harness(0, 0.02), workload_count)
    progress = drive(tmp_path / "run", runs, Drive(executor=executor, deadline_s=200))
    assert progress.measured == 32
    assert progress.ok >= 20
    states = recorded_states(tmp_path / "run")
    assert all(state.best() is not None for state in states.values())
    assert all(node.refereed for state in states.values() for node in state.rewarded()), "by the profiler"
    assert read_environments(tmp_path / "run")
    ledger = assemble(Recipe(runs=(tmp_path / "run",)), tmp_path / "corpus")
    assert ledger.ok == progress.ok
