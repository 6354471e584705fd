"""Counted work that a dataset ships: `static-compiler` answers from it as from a compiler, and needs none."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest

from kbench.benchmark.evaluate.evaluate import evaluate_on
from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.evaluate.progress import Progress
from kbench.benchmark.problems import problem
from kbench.benchmark.questions import Questions
from kbench.benchmark.questions.asked import Tables
from kbench.benchmark.questions.transfer import WithoutValidation
from kbench.benchmark.surrogates.counted.counted import COMPILES, CountedSurrogate, Counting
from kbench.benchmark.surrogates.counted.shipped import ShippedWork, read_works
from kbench.benchmark.work.table import read_work_text, work_text
from kbench.schemas import DataError, Forecast, KernelSource, PairKind, PlanSummary, Query, from_dict, to_dict
from kbench.schemas.errors import install_command

from ..conftest import GPU
from .conftest import Recording, Refusing, bare, compiler, correct_kernels, plans_of, shipped_plans, work_of


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


def test_counted_work_stays_where_validation_is_asked_about(shipping: Tables) -> None:
    assert "validation" in {one.split for one in correct_kernels()}
    counting = Counting()
    counting.fit_corpus(WithoutValidation(shipping))
    assert counting.shipped == ShippedWork.of(shipping)


def test_kernels_without_work_go_to_the_compiler(asked: Questions, tmp_path: Path) -> None:
    left_out, recording = asked.queries[0].candidate_source, Recording()
    found, surrogate = answers(bare(tmp_path / "some", shipped_plans(left_out)), asked.queries, recording)
    assert set(recording.asked) == {left_out}
    assert found == CountedSurrogate(compiler=compiler).forecast(asked.queries)
    assert surrogate.remarks() == []


def test_without_a_compiler_frequencies_answer_and_one_line_counts_them(asked: Questions, tmp_path: Path) -> None:
    first = next(query for query in asked.queries if query.kind is not PairKind.REFERENCE)
    corpus = bare(tmp_path / "some", shipped_plans(first.candidate_source))
    found, surrogate = answers(corpus, asked.queries, Refusing())
    answer = next(one for one in found if one.query_id == first.query_id)
    assert (answer.confidence, answer.speedup) == (0.0, None)
    # That the dataset has no plan of a kernel must not say that it is wrong.
    assert {one.p_valid for one in found} == {COMPILES}
    (remark,) = surrogate.remarks()
    assert "one of 1 kernels" in remark
    assert install_command("gpu") in remark
    assert "\n" not in remark


def test_work_of_some_workloads_is_not_taken_for_that_of_all(shipping: Tables, tmp_path: Path) -> None:
    several = next(one for one in correct_kernels() if len(problem(one.problem_id).sizes) > 1)
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
    corpus = bare(tmp_path / "damaged", [dataclasses.replace(row, work_json=text) for row in shipped_plans()])
    with pytest.raises(DataError, match=r"^kernel \w+ workload .*counted work .*; restore the file") as raised:
        answers(corpus, asked.queries, None)
    assert "\n" not in str(raised.value)


def test_rows_of_before_have_no_work_and_still_load(tmp_path: Path) -> None:
    old = {name: value for name, value in to_dict(shipped_plans()[0]).items() if name != "work_json"}
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


def test_an_evaluation_says_what_nobody_counted_and_keeps_such_answers_apart(tmp_path: Path) -> None:
    """A run with a compiler must not find the frequencies of a run without one."""
    stages: list[str] = []

    class Told(Progress):
        def stage(self, text: str) -> None:
            stages.append(text)

    corpus = bare(tmp_path / "some", [row for one in correct_kernels()[::2] for row in plans_of(one)])
    options = Options(resamples=10)
    lacking = evaluate_on("static-compiler", corpus, options, out=tmp_path / "out", progress=Told())
    assert sum("without counted work" in stage for stage in stages) == 1
    whole = evaluate_on("static-compiler", corpus, options, out=tmp_path / "out", compiler=compiler)
    assert whole.run.reused == 0
    assert any(one.confidence == 0 for one in lacking.run.forecasts)
    assert not any(one.confidence == 0 for one in whole.run.forecasts)
