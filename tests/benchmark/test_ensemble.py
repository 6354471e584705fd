"""Repeats averaged into one forecast per query: the files say what was scored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kbench.benchmark.evaluate.evaluate import evaluate_on
from kbench.benchmark.evaluate.folder import write_folder
from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.questions import Questions
from kbench.benchmark.surrogates.forecasts import align, ensembled, read_forecasts
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import Forecast

IDS = ["a" * 32, "b" * 32, "c" * 32]
FIRST, LAST = (1.0,) + (0.0,) * 7, (0.0,) * 7 + (1.0,)
TWICE = """
from kbench.schemas import Forecast

class Twice:
    repeats = 2

    def forecast(self, queries):
        shares = ((1.0,) + (0.0,) * 7, (0.0,) * 7 + (1.0,))
        return [Forecast(query_id=q.query_id, repeat=r, probabilities=shares[r]) for q in queries for r in (0, 1)]
"""


def test_the_repeats_that_answered_are_averaged() -> None:
    first, second, third = ensembled(
        [
            Forecast(query_id=IDS[0], repeat=0, probabilities=FIRST, speedup=1.0, p_valid=0.5, input_tokens=3),
            Forecast(query_id=IDS[0], repeat=1, probabilities=LAST, speedup=4.0, input_tokens=4, elapsed_s=2.0),
            Forecast(query_id=IDS[1], repeat=0, failure="no"),
            Forecast(query_id=IDS[1], repeat=1, probabilities=FIRST),
            Forecast(query_id=IDS[2], repeat=0, failure="never", elapsed_s=1.0),
            Forecast(query_id=IDS[2], repeat=1, failure="no", elapsed_s=1.0),
        ]
    )
    assert first.probabilities == (0.5, 0, 0, 0, 0, 0, 0, 0.5)
    assert (first.repeat, first.p_valid, first.input_tokens, first.elapsed_s) == (0, 0.5, 7, 2.0)
    assert first.speedup == pytest.approx(2.0)
    assert second.probabilities == FIRST
    assert (third.failure, third.probabilities, third.elapsed_s) == ("never", None, 2.0)


def test_what_nobody_stated_stays_unknown() -> None:
    (one,) = ensembled([Forecast(query_id=IDS[0], repeat=r, probabilities=FIRST) for r in (0, 1)])
    assert (one.input_tokens, one.output_tokens, one.elapsed_s, one.speedup, one.p_valid) == (None,) * 5


def test_the_folder_holds_the_forecasts_that_were_scored(corpus: Corpus, questions: Questions, tmp_path: Path) -> None:
    model = tmp_path / "twice.py"
    model.write_text(TWICE)
    done = evaluate_on(str(model), corpus, Options(resamples=10, ensemble=True), questions=questions)
    files = write_folder(done, tmp_path / "o")
    kept = read_forecasts(files["forecasts.parquet"])
    assert kept.num_rows == len(questions.queries)
    assert (align(kept, [q.query_id for q in questions.queries]).probabilities == done.table.probabilities).all()
    submission = json.loads(files["submission.json"].read_text())
    assert (submission["repeats"], submission["total_tokens"]) == (1, None)
    assert json.loads(files["results.json"].read_text())["cost"]["total_tokens"] is None
