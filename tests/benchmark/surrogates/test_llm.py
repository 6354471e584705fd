"""`llm` against a local server that speaks the protocol, well and badly."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from kbench.benchmark.evaluate.evaluate import evaluate_on
from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.questions import Questions
from kbench.benchmark.surrogates.ask import ForecastStore, run
from kbench.benchmark.surrogates.llm import LlmSurrogate, answer_schema, parse, render
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import DataError, Forecast, UserError, bins

GOOD = json.dumps({"probabilities": {str(n): 0.125 for n in bins.NUMBERS}, "speedup": 1.3, "p_valid": 0.8})


class Endpoint:
    """A chat endpoint whose answers a test scripts: (status, body text, seconds to wait), by number of the call."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.script: Callable[[int], tuple[int, str, float]] = lambda call: (200, completion(GOOD), 0.0)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.calls.append(body)
                status, text, wait = outer.script(len(outer.calls))
                time.sleep(wait)
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Retry-After-Ms", "1")
                self.end_headers()
                try:
                    self.wfile.write(text.encode())
                except BrokenPipeError:
                    return

            def log_message(self, format: str, *args: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def surrogate(self, **arguments: Any) -> LlmSurrogate:
        settings = {"model": "m", "timeout": 5.0, "concurrency": 2} | arguments
        return LlmSurrogate(base_url=f"http://127.0.0.1:{self.server.server_port}/v1", **settings)


def completion(content: str) -> str:
    return json.dumps(
        {
            "id": "1", "object": "chat.completion", "created": 0, "model": "m",
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
        }
    )  # fmt: skip


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    yield made
    made.server.shutdown()
    made.server.server_close()


def test_good_answer_becomes_a_forecast_with_tokens(endpoint: Endpoint, questions: Questions) -> None:
    (forecast,) = endpoint.surrogate(temperature=0.5).forecast(questions.queries[:1])
    assert forecast.probabilities == pytest.approx((0.125,) * 8)
    assert (forecast.speedup, forecast.p_valid) == (1.3, 0.8)
    assert (forecast.input_tokens, forecast.output_tokens) == (100, 20)
    assert endpoint.calls[0]["temperature"] == 0.5
    assert endpoint.calls[0]["response_format"]["json_schema"]["schema"] == answer_schema()


def test_repeats_are_asked_with_different_seeds(endpoint: Endpoint, questions: Questions) -> None:
    forecasts = endpoint.surrogate(repeats=3).forecast(questions.queries[:2])
    assert sorted((f.query_id, f.repeat) for f in forecasts) == sorted(
        (q.query_id, r) for q in questions.queries[:2] for r in range(3)
    )
    assert sorted(call["seed"] for call in endpoint.calls) == [0, 0, 1, 1, 2, 2]


def test_too_many_requests_and_server_errors_are_tried_again(endpoint: Endpoint, questions: Questions) -> None:
    def script(call: int) -> tuple[int, str, float]:
        return (429, '{"error": {"message": "slow down"}}', 0) if call == 1 else (
            (500, "oops", 0) if call == 2 else (200, completion(GOOD), 0))  # fmt: skip

    endpoint.script = script
    (forecast,) = endpoint.surrogate().forecast(questions.queries[:1])
    assert forecast.failure is None
    assert len(endpoint.calls) == 3


def test_endless_429_is_a_failure_with_its_reason(endpoint: Endpoint, questions: Questions) -> None:
    endpoint.script = lambda call: (429, '{"error": {"message": "slow down"}}', 0)
    (forecast,) = endpoint.surrogate().forecast(questions.queries[:1])
    assert forecast.failure is not None
    assert "429" in forecast.failure
    assert len(endpoint.calls) == 5


def test_wrong_key_is_not_tried_again(endpoint: Endpoint, questions: Questions) -> None:
    endpoint.script = lambda call: (401, '{"error": {"message": "bad key"}}', 0)
    (forecast,) = endpoint.surrogate().forecast(questions.queries[:1])
    assert "401" in str(forecast.failure)
    assert len(endpoint.calls) == 1


def test_endpoint_that_never_answers_times_out(endpoint: Endpoint, questions: Questions) -> None:
    endpoint.script = lambda call: (200, completion(GOOD), 1.0)
    (forecast,) = endpoint.surrogate(timeout=0.05, retries=0).forecast(questions.queries[:1])
    assert "no reply within 0.05 s" in str(forecast.failure)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("this is not json", "not JSON"),
        ("{}", "empty reply"),
        ('{"choices": []}', "empty reply"),
        (completion("I would rather not say."), "no JSON object"),
        (completion(""), "empty reply"),
    ],
)
def test_malformed_responses_are_failures(endpoint: Endpoint, questions: Questions, text: str, reason: str) -> None:
    endpoint.script = lambda call: (200, text, 0)
    (forecast,) = endpoint.surrogate().forecast(questions.queries[:1])
    assert reason in str(forecast.failure)


def test_no_server_is_a_failure(questions: Questions) -> None:
    (forecast,) = LlmSurrogate("m", base_url="http://127.0.0.1:9/v1", retries=0).forecast(questions.queries[:1])
    assert "connection error" in str(forecast.failure)


def test_missing_key_is_one_clear_line(monkeypatch: pytest.MonkeyPatch, questions: Questions) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(UserError, match="OPENAI_API_KEY is not set"):
        LlmSurrogate("m").forecast(questions.queries[:1])


@pytest.mark.parametrize(
    "arguments", [{}, {"model": "m", "repeats": 0}, {"model": "m", "requests_file": "a", "responses_file": "b"}]
)
def test_impossible_settings_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="llm"):
        LlmSurrogate(**arguments)


def test_batch_files_go_out_and_come_back(questions: Questions, tmp_path: Path) -> None:
    queries, requests, responses = questions.queries[:3], tmp_path / "requests.jsonl", tmp_path / "responses.jsonl"
    waiting = LlmSurrogate("m", requests_file=str(requests)).forecast(queries)
    assert all("request written" in str(f.failure) for f in waiting)
    rows = [json.loads(text) for text in requests.read_text().splitlines()]
    assert {row["url"] for row in rows} == {"/v1/chat/completions"}
    answered = [
        {"custom_id": row["custom_id"], "response": {"status_code": 200, "body": json.loads(completion(GOOD))}}
        for row in rows[:2]
    ]
    responses.write_text("".join(json.dumps(row) + "\n" for row in answered))
    forecasts = LlmSurrogate("m", responses_file=str(responses)).forecast(queries)
    assert [f.failure is None for f in forecasts] == [True, True, False]
    # What reading the file took is not what the model took.
    asked = run(queries, [LlmSurrogate("m", responses_file=str(responses))], store=ForecastStore(None))
    assert [f.elapsed_s for f in asked.forecasts[:2]] == [None, None]


def test_damaged_responses_file_is_refused_with_its_line(questions: Questions, tmp_path: Path) -> None:
    path = tmp_path / "responses.jsonl"
    path.write_text('{"custom_id": "a", "response": null}\nnot json\n')
    with pytest.raises(DataError, match="line 2"):
        LlmSurrogate("m", responses_file=str(path)).forecast(questions.queries[:1])


def test_evaluation_survives_a_bad_endpoint_and_goes_on_where_it_stopped(
    endpoint: Endpoint, corpus: Corpus, tmp_path: Path
) -> None:
    def flaky(call: int) -> tuple[int, str, float]:
        return [(200, completion(GOOD), 0.0), (429, "{}", 0.0), (200, "not json", 0.0), (200, completion("no"), 0.0)][
            call % 4
        ]

    url = f"http://127.0.0.1:{endpoint.server.server_port}/v1"
    settings = {"model": "m", "base_url": url, "timeout": 5.0}
    options = Options(arguments=settings, limit=24, tracks=("forecast", "select"), resamples=20)
    endpoint.script = flaky
    first = evaluate_on("llm", corpus, options, out=tmp_path)
    answered = sum(f.failure is None for f in first.run.forecasts)
    assert 0 < answered < 24
    assert first.scored.figures["forecast"]["rps"].value > 0
    endpoint.script, before = (lambda call: (200, completion(GOOD), 0.0)), len(endpoint.calls)
    second = evaluate_on("llm", corpus, options, out=tmp_path)
    assert len(endpoint.calls) - before == 24 - answered
    assert not second.run.failures


@pytest.mark.parametrize("status", [401, 403, 503])
def test_endpoint_that_always_fails_is_given_up(
    endpoint: Endpoint, corpus: Corpus, tmp_path: Path, status: int
) -> None:
    endpoint.script = lambda call: (status, "{}", 0.0)
    url = f"http://127.0.0.1:{endpoint.server.server_port}/v1"
    options = Options(arguments={"model": "m", "base_url": url, "retries": 0, "concurrency": 1}, resamples=5)
    done = evaluate_on("llm", corpus, dataclasses.replace(options, batch_size=30), out=tmp_path)
    assert len(endpoint.calls) == 20
    assert not done.answered
    assert sum(n for reason, n in done.run.failures.items() if "not asked" in reason) == len(done.run.forecasts) - 20


def test_requests_that_the_server_refuses_one_by_one_do_not_end_the_run(
    endpoint: Endpoint, questions: Questions
) -> None:
    endpoint.script = lambda call: (400, "{}", 0.0)
    endpoint.surrogate(retries=0).forecast(questions.queries[:30])
    assert len(endpoint.calls) == 30


def test_prompt_states_the_edges_of_the_bins_and_nothing_else(questions: Questions) -> None:
    text = render(questions.queries[0])
    stated = [line.strip() for line in text.splitlines() if line.strip().startswith("bin ")]
    assert stated == [f"bin {n}: {bins.label(n)}" for n in bins.NUMBERS]
    edges = [f"{edge:.4g}" for edge in bins.EDGES]
    for number, edge in enumerate(edges, start=1):
        assert stated[number - 1].endswith(f"S < {edge}")
        assert f"{edge} ≤ S" in stated[number] or f"S ≥ {edge}" in stated[number]


def test_estimate_comes_before_any_request(endpoint: Endpoint, questions: Questions) -> None:
    found = endpoint.surrogate(price_in=1.0, price_out=2.0, repeats=2).estimate(questions.queries[:5])
    assert found["requests"] == 10
    assert found["price_estimate"] > 0
    assert endpoint.calls == []


def shares(**change: object) -> dict[str, object]:
    return {str(n): 0.125 for n in bins.NUMBERS} | change


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"Let me think {{not json}}.\n```json\n{GOOD}\n```\nDone.",
        json.dumps({"bin_probabilities": [{"bin": n, "p": 0.125} for n in reversed(bins.NUMBERS)]}),
        json.dumps({"probabilities": [0.125] * 8}),
        json.dumps({f"bin_{n}": "12.5%" for n in bins.NUMBERS}),
        json.dumps({"probabilities": shares()}) + " no, rather: " + GOOD,
    ],
)
def test_parser_reads_every_usual_form(text: str) -> None:
    forecast = parse(text, "a" * 32)
    assert forecast.failure is None
    assert forecast.probabilities == pytest.approx((0.125,) * 8)


def test_bins_out_of_order_are_put_in_order() -> None:
    rows = [{"bin": n, "p": n / 36} for n in (8, 1, 7, 2, 6, 3, 5, 4)]
    forecast = parse(json.dumps({"probabilities": rows}), "a" * 32)
    assert forecast.probabilities == pytest.approx(tuple(n / 36 for n in bins.NUMBERS))


@pytest.mark.parametrize(("scale", "total"), [(0.15, 0.15), (1.45, 1.45)])
def test_other_sums_are_normalised_and_the_raw_sum_is_kept(scale: float, total: float) -> None:
    forecast = parse(json.dumps({"probabilities": {str(n): scale / 8 for n in bins.NUMBERS}}), "a" * 32)
    assert forecast.raw_sum == pytest.approx(total)
    assert sum(forecast.probabilities or ()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ([], "0 probabilities"),
        ([0.1] * 7, "7 probabilities"),
        ({str(n): 0 for n in bins.NUMBERS}, "all probabilities are zero"),
        ({"1": 1.0}, "missing"),
        (shares(**{"3": -0.1}), "bin 3"),
        (shares(**{"3": "many"}), "bin 3"),
        (shares(**{"3": None}), "bin 3"),
        (shares(**{"3": True}), "bin 3"),
        ([{"bin": 1, "p": 0.5}, {"bin": 1, "p": 0.5}], "given twice"),
        ([{"bin": 9, "p": 1.0}], "does not exist"),
        ("none", "are str"),
    ],
)
def test_what_states_no_distribution_is_a_failure(given: object, reason: str) -> None:
    forecast = parse(json.dumps({"probabilities": given}), "a" * 32)
    assert isinstance(forecast, Forecast)
    assert reason in str(forecast.failure)


@pytest.mark.parametrize("text", ["", "{" * 5000, "[" * 5000, '{"probabilities": ' * 300, "\x00\ud800", "{}" * 5000])
def test_hostile_text_is_a_failure_not_an_error(text: str) -> None:
    assert parse(text, "a" * 32).failure is not None
