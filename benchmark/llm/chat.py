"""Chat completions: requests as bodies of the OpenAI API, replies with their tokens, and the live endpoint."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import json
import time
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol

from kbench.schemas import MissingDependencyError, UserError

if TYPE_CHECKING:
    from openai import AsyncOpenAI

Messages = Sequence[Mapping[str, str]]
Body = Mapping[str, Any]
"""A chat completion request as the API takes it: model, messages and options."""
ANY_REQUEST = frozenset({401, 402, 403, 404, 408, 429})
"""Client errors that any other request would meet too; the others are the fault of the request that was sent."""
OUTAGES = ("connection error", "endpoint error", "timeout")
"""First words of failures that any other request would meet too."""
GIVE_UP_AFTER = 20
"""Outages in a row after which the other requests of a call are not sent: each may take all retries and waits."""
NOT_ASKED = "not asked"
"""First words of the failure of a request that was not sent."""
LONGEST_REASON = 300
"""Characters of a server's message that a failure keeps."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A reply's text and tokens; `failure` says why there is no text."""

    text: str = ""
    failure: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    elapsed_s: float | None = None
    model: str | None = None
    """Who answered, where the answer says so."""
    date: str | None = None
    """When, as ISO 8601, where the answer says so."""


class ChatModel(Protocol):
    """Whoever answers: an endpoint, or files."""

    def ask(self, bodies: Sequence[Body], /) -> list[Reply]:
        """A reply for each request, in order."""
        ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """An OpenAI-compatible server. Retries and their waits are those of the openai package."""

    base_url: str | None = None
    """OPENAI_BASE_URL or OpenAI's own by default."""
    api_key: str | None = dataclasses.field(default=None, repr=False)
    """OPENAI_API_KEY by default."""
    concurrency: int = 8
    retries: int = 3
    timeout_s: float = 300.0

    def check(self) -> None:
        """See that a client can be made; nothing is sent.

        Raises:
            MissingDependencyError: the openai package is not installed.
            UserError: no client can be made with these credentials and this address.
        """
        self._client()

    def ask(self, bodies: Sequence[Body], /) -> list[Reply]:
        """A reply for each request, in order. What goes wrong at the server is a failure of that reply.

        A server that is down, refuses or does not know us is given up: see GIVE_UP_AFTER.

        Raises:
            MissingDependencyError: the openai package is not installed.
            UserError: no client can be made.
        """
        return _run(self._ask_all(bodies))

    def _client(self) -> AsyncOpenAI:
        try:
            from openai import AsyncOpenAI
        except ImportError:
            raise MissingDependencyError("openai", "llm", "asking a language model") from None
        try:
            return AsyncOpenAI(
                api_key=self.api_key, base_url=self.base_url, max_retries=self.retries, timeout=self.timeout_s
            )
        except Exception as error:  # noqa: BLE001 - the package lets errors of its HTTP library through
            raise UserError(
                f"no client for the language model ({str(error).splitlines()[0]}); set OPENAI_API_KEY, to "
                "any word where the server needs none, and OPENAI_BASE_URL to the server's address"
            ) from None

    async def _ask_all(self, bodies: Sequence[Body]) -> list[Reply]:
        gate = asyncio.Semaphore(self.concurrency)
        outages: list[str] = []
        async with self._client() as client:

            async def ask(body: Body) -> Reply:
                async with gate:
                    if len(outages) >= GIVE_UP_AFTER:
                        return Reply(failure=f"{NOT_ASKED}: {GIVE_UP_AFTER} times in a row {outages[-1]}")
                    started = time.perf_counter()
                    reply = await self._ask(client, body)
                    if (reply.failure or "").startswith(OUTAGES):
                        outages.append(reply.failure or "")
                    else:
                        outages.clear()
                    return dataclasses.replace(reply, elapsed_s=time.perf_counter() - started)

            return list(await asyncio.gather(*map(ask, bodies)))

    async def _ask(self, client: AsyncOpenAI, body: Body) -> Reply:
        from openai import APIConnectionError, APIStatusError, APITimeoutError

        try:
            # Servers that are merely compatible send what the package's types do not allow for: read the JSON itself.
            raw = await client.chat.completions.with_raw_response.create(**body)
            return reply_from_body(json.loads(raw.content))
        except APITimeoutError:
            return Reply(failure=f"timeout: no reply within {self.timeout_s:g} s")
        except APIConnectionError as error:
            return Reply(failure=f"connection error: {error.__cause__ or error}")
        except APIStatusError as error:
            message = " ".join(str(error).split())[:LONGEST_REASON]
            return Reply(failure=f"{_blame(error.status_code)}: HTTP {error.status_code}: {message}")
        except ValueError as error:
            return Reply(failure=f"malformed reply: not JSON: {error}")


def _run(work: Coroutine[Any, Any, list[Reply]]) -> list[Reply]:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    # A notebook runs its cells inside a loop, which cannot run another.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def _blame(status: int) -> str:
    """First words of a failure: they tell an outage from one refused request."""
    return "request refused" if 400 <= status < 500 and status not in ANY_REQUEST else "endpoint error"


def reply_from_body(body: Any) -> Reply:
    """A chat completion's JSON as a reply; whatever is wrong with it becomes the failure."""
    if not isinstance(body, Mapping):
        return Reply(failure=f"malformed reply: a JSON {type(body).__name__} instead of a completion")
    spent = with_account(Reply(), body)
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices:
        return dataclasses.replace(spent, failure="empty reply: the completion has no choice")
    message = choices[0].get("message") if isinstance(choices[0], Mapping) else None
    text = message.get("content") if isinstance(message, Mapping) else None
    if not isinstance(text, str) or not text.strip():
        return dataclasses.replace(spent, failure="empty reply: the first choice has no text")
    return dataclasses.replace(spent, text=text)


def with_account(reply: Reply, said: Mapping[str, Any]) -> Reply:
    """The reply with what `model`, `usage`, `created` and `date` say; both usual names of token counts are read."""
    usage = said.get("usage")
    usage = usage if isinstance(usage, Mapping) else {}
    read = _count(usage.get("prompt_tokens", usage.get("input_tokens")))
    written = _count(usage.get("completion_tokens", usage.get("output_tokens")))
    model = said.get("model")
    return dataclasses.replace(
        reply,
        input_tokens=reply.input_tokens if read is None else read,
        output_tokens=reply.output_tokens if written is None else written,
        model=model if isinstance(model, str) and model else reply.model,
        date=_date(said) or reply.date,
    )


def _date(said: Mapping[str, Any]) -> str | None:
    if isinstance(said.get("date"), str):
        return str(said["date"])
    created = _count(said.get("created"))
    try:
        return None if created is None else datetime.datetime.fromtimestamp(created, datetime.UTC).isoformat()
    except (OverflowError, ValueError, OSError):
        return None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
