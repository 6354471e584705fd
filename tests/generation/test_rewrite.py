"""Rewrites of a kernel's text; kernels brought in from a folder, as they are or as the start of such a search."""

import dataclasses
import random
from collections.abc import Iterator, Sequence
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
from kbench.generation.proposers.genome.proposer import GenomeProposer
from kbench.generation.proposers.mixed import MixedProposer
from kbench.generation.proposers.rewrite.edit import Module
from kbench.generation.proposers.rewrite.rewrite import OPERATORS, RewriteProposer, parses, random_edit
from kbench.generation.search.proposal import Ask, Proposal, ProposalTask, Refusal
from kbench.generation.search.settings import Budget, FilterSettings, RunSettings
from kbench.generation.search.state import Operator
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import Backend, DataError, Status, UserError
from kbench.schemas.ids import kernel_id

from .conftest import PROBLEM, measurement, parent

KERNELS = Path(__file__).with_name("kernels")
TRITON = (KERNELS / "row_scale.py").read_text()
CUDA = (KERNELS / "vector_sum.py").read_text()
SOURCES = {Backend.TRITON: TRITON, Backend.CUDA: CUDA}


def edits(backend: Backend, name: str, source: str | None = None, seed: int = 0) -> list[str]:
    """Every text an operator makes of the sample kernel."""
    text = SOURCES[backend] if source is None else source
    operator = next(one for one in OPERATORS[backend] if one.name == name)
    return [edit.apply(text) for edit in operator.find(Module(text), random.Random(seed))]


@pytest.mark.parametrize("backend", list(SOURCES))
def test_every_edit_parses_and_changes_something(backend: Backend) -> None:
    for operator in OPERATORS[backend]:
        for edit in operator.find(Module(SOURCES[backend]), random.Random(1)):
            changed = edit.apply(SOURCES[backend])
            assert changed != SOURCES[backend], operator.name
            assert parses(changed), (operator.name, edit)
            assert edit.what


@pytest.mark.parametrize("backend", list(SOURCES))
def test_two_hundred_edits_in_a_row_still_parse(backend: Backend) -> None:
    rng, source, used = random.Random(2), SOURCES[backend], set()
    for _ in range(200):
        found = random_edit(source, backend, rng)
        used.add(found[0])
        changed = found[1].apply(source)
        source = changed if len(changed) < 20_000 else SOURCES[backend]
        assert parses(source)
    assert len(used) >= 8


@pytest.mark.parametrize(
    ("backend", "name", "expected"),
    [
        (Backend.TRITON, "num_stages", "num_warps=4, num_stages="),
        (Backend.TRITON, "tile constant", "BLOCK = 512"),
        (Backend.TRITON, "load cache", 'other=0.0, cache_modifier=".c'),
        (Backend.TRITON, "store eviction", 'eviction_policy="evict_'),
        (Backend.TRITON, "masked lanes", "a = tl.load(x + row * n + cols, mask=cols < n)"),
        (Backend.TRITON, "accumulator type", "acc = tl.zeros((B,), dtype=tl.float64)"),
        (Backend.TRITON, "loop stages", "in tl.range(0, n, B, num_stages="),
        (Backend.TRITON, "loop unroll", "loop_unroll_factor="),
        (Backend.TRITON, "exp as exp2", "tl.exp2((a) * 1.4426950408889634)"),
        (Backend.TRITON, "reciprocal", "(a) * (1.0 / total)"),
        (Backend.TRITON, "load order", "b = tl.load(w + cols, mask=cols < n)\n        a = tl.load("),
        (Backend.CUDA, "load hint", "(&x[blockIdx.x * n + i])"),
        (Backend.CUDA, "store hint", "(&y[blockIdx.x], total);"),
        (Backend.CUDA, "unroll", "#pragma unroll 2"),
        (Backend.CUDA, "launch bounds", "void __launch_bounds__(1024) row_sum("),
        (Backend.CUDA, "wider accumulator", "double acc = 0.0f;"),
        (Backend.CUDA, "intrinsic", "__expf(a)"),
        (Backend.CUDA, "device constant", "#define CHUNK "),
        (Backend.CUDA, "load order", "float b = w[i];\n        float a = x["),
        (Backend.CUDA, "register cap", "max_registers="),
        (Backend.CUDA, "fast math", "fast_math=True"),
    ],
)
def test_an_operator_does_what_its_name_says(backend: Backend, name: str, expected: str) -> None:
    assert any(expected in text for seed in range(30) for text in edits(backend, name, seed=seed))


def test_comments_and_strings_of_cuda_are_never_edited() -> None:
    source = CUDA.replace("// a stride of blocks", "// x[1] = w[2]; for (;;) expf(0)")
    for operator in OPERATORS[Backend.CUDA]:
        for edit in operator.find(Module(source), random.Random(0)):
            assert "// x[1] = w[2]; for (;;) expf(0)" in edit.apply(source)


def test_names_of_more_than_ascii_do_not_shift_an_edit() -> None:
    source = TRITON.replace("BLOCK = 256", 'NOTE = "é€𝄞"\nBLOCK = 256')
    assert any(
        'NOTE = "é€𝄞"\nBLOCK = 512' in text or "BLOCK = 128" in text
        for text in edits(Backend.TRITON, "tile constant", source)
    )


def test_cuda_that_is_spelt_with_escapes_is_left_alone() -> None:
    source = "m = CudaModule('__global__ void f() {\\n}')\n\ndef run(x):\n    return x\n"
    assert edits(Backend.CUDA, "launch bounds", source) == []


def ask(source: str | None, seed: int = 0, operator: Operator = Operator.MUTATE) -> Ask:
    return Ask(operator, parent(source) if source is not None else None, None, random.Random(seed))


def test_the_same_generator_gives_the_same_rewrite() -> None:
    task = ProposalTask(PROBLEM, Backend.TRITON, lambda key: False)
    answers = [next(RewriteProposer().propose(task, [ask(TRITON, 5)])) for _ in range(2)]
    assert answers[0] == answers[1]
    assert isinstance(answers[0], Proposal)
    assert answers[0].parent_id == "0" * 32
    assert answers[0].edit


def test_rewrites_avoid_what_was_seen() -> None:
    taken: set[str] = set()
    task = ProposalTask(PROBLEM, Backend.TRITON, lambda key: key in taken)
    found: set[str] = set()
    for answer in RewriteProposer().propose(task, [ask(TRITON, seed) for seed in range(30)]):
        assert isinstance(answer, Proposal)
        found.add(answer.source)
        taken.add(kernel_id(PROBLEM, Backend.TRITON, answer.source))
    assert len(found) == 30


@pytest.mark.parametrize("source", [None, "def run(x):\n    return x\n", "def run(x:", "plain words"])
def test_what_cannot_be_edited_is_refused_with_a_reason(source: str | None) -> None:
    (answer,) = RewriteProposer().propose(ProposalTask(PROBLEM, Backend.TRITON, lambda key: False), [ask(source)])
    assert isinstance(answer, Refusal)
    assert ":" in answer.reason


def test_mixed_proposing_sends_each_ask_to_a_proposer_that_can_answer(proposer: GenomeProposer) -> None:
    mixed = MixedProposer(proposer, RewriteProposer())
    task = ProposalTask(PROBLEM, Backend.TRITON, lambda key: False)
    (fresh,) = mixed.propose(task, [ask(None, operator=Operator.FRESH)])
    (foreign,) = mixed.propose(task, [ask(TRITON)])
    assert isinstance(fresh, Proposal)
    known = Ask(Operator.MUTATE, parent(fresh.source, recipe=fresh.recipe), None, random.Random(0))
    (genes,) = mixed.propose(task, [known])
    (text,) = mixed.propose(task, [dataclasses.replace(known, operator=Operator.REWRITE)])
    found = [one.proposer for one in (fresh, foreign, genes, text)]
    assert found == ["genome", "rewrite", "genome", "rewrite"]


class Writer:
    """A language model's stand-in that remembers what it was asked together."""

    name = "llm"

    def __init__(self) -> None:
        self.asked: list[int] = []

    def propose(self, task: ProposalTask, asks: Sequence[Ask]) -> Iterator[Proposal]:
        self.asked.append(len(asks))
        for number in range(len(asks)):
            yield Proposal(source=f"# {number}", proposer=self.name)


def test_a_language_model_is_asked_together_and_answers_keep_their_order(proposer: GenomeProposer) -> None:
    writer = Writer()
    mixed = MixedProposer(proposer, RewriteProposer(), writer)
    assert mixed.name == "genome+rewrite+llm"
    task = ProposalTask(PROBLEM, Backend.TRITON, lambda key: False)
    crossed = dataclasses.replace(ask(TRITON, operator=Operator.CROSS), other=parent(TRITON))
    asks = [
        ask(TRITON, operator=Operator.LLM), ask(None, operator=Operator.FRESH), ask(TRITON, operator=Operator.LLM),
        ask(TRITON, operator=Operator.REWRITE), crossed, ask(TRITON),
    ]  # fmt: skip
    found = [one.proposer for one in mixed.propose(task, asks)]
    assert found == ["llm", "genome", "llm", "rewrite", "llm", "rewrite"]
    assert writer.asked == [3]


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
