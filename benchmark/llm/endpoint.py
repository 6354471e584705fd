"""Endpoint: an OpenAI-compatible server, asked live within a limit on what requests may cost.

Whatever the server sends costs that request alone, and no reply takes more memory than a reply needs: a client reads
errors and redirects whole and decodes what it reads piece by piece, so that an error without end, or one that is packed
twice, would take all memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import email.utils
import functools
import importlib
import json
import math
import os
import queue
import random
import re
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kbench.benchmark.llm.chat import (
    GIVE_UP_AFTER,
    NOT_ASKED,
    OUTAGES,
    OVER_BUDGET,
    Body,
    RefusedReplyError,
    Reply,
    encodable,
    reply_from_body,
)
from kbench.benchmark.llm.scrub import Scrubber
from kbench.schemas import MissingDependencyError, UserError

if TYPE_CHECKING:
    from openai import AsyncOpenAI

ANY_REQUEST = frozenset({401, 402, 403, 404, 408, 429})
"""Client errors that any other request would meet too; the others are the fault of the request that was sent."""
WORTH_ANOTHER_TRY = frozenset({408, 409, 425, 429})
"""Client errors that may pass; a server's own errors may too."""
FORM = "response_format"
"""The field that states the form of an answer; many servers know no JSON schema, and say so when they see one."""
MALFORMED_REQUEST = frozenset({400, 422})
NO_FORM = re.compile(r"response.?format|json.?schema|structured.?output|guided|grammar", re.IGNORECASE)
"""What a server says that does not take that field."""
LONGEST_REASON = 300
"""Characters of a server's message that a failure keeps."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 8.0
"""Between tries, where the server does not say how long to wait."""
CHARACTERS_PER_TOKEN_AT_LEAST = 2.0
"""Denser than any tokenizer cuts code, so that a request's length bounds what reading it costs."""
LONGEST_ANSWER = 8192
"""Tokens an answer may have where a request does not say."""
SHORTEST_ANSWER = 64
"""A request that could be answered with fewer tokens than this is not worth sending."""
NOT_BILLED = ("connection error", "endpoint error", "request refused", "not sent")
"""First words of failures that no server charges for."""
ACCEPTED = {"Accept-Encoding": "gzip"}
READ = ("", "identity", "gzip", "deflate")
"""Encodings that pack a thousandfold at most; others have no such bound, nor have two on top of each other."""
MOST_BYTES, MOST_ERROR_BYTES = 16 * 2**20, 2**16
"""Of a reply, and of an error or redirect, of which no more than the beginning is shown."""


@dataclasses.dataclass(frozen=True, slots=True)
class Attempt:
    """What came of sending a request once."""

    reply: Reply
    again: bool = False
    """Whether the same request may fare better later."""
    pause_s: float | None = None
    """How long the server asked to wait."""
    without: str | None = None
    """The field of the request without which the server may answer it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """An OpenAI-compatible server."""

    base_url: str | None = None
    """OPENAI_BASE_URL or OpenAI's own by default."""
    api_key: str | None = dataclasses.field(default=None, repr=False)
    """OPENAI_API_KEY by default."""
    concurrency: int = 8
    retries: int = 3
    timeout_s: float = 300.0
    """One try, from sending to the last byte of the answer."""
    deadline_s: float = 900.0
    """One request with all its tries and the waits between them."""
    left_out: set[str] = dataclasses.field(default_factory=set, repr=False, compare=False)
    """Fields that the server has refused: no further request has them."""

    def check(self) -> None:
        """See that a client can be made; nothing is sent.

        Raises:
            MissingDependencyError: the openai package is not installed.
            UserError: no client can be made with these credentials and this address.
        """
        self._client()

    @property
    def scrubber(self) -> Scrubber:
        """Takes the key out of what the server says."""
        return Scrubber.of(self.api_key or os.environ.get("OPENAI_API_KEY"))

    def ask(self, bodies: Sequence[Body], /, *, tokens_left: int | None = None) -> list[Reply]:
        """A reply for each request, in order. What goes wrong at the server is a failure of that reply.

        A server that is down, refuses or does not know us is given up: see GIVE_UP_AFTER.

        Raises:
            MissingDependencyError: the openai package is not installed.
            UserError: no client can be made.
        """
        meter = None if tokens_left is None else Meter(limit=tokens_left)
        replies = dict(self.stream(bodies, meter))
        return [replies[at] for at in range(len(bodies))]

    def stream(self, bodies: Sequence[Body], meter: Meter | None = None) -> Iterator[tuple[int, Reply]]:
        """Each reply the moment it arrives, with the position of its request.

        A request is sent only when fewer than `concurrency` replies are under way or not yet taken care of: a caller
        that stores each reply before it asks for the next one never has more of them to lose.

        Raises:
            MissingDependencyError: the openai package is not installed.
            UserError: no client can be made.
        """
        self.check()
        arrived: queue.SimpleQueue[tuple[int, Reply] | BaseException | None] = queue.SimpleQueue()
        loop = asyncio.new_event_loop()
        gate = asyncio.Semaphore(self.concurrency)
        work = loop.create_task(self._ask_all(bodies, meter, gate, arrived.put))

        def run() -> None:
            try:
                loop.run_until_complete(work)
                arrived.put(None)
            except BaseException as error:  # noqa: BLE001 - handed to the asking thread, which raises it
                arrived.put(error)
            finally:
                loop.close()

        # A thread of its own: a notebook runs its cells inside a loop, which cannot run another.
        thread = threading.Thread(target=run, name="kbench-endpoint", daemon=True)
        thread.start()
        try:
            while (item := arrived.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item
                with contextlib.suppress(RuntimeError):  # the loop has ended
                    loop.call_soon_threadsafe(gate.release)
        finally:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(work.cancel)
            thread.join(timeout=5.0)

    def _client(self) -> AsyncOpenAI:
        try:
            from openai import AsyncOpenAI, DefaultAsyncHttpxClient
        except ImportError:
            raise MissingDependencyError("openai", "llm", "asking a language model") from None
        address = self.base_url or os.environ.get("OPENAI_BASE_URL") or "https://"
        if not address.startswith(("http://", "https://")):
            raise UserError(f"base_url is {address!r}; it must begin with http:// or https://")
        try:
            # Tries again are ours: the package's own ignore long waits that a server asks for, and know no deadline.
            hooks = {"response": [refuse_redirect, screen]}
            client = DefaultAsyncHttpxClient(timeout=self.timeout_s, event_hooks=hooks, headers=ACCEPTED)
            return AsyncOpenAI(
                api_key=self.api_key, base_url=self.base_url, max_retries=0, timeout=self.timeout_s, http_client=client
            )
        except Exception as error:  # noqa: BLE001 - the package lets errors of its HTTP library through
            reason = self.scrubber.text(str(error).splitlines()[0])
            raise UserError(
                f"no client for the language model ({reason}); set OPENAI_API_KEY, to "
                "any word where the server needs none, and OPENAI_BASE_URL to the server's address"
            ) from None

    async def _ask_all(
        self,
        bodies: Sequence[Body],
        meter: Meter | None,
        gate: asyncio.Semaphore,
        arrived: Callable[[tuple[int, Reply]], None],
    ) -> None:
        """Ask for everything; whoever takes a reply opens the gate for another request."""
        if meter is not None:
            meter.begin()
        outages: list[str] = []
        scrubber = self.scrubber
        async with self._client() as client:

            async def ask(at: int, body: Body) -> None:
                await gate.acquire()
                if len(outages) >= GIVE_UP_AFTER:
                    arrived((at, Reply(failure=f"{NOT_ASKED}: {GIVE_UP_AFTER} times in a row {outages[-1]}")))
                    return
                reply = scrubber.reply(await self._metered(client, body, meter))
                if (reply.failure or "").startswith(OUTAGES):
                    outages.append(reply.failure or "")
                else:
                    outages.clear()
                arrived((at, reply))

            await asyncio.gather(*(ask(at, body) for at, body in enumerate(bodies)))

    async def _metered(self, client: AsyncOpenAI, body: Body, meter: Meter | None) -> Reply:
        if meter is None:
            return await self._ask(client, body)
        grant = await meter.admit(body)
        if grant is None:
            left = meter.limit - meter.spent
            return Reply(failure=f"{OVER_BUDGET}: {left:g} of {meter.limit:g} are left and the request may cost more")
        reply = Reply(failure="not sent")
        try:
            reply = await self._ask(client, {**body, "max_completion_tokens": grant.answer_tokens})
            return reply
        finally:
            await meter.settle(grant, reply)

    async def _ask(self, client: AsyncOpenAI, body: Body) -> Reply:
        """Send, and send again while the server says that it may help and the deadline allows it."""
        started = time.monotonic()
        tries = 0
        while True:
            left_s = self.deadline_s - (time.monotonic() - started)
            sent = {name: value for name, value in body.items() if name not in self.left_out}
            attempt = await self._attempt(client, sent, min(self.timeout_s, left_s))
            if attempt.without in sent:
                self.left_out.add(str(attempt.without))
                continue
            tries += 1
            pause_s = attempt.pause_s
            if pause_s is None:
                pause_s = min(FIRST_PAUSE_S * 2.0 ** (tries - 1), LONGEST_PAUSE_S) * random.uniform(0.75, 1.0)
            late = time.monotonic() - started + pause_s >= self.deadline_s
            if not attempt.again or tries > self.retries or late:
                most = body.get("max_completion_tokens")
                reply = dataclasses.replace(attempt.reply, elapsed_s=time.monotonic() - started, most_tokens=most)
                if attempt.again and late and tries <= self.retries:
                    words = f"{reply.failure}; waiting {pause_s:g} s would pass the deadline of {self.deadline_s:g} s"
                    reply = dataclasses.replace(reply, failure=words)
                return reply
            await asyncio.sleep(pause_s)

    async def _attempt(self, client: AsyncOpenAI, body: Body, limit_s: float) -> Attempt:
        from openai import APIConnectionError, APIStatusError, APITimeoutError

        try:
            async with asyncio.timeout(limit_s):
                return Attempt(await _completion(client, body))
        except (TimeoutError, APITimeoutError):
            return Attempt(Reply(failure=f"timeout: no reply within {limit_s:g} s"), again=True)
        except (APIConnectionError, RefusedReplyError) as error:
            refused = next((e for e in (error, error.__cause__) if isinstance(e, RefusedReplyError)), None)
            if refused is not None:
                return Attempt(Reply(failure=f"endpoint error: {_short(refused)}"))
            return Attempt(Reply(failure=f"connection error: {_short(error.__cause__ or error)}"), again=True)
        except APIStatusError as error:
            status = error.status_code
            # The first words tell an outage from one refused request.
            refused_alone = 400 <= status < 500 and status not in ANY_REQUEST
            blame = "request refused" if refused_alone else "endpoint error"
            reply = Reply(failure=f"{blame}: HTTP {status}: {_short(error)}")
            again = status in WORTH_ANOTHER_TRY or status >= 500
            without = FORM if status in MALFORMED_REQUEST and NO_FORM.search(str(error)) else None
            return Attempt(reply, again, _asked_pause_s(error.response.headers), without)
        except Exception as error:  # noqa: BLE001 - whatever a server makes its client raise is that reply's failure
            not_json = isinstance(error, ValueError)
            reason = f"malformed reply: {'not JSON' if not_json else type(error).__name__}: {_short(error)}"
            return Attempt(Reply(failure=reason))


async def refuse_redirect(response: Any) -> None:
    """Refuse redirects to another host, and those that were followed before.

    Raises:
        RefusedReplyError: names the host, or the address that is visited again.
    """
    if not response.has_redirect_location:
        return
    request = response.request
    target = request.url.join(response.headers["location"])
    if (target.scheme, target.host, target.port) != (request.url.scheme, request.url.host, request.url.port):
        raise RefusedReplyError(f"it redirects to {target.host!r}, another host; name the address that answers itself")
    # The next request of a chain gets the same extensions.
    visited = request.extensions.setdefault("kbench_visited", {str(request.url)})
    if str(target) in visited:
        raise RefusedReplyError(f"it redirects in a circle, to {target.path!r} again")
    visited.add(str(target))


async def _completion(client: AsyncOpenAI, body: Body) -> Reply:
    # Servers that are merely compatible send what the package's types do not allow for: read the JSON itself.
    more = {name: value for name, value in body.items() if name not in ("model", "messages")}
    # As extra fields: the package refuses names that it does not know, and servers know others.
    create = client.chat.completions.with_streaming_response.create
    async with create(model=body["model"], messages=body["messages"], extra_body=more) as response:
        data = bytearray()
        async for chunk in response.iter_bytes():
            data += chunk
            if len(data) > MOST_BYTES:
                return Reply(failure=f"malformed reply: longer than {MOST_BYTES:,} bytes")
    return reply_from_body(json.loads(data))


def _short(error: BaseException) -> str:
    return encodable(" ".join((str(error) or type(error).__name__).split()))[:LONGEST_REASON]


def _asked_pause_s(headers: Mapping[str, str]) -> float | None:
    """How long a server asks to wait, in milliseconds, seconds or until a date; None where it does not."""
    for name, scale in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            pause_s = float(headers[name]) * scale
        except (KeyError, ValueError):
            continue
        if math.isfinite(pause_s) and pause_s >= 0:
            return pause_s
    try:
        return max(0.0, email.utils.parsedate_to_datetime(headers["retry-after"]).timestamp() - time.time())
    except (KeyError, ValueError, OverflowError, TypeError, IndexError, AttributeError):
        return None


@dataclasses.dataclass(slots=True, kw_only=True)
class Meter:
    """What may be spent and what was; used inside one event loop."""

    limit: float
    """In tokens, or in the currency of the prices."""
    per_input: float = 1.0
    per_output: float = 1.0
    spent: float = 0.0
    _reserved: float = 0.0
    _dearest: float = 0.0
    """The most that one request has cost: what the next may cost where estimates are wrong."""
    _settled: asyncio.Condition = dataclasses.field(default_factory=asyncio.Condition, repr=False)

    def begin(self) -> None:
        """Start anew inside the running event loop: nothing is on its way."""
        self._reserved, self._settled = 0.0, asyncio.Condition()

    async def admit(self, body: Body) -> Grant | None:
        """Leave to send a request, and how long its answer may be; None when it might cost more than is left.

        Until the first request has shown what one costs it is alone on its way: a server may ignore the length asked.
        """
        async with self._settled:
            while True:
                grant = self._grant(body, self._reserved)
                if grant is not None and (self._dearest > 0 or self._reserved == 0):
                    self._reserved += grant.price
                    return grant
                if self._reserved == 0 or self._grant(body, 0.0) is None:
                    return None
                await self._settled.wait()

    def _grant(self, body: Body, reserved: float) -> Grant | None:
        left = self.limit - self.spent - reserved
        characters = sum(len(message["content"].encode()) for message in body["messages"])
        reading = self.per_input * (characters / CHARACTERS_PER_TOKEN_AT_LEAST + 16 * len(body["messages"]))
        wanted = int(body.get("max_completion_tokens") or LONGEST_ANSWER)
        affordable = (left - reading) / self.per_output if self.per_output else math.inf
        tokens = int(min(wanted, affordable)) if left > reading else 0
        price = max(reading + self.per_output * tokens, self._dearest)
        return Grant(tokens, price) if tokens >= min(wanted, SHORTEST_ANSWER) and price <= left else None

    async def settle(self, grant: Grant, reply: Reply) -> None:
        """Take what a request cost; where the server does not say, what it might have cost."""
        async with self._settled:
            self._reserved -= grant.price
            if not (reply.failure or "").startswith(NOT_BILLED):
                cost = self.cost(reply)
                self.spent += grant.price if cost is None else cost
                self._dearest = max(self._dearest, grant.price if cost is None else cost)
            self._settled.notify_all()

    def cost(self, reply: Reply) -> float | None:
        """What a reply cost; None where it does not say."""
        if reply.input_tokens is None and reply.output_tokens is None:
            return None
        return self.per_input * (reply.input_tokens or 0) + self.per_output * (reply.output_tokens or 0)


@dataclasses.dataclass(frozen=True, slots=True)
class Grant:
    """Leave to send one request."""

    answer_tokens: int
    price: float
    """What is set aside for it."""


@functools.cache
def _stream_class(package: str) -> Any:
    """The class of streams that end early, for the HTTP library that the client is made of."""

    class BeginningStream(importlib.import_module(package).AsyncByteStream):  # type: ignore[misc]
        def __init__(self, stream: Any, most_bytes: int) -> None:
            self._stream, self._left = stream, most_bytes

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for piece in self._stream:
                yield piece[: self._left]
                self._left -= len(piece)
                if self._left <= 0:
                    return

        async def aclose(self) -> None:
            await self._stream.aclose()

    return BeginningStream


async def screen(response: Any) -> None:
    """Bound what is read of a response; what is encoded in a way that has no bound is refused."""
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in READ:
        raise RefusedReplyError(f"its reply is encoded as {encoding[:40]!r}; only gzip is asked for")
    most_bytes = MOST_BYTES + 1 if response.is_success else MOST_ERROR_BYTES
    package = type(response).__module__.partition(".")[0]
    response.stream = _stream_class(package)(response.stream, most_bytes)
