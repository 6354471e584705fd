"""`llm` against a local server that speaks the protocol, well and badly."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from faults.endpoints import GOOD, Server, completion, serving

from kbench.benchmark.evaluate.evaluate import evaluate_on
from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.llm.batch import read_responses
from kbench.benchmark.questions import Questions
from kbench.benchmark.surrogates.ask import ForecastStore, run
from kbench.benchmark.surrogates.llm import LlmSurrogate, answer_schema, parse, render
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import DataError, KnownKernel, Query, UserError, bins

ROOT = Path(__file__).parents[3]


SOON = {"Retry-After-Ms": "1"}


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(lambda call: (200, completion(), SOON)) as made:
        yield made


def surrogate_at(server: Server, **arguments: Any) -> LlmSurrogate:
    return LlmSurrogate(**{"model": "m", "base_url": server.url, "timeout": 5.0, "concurrency": 2} | arguments)


def test_good_answer_becomes_a_forecast_with_tokens(server: Server, questions: Questions) -> None:
    (forecast,) = surrogate_at(server, temperature=0.5).forecast(questions.queries[:1])
    assert forecast.probabilities == pytest.approx((0.125,) * 8)
    assert (forecast.speedup, forecast.p_valid) == (1.3, 0.8)
    assert (forecast.input_tokens, forecast.output_tokens) == (100, 20)
    assert server.bodies[0]["temperature"] == 0.5
    assert server.bodies[0]["response_format"]["json_schema"]["schema"] == answer_schema()


def test_repeats_are_asked_with_different_seeds(server: Server, questions: Questions) -> None:
    forecasts = surrogate_at(server, repeats=3).forecast(questions.queries[:2])
    assert sorted((f.query_id, f.repeat) for f in forecasts) == sorted(
        (q.query_id, r) for q in questions.queries[:2] for r in range(3)
    )
    assert sorted(call["seed"] for call in server.bodies) == [0, 0, 1, 1, 2, 2]


def test_missing_key_is_one_clear_line(monkeypatch: pytest.MonkeyPatch, questions: Questions) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(UserError, match="OPENAI_API_KEY is not set"):
        LlmSurrogate("m").forecast(questions.queries[:1])


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"model": "m", "repeats": 0},
        {"model": "m", "max_tokens": "many"},
        {"model": "m", "schema": 1},
        {"model": "m", "requests_file": "a", "responses_file": "a"},
        {"requests_file": "a", "responses_file": "b"},
        {"model": "m", "body": "effort"},
        {"model": "m", "body": '{"messages": []}'},
        {"model": "m", "body": {"stream": True}},
    ],
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
        {"custom_id": row["custom_id"], "response": {"status_code": 200, "body": json.loads(completion())}}
        for row in rows[:2]
    ]
    responses.write_text("".join(json.dumps(row) + "\n" for row in answered))
    forecasts = LlmSurrogate("m", responses_file=str(responses)).forecast(queries)
    assert [f.failure is None for f in forecasts] == [True, True, False]
    # What reading the file took is not what the model took.
    asked = run(queries, [LlmSurrogate("m", responses_file=str(responses))], store=ForecastStore(None))
    assert [f.elapsed_s for f in asked.forecasts[:2]] == [None, None]


def answered(rows: list[dict[str, Any]], path: Path, **more: Any) -> str:
    """A file with a good answer to each request."""
    lines = [{"custom_id": row["custom_id"], "text": GOOD, **more} for row in rows]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def written(path: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in path.read_text().splitlines()]


def with_kernels(query: Query) -> Query:
    kernel = KnownKernel(backend=query.backend, source="def run(x): ...", speedup=2.0)
    return dataclasses.replace(query, known=(kernel,))


def test_answers_to_another_prompt_are_not_taken(questions: Questions, tmp_path: Path) -> None:
    queries = questions.queries[:3]
    shown = [with_kernels(query) for query in queries]
    LlmSurrogate("m", requests_file=str(tmp_path / "requests.jsonl")).forecast(queries)
    responses = answered(written(tmp_path / "requests.jsonl"), tmp_path / "responses.jsonl")
    reader = LlmSurrogate("m", responses_file=responses)
    assert {f.failure for f in reader.forecast(queries)} == {None}
    assert all("answer another prompt" in str(f.failure) for f in reader.forecast(shown))
    assert (reader.strays(queries), reader.strays(shown), reader.strays(queries[:1])) == (0, 3, 2)


def test_ids_without_a_digest_answer_questions_that_show_no_kernels(questions: Questions, tmp_path: Path) -> None:
    queries = questions.queries[:2]
    rows = [{"custom_id": f"{query.query_id}:0"} for query in queries]
    reader = LlmSurrogate("m", responses_file=answered(rows, tmp_path / "responses.jsonl"))
    assert {f.failure for f in reader.forecast(queries)} == {None}
    assert all("another prompt" in str(f.failure) for f in reader.forecast([with_kernels(q) for q in queries]))


def test_the_published_answers_can_still_be_read() -> None:
    path = ROOT / "docs/evidence/language-model-core.jsonl.xz"
    reader = LlmSurrogate(responses_file=str(path))
    assert reader.model_name == "claude"
    assert {len(key.split(":")) for key in read_responses(path).replies} == {2, 3}


@pytest.mark.parametrize(
    ("asked", "named", "same"),
    [
        ("m", "m", True),
        ("gpt-4o", "gpt-4o-2024-08-06", True),
        ("openai/gpt-4o", "GPT-4o", True),
        ("sonnet-4", "sonnet-4-20250514", True),
        ("mistral-large", "mistral-large-latest", True),
        ("gpt-4o", "gpt-4o-mini", False),
        ("my-model", "claude", False),
    ],
)
def test_other_models_are_refused(questions: Questions, tmp_path: Path, asked: str, named: str, same: bool) -> None:
    rows = [{"custom_id": f"{query.query_id}:0"} for query in questions.queries[:2]]
    responses = answered(rows, tmp_path / "responses.jsonl", model=named)
    assert LlmSurrogate(responses_file=responses).model_name == named
    assert LlmSurrogate(asked, responses_file=responses, any_model=True).forecast(questions.queries[:1])
    if same:
        assert LlmSurrogate(asked, responses_file=responses).forecast(questions.queries[:1])[0].failure is None
    else:
        with pytest.raises(UserError, match=rf"2 answers of model '{named}'.*give model={named}, or any_model=true"):
            LlmSurrogate(asked, responses_file=responses).forecast(questions.queries[:1])


def test_both_files_together_request_what_has_no_answer(questions: Questions, tmp_path: Path) -> None:
    queries, requests = questions.queries[:4], tmp_path / "requests.jsonl"
    LlmSurrogate("m", requests_file=str(requests)).forecast(queries)
    responses = answered(written(requests)[:1], tmp_path / "responses.jsonl")
    both = LlmSurrogate("m", requests_file=str(requests), responses_file=responses)
    forecasts = [*both.forecast(queries[:2]), *both.forecast(queries[2:])]
    assert [f.failure is None for f in forecasts] == [True, False, False, False]
    assert [row["custom_id"].split(":")[0] for row in written(requests)] == [q.query_id for q in queries[1:]]


def test_replaced_requests_are_counted_and_other_files_left_alone(questions: Questions, tmp_path: Path) -> None:
    requests = tmp_path / "requests.jsonl"
    LlmSurrogate("m", requests_file=str(requests)).forecast(questions.queries[:5])
    again = LlmSurrogate("m", requests_file=str(requests))
    for query in questions.queries[3:6]:
        again.forecast([query])
    assert len(written(requests)) == 3
    assert again.remarks() == [f"{requests} held 3 other requests, which are replaced"]
    responses = answered(written(requests), tmp_path / "responses.jsonl")
    before = Path(responses).read_bytes()
    with pytest.raises(UserError, match="holds something else than requests"):
        LlmSurrogate("m", requests_file=responses).forecast(questions.queries[:1])
    assert Path(responses).read_bytes() == before


def test_further_fields_go_into_requests(server: Server, questions: Questions) -> None:
    given = '{"reasoning_effort": "high", "top_k": 3, "seed": null}'
    (forecast,) = surrogate_at(server, body=given, schema=False).forecast(questions.queries[:1])
    assert forecast.failure is None
    (call,) = server.bodies
    assert (call["reasoning_effort"], call["top_k"]) == ("high", 3)
    assert not {"seed", "response_format"} & set(call)


def test_a_server_that_refuses_the_schema_is_asked_without_it_once(server: Server, questions: Questions) -> None:
    refusal = (400, b'{"error": {"message": "This response_format type is unavailable now"}}', SOON)
    server.script = lambda call: refusal if "response_format" in server.bodies[-1] else (200, completion(), SOON)
    surrogate = surrogate_at(server, concurrency=1, retries=0)
    assert {f.failure for f in surrogate.forecast(questions.queries[:4])} == {None}
    assert server.calls == 5
    assert surrogate.remarks() == ["the server refuses response_format; requests went without it, as with schema=false"]


def test_damaged_responses_file_is_refused_with_its_line(questions: Questions, tmp_path: Path) -> None:
    path = tmp_path / "responses.jsonl"
    path.write_text('{"custom_id": "a", "response": null}\nnot json\n')
    with pytest.raises(DataError, match="line 2"):
        LlmSurrogate("m", responses_file=str(path)).forecast(questions.queries[:1])


def test_evaluation_survives_a_bad_endpoint_and_goes_on(server: Server, corpus: Corpus, tmp_path: Path) -> None:
    flaky = [(200, completion()), (429, b"{}"), (200, b"not json"), (200, completion("no"))]
    settings = {"model": "m", "base_url": server.url, "timeout": 5.0}
    options = Options(arguments=settings, limit=24, tracks=("forecast", "select"), resamples=20)
    server.script = lambda call: (*flaky[call % 4], SOON)
    first = evaluate_on("llm", corpus, options, out=tmp_path)
    answered = sum(f.failure is None for f in first.run.forecasts)
    assert 0 < answered < 24
    assert first.scored.figures["forecast"]["rps"].value > 0
    server.script, before = (lambda call: (200, completion(), SOON)), server.calls
    # What the model itself said stays, whatever it is worth.
    said = sum(count for reason, count in first.run.failures.items() if "not understood" in reason)
    assert 0 < said < 24 - answered
    second = evaluate_on("llm", corpus, options, out=tmp_path)
    assert server.calls - before == 24 - answered - said
    assert sum(second.run.failures.values()) == said
    before = server.calls
    again = dataclasses.replace(options, arguments={**settings, "retry_malformed": True})
    third = evaluate_on("llm", corpus, again, out=tmp_path)
    assert (server.calls - before, third.run.failures) == (said, {})


@pytest.mark.parametrize("said", ["I would rather not say.", ""])
def test_no_forecast_is_asked_again_if_cut_short(server: Server, corpus: Corpus, tmp_path: Path, said: str) -> None:
    server.script = lambda call: (200, completion(said), SOON)
    asked = []
    for longest in (100, 100, 50, 200):
        settings = {"model": "m", "base_url": server.url, "max_tokens": longest}
        done = evaluate_on("llm", corpus, Options(arguments=settings, limit=3, resamples=2), out=tmp_path)
        asked.append(server.calls)
        assert not done.answered
    assert asked == [3, 3, 3, 6]


@pytest.mark.parametrize("status", [401, 403, 503])
def test_endpoint_that_always_fails_is_given_up(server: Server, corpus: Corpus, tmp_path: Path, status: int) -> None:
    server.script = lambda call: (status, b"{}", SOON)
    options = Options(arguments={"model": "m", "base_url": server.url, "retries": 0, "concurrency": 1}, resamples=5)
    done = evaluate_on("llm", corpus, dataclasses.replace(options, batch_size=30), out=tmp_path)
    assert server.calls == 20
    assert not done.answered
    assert sum(n for reason, n in done.run.failures.items() if "not asked" in reason) == len(done.run.forecasts) - 20


def test_requests_that_the_server_refuses_one_by_one_do_not_end_the_run(server: Server, questions: Questions) -> None:
    server.script = lambda call: (400, b"{}", SOON)
    surrogate_at(server, retries=0).forecast(questions.queries[:30])
    assert server.calls == 30


def test_prompt_states_the_edges_of_the_bins_and_nothing_else(questions: Questions) -> None:
    text = render(questions.queries[0])
    stated = [line.strip() for line in text.splitlines() if line.strip().startswith("bin ")]
    assert stated == [f"bin {n}: {bins.label(n)}" for n in bins.NUMBERS]
    edges = [f"{edge:.4g}" for edge in bins.EDGES]
    for number, edge in enumerate(edges, start=1):
        assert stated[number - 1].endswith(f"S < {edge}")
        assert f"{edge} ≤ S" in stated[number] or f"S ≥ {edge}" in stated[number]


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
    assert reason in str(forecast.failure)


@pytest.mark.parametrize("text", ["", "{" * 5000, "[" * 5000, '{"probabilities": ' * 300, "\x00\ud800", "{}" * 5000])
def test_hostile_text_is_a_failure_not_an_error(text: str) -> None:
    assert parse(text, "a" * 32).failure is not None
