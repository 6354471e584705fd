"""`static-compiler`: whom it asks, what it is told, and what happens where nobody can compile."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from kbench.benchmark.evaluate.evaluate import evaluate_on
from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.questions import Questions
from kbench.benchmark.surrogates.protocol import CompilerFacts
from kbench.benchmark.surrogates.resolve import resolve
from kbench.benchmark.surrogates.static.features.rows import KernelPool
from kbench.benchmark.surrogates.static.surrogate import CompiledStaticSurrogate, StaticSurrogate, compiled_facts
from kbench.benchmark.surrogates.static.training.fitting import Effort
from kbench.benchmark.surrogates.static.training.train import train
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import KernelSource, UserError

SMALL = Effort(kernel_trees=5, boosted_trees=10, pair_trees=10, width_trees=5, valid_trees=5, leaves=8)


class Recording:
    """A compiler that says what the length of the text is and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[KernelSource, str]] = []

    def __call__(self, kernels: Sequence[KernelSource], capability: str) -> list[CompilerFacts | None]:
        self.asked += [(kernel, capability) for kernel in kernels]
        return [CompilerFacts(min(len(kernel.source) % 200 + 16, 255), 0, 0) for kernel in kernels]


@pytest.fixture(scope="module")
def model_file(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "compiled.npz"
    train(corpus, SMALL, compiled=True).model.save(path)
    return path


def test_every_kernel_is_compiled_once_for_the_gpu_asked_about(questions: Questions) -> None:
    recording = Recording()
    pool = KernelPool(questions.queries[:30])
    facts = compiled_facts(pool, recording)
    assert len(facts) == len(pool.sources) == len(recording.asked)
    assert {kernel.source for kernel, _ in recording.asked} == set(pool.sources)
    assert all(capability.split(".")[0].isdecimal() for _, capability in recording.asked)


def test_evaluation_asks_the_compiler_and_says_so(corpus: Corpus, questions: Questions, model_file: Path) -> None:
    recording = Recording()
    options = Options(arguments={"model": str(model_file)}, resamples=50)
    done = evaluate_on("static-compiler", corpus, options, questions=questions, compiler=recording)
    assert not done.run.failures
    assert done.inputs == "source+compiler"
    assert recording.asked


def test_a_kernel_that_does_not_compile_is_answered_too(questions: Questions, model_file: Path) -> None:
    surrogate = CompiledStaticSurrogate(model=str(model_file), compiler=lambda kernels, _: [None] * len(kernels))
    made = surrogate.forecast(questions.queries[:5])
    assert all(forecast.probabilities is not None for forecast in made)


def test_without_a_compiler_it_refuses_before_the_first_query(corpus: Corpus, model_file: Path) -> None:
    with pytest.raises(UserError, match="static-compiler has no compiler"):
        CompiledStaticSurrogate(model=str(model_file)).fit_corpus(corpus)


def test_a_model_is_not_taken_for_the_other_kind(questions: Questions, model_file: Path) -> None:
    with pytest.raises(UserError, match="static-compiler"):
        StaticSurrogate(model=str(model_file)).forecast(questions.queries[:1])


def test_it_is_found_by_name_and_static_stays_with_sources() -> None:
    assert resolve("static-compiler").inputs == "source+compiler"  # type: ignore[attr-defined]
    assert resolve("static").inputs == "source"  # type: ignore[attr-defined]
