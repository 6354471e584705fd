"""Kernels brought in from a folder, as they are or as the start of a search by rewriting."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kbench.generation.proposers.folder import folder_runs
from kbench.generation.search.proposal import Ask, Proposal, ProposalTask, Refusal
from kbench.generation.search.state import Node
from kbench.schemas import Backend, DataError, UserError
from kbench.schemas.ids import kernel_id

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
    parent = Node(
        kernel_id=kernel_id("relu", "triton", SOURCE), source=SOURCE, step=0, slot=0, parent_id=None, other_id=None,
        island=0, proposer="llm", edit=None, recipe=None, niche="",
    )  # fmt: skip
    (answer,) = proposer_for(runs[0]).propose(_task(set()), [Ask("mutate", parent, None, random.Random(1))])
    assert isinstance(answer, Proposal)
    assert answer.proposer == "rewrite"
    assert answer.parent_id == parent.kernel_id
    assert answer.edit
    assert answer.source != SOURCE


def test_what_is_no_kernel_folder_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no kernels in"):
        folder_runs(tmp_path, "llm")
    (tmp_path / "relu__cpp__x.py").write_text(SOURCE)
    with pytest.raises(DataError, match="is not named"):
        folder_runs(tmp_path, "llm")
    with pytest.raises(UserError, match="written by one of"):
        folder_runs(tmp_path, "nobody")
