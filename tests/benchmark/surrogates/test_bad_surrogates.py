"""Surrogates that misbehave: every one ends in counted failures or one clear line, and the rest is kept."""

import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

from kbench.benchmark.questions import Questions, training_pairs
from kbench.benchmark.surrogates.ask import ForecastStore, Run, run
from kbench.benchmark.surrogates.baselines import UniformSurrogate
from kbench.benchmark.surrogates.process import Confinement, ProcessSurrogate
from kbench.benchmark.surrogates.protocol import NoAnswerError, failure
from kbench.benchmark.surrogates.resolve import locate
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import Forecast, Query, UserError

HEAD = """
import os, sys, time
from kbench.schemas import Forecast

SHARE = (0.125,) * 8

class Model:
    def forecast(self, queries):
        bad = queries[0].query_id
"""


def write(folder: Path, body: str) -> str:
    path = folder / "model.py"
    path.write_text(HEAD + textwrap.indent(textwrap.dedent(body), " " * 8))
    return str(path)


def ask(path: str, queries: Sequence[Query], tmp_path: Path, timeout: float = 30.0, batch_size: int = 4) -> Run:
    log = tmp_path / "log.txt"
    with (
        ProcessSurrogate(locate(path), {}, Confinement(forecast_s=timeout), log) as process,
        ForecastStore(tmp_path / "kept.jsonl") as store,
    ):
        return run(queries, [process], store=store, batch_size=batch_size)


FITTED = """
import os
from kbench.schemas import Forecast

class Fitted:
    def fit(self, train):
        assert {pair.split for _, pair in train} == {"train", "validation"}
        self.best = 7

    def forecast(self, queries):
        if any(q.query_id == FIRST for q in queries):
            os._exit(1)
        share = tuple(1.0 if n == self.best else 0.0 for n in range(1, 9))
        return [Forecast(query_id=q.query_id, probabilities=share) for q in queries]
"""
ANSWER = "return [Forecast(query_id=q.query_id, probabilities=SHARE) for q in queries]"


@pytest.mark.parametrize(
    ("body", "reason", "failures"),
    [
        (f"if any(q.query_id == FIRST for q in queries): raise ValueError('odd')\n{ANSWER}", "odd at model.py:10", 1),
        (f"if any(q.query_id == FIRST for q in queries): os._exit(3)\n{ANSWER}", "exit code 3", 1),
        (f"if any(q.query_id == FIRST for q in queries): sys.exit(0)\n{ANSWER}", "exit code 0", 1),
        (f"if any(q.query_id == FIRST for q in queries): os.kill(os.getpid(), 9)\n{ANSWER}", "signal 9", 1),
        (ANSWER.replace("in queries]", "in queries[1:]]"), "returned no row for this query", 2),
        (ANSWER.replace("in queries]", "in [*queries, queries[0]]]"), "answered 2 times", 2),
        ("return [Forecast(query_id=q.query_id, probabilities=(0.1,) * 8) for q in queries]", "sum to 0.8", 8),
        ("return [Forecast(query_id=q.query_id, probabilities=(-0.5, 1.5) + (0.0,) * 6) for q in queries]", "≥ 0", 8),
        ("return [Forecast(query_id=q.query_id, probabilities=(float('nan'),) * 8) for q in queries]",
         "probability of bin 1 is nan; it must be a finite number ≥ 0", 8),
        ("return [Forecast(query_id=q.query_id, probabilities=(0.5, 0.5)) for q in queries]", "hold 2 numbers", 8),
        ("return [Forecast(query_id=q.query_id) for q in queries]", "from_speedup(query_id, speedup", 8),
        ("return [object() for q in queries]", "a row of type object", 8),
        ("return [(0.125,) * 8] * 3", "returned 3 rows for 1 queries", 8),
        ("return [{'probabilities': SHARE, 'speed': 2.0} for q in queries]", "speed", 8),
        ("return {q.query_id: SHARE for q in queries}", "returned dict", 8),
        ("return None", "NoneType", 8),
        ("return [Forecast(query_id=q.query_id, probabilities=object()) for q in queries]", "TypeError", 8),
        ("os.write(int(sys.argv[1]), b'hello\\n')\n" + ANSWER, "sent no message", 8),
        ("os.write(int(sys.argv[1]), b'{\"fit\": true}\\n'); time.sleep(1)\n" + ANSWER, "sent no answer", 8),
    ],
    ids=["raises", "exits", "exits-politely", "is-killed", "too-few", "twice", "sum", "negative", "nan", "two-bins",
         "nothing", "objects", "too-many", "unknown-field", "dictionary", "none", "object", "noise", "other-message"],
)  # fmt: skip
def test_a_misdeed_is_counted(questions: Questions, tmp_path: Path, body: str, reason: str, failures: int) -> None:
    queries = questions.queries[:8]
    path = write(tmp_path, body.replace("FIRST", repr(queries[0].query_id)))
    done = ask(path, queries, tmp_path)
    assert len(done.forecasts) == 8
    assert sum(done.failures.values()) == failures
    assert all(reason in text for text in done.failures)


@pytest.mark.parametrize(
    "body",
    [
        "import numpy; return numpy.full((len(queries), 8), 0.125)",
        "return [SHARE for q in queries]",
        "return [{'probabilities': SHARE, 'p_valid': 0.5} for q in queries]",
        "return [{'query_id': q.query_id, 'probabilities': list(SHARE)} for q in reversed(queries)]",
        "return [Forecast(query_id=q.query_id, probabilities=SHARE) if q is queries[0] else SHARE for q in queries]",
    ],
    ids=["array", "tuples", "fields", "named-out-of-order", "mixed"],
)
def test_arrays_and_dictionaries_are_forecasts_too(questions: Questions, tmp_path: Path, body: str) -> None:
    done = ask(write(tmp_path, body), questions.queries[:8], tmp_path)
    assert not done.failures
    assert [f.query_id for f in done.forecasts] == [q.query_id for q in questions.queries[:8]]
    assert {f.probabilities for f in done.forecasts} == {(0.125,) * 8}


def test_query_that_hangs_costs_only_itself(questions: Questions, tmp_path: Path) -> None:
    queries = questions.queries[:4]
    hang = f"if any(q.query_id == {queries[2].query_id!r} for q in queries): time.sleep(600)\n{ANSWER}"
    with (
        ProcessSurrogate(locate(write(tmp_path, hang)), {}, Confinement(forecast_s=2.5)) as process,
        ForecastStore(None) as store,
    ):
        done = run(queries, [process], store=store, batch_size=4)
        assert process.remarks() == ["a batch of 4 failed and was asked singly: no answer within 2.5 s"]
    assert [f.failure is not None for f in done.forecasts] == [False, False, True, False]
    assert "no answer within 2.5 s" in next(iter(done.failures))


def test_printing_and_changing_queries_hurts_nobody(
    questions: Questions, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    body = f"""
    print("chatter", flush=True)
    for q in queries:
        object.__setattr__(q, "candidate_source", "gone")
    {ANSWER}
    """
    queries = questions.queries[:4]
    before = [q.candidate_source for q in queries]
    done = ask(write(tmp_path, body), queries, tmp_path)
    assert not done.failures
    assert [q.candidate_source for q in queries] == before
    assert "chatter" not in capfd.readouterr().out
    assert "chatter" in (tmp_path / "log.txt").read_text()


def test_answers_nobody_asked_for_are_counted_and_ignored(questions: Questions, tmp_path: Path) -> None:
    body = ANSWER[:-1] + "] + [Forecast(query_id='f' * 32, probabilities=SHARE)]"
    done = ask(write(tmp_path, body), questions.queries[:4], tmp_path)
    assert done.stray == 1
    assert not done.failures


@pytest.mark.parametrize(("stated", "batch_size"), [(False, 1), (True, 2)], ids=["always dies", "states failures"])
def test_surrogate_that_never_answers_is_given_up(questions: Questions, stated: bool, batch_size: int) -> None:
    class Silent:
        calls = 0

        def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
            self.calls += 1
            if not stated:
                raise NoAnswerError("connection refused")
            return [failure(query.query_id, "connection refused") for query in queries]

    silent = Silent()
    with ForecastStore(None) as store:
        done = run(questions.queries, [silent], store=store, batch_size=batch_size)
    assert silent.calls == 20
    assert done.failures["connection refused"] == 20 * batch_size
    assert sum("not asked" in reason for reason in done.failures) == 1
    assert sum(done.failures.values()) == len(questions.queries)


def test_queries_without_an_answer_between_answered_ones_are_no_reason_to_give_up(questions: Questions) -> None:
    class Odd:
        def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
            if any(int(query.query_id, 16) % 2 for query in queries):
                raise NoAnswerError("odd")
            return UniformSurrogate().forecast(queries)

    odd = sum(int(query.query_id, 16) % 2 for query in questions.queries)
    with ForecastStore(None) as store:
        done = run(questions.queries, [Odd()], store=store, batch_size=16)
    assert odd > 20
    assert done.failures == {"odd": odd}


def test_what_was_answered_is_never_asked_again_and_failures_are(questions: Questions, tmp_path: Path) -> None:
    queries = questions.queries[:8]
    counter = tmp_path / "asked.txt"
    body = f"""
    with open({str(counter)!r}, "a") as file:
        file.writelines(q.query_id + "\\n" for q in queries)
    if any(q.query_id == {queries[0].query_id!r} for q in queries) and not os.path.exists({str(tmp_path / "well")!r}):
        raise ValueError("not today")
    {ANSWER}
    """
    path = write(tmp_path, body)
    assert sum(ask(path, queries, tmp_path).failures.values()) == 1
    counter.unlink()
    (tmp_path / "well").touch()
    again = ask(path, queries, tmp_path)
    assert counter.read_text().split() == [queries[0].query_id]
    assert again.reused == 7
    assert not again.failures


def test_two_processes_share_the_work(questions: Questions, tmp_path: Path) -> None:
    target = locate(write(tmp_path, ANSWER))
    with (
        ProcessSurrogate(target, {}, Confinement(forecast_s=30), tmp_path / "a") as one,
        ProcessSurrogate(target, {}, Confinement(forecast_s=30), tmp_path / "b") as two,
        ForecastStore(None) as store,
    ):
        done = run(questions.queries[:16], [one, two], store=store, batch_size=2)
    assert not done.failures
    assert [f.query_id for f in done.forecasts] == [q.query_id for q in questions.queries[:16]]


def test_a_restarted_process_is_fitted_again_to_training(corpus: Corpus, questions: Questions, tmp_path: Path) -> None:
    path = tmp_path / "fits.py"
    path.write_text(FITTED.replace("FIRST", repr(questions.queries[0].query_id)))
    train = list(training_pairs(corpus))
    with (
        ProcessSurrogate(locate(str(path)), {}, Confinement(forecast_s=30.0), tmp_path / "log") as process,
        ForecastStore(None) as store,
    ):
        assert process.start().fits is True
        process.fit(train)
        done = run(questions.queries[:4], [process], store=store, batch_size=4)
    assert [f.failure is None for f in done.forecasts] == [False, True, True, True]
    assert done.forecasts[1].probabilities == (0, 0, 0, 0, 0, 0, 1.0, 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("raise RuntimeError('no weights')", "no weights"),
        ("x = 1", "defines no class with a method forecast"),
        ("surrogate = 3", "must have forecast"),
        ("class A:\n    inputs = 'everything'\n    def forecast(self, queries): return []", "inputs 'everything'"),
        (
            "class A:\n    def __init__(self, size): pass\n    def forecast(self, queries): return []",
            "with no arguments",
        ),
        ("import os; os._exit(7)", "exit code 7"),
        ("x = 1\nraise RuntimeError('no weights')", r"no weights at broken\.py:2; log: .*log$"),
    ],
)
def test_surrogate_that_cannot_be_made_is_one_clear_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "broken.py"
    path.write_text(text)
    with (
        ProcessSurrogate(locate(str(path)), {}, Confinement(forecast_s=10.0), tmp_path / "log") as process,
        pytest.raises(UserError, match=message),
    ):
        process.start()
