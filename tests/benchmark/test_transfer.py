"""A GPU left out of training: what is asked, what may be learnt from, and the baseline that speedups stay."""

import dataclasses
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kbench.benchmark.evaluate.command import EvaluateCommand
from kbench.benchmark.evaluate.evaluate import evaluate_on
from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.questions import build_questions
from kbench.benchmark.questions.asked import Tables
from kbench.benchmark.questions.build import training_pairs
from kbench.benchmark.questions.corpus_view import benchmark_of
from kbench.benchmark.questions.transfer import HeldOutGpu, TrainedOn
from kbench.benchmark.surrogates.baselines import PriorSurrogate, TransferSurrogate
from kbench.benchmark.surrogates.static.static import StaticSurrogate
from kbench.benchmark.training.examples import Material as Exported
from kbench.benchmark.training.examples import preferences
from kbench.loaders.corpus.corpus import EVERY_GPU, Corpus
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.schemas import Kernel, Question, QuestionKind, UnknownNameError, UserError, bins, from_dict
from kbench.schemas.gpus import partition_name
from kbench.schemas.ids import content_hash

WHOLE = "NVIDIA H200"
PART = partition_name(WHOLE, 64, 132)
FACTOR = 1.1
"""How much faster the partition's kernels are over their reference."""


@pytest.fixture(scope="module")
def two_gpus(corpus: Tables, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """The tests' corpus with the same kernels on a partition."""
    kernels = [from_dict(Kernel, row) for row in corpus.table("kernels").to_pylist()]
    questions = [from_dict(Question, row) for row in corpus.table("questions").to_pylist()]
    folder = tmp_path_factory.mktemp("transfer") / "corpus"
    with CorpusWriter(folder) as writer:
        writer.append("problems", corpus.table("problems"))
        writer.append("environments", corpus.table("environments"))
        writer.append("kernels", [*kernels, *map(on_the_partition, kernels)])
        writer.append("questions", [*questions, *map(question_on_the_partition, questions)])
    return Corpus.open(folder)


def on_the_partition(kernel: Kernel) -> Kernel:
    figures = {name: getattr(kernel, name) for name in ("speedup", "speedup_low", "speedup_high")}
    return dataclasses.replace(kernel, gpu=PART, **{name: v and FACTOR * v for name, v in figures.items()})


def question_on_the_partition(one: Question) -> Question:
    factor = FACTOR if one.kind is QuestionKind.LEVEL else 1.0
    figures = {name: factor * (getattr(one, name) or 0.0) for name in ("speedup", "speedup_low", "speedup_high")}
    identity, pool = content_hash("question", one.question_id, PART), one.pool and f"{one.pool} again"
    number = bins.bin_of(figures["speedup"])
    return dataclasses.replace(one, gpu=PART, question_id=identity, pool=pool, bin=number, **figures)


def test_training_sees_the_other_gpus_and_the_questions_are_about_the_one_left_out(two_gpus: Corpus) -> None:
    held_out = HeldOutGpu(two_gpus, PART)
    train = list(training_pairs(held_out))
    assert {query.gpu for query, _ in train} == {pair.gpu for _, pair in train} == {WHOLE}
    questions = build_questions(held_out)
    assert {query.gpu for query in questions.queries} == {PART}
    assert not {query.query_id for query, _ in train} & {query.query_id for query in questions.queries}
    whole = build_questions(HeldOutGpu(two_gpus, WHOLE))
    assert {query.gpu for query in whole.queries} == {WHOLE}
    assert questions.dataset != whole.dataset != two_gpus.fingerprint


def test_questions_are_about_one_gpu_and_training_is_about_all(two_gpus: Corpus) -> None:
    def asked(gpu: str | None) -> set[str]:
        return {query.gpu for query in build_questions(benchmark_of(two_gpus, gpu)).queries}

    assert (asked(None), asked(PART), asked(EVERY_GPU)) == ({WHOLE}, {PART}, {WHOLE, PART})
    assert (asked("H200"), asked("64 of 132 SMs")) == ({WHOLE}, {PART})
    assert {pair.gpu for _, pair in training_pairs(benchmark_of(two_gpus))} == {WHOLE, PART}
    with pytest.raises(UnknownNameError, match="64 of 132"):
        benchmark_of(two_gpus, "H100")


def test_what_is_said_of_training_is_about_the_gpu_asked(two_gpus: Corpus, corpus: Tables) -> None:
    alone = build_questions(benchmark_of(corpus))
    whole, part, every = (build_questions(benchmark_of(two_gpus, gpu)) for gpu in (None, PART, EVERY_GPU))
    assert (alone.gpu, whole.gpu, part.gpu, every.gpu) == (WHOLE, WHOLE, PART, None)
    assert whole.prior.tolist() == alone.prior.tolist()
    assert len({tuple(each.prior.tolist()) for each in (whole, part, every)}) == 3
    held_out = build_questions(HeldOutGpu(benchmark_of(two_gpus), PART))
    assert held_out.prior.tolist() == alone.prior.tolist(), "training has nothing of the GPU left out"
    priors = PriorSurrogate(), PriorSurrogate()
    for prior, seen in zip(priors, (corpus, two_gpus), strict=True):
        prior.fit_corpus(benchmark_of(seen))
    assert priors[0].forecast(whole.queries) == priors[1].forecast(whole.queries)


def test_a_measurement_costs_what_it_does_on_the_gpu_asked(two_gpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {"kernel_id": kernel, "gpu": gpu, "verify_s": 1.0, "time_s": seconds}
        for gpu, seconds in ((WHOLE, 1.0), (PART, 5.0)) for kernel in "ab"
    ]  # fmt: skip
    read = Corpus.batches

    def batches(self: Corpus, name: str, *, columns: list[str], **given: Any) -> Iterator[pa.Table]:
        if name != "measurements":
            yield from read(self, name, columns=columns, **given)
        for row in (row for row in rows if name == "measurements" and given.get("gpu", row["gpu"]) == row["gpu"]):
            yield pa.Table.from_pylist([row])

    monkeypatch.setattr(Corpus, "batches", batches)
    monkeypatch.setattr(Corpus, "configs", ("problems", "kernels", "questions", "environments", "measurements"))
    views = [benchmark_of(two_gpus, gpu) for gpu in (None, PART, EVERY_GPU)]
    assert [build_questions(view, limit=1).measure_seconds for view in views] == [2.0, 6.0, 4.0]


def test_a_run_about_another_gpu_is_not_written_over_the_first(two_gpus: Corpus, tmp_path: Path) -> None:
    (folder,) = two_gpus.folders

    def run(gpu: str | None) -> None:
        given = Options(dataset=str(folder), resamples=0, tracks=("forecast",), gpu=gpu)
        EvaluateCommand(["uniform"], given, out=tmp_path, report=False).run()

    run(None)
    assert json.loads((tmp_path / "results.json").read_text("utf-8"))["gpu"] == WHOLE
    run(WHOLE)
    for gpu, named in ((PART, "64 of 132"), (EVERY_GPU, "every GPU")):
        with pytest.raises(UserError, match=f"holds forecasts about {WHOLE} and this run asks about .*{named}"):
            run(gpu)


def test_each_gpu_has_a_default_folder(two_gpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (folder,) = two_gpus.folders
    given = Options(dataset=str(folder), resamples=0, tracks=("forecast",))
    for asked in ({}, {"gpu": EVERY_GPU}, {"gpu": "64 of 132"}, {"held_out_gpu": "64 of 132"}):
        EvaluateCommand(["uniform"], dataclasses.replace(given, **asked), report=False).run()
    found = {
        path.parent.name: json.loads(path.read_text("utf-8"))["gpu"]
        for path in (tmp_path / "runs" / "evaluate").glob("uniform*/results.json")
    }
    assert found == {
        "uniform": WHOLE,
        "uniform-on-all": None,
        "uniform-on-64-of-132": PART,
        "uniform-held-out-64-of-132": PART,
    }


def test_a_gpu_that_is_not_there_or_is_the_only_one_cannot_be_left_out(corpus: Tables, two_gpus: Corpus) -> None:
    with pytest.raises(UnknownNameError, match="64 of 132"):
        HeldOutGpu(two_gpus, "NVIDIA H200 (63 of 132 SMs)")
    assert (HeldOutGpu(two_gpus, "h200").gpu, HeldOutGpu(two_gpus, "64 of 132").gpu) == (WHOLE, PART)
    for unclear in ("NVIDIA", "H100"):
        with pytest.raises(UnknownNameError) as elsewhere:
            two_gpus.table("kernels", gpu=unclear)
        with pytest.raises(UnknownNameError, match=re.escape(str(elsewhere.value))):
            HeldOutGpu(two_gpus, unclear)
    with pytest.raises(UserError, match="measured on another GPU"):
        HeldOutGpu(corpus, WHOLE)


def test_transfer_answers_with_the_speedup_on_the_training_gpus(two_gpus: Corpus) -> None:
    held_out = HeldOutGpu(two_gpus, PART)
    surrogate = TransferSurrogate()
    surrogate.fit_corpus(held_out)
    questions = build_questions(held_out, tracks=["forecast"])
    answers = surrogate.forecast(questions.queries)
    pairs = questions.over_all_workloads().pairs
    assert [answers[at].speedup for at in pairs.query.tolist()] == pytest.approx(pairs.speedup.tolist())
    assert all(math.fsum(answer.probabilities or ()) == pytest.approx(1.0) for answer in answers)
    right = [np.argmax(one.probabilities or ()) + 1 == bins.bin_of(one.speedup or 0.0) for one in answers]
    assert np.mean(right) > 0.9


def test_transfer_says_what_it_looks_at_and_refuses_where_no_gpu_is_left_out(corpus: Tables) -> None:
    assert TransferSurrogate.inputs == "labels of other GPUs"
    with pytest.raises(UserError, match="none is left out"):
        TransferSurrogate().fit_corpus(corpus)


def test_evaluate_leaves_a_gpu_out_and_shows_unchanged_speedups(two_gpus: Corpus, tmp_path: Path) -> None:
    (folder,) = two_gpus.folders
    given = Options(dataset=str(folder), resamples=50, tracks=("forecast",), held_out_gpu="64 of 132")
    command = EvaluateCommand(["prior", "uniform"], given, out=tmp_path, report=False)
    answer = command.run()
    assert f"Transfer to {PART}" in answer.text
    assert answer.values["surrogates"][0]["transfer"]["held_out_gpu"] == PART
    prior, uniform = (one["transfer"]["skill_over"] for one in answer.values["surrogates"])
    assert uniform["skill"]["value"] < prior["skill"]["value"] < 0.0
    assert prior["skill"]["low"] <= prior["skill"]["value"] <= prior["skill"]["high"]
    written = json.loads((tmp_path / "prior" / "transfer.json").read_text("utf-8"))
    assert written == answer.values["surrogates"][0]["transfer"]
    unchanged = json.loads((tmp_path / "transfer" / "results.json").read_text("utf-8"))["tracks"]["forecast"]
    mine = answer.values["surrogates"][0]["tracks"]["forecast"]
    ratio = (1 - mine["skill"]["value"]) / (1 - unchanged["skill"]["value"])
    assert prior["skill"]["value"] == pytest.approx(1 - ratio)
    # It sees labels of the kernels asked about, so it is no entry; and what was written can be gone on from.
    assert not (tmp_path / "transfer" / "submission.json").exists()
    assert command.run().values["surrogates"][0]["transfer"] == written


def test_scores_have_a_slice_for_each_gpu_where_there_are_several(two_gpus: Corpus, corpus: Tables) -> None:
    views = (benchmark_of(two_gpus, EVERY_GPU), corpus)
    several, one = (evaluate_on("uniform", each, Options(resamples=0)).scored.slices for each in views)
    assert {score.slice for score in several if score.slice.startswith("gpu=")} == {f"gpu={WHOLE}", f"gpu={PART}"}
    assert not [score for score in one if score.slice.startswith("gpu=")]


def test_static_learns_anew_where_a_gpu_is_left_out(two_gpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    learnt: list[Any] = []
    monkeypatch.setattr(StaticSurrogate, "_trained", lambda self, corpus, splits: learnt.append(corpus))
    StaticSurrogate().fit_corpus(HeldOutGpu(two_gpus, PART))
    assert [one.training_gpus for one in learnt] == [(WHOLE,)]


def test_preferences_are_told_once_for_each_gpu(corpus: Tables, two_gpus: Corpus) -> None:
    told = [(row.gpu, row.chosen_id, row.rejected_id) for row in preferences(Exported(two_gpus, "train"))]
    once = [(row.chosen_id, row.rejected_id) for row in preferences(Exported(corpus, "train"))]
    assert once
    assert sorted(told) == sorted((gpu, *ids) for gpu in (WHOLE, PART) for ids in once)


def test_every_view_of_a_corpus_names_the_folders_that_hold_answers(two_gpus: Corpus) -> None:
    views = [benchmark_of(two_gpus), HeldOutGpu(two_gpus, PART), TrainedOn(two_gpus, two_gpus)]
    assert [set(view.folders) for view in views] == [set(two_gpus.folders)] * 3
    assert two_gpus.folders
