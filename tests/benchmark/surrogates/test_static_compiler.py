"""`static-compiler`: forecasts from counted work, through a compiler that says what it is told."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kbench.benchmark.evaluate.evaluate import evaluate_on
from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.questions import Questions
from kbench.benchmark.surrogates.broad import BROAD
from kbench.benchmark.surrogates.counted import fit as fitting
from kbench.benchmark.surrogates.counted.counted import CountedSurrogate
from kbench.benchmark.surrogates.counted.model import COLUMNS, CountedModel, kernel_row
from kbench.benchmark.surrogates.protocol import CompilerFacts
from kbench.benchmark.work.gpus import H200
from kbench.benchmark.work.table import work_text
from kbench.benchmark.work.times import Fitted, plan_time_us
from kbench.benchmark.work.totals import LaunchWork, Totals, Work
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import DataError, KernelSource, PairKind, Query, UserError


def work_of(instructions: float, error: str | None = None) -> Work:
    """A kernel that issues so many instructions in each block."""
    block = Totals(fma=instructions, memory=instructions / 10, load_sectors=instructions, load_requests=instructions)
    return Work((LaunchWork("f", (1320, 1, 1), 256, 64, 0, 0, block, error=error),))


def facts(instructions: float) -> CompilerFacts:
    return CompilerFacts(64, 0, 0, {"large": [work_of(instructions)]})


class Recording:
    """A compiler that counts as many instructions as the text is long and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[KernelSource, str]] = []

    def __call__(self, kernels: Sequence[KernelSource], capability: str) -> list[CompilerFacts | None]:
        self.asked += [(kernel, capability) for kernel in kernels]
        return [facts(1e3 * len(kernel.source)) for kernel in kernels]


def pair(questions: Questions) -> Query:
    """A question about two kernels on a GPU of the table."""
    kernels = next(query for query in questions.queries if query.kind is not PairKind.REFERENCE)
    return dataclasses.replace(kernels, gpu="NVIDIA H200")


def test_evaluation_asks_the_compiler_and_says_so(corpus: Corpus, questions: Questions) -> None:
    recording = Recording()
    done = evaluate_on("static-compiler", corpus, Options(resamples=50), questions=questions, compiler=recording)
    assert not done.run.failures
    assert done.inputs == "source+compiler"
    assert recording.asked


def test_the_kernel_that_does_less_is_forecast_to_be_faster(questions: Questions) -> None:
    query = pair(questions)

    def compiler(kernels: Sequence[KernelSource], _: str) -> list[CompilerFacts | None]:
        return [facts(1e6 if kernel.source == query.anchor_source else 1e5) for kernel in kernels]

    swapped = dataclasses.replace(query, anchor_source=query.candidate_source, candidate_source=query.anchor_source)
    faster, slower = CountedSurrogate(compiler=compiler).forecast([query, swapped])
    assert faster.speedup > 2 > 0.5 > slower.speedup
    assert faster.speedup * slower.speedup == pytest.approx(1)
    assert sum(faster.probabilities) == pytest.approx(1)
    assert sum(faster.probabilities[4:]) > 0.5


@pytest.mark.parametrize(
    ("gpu", "known"),
    [
        ("NVIDIA H200", None),
        ("NVIDIA H200", CompilerFacts(64, 0, 0)),
        ("NVIDIA H200", CompilerFacts(64, 0, 0, {"large": [work_of(1e5, error="too long")]})),
        ("a GPU nobody knows", facts(1e6)),
    ],
)
def test_what_is_not_counted_has_no_confidence(questions: Questions, gpu: str, known: CompilerFacts | None) -> None:
    query = dataclasses.replace(pair(questions), gpu=gpu)
    (answer,) = CountedSurrogate(compiler=lambda kernels, _: [known] * len(kernels)).forecast([query])
    assert answer.probabilities == pytest.approx(CountedModel.load().spreads["kernels"].prior)
    assert answer.speedup is None
    assert answer.confidence == 0
    assert (answer.p_valid or 0) < 0.5 if known is None else (answer.p_valid or 0) > 0.5


def test_without_a_compiler_or_with_its_gpu_held_out_it_refuses_before_the_first_query(corpus: Corpus) -> None:
    with pytest.raises(UserError, match="static-compiler has no compiler"):
        CountedSurrogate().fit_corpus(corpus)

    class HeldOut:
        training_gpus = ("NVIDIA A100",)

    with pytest.raises(UserError, match="learnt from NVIDIA H200, which is held out"):
        CountedSurrogate(compiler=Recording()).fit_corpus(HeldOut())


def test_a_row_names_every_column_and_takes_the_fastest_configuration() -> None:
    fast, slow = work_of(1e4), work_of(1e6)
    row = kernel_row({"large": [slow, fast]}, H200, Fitted(), {})
    assert len(row) == len(COLUMNS)
    assert row[0] == pytest.approx(np.log2(plan_time_us(fast, H200, Fitted())))
    assert kernel_row({"large": [fast], "small": [work_of(1e4, error="too long")]}, H200, Fitted(), {}) is None
    moved = kernel_row({"large": [fast]}, H200, Fitted(), {"large": 1e9})
    assert 2.0 ** moved[0] == pytest.approx(1e9 / (1e3 * H200.dram_gbps * Fitted().dram_share), rel=0.02)
    assert moved[1:].tolist() == row[1:].tolist()


def test_a_file_that_is_no_model_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    path.write_bytes(b"no model")
    with pytest.raises(DataError, match=r"cannot be read .* make it with"):
        CountedModel.load(path)


def test_a_fitted_model_forecasts_its_training(corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels whose instructions are as their measured times: the model finds that out, and survives the disk."""
    rows = corpus.table("kernels", split="train").to_pylist()
    gpu = rows[0]["gpu"]
    counted = [row for row in rows if row["runtime_us"] is not None and row["gpu"] == gpu]
    totals = tmp_path / "totals.parquet"
    columns = {
        "kernel_id": [row["kernel_id"] for row in counted],
        "workload": ["large"] * len(counted),
        "work_json": [work_text([work_of(1e3 * row["runtime_us"])]) for row in counted],
    }
    pq.write_table(pa.table(columns), totals)
    monkeypatch.setattr(fitting, "GPU", gpu)
    monkeypatch.setattr(fitting, "TREES", 5)
    material = fitting.read_material(fitting.read_works([totals]), corpus)
    assert len(material.kernel_ids) == len({row["kernel_id"] for row in counted})
    # The corpus has one family; its problems stand for families.
    model, report = fitting.fit(dataclasses.replace(material, fold=material.problem % fitting.FOLDS))
    model.save(tmp_path / "model.npz")
    again = CountedModel.load(tmp_path / "model.npz")
    rows_again = fitting.kernel_rows(material, again.fitted)
    assert again.times(rows_again) == pytest.approx(model.times(rows_again), abs=1e-2)
    assert report["white_box_order"]["spearman"] > 0.9


def foreign(questions: Questions, **fields: object) -> Query:
    """A question about a kernel of a problem that is not ours, against PyTorch."""
    workloads = json.dumps([{"name": "w", "inputs": ["float32[8]"], "outputs": [], "min_bytes": 64, "flops": 0}])
    asked = {"problem_id": "elsewhere", "kind": PairKind.REFERENCE, "workloads_json": workloads} | fields
    return dataclasses.replace(pair(questions), anchor_source="y" * 4000, candidate_source="x" * 1000, **asked)


def test_a_foreign_kernel_is_counted_with_its_workloads_and_so_is_its_reference(questions: Questions) -> None:
    recording = Recording()
    query = foreign(questions)
    (answer,) = CountedSurrogate(compiler=recording).forecast([query])
    assert {kernel.workloads_json for kernel, _ in recording.asked} == {query.workloads_json}
    assert {kernel.source for kernel, _ in recording.asked} == {query.candidate_source, query.anchor_source}
    assert answer.speedup > 1.5


def test_an_answer_about_a_foreign_problem_is_wider_than_the_same_work_gives_at_home(questions: Questions) -> None:
    """Every bin has at least a quarter of the broad forecast."""
    model = CountedModel.load()
    (answer,) = CountedSurrogate(compiler=Recording()).forecast([foreign(questions)])
    spread = model.spreads["reference"]
    shares = spread.answer(np.log2([answer.speedup]) / spread.slope, np.zeros(1))[1][0]
    expected = 0.75 * shares + 0.25 * BROAD[PairKind.REFERENCE]
    assert answer.probabilities == pytest.approx(expected, abs=1e-6)
    assert min(answer.probabilities) > max(0.03, shares.min())


def test_a_foreign_kernel_that_cannot_be_counted_does_what_a_compiled_reference_does(questions: Questions) -> None:
    asked: list[str] = []

    def compiler(kernels: Sequence[KernelSource], capability: str) -> list[CompilerFacts | None]:
        asked.extend(kernel.source for kernel in kernels)
        found = {"x": None, "y": facts(4e6)}
        return [facts(1e6) if "torch.compile" in kernel.source else found[kernel.source[0]] for kernel in kernels]

    (answer,) = CountedSurrogate(compiler=compiler).forecast([foreign(questions)])
    assert any("torch.compile" in source for source in asked)
    assert answer.speedup > 1.5
    assert answer.p_valid > 0.5


def test_without_shapes_no_compiler_is_asked_and_the_answer_is_broad(questions: Questions) -> None:
    recording = Recording()
    bare = json.dumps([{"name": "w", "inputs": [], "outputs": [], "min_bytes": 0, "flops": 0}])
    (answer,) = CountedSurrogate(compiler=recording).forecast([foreign(questions, workloads_json=bare)])
    assert not recording.asked
    assert answer.confidence == 0.0
    assert answer.speedup is None
    assert answer.probabilities == tuple(BROAD[PairKind.REFERENCE].tolist())
