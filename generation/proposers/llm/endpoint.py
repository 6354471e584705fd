"""Endpoint: an OpenAI-compatible chat server, asked concurrently, with retries."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from kbench.generation.proposers.llm.reply import Reply, reply_from_body
from kbench.schemas import MissingDependencyError, UserError

Messages = Sequence[dict[str, str]]
RETRIED = frozenset({408, 409, 429, 500, 502, 503, 504})
ANY_REQUEST = frozenset({401, 402, 403, 404, 408, 429})
"""Client errors that would have met any other request too; the rest are the fault of the one that was sent."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where and how to ask; credentials come from the environment the openai package reads."""

    model: str
    base_url: str | None = None
    concurrency: int = 8
    attempts: int = 4
    timeout_s: float = 300.0
    temperature: float = 1.0
    backoff_s: float = 1.0
    """Wait before the second attempt; doubles with every further one."""
    sleep: Callable[[float], None] = time.sleep

    def check(self) -> None:
        """See that there is all it takes to ask; nothing is sent.

        Raises:
            MissingDependencyError: the openai package is not installed.
            UserError: credentials or address are such that no client can be made.
        """
        self._client().close()

    def _client(self) -> Any:
        try:
            import openai
        except ImportError:
            raise MissingDependencyError("openai", "llm", "asking a language model") from None
        try:
            return openai.OpenAI(base_url=self.base_url, max_retries=0, timeout=self.timeout_s)
        except Exception as error:  # noqa: BLE001 - the package lets errors of the HTTP library below it through
            raise UserError(
                f"no client for model {self.model!r} ({str(error).splitlines()[0]}); set OPENAI_API_KEY, to any word "
                "where the server asks for none, and OPENAI_BASE_URL to its address"
            ) from None

    def ask(self, requests: Sequence[Messages]) -> list[Reply]:
        """A reply for each request, in order. Never raises for what the server does: that is a reply's failure.

        Raises:
            MissingDependencyError: the openai package is not installed.
            UserError: no client can be made.
        """
        client = self._client()
        try:
            with concurrent.futures.ThreadPoolExecutor(self.concurrency) as pool:
                return list(pool.map(lambda messages: self._ask(client, messages), requests))
        finally:
            client.close()

    def _ask(self, client: Any, messages: Messages) -> Reply:
        failure = ""
        for attempt in range(self.attempts):
            if attempt:
                self.sleep(self.backoff_s * 2 ** (attempt - 1))
            reply, again = self._once(client, messages)
            if not again:
                return reply
            failure = reply.failure or ""
        return Reply(failure=f"{failure} ({self.attempts} attempts)")

    def _once(self, client: Any, messages: Messages) -> tuple[Reply, bool]:
        """One attempt, and whether another may help."""
        import openai

        try:
            raw = client.chat.completions.with_raw_response.create(
                model=self.model, messages=list(messages), temperature=self.temperature
            )
            return reply_from_body(json.loads(raw.content)), False
        except openai.APITimeoutError:
            return Reply(failure=f"timeout: no reply within {self.timeout_s:g} s"), True
        except openai.APIStatusError as error:
            reason = f"{_blame(error.status_code)}: HTTP {error.status_code}: {str(error)[:300]}"
            return Reply(failure=reason), error.status_code in RETRIED
        except openai.APIConnectionError as error:
            return Reply(failure=f"connection error: {error.__cause__ or error}"), True
        except ValueError as error:
            return Reply(failure=f"malformed reply: not JSON: {error}"), True


def _blame(status: int) -> str:
    """First words of a failure, which tell an outage (see `search.state`) from a request that is refused alone."""
    return "request refused" if 400 <= status < 500 and status not in ANY_REQUEST else "endpoint error"
