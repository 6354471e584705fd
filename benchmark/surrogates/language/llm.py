"""`llm`: any model behind an OpenAI-compatible endpoint, asked live or through Batch files."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbench.benchmark.surrogates.language.parse import parse
from kbench.benchmark.surrogates.language.prompt import SYSTEM, answer_schema, render
from kbench.benchmark.surrogates.protocol import failure
from kbench.schemas import DataError, Forecast, MissingDependencyError, Query, UserError

if TYPE_CHECKING:
    from openai import AsyncOpenAI

CHARACTERS_PER_TOKEN = 3.5
TRIES = 5
"""Calls for one answer; waits between them double."""


class LlmSurrogate:
    """Renders a query, asks, reads the answer; everything that goes wrong is a failure of that query alone."""

    inputs = "source"

    def __init__(
        self,
        model: str = "",
        base_url: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        temperature: float | None = None,
        repeats: int = 1,
        max_tokens: int = 4096,
        concurrency: int = 16,
        timeout: float = 120.0,
        strict_json: bool = True,
        requests_file: str | None = None,
        responses_file: str | None = None,
        price_in: float | None = None,
        price_out: float | None = None,
        first_wait: float = 0.5,
        seed: int = 0,
    ) -> None:
        """Set up.

        Args:
            model: the model's name at the endpoint.
            base_url: the endpoint; OPENAI_BASE_URL or OpenAI's own by default.
            api_key_env: environment variable that holds the key; keys are never arguments.
            temperature: of sampling; the endpoint's default when left out.
            repeats: answers a query, each scored; average them with --ensemble.
            max_tokens: longest answer.
            concurrency: requests in flight.
            timeout: seconds one request may take.
            strict_json: ask the endpoint to force the answer's JSON schema.
            requests_file: write Batch requests here and ask nothing.
            responses_file: read Batch responses from here and ask nothing.
            price_in: price of a million tokens read, for --dry-run.
            price_out: price of a million tokens written, for --dry-run.
            first_wait: seconds before the first retry; they double.
            seed: sent with each request, plus the repeat's number.
        """
        if not model and responses_file is None:
            raise UserError("llm needs --surrogate-arg model=NAME")
        if repeats < 1 or concurrency < 1:
            raise UserError(f"llm has repeats {repeats} and concurrency {concurrency}; both must be at least 1")
        if requests_file is not None and responses_file is not None:
            raise UserError("llm takes requests_file or responses_file, not both: write first, read later")
        self.repeats = repeats
        self._model, self._base_url, self._key_env = model, base_url, api_key_env
        self._temperature, self._max_tokens, self._strict = temperature, max_tokens, strict_json
        self._concurrency, self._timeout, self._first_wait, self._seed = concurrency, timeout, first_wait, seed
        self._requests, self._responses = requests_file, responses_file
        self._prices = (price_in, price_out)

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        """Answers to every query and repeat."""
        if self._requests is not None:
            return self._write_requests(queries, Path(self._requests))
        if self._responses is not None:
            return self._read_responses(queries, Path(self._responses))
        return asyncio.run(self._ask_all(queries))

    def estimate(self, queries: Sequence[Query]) -> dict[str, Any]:
        """What asking would cost, before any money is spent."""
        tokens_in = round(sum(len(SYSTEM) + len(render(q)) for q in queries) / CHARACTERS_PER_TOKEN) * self.repeats
        tokens_out = 400 * len(queries) * self.repeats
        found: dict[str, Any] = {
            "requests": len(queries) * self.repeats,
            "input_tokens_estimate": tokens_in,
            "output_tokens_estimate": tokens_out,
        }
        if self._prices[0] is not None:
            found["price_estimate"] = round(
                (tokens_in * self._prices[0] + tokens_out * (self._prices[1] or 0)) / 1e6, 4
            )
        return found

    def body(self, query: Query, repeat: int) -> dict[str, Any]:
        """The request."""
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": render(query)}],
            "max_completion_tokens": self._max_tokens,
            "seed": self._seed + repeat,
        }
        if self._temperature is not None:
            body["temperature"] = self._temperature
        if self._strict:
            schema = {"name": "forecast", "strict": True, "schema": answer_schema()}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        return body

    def _client(self) -> AsyncOpenAI:
        try:
            from openai import AsyncOpenAI
        except ImportError:
            raise MissingDependencyError("openai", "llm", "asking a language model") from None
        key = os.environ.get(self._key_env)
        if not key and self._base_url is None:
            raise UserError(
                f"environment variable {self._key_env} is not set; llm needs a key or a base_url of your own"
            )
        # Retries are ours: their count and waits belong to the record of a failure.
        return AsyncOpenAI(api_key=key or "none", base_url=self._base_url, timeout=self._timeout, max_retries=0)

    async def _ask_all(self, queries: Sequence[Query]) -> list[Forecast]:
        client = self._client()
        gate = asyncio.Semaphore(self._concurrency)

        async def one(query: Query, repeat: int) -> Forecast:
            async with gate:
                return await self._ask(client, query, repeat)

        async with client:
            return list(await asyncio.gather(*(one(q, r) for q in queries for r in range(self.repeats))))

    async def _ask(self, client: AsyncOpenAI, query: Query, repeat: int) -> Forecast:
        from openai import APIConnectionError, APIError, APIStatusError, APITimeoutError

        started, wait, reason = time.perf_counter(), self._first_wait, "no try was made"
        for attempt in range(TRIES):
            try:
                answer = await client.chat.completions.create(**self.body(query, repeat))
                return _read(answer.model_dump(), query.query_id, repeat, time.perf_counter() - started)
            except APITimeoutError:
                reason = f"no answer within {self._timeout:g} s"
            except APIConnectionError as error:
                reason = f"no connection: {error.__cause__ or error}"
            except APIStatusError as error:
                reason = f"endpoint answered {error.status_code}: {_short(error.message)}"
                if error.status_code in (400, 401, 403, 404, 422):
                    break
            except (APIError, ValueError) as error:
                reason = f"endpoint answered nonsense: {_short(str(error))}"
            if attempt < TRIES - 1:
                await asyncio.sleep(wait)
                wait *= 2
        return failure(query.query_id, reason, repeat, time.perf_counter() - started)

    def _write_requests(self, queries: Sequence[Query], path: Path) -> list[Forecast]:
        """Batch requests, one a line; the queries count as unanswered until the responses are read."""
        with path.open("a", encoding="utf-8") as file:
            for query in queries:
                for repeat in range(self.repeats):
                    request = {
                        "custom_id": f"{query.query_id}:{repeat}",
                        "method": "POST",
                        "url": "/v1/chat/completions",
                        "body": self.body(query, repeat),
                    }
                    file.write(json.dumps(request) + "\n")
        reason = "request written; answer it, then use responses_file"
        return [failure(query.query_id, reason, repeat) for query in queries for repeat in range(self.repeats)]

    def _read_responses(self, queries: Sequence[Query], path: Path) -> list[Forecast]:
        answers = _batch_responses(path)
        made = []
        for query in queries:
            for repeat in range(self.repeats):
                response = answers.get(f"{query.query_id}:{repeat}")
                if response is None:
                    made.append(failure(query.query_id, "the responses hold no answer to this query", repeat))
                else:
                    made.append(_read(response, query.query_id, repeat, None))
        return made


def _read(response: Any, query_id: str, repeat: int, elapsed_s: float | None) -> Forecast:
    """The forecast in a chat completion, with its tokens."""
    try:
        text = response["choices"][0]["message"]["content"]
    except (KeyError, IndexError, TypeError):
        return failure(query_id, "the response holds no message", repeat, elapsed_s)
    usage = response.get("usage") or {}
    forecast = parse(text or "", query_id, repeat)
    return dataclasses.replace(
        forecast,
        elapsed_s=elapsed_s,
        input_tokens=_count(usage.get("prompt_tokens")),
        output_tokens=_count(usage.get("completion_tokens")),
    )


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None


def _batch_responses(path: Path) -> dict[str, Any]:
    """Responses of a Batch file by custom id; a line that is no JSON is refused with its number."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"responses_file {str(path)!r} cannot be read ({error})") from None
    found: dict[str, Any] = {}
    for number, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        try:
            row = json.loads(text)
            found[row["custom_id"]] = (row.get("response") or {}).get("body")
        except (ValueError, KeyError, TypeError, AttributeError):
            raise DataError(f"{path} line {number} is no batch response; it must hold custom_id and response") from None
    return found


def _short(text: str) -> str:
    return " ".join(text.split())[:200]
