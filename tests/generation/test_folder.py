"""Kernels brought in from a folder, as they are or as the start of a search by rewriting."""

import dataclasses
import random
from pathlib import Path

import pytest

from kbench.generation.assembly.assemble import Recipe, assemble
from kbench.generation.campaign.campaign import Drive
from kbench.generation.campaign.drive import drive, recorded_states
from kbench.generation.executors.executor import Result
from kbench.generation.executors.local import LocalExecutor, open_harness, workload_count
from kbench.generation.executors.replay import ReplayExecutor
from kbench.generation.log import read_environments
from kbench.generation.proposers.folder import folder_runs
from kbench.generation.search.proposal import Ask, Proposal, ProposalTask, Refusal
from kbench.generation.search.settings import Budget, FilterSettings, RunSettings
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import Backend, DataError, Status, UserError
from kbench.schemas.ids import kernel_id

from .conftest import measurement, parent

SOURCE = """import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.maximum(tl.load(x + at, mask=at < n), 0.0), mask=at < n)


def run(x):
    y = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024, num_warps=4)
    return y
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("one", "two"):
        (tmp_path / f"relu__triton__{name}.py").write_text(SOURCE.replace("kernel", name))
    return tmp_path


def _task(seen: set[str]) -> ProposalTask:
    return ProposalTask("relu", Backend.TRITON, seen.__contains__)


def test_files_are_proposed_once_each_and_then_refused(folder: Path) -> None:
    runs, proposer_for = folder_runs(folder, "llm")
    seen: set[str] = set()
    asks = [Ask("fresh", None, None, random.Random(0))] * 3
    answers = []
    for answer in proposer_for(runs[0]).propose(_task(seen), asks):
        answers.append(answer)
        if isinstance(answer, Proposal):
            seen.add(kernel_id("relu", "triton", answer.source))
    assert [type(answer) for answer in answers] == [Proposal, Proposal, Refusal]
    assert {a.proposer for a in answers} == {"llm"}
    assert (runs[0].method, runs[0].budget.measurements) == ("written", 2)


def test_with_variants_a_search_goes_on_by_rewriting(folder: Path) -> None:
    runs, proposer_for = folder_runs(folder, "llm", "evolve", variants=3)
    assert (runs[0].method, runs[0].budget.measurements) == ("written+evolve", 8)
    first = parent(SOURCE, kernel_id=kernel_id("relu", "triton", SOURCE))
    (answer,) = proposer_for(runs[0]).propose(_task(set()), [Ask("mutate", first, None, random.Random(1))])
    assert isinstance(answer, Proposal)
    assert answer.proposer == "rewrite"
    assert answer.parent_id == first.kernel_id
    assert answer.edit
    assert answer.source != SOURCE


class MeasuresAll(ReplayExecutor):
    """Finds every kernel correct."""

    def _result(self, key: str) -> Result:
        return Result(key, (measurement(key, "relu", Status.OK, 1 + int(key[:2], 16) / 256),))


@pytest.mark.parametrize("method", ["written+evolve", "evolve"], ids=["now", "older logs"])
def test_a_corpus_tells_written_kernels_from_rewrites_of_them(folder: Path, tmp_path: Path, method: str) -> None:
    runs, proposer_for = folder_runs(folder, "llm", "evolve", variants=3)
    runs = [dataclasses.replace(run, method=method) for run in runs]
    drive(tmp_path / "run", runs, Drive(executor=MeasuresAll({}), proposer_for=proposer_for))
    ledger = assemble(Recipe(runs=(tmp_path / "run",)), tmp_path / "corpus")
    rows = Corpus.open(tmp_path / "corpus").table("kernels").to_pylist()
    assert {(row["search_method"], row["proposer"], row["generation"] > 0) for row in rows} == {
        ("written", "llm", False), ("written+evolve", "rewrite", True)
    }  # fmt: skip
    assert {(row["lineage"], row["model"]) for row in rows} == {(None, None)}
    assert ledger.by_model == {}


def test_what_is_no_kernel_folder_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no kernels in"):
        folder_runs(tmp_path, "llm")
    (tmp_path / "relu__cpp__x.py").write_text(SOURCE)
    with pytest.raises(DataError, match="is not named"):
        folder_runs(tmp_path, "llm")
    with pytest.raises(UserError, match="written by one of"):
        folder_runs(tmp_path, "nobody")


@pytest.mark.timeout(300)
@pytest.mark.gpu
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
