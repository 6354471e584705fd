"""Counted work that a dataset ships: `static-compiler` answers from it as from a compiler, and needs none."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest

from kbench.benchmark.evaluate.evaluate import SilentProgress, evaluate_on
from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.problems import problem
from kbench.benchmark.questions import Questions, build_questions
from kbench.benchmark.questions.asked import Tables
from kbench.benchmark.questions.corpus_view import benchmark_of
from kbench.benchmark.surrogates.counted.counted import COMPILES, CountedSurrogate
from kbench.benchmark.surrogates.counted.shipped import ShippedWork, read_works
from kbench.benchmark.surrogates.protocol import CompilerFacts
from kbench.benchmark.work.table import read_work_text, work_text
from kbench.benchmark.work.totals import LaunchWork, Totals, Traffic, Work
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import (
    DataError,
    Forecast,
    Kernel,
    KernelSource,
    MissingDependencyError,
    PairKind,
    PlanSummary,
    Query,
    from_dict,
    to_dict,
)

from ..conftest import GPU, invented_tables, written


def work_of(source: str, place: int) -> list[Work]:
    """Two configurations of a kernel, the second slower; what they do follows from the shown text."""
    amount = 1e3 * len(source) + 2e3 * (hash_of(source) % 97) + place
    traffic = (Traffic(4e6, amount, 1.5 * amount, amount / 3, (1.0, 0.25, 0.0), 0.5),)
    totals = [
        Totals(fma=amount * more, memory=amount / 7, load_sectors=amount, load_requests=amount) for more in (1, 2)
    ]
    return [Work((LaunchWork("f", (1320, 1, 1), 256, 64, 0, 0, one, traffic=traffic),), fills=1) for one in totals]


def hash_of(source: str) -> int:
    return sum(source.encode())


def plans_of(kernel: Kernel) -> list[PlanSummary]:
    """Rows of a kernel with the work of all workloads of its problem."""
    return [
        PlanSummary(
            kernel_id=kernel.kernel_id,
            problem_id=kernel.problem_id,
            gpu=GPU,
            workload=size.name,
            configurations=2,
            allocated_bytes=0,
            buffers=1,
            fills=1,
            copies=0,
            registers=32,
            spill_bytes=0,
            launches=(),
            work_json=work_text(work_of(kernel.normalised, place)),
        )
        for place, size in enumerate(problem(kernel.problem_id).sizes)
    ]


def compiler(kernels: Sequence[KernelSource], capability: str) -> list[CompilerFacts | None]:
    """Says of each text what the plans ship of it."""
    sizes = [problem(kernel.problem_id).sizes for kernel in kernels]
    return [
        CompilerFacts(32, 0, 0, {size.name: work_of(kernel.source, place) for place, size in enumerate(each)})
        for kernel, each in zip(kernels, sizes, strict=True)
    ]


class Refusing:
    """A compiler without the packages it needs; remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[KernelSource] = []

    def __call__(self, kernels: Sequence[KernelSource], capability: str) -> list[CompilerFacts | None]:
        self.asked += kernels
        raise MissingDependencyError("torch", "gpu", "compiling kernels")


@pytest.fixture(scope="module")
def shipping_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus whose correct kernels have counted work."""
    tables = invented_tables(5, 6, 12)
    tables["plans"] = [row for one in tables["kernels"] if one.speedup is not None for row in plans_of(one)]
    return written(tmp_path_factory.mktemp("shipping") / "corpus", tables)


@pytest.fixture(scope="module")
def shipping(shipping_path: Path) -> Tables:
    return benchmark_of(Corpus.open(shipping_path))


@pytest.fixture(scope="module")
def asked(shipping: Tables) -> Questions:
    return build_questions(shipping)


def bare(path: Path, change: Sequence[PlanSummary]) -> Tables:
    """The same corpus with other plans."""
    return benchmark_of(Corpus.open(written(path, invented_tables(5, 6, 12) | {"plans": change})))


def answers(corpus: Tables, queries: Sequence[Query], compiler: object) -> tuple[list[Forecast], CountedSurrogate]:
    surrogate = CountedSurrogate(compiler=compiler)
    surrogate.fit_corpus(corpus)
    return surrogate.forecast(queries), surrogate


def test_shipped_work_gives_the_forecasts_of_a_compiler_and_none_is_asked(shipping: Tables, asked: Questions) -> None:
    compiled = CountedSurrogate(compiler=compiler).forecast(asked.queries)
    refusing = Refusing()
    found, surrogate = answers(shipping, asked.queries, refusing)
    assert found == compiled
    assert not refusing.asked
    assert surrogate.remarks() == []
    assert {one.confidence for one in found} == {None}
    assert answers(shipping, asked.queries, None)[0] == compiled


def test_kernels_without_work_go_to_the_compiler(shipping: Tables, asked: Questions, tmp_path: Path) -> None:
    left_out = asked.queries[0].candidate_source
    kernels = [one for one in invented_tables(5, 6, 12)["kernels"] if one.speedup is not None]
    corpus = bare(tmp_path / "some", [row for one in kernels if one.normalised != left_out for row in plans_of(one)])
    given: list[str] = []

    def recording(kernels: Sequence[KernelSource], capability: str) -> list[CompilerFacts | None]:
        given.extend(kernel.source for kernel in kernels)
        return compiler(kernels, capability)

    found, surrogate = answers(corpus, asked.queries, recording)
    assert set(given) == {left_out}
    assert found == CountedSurrogate(compiler=compiler).forecast(asked.queries)
    assert surrogate.remarks() == []


def test_without_a_compiler_they_are_answered_with_frequencies_and_counted_in_one_line(
    asked: Questions, tmp_path: Path
) -> None:
    first = next(query for query in asked.queries if query.kind is not PairKind.REFERENCE)
    kernels = [one for one in invented_tables(5, 6, 12)["kernels"] if one.speedup is not None]
    corpus = bare(
        tmp_path / "some", [row for one in kernels if one.normalised != first.candidate_source for row in plans_of(one)]
    )
    found, surrogate = answers(corpus, asked.queries, Refusing())
    answer = next(one for one in found if one.query_id == first.query_id)
    assert (answer.confidence, answer.speedup) == (0.0, None)
    # That the dataset has no plan of a kernel must not say that it is wrong.
    assert {one.p_valid for one in found} == {COMPILES}
    (remark,) = surrogate.remarks()
    assert "one of 1 kernels" in remark
    assert "pip install 'kbench-gpu[gpu]'" in remark
    assert "\n" not in remark


def test_work_of_some_workloads_is_not_taken_for_that_of_all(shipping: Tables, tmp_path: Path) -> None:
    kernels = [one for one in invented_tables(5, 6, 12)["kernels"] if one.speedup is not None]
    several = next(one for one in kernels if len(problem(one.problem_id).sizes) > 1)
    assert not ShippedWork.of(bare(tmp_path / "some", plans_of(several)[:1]))
    assert ShippedWork.of(bare(tmp_path / "all", plans_of(several)))


def test_another_architecture_is_compiled_for(shipping: Tables, asked: Questions) -> None:
    shipped, query = ShippedWork.of(shipping), asked.queries[0]
    kernel = KernelSource(query.problem_id, query.backend, query.candidate_source)
    assert shipped.facts(kernel, "9.0") is not None
    assert shipped.facts(kernel, "8.0") is None


@pytest.mark.parametrize(
    "text", ["{", "[]", "[7]", '[{"launches": []}]', work_text(work_of("x", 0)).replace("1320", "NaN")]
)
def test_damaged_work_is_refused_in_a_line_that_names_the_kernel(text: str, asked: Questions, tmp_path: Path) -> None:
    kernels = [one for one in invented_tables(5, 6, 12)["kernels"] if one.speedup is not None]
    rows = [dataclasses.replace(row, work_json=text) for one in kernels for row in plans_of(one)]
    corpus = bare(tmp_path / "damaged", rows)
    with pytest.raises(DataError, match=r"^kernel \w+ workload .*counted work .*; restore the file") as raised:
        answers(corpus, asked.queries, None)
    assert "\n" not in str(raised.value)


def test_rows_of_before_have_no_work_and_still_load(tmp_path: Path) -> None:
    kernel = next(one for one in invented_tables(5, 6, 12)["kernels"] if one.speedup is not None)
    old = {name: value for name, value in to_dict(plans_of(kernel)[0]).items() if name != "work_json"}
    row = from_dict(PlanSummary, old)
    assert row.work_json is None
    corpus = bare(tmp_path / "old", [row])
    assert read_works(corpus, GPU) == {}
    assert not ShippedWork.of(corpus)


def test_the_text_of_work_gives_it_back_without_lines_and_zeros() -> None:
    (first, second) = work_of("some text", 1)
    text = work_text([first, second])
    assert read_work_text(text, "here") == [first, second]
    assert "lines" not in text
    assert '"double"' not in text
    assert "1320.0" not in text


def test_an_evaluation_says_what_nobody_counted_and_keeps_such_answers_apart(
    shipping_path: Path, tmp_path: Path
) -> None:
    """A run with a compiler must not find the frequencies of a run without one."""

    stages: list[str] = []

    class Told(SilentProgress):
        def stage(self, text: str) -> None:
            stages.append(text)

    kernels = [one for one in invented_tables(5, 6, 12)["kernels"] if one.speedup is not None]
    corpus = bare(tmp_path / "some", [row for one in kernels[::2] for row in plans_of(one)])
    options = Options(resamples=10)
    lacking = evaluate_on("static-compiler", corpus, options, out=tmp_path / "out", progress=Told())
    assert sum("without counted work" in stage for stage in stages) == 1
    whole = evaluate_on("static-compiler", corpus, options, out=tmp_path / "out", compiler=compiler)
    assert whole.run.reused == 0
    assert any(one.confidence == 0 for one in lacking.run.forecasts)
    assert not any(one.confidence == 0 for one in whole.run.forecasts)
