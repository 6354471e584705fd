"""Servers that misbehave, and a process that is killed: no answer that was paid for is lost or asked for twice."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from faults import endpoints

from kbench.benchmark.evaluate.evaluate import evaluate_on
from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.llm.batch import write_requests
from kbench.benchmark.llm.chat import Reply
from kbench.benchmark.llm.endpoint import Endpoint
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import UserError

ROOT = Path(__file__).parents[3]
TRIED = (
    "190,000 brackets", "content of 38,000 nested objects", "content of lone surrogates", "a probability of 10**400",
    "a probability of 1e308 each", "usage of 2**70", "content in parts", "gzip that is none",
    "an error repeats the key in a header", "an error repeats the key in base64 after a name",
    "the answer repeats the key with zero-width spaces", "the model's name is the key as it is",
    "a redirect to another port", "a redirect to itself with a query", "gzip in gzip", "an error without end",
    "a redirect without end",
)  # fmt: skip
BODY = {"model": "m", "messages": [{"role": "user", "content": "x" * 200}]}


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")


@pytest.mark.parametrize("mode", TRIED)
def test_an_odd_answer_costs_its_own_query_alone(mode: str, corpus: Corpus, tmp_path: Path) -> None:
    # None of these modes waits, so that a busy machine must not run out of time.
    assert endpoints.try_mode(mode, corpus, tmp_path, timeout_s=60.0)["good"]


@pytest.mark.parametrize(
    ("answer", "failure", "calls"),
    [
        ((429, b"{}"), "endpoint error: HTTP 429", 4),
        ((500, b"oops"), "endpoint error: HTTP 500", 4),
        ((401, b"{}"), "endpoint error: HTTP 401", 1),
        ((400, b"{}"), "request refused: HTTP 400", 1),
        ((200, b"<html>"), "malformed reply: not JSON", 1),
        ((200, b'{"choices": []}'), "empty reply", 1),
        ((0, b""), "connection error", 4),
    ],
)
def test_a_failure_is_tried_again_where_that_may_help(answer: tuple[int, bytes], failure: str, calls: int) -> None:
    with endpoints.serving(lambda call: (*answer, {"Retry-After-Ms": "1"})) as server:
        (reply,) = Endpoint(base_url=server.url).ask([BODY])
    assert str(reply.failure).startswith(failure)
    assert server.calls == calls


def test_requests_run_side_by_side_also_from_inside_a_running_loop_as_in_a_notebook() -> None:
    four = threading.Barrier(4)

    def together(call: int) -> tuple[int, bytes, dict[str, str]]:
        four.wait()
        return 200, endpoints.completion(), {}

    async def cell(url: str) -> list[Reply]:
        return Endpoint(base_url=url, concurrency=4, timeout_s=600).ask([BODY] * 4)

    # In a thread of its own: a browser that another test of this worker left open has a loop in the main one.
    with endpoints.serving(together) as server, ThreadPoolExecutor(1) as thread:
        replies = thread.submit(asyncio.run, cell(server.url)).result()
    assert [reply.failure for reply in replies] == [None] * 4


def test_a_slow_disk_holds_back_requests() -> None:
    with endpoints.serving(lambda call: (200, endpoints.completion(), {})) as server:
        endpoint = Endpoint(base_url=server.url, api_key="none", concurrency=4)
        for taken, _ in enumerate(endpoint.stream([BODY] * 16)):
            time.sleep(0.02)  # While a reply is stored, nothing more than the other three may be asked.
            assert server.calls <= taken + 4
        assert server.calls == 16


def test_a_killed_evaluation_has_kept_every_answer(corpus: Corpus, tmp_path: Path) -> None:
    def slowly(call: int) -> tuple[int, bytes, dict[str, str]]:
        time.sleep(0.01)
        return 200, endpoints.completion(), {}

    with endpoints.serving(slowly) as server:
        command = [
            sys.executable, "-m", "kbench", "evaluate", "--surrogate", "llm", "--dataset", str(corpus.folders[0]),
            "--surrogate-arg", "model=m", "--surrogate-arg", f"base_url={server.url}", "--surrogate-arg",
            "concurrency=4", "--limit", "60", "--tracks", "forecast", "--resamples", "10", "--no-report", "--out",
            str(tmp_path / "out"),
        ]  # fmt: skip
        environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
        with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as running:
            while server.calls < 30 and running.poll() is None:
                time.sleep(0.005)
            running.send_signal(signal.SIGKILL)
        before = server.calls
        kept = (tmp_path / "out" / "cache" / "replies.jsonl").read_bytes().count(b"\n")
        assert before - 4 <= kept + 1
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert server.calls <= 60 + 5


def test_a_wait_that_a_server_asks_for_is_kept() -> None:
    times: list[float] = []

    def busy(call: int) -> tuple[int, bytes, dict[str, str]]:
        times.append(time.monotonic())
        return (429, b"{}", {"Retry-After": "1"}) if call == 1 else (200, endpoints.completion(), {})

    with endpoints.serving(busy) as server:
        (reply,) = Endpoint(base_url=server.url).ask([BODY])
    assert reply.failure is None
    assert times[1] - times[0] >= 1.0


def test_a_wait_beyond_the_deadline_is_not_begun() -> None:
    with endpoints.serving(lambda call: (429, b"{}", {"Retry-After": "3600"})) as server:
        (reply,) = Endpoint(base_url=server.url).ask([BODY])
        assert "waiting 3600 s would pass the deadline" in str(reply.failure)
        assert server.calls == 1


def test_a_server_that_never_finishes_is_left_at_the_deadline() -> None:
    with endpoints.serving(lambda call: (1, endpoints.completion(), {})) as server:
        (reply,) = Endpoint(base_url=server.url, timeout_s=0.5, deadline_s=0.6, retries=5).ask([BODY])
    assert (reply.failure or "").startswith("timeout")


@pytest.mark.parametrize("usage", [{"prompt_tokens": 400, "completion_tokens": 200}, None])
def test_no_more_tokens_are_spent_than_allowed(usage: dict[str, int] | None) -> None:
    with endpoints.serving(lambda call: (200, endpoints.completion(usage=usage), {})) as server:
        endpoint = Endpoint(base_url=server.url)
        assert endpoint.ask([BODY] * 8, tokens_left=100)[0].failure is not None
        assert server.calls == 0
        replies = endpoint.ask([BODY] * 16, tokens_left=2000)
    asked = [reply for reply in replies if reply.failure is None]
    assert all(str(reply.failure).startswith("not asked: over budget") for reply in replies if reply not in asked)
    assert 1 <= len(asked) <= 3


def test_a_limit_of_an_evaluation_counts_what_earlier_runs_spent(corpus: Corpus, tmp_path: Path) -> None:
    with endpoints.serving(lambda call: (200, endpoints.completion(), {})) as server:
        given = {"model": "m", "base_url": server.url, "price_in": 1.0, "price_out": 1.0, "max_tokens": 64}
        for limit in (30, 40):
            options = Options(arguments=given, limit=limit, tracks=("forecast",), resamples=10, max_cost=30 * 120 / 1e6)
            evaluate_on("llm", corpus, options, out=tmp_path)
            assert 10 <= server.calls <= 30


def test_limits_are_for_language_models(corpus: Corpus) -> None:
    with pytest.raises(UserError, match="--max-tokens and --max-cost limit the surrogate llm"):
        evaluate_on("uniform", corpus, Options(max_tokens=5))


def test_requests_are_written_once_by_their_id(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    for temperature in (0.0, 0.5):
        write_requests(path, {"a": {**BODY, "temperature": temperature}, "b": BODY})
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["custom_id"] for row in rows] == ["a", "b"]
    assert rows[0]["body"]["temperature"] == 0.5
