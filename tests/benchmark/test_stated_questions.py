"""What a corpus states in its questions is what is asked, shown, learnt from and scored."""

import dataclasses
import json
import runpy
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from kbench.benchmark.evaluate.evaluate import evaluate_on
from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.metrics.bootstrap import Figure
from kbench.benchmark.metrics.registry import headline
from kbench.benchmark.questions.answers import packed_answers, read_answers
from kbench.benchmark.questions.asked import Tables
from kbench.benchmark.questions.build import training_pairs
from kbench.benchmark.questions.corpus_view import benchmark_of
from kbench.benchmark.scoring.probes import probe_scores
from kbench.benchmark.scoring.score import BootstrapSettings
from kbench.benchmark.surrogates.forecasts import to_arrow
from kbench.benchmark.surrogates.llm import render
from kbench.benchmark.training.formats import training_rows
from kbench.generation.assembly.assemble import private_edition
from kbench.leaderboard.scoring.audit import audit_text, audited
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import PairKind, Status, UserError, bins

from .conftest import invented_tables, written

SCORE = Path(__file__).parents[2] / "examples" / "score.py"


def rows(corpus: Tables, split: str) -> list[dict[str, Any]]:
    return list(corpus.table("questions", split=split).to_pylist())


def test_the_questions_asked_are_the_rows_stated(corpus: Tables, secret: str) -> None:
    asked = Options().questions(corpus)
    stated = {row["question_id"]: row for row in rows(corpus, "test")}
    assert asked.tracks == ("forecast", "edit", "rank", "select")
    assert [query.query_id for query in asked.queries] == sorted(stated)
    kinds = Counter(row["kind"] for row in stated.values() if row["workload"] is None)
    assert min(kinds["edit"], kinds["pair"], kinds["level"]) > 10
    assert len(asked.pools) == kinds["level"]
    assert asked.counted_pairs.sum() == kinds["edit"] + kinds["pair"] < len(asked.pairs)
    sources = {row["kernel_id"]: row["normalised"] for row in corpus.table("kernels").to_pylist()}
    for query in asked.queries:
        row = stated[query.query_id]
        assert query.candidate_source == sources[row["candidate_id"]]
        assert secret not in query.candidate_source + query.anchor_source
        names = [each["name"] for each in json.loads(query.workloads_json)]
        assert row["workload"] is None or names == [row["workload"]]


def test_core_and_limits_are_parts_of_the_same_rows(corpus: Tables) -> None:
    core = Options(subset="core").questions(corpus)
    assert {query.query_id for query in core.queries} == {r["question_id"] for r in rows(corpus, "test") if r["core"]}
    assert len(Options(limit=7).questions(corpus).queries) == 7
    with pytest.raises(UserError, match="holds no question"):
        Options(split="test_near").questions(corpus)


@pytest.mark.parametrize("shots", [0, 8])
def test_kernels_not_asked_about_are_not_held(corpus: Tables, monkeypatch: pytest.MonkeyPatch, shots: int) -> None:
    whole, parts, read = Corpus.table, Corpus.batches, Counter[str]()

    def table(self: Corpus, name: str = "kernels", **given: Any) -> Any:
        assert name not in ("kernels", "measurements"), f"all rows of {name} at once"
        assert name != "questions" or given.get("split") == "test", "questions of every split at once"
        return whole(self, name, **given)

    def batches(self: Corpus, name: str = "kernels", **given: Any) -> Any:
        read[name] += 1
        assert "source" not in given["columns"]
        return parts(self, name, **given)

    monkeypatch.setattr(Corpus, "table", table)
    monkeypatch.setattr(Corpus, "batches", batches)
    options = Options(tracks=("forecast",), resamples=5, shots=shots)
    asked = options.questions(corpus)
    assert evaluate_on("prior", corpus, options, questions=asked).answered
    assert read["measurements"] == 0 < min(read["kernels"], read["questions"])
    assert Options(limit=1).questions(corpus).measure_seconds is None
    assert read["measurements"] == 1


def test_shots_show_known_kernels_that_no_question_is_about(corpus: Tables) -> None:
    eight, two = (Options(shots=shots).questions(corpus) for shots in (8, 2))
    assert [query.query_id for query in eight.queries] == [query.query_id for query in two.queries]
    about = {(q.problem_id, source) for q in eight.queries for source in (q.candidate_source, q.anchor_source)}
    for many, few in zip(eight.queries, two.queries, strict=True):
        assert few.known == many.known[:2]
        assert len(few.known) == 2
        assert not {(many.problem_id, known.source) for known in many.known} & about
    assert (eight.pairs.kind == PairKind.REFERENCE).any(), "the level is asked where it can be known"


def test_training_reads_the_training_rows(corpus: Tables) -> None:
    pairs = list(training_pairs(corpus, ["train"]))
    assert len(pairs) == sum(row["workload"] is None for row in rows(corpus, "train"))
    assert {query.kind for query, _ in pairs} == set(PairKind)
    assert all(question.bin == bins.bin_of(question.speedup or 0.0) for _, question in pairs)
    correct = corpus.table("kernels", split="train", columns=["status"]).column("status").to_pylist().count(Status.OK)
    assert sum(query.kind is PairKind.REFERENCE for query, _ in pairs) == correct


def test_a_private_edition_states_no_answer_and_is_scored_with_its_second_file(corpus: Tables, tmp_path: Path) -> None:
    tables = invented_tables()
    run_of = {one.kernel_id: one.run_id for one in tables["kernels"]}
    by_kernel = {name: [SimpleNamespace(kernel_id=key, run_id=run) for key, run in run_of.items()]
                 for name in ("measurements", "repeats", "plans", "counters", "events")}  # fmt: skip
    private, held_out = private_edition(tables | by_kernel)
    kept = {one.kernel_id for one in private["measurements"]}
    shown = {key for one in held_out for key in one.known_ids}
    assert {one.kernel_id for one in private["kernels"] if one.split == "test" and one.status} == shown
    assert kept & {one.kernel_id for one in tables["kernels"] if one.split == "test"} == shown
    assert {one.run_id for one in private["events"]} < set(run_of.values())
    hidden = benchmark_of(Corpus.open(written(tmp_path / "corpus", {name: private[name] for name in tables})))
    asked = hidden.table("questions", split="test")
    assert asked.column("speedup").null_count == asked.num_rows == len(rows(corpus, "test"))
    unscored = evaluate_on("prior", hidden, Options(resamples=1))
    assert unscored.answered
    assert all(one.value is None or one.rows == 0 for one in unscored.scored.scores() if one.track != "rank")
    (tmp_path / "answers.parquet").write_bytes(packed_answers(held_out))
    answers = read_answers(tmp_path / "answers.parquet")
    whole = benchmark_of(Corpus.open(tmp_path / "corpus"), None, answers)
    options = Options(resamples=1, shots=2)
    public, private_scores = (evaluate_on("length", one, options).scored.scores() for one in (corpus, whole))
    # How long a kernel takes stays hidden, so that slices by runtime are all that is lost.
    assert {one for one in public if "runtime" not in one.slice} == {
        one for one in private_scores if "runtime" not in one.slice
    }


@pytest.mark.parametrize(("split", "shots", "subset"), [("train", 0, None), ("test", 0, None), ("test", 8, "core")])
def test_exported_prompts_are_the_questions_stated(
    corpus_path: Path, corpus: Tables, split: str, shots: int, subset: str | None
) -> None:
    exported = {
        row.question_id: row for row in training_rows("trl-prompt", split, path=corpus_path, shots=shots, subset=subset)
    }
    stated = {row["question_id"]: row for row in rows(corpus, split) if subset is None or row["core"]}
    assert set(exported) == set(stated)
    for key, row in stated.items():
        one = exported[key]
        assert (one.kind, one.workload) == (row["kind"], row["workload"])
        assert (one.core, one.bin) == (row["core"], row["bin"])
    if split == "test":
        asked = Options(shots=shots, subset=subset).questions(corpus)
        assert {query.query_id: render(query) for query in asked.queries} == {
            key: row.prompt[1].content for key, row in exported.items()
        }


def test_overall_is_the_mean_of_the_headlines_between_floor_and_ceiling(corpus: Tables) -> None:
    asked = Options().questions(corpus)
    prior = evaluate_on("prior", corpus, Options(resamples=50), questions=lambda: asked).scored
    assert prior.overall.value == pytest.approx(0.0, abs=0.02)
    raised = {track: {**of, headline(track).name: Figure(prior.ceilings[track][headline(track).name], np.ones(50))}
              for track, of in prior.figures.items()}  # fmt: skip
    best = dataclasses.replace(prior, figures=raised).overall
    assert best.value == pytest.approx(1.0)
    unscored = {"edit": {headline("edit").name: float("nan")}}
    three = dataclasses.replace(prior, figures=raised, floors={**prior.floors, **unscored}).overall
    assert three.value == pytest.approx(1.0), "a track that the questions cannot score is left out"


def test_probes_learn_what_their_features_tell_and_no_more(corpus: Tables) -> None:
    """Here speed follows from numbers in the source; how often a kernel is asked about says nothing."""
    questions = Options().questions(corpus)
    report = audited(corpus, questions, {})
    assert set(report) == {"forecast", "edit", "rank", "select", "overall"}
    probes = report["rank"]["probes"]
    assert set(probes) == {"source-free", "author", "layout", "names"}
    assert probes["author"]["value"] == 0.0, "a pool has one author class"
    assert abs(probes["source-free"]["value"]) < 0.3
    assert "RANK spearman" in audit_text(report)
    told: list[str] = []
    for asked in (questions, dataclasses.replace(questions, gpu="another")):
        probe_scores(corpus, asked, BootstrapSettings(resamples=0), tell=told.append)
    assert told == ["probes", "probes learn test, which takes a minute once; their answers are kept"]


@pytest.mark.parametrize("surrogate", ["prior", "length", "nearest"])
def test_a_page_of_pandas_agrees(corpus_path: Path, corpus: Tables, surrogate: str, tmp_path: Path) -> None:
    evaluation = evaluate_on(surrogate, corpus, Options(resamples=20))
    table = to_arrow(evaluation.run.forecasts).to_pandas()
    every = pd.read_parquet(corpus_path / "questions")
    found = runpy.run_path(str(SCORE))["score"](every[every.split == "test"], every[every.split == "train"], table)
    figures = {name: figure.value for of in evaluation.scored.figures.values() for name, figure in of.items()}
    assert len(found) == 8
    assert found == pytest.approx({name: figures[name] for name in found}, abs=1e-9)


@pytest.mark.parametrize(
    ("change", "split", "message"),
    [
        ({}, "tset", "no question of split 'tset' is answered; splits: "),
        ({"query_id": "other"}, "test", "no question of split 'test' is answered"),
        ({"probabilities": [0.25] * 8}, "test", "\n0 of "),
        (None, "test", "cannot score (FileNotFoundError): "),
    ],
)
def test_the_page_of_pandas_says_what_is_wrong_in_a_line(
    corpus_path: Path, corpus: Tables, tmp_path: Path, change: dict[str, Any] | None, split: str, message: str
) -> None:
    answers = pd.DataFrame({"query_id": [row["question_id"] for row in rows(corpus, "test")]})
    answers["probabilities"] = [[0.125] * 8] * len(answers)
    for name, value in (change or {}).items():
        answers[name] = [value] * len(answers)
    if change is not None:
        answers.to_parquet(tmp_path / "f.parquet")
    words = [sys.executable, str(SCORE), str(corpus_path), str(tmp_path / "f.parquet"), split]
    said = subprocess.run(words, capture_output=True, text=True, check=False).stderr
    assert message in f"\n{said}"
    assert "Traceback" not in said
    assert len(said.splitlines()) == 1
