import dataclasses
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from kbench.generation.proposers.genome.proposer import GenomeProposer
from kbench.generation.proposers.mixed import MixedProposer
from kbench.generation.proposers.rewrite.edit import Module
from kbench.generation.proposers.rewrite.rewrite import OPERATORS, RewriteProposer, parses, random_edit
from kbench.generation.search.proposal import Ask, Proposal, ProposalTask, Refusal
from kbench.generation.search.state import Operator
from kbench.schemas import Backend
from kbench.schemas.ids import kernel_id

from .conftest import PROBLEM, parent

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
