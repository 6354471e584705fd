"""Forecasts as columns and files: what is wrong is counted or refused by name."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kbench.benchmark.evaluate.evaluate import evaluate_on
from kbench.benchmark.evaluate.folder import write_folder
from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.questions import Questions
from kbench.benchmark.surrogates.ask import ForecastStore
from kbench.benchmark.surrogates.baselines import ReplaySurrogate, UniformSurrogate
from kbench.benchmark.surrogates.forecasts import (
    align,
    conform,
    ensembled,
    forecasts_file,
    from_forecasts,
    read_forecasts,
    to_arrow,
)
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import DataError, Forecast, UserError, to_dict

IDS = ["a" * 32, "b" * 32, "c" * 32]
SHARES = (0.5, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def forecast(query_id: str = IDS[0], **values: object) -> Forecast:
    return Forecast(**{"query_id": query_id, "probabilities": SHARES} | values)


def test_forecasts_are_put_in_the_order_of_the_queries() -> None:
    table = from_forecasts([forecast(IDS[2], speedup=2.0), forecast(IDS[0], p_valid=0.5)], IDS)
    assert table.failed.tolist() == [[False, True, False]]
    assert table.probabilities[0, 1].tolist() == [1 / 8] * 8
    assert table.speedup[0, 2] == 2.0
    assert table.p_valid[0, 0] == 0.5
    assert table.confidence.tolist() == [[0.5, 0.0, 0.5]]
    assert sum(table.reasons.values()) == 1


def test_repeats_lie_one_below_the_other() -> None:
    table = from_forecasts([forecast(i, repeat=r) for i in IDS for r in (0, 1)], IDS)
    assert table.repeats == 2
    assert not table.failed.any()


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"probabilities": None}, "no probabilities"),
        ({"probabilities": None, "failure": "tired"}, "stated"),
        ({"probabilities": (1.0,)}, "not 8"),
        ({"probabilities": (2.0, -1.0, 0, 0, 0, 0, 0, 0)}, "negative"),
        ({"probabilities": (float("nan"),) * 8}, "not a number"),
        ({"probabilities": (0.1,) * 8}, "sum to one"),
    ],
)
def test_what_is_no_distribution_is_a_counted_failure(values: dict[str, object], reason: str) -> None:
    table = from_forecasts([forecast(IDS[0], **values), forecast(IDS[1]), forecast(IDS[2])], IDS)
    assert table.failed.tolist() == [[True, False, False]]
    (found,) = table.reasons
    assert reason in found


def test_figures_out_of_bounds_count_as_not_given() -> None:
    odd = {"speedup": -1.0, "p_valid": 1.5, "confidence": float("inf"), "elapsed_s": 1.7e308}
    table = from_forecasts([forecast(IDS[0], input_tokens=2**62, output_tokens=5, **odd)], IDS[:1])
    assert [np.isnan(column[0, 0]) for column in (table.speedup, table.p_valid, table.elapsed_s)] == [True] * 3
    assert (table.confidence[0, 0], table.tokens[0, 0]) == (0.5, 5.0)


def test_rows_for_other_queries_are_left_out_and_two_for_one_are_refused() -> None:
    assert from_forecasts([forecast(), forecast("d" * 32)], IDS[:1]).failed.tolist() == [[False]]
    with pytest.raises(DataError, match=f"2 rows for query {IDS[0]}"):
        from_forecasts([forecast(), forecast()], IDS)


@pytest.mark.parametrize("repeat", [-1, 100, 2_000_000])
def test_a_repeat_that_no_surrogate_has_is_refused_before_room_is_made_for_it(tmp_path: Path, repeat: int) -> None:
    with pytest.raises(DataError, match=f"has repeat {repeat}; repeats are numbered from 0 to 99"):
        from_forecasts([forecast(), forecast(repeat=repeat)], IDS)
    (tmp_path / "f.jsonl").write_text(json.dumps(to_dict(forecast(repeat=repeat))) + "\n")
    with pytest.raises(DataError, match="repeats are numbered from 0 to 99"):
        _ = ReplaySurrogate(str(tmp_path / "f.jsonl")).repeats


def test_files_round_trip(tmp_path: Path) -> None:
    forecasts = [forecast(i, speedup=1.5, elapsed_s=0.1) for i in IDS]
    (tmp_path / "f.parquet").write_bytes(forecasts_file(forecasts, "d" * 32))
    (tmp_path / "f.jsonl").write_text("".join(json.dumps(to_dict(f)) + "\n" for f in forecasts))
    for name in ("f.parquet", "f.jsonl"):
        table = read_forecasts(tmp_path / name)
        assert table.to_pylist() == to_arrow(forecasts).to_pylist()
        assert ReplaySurrogate(str(tmp_path / name)).repeats == 1


def test_float32_probabilities_and_absent_columns_are_fine(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({
            "query_id": IDS, "probabilities": pa.array([[0.125] * 8] * 3, pa.list_(pa.float32())),
            "__index_level_0__": [4, 7, 9],  # as pandas writes a filtered frame
        }),
        tmp_path / "f.parquet",
    )  # fmt: skip
    assert not align(read_forecasts(tmp_path / "f.parquet"), IDS).failed.any()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pa.table({"query": IDS}), "unknown column 'query'"),
        (pa.table({"question_id": IDS}), "call it 'query_id', rename it"),
        (pa.table({"probabilities": [[0.1]]}), "no column 'query_id'"),
        (pa.table({"query_id": IDS, "probabilities": ["a", "b", "c"]}), "column 'probabilities' has the wrong type"),
        (pa.table({"query_id": IDS}), "rows without 'probabilities'; give 8 numbers"),
    ],
)
def test_foreign_columns_are_refused_by_name(tmp_path: Path, table: pa.Table, message: str) -> None:
    pq.write_table(table, tmp_path / "f.parquet")
    with pytest.raises(DataError, match=message):
        read_forecasts(tmp_path / "f.parquet")


def test_a_column_that_stands_twice_is_refused() -> None:
    with pytest.raises(DataError, match="entry has column 'query_id' twice; keep one"):
        conform(pa.Table.from_arrays([pa.array(IDS)] * 2, ["query_id", "query_id"]), "entry")


@pytest.mark.parametrize(
    "data", [b"", b"PAR1 nonsense", b"\xff\xfe", b'{"repeat": ' + b"9" * 30 + b"}", b"[" * 30_000 + b"]" * 30_000]
)
def test_damaged_files_are_refused(tmp_path: Path, data: bytes) -> None:
    for name in ("f.parquet", "f.jsonl"):
        (tmp_path / name).write_bytes(data)
        if data or name == "f.parquet":
            with pytest.raises(DataError, match="cannot be read"):
                read_forecasts(tmp_path / name)


def test_replay_answers_from_the_file_and_fails_for_the_rest(questions: Questions, tmp_path: Path) -> None:
    some = questions.queries[:3]
    (tmp_path / "f.parquet").write_bytes(forecasts_file(UniformSurrogate().forecast(some), questions.dataset))
    replay = ReplaySurrogate(str(tmp_path / "f.parquet"))
    replay.check_dataset(questions.dataset)
    answers = replay.forecast(questions.queries[:5])
    assert [f.failure is None for f in answers] == [True] * 3 + [False] * 2


def test_forecasts_for_another_dataset_are_refused(tmp_path: Path) -> None:
    (tmp_path / "f.parquet").write_bytes(forecasts_file([forecast()], "e" * 32))
    with pytest.raises(UserError, match="holds forecasts for dataset " + "e" * 32):
        ReplaySurrogate(str(tmp_path / "f.parquet")).check_dataset("d" * 32)
    (tmp_path / "f.jsonl").write_text(json.dumps(to_dict(forecast())) + "\n")
    (tmp_path / "submission.json").write_text(json.dumps({"dataset_fingerprint": "e" * 32}))
    with pytest.raises(UserError, match="evaluate them on their own"):
        ReplaySurrogate(str(tmp_path / "f.jsonl")).check_dataset("d" * 32)


def test_store_drops_half_a_line_and_names_a_damaged_one(tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"
    with ForecastStore(path) as store:
        store.add([forecast(IDS[0]), forecast(IDS[1], probabilities=None, failure="no")])
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"query_id": "cut')
    with ForecastStore(path) as store:
        assert list(store.done) == [(IDS[0], 0)]
    assert path.read_bytes() == whole
    path.write_bytes(b"{}\n" + whole)
    with pytest.raises(DataError, match="line 1"):
        ForecastStore(path)


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
