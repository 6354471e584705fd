"""Chat completions: requests as bodies of the OpenAI API, and replies with their tokens."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

Messages = Sequence[Mapping[str, str]]
Body = Mapping[str, Any]
"""A chat completion request as the API takes it: model, messages and options."""
OUTAGES = ("connection error", "endpoint error", "timeout")
"""First words of failures that any other request would meet too."""
GIVE_UP_AFTER = 20
"""Outages in a row after which the other requests of a call are not sent: each may take all retries and waits."""
NOT_ASKED = "not asked"
"""First words of the failure of a request that was not sent."""
WRITTEN = "request written; answer it, then use responses_file"
"""The failure of a request that waits in a file for its answer."""
MOST_TOKENS = 10**9
"""A larger count in a reply is no count: tables hold it in 64 bits and sums must stay exact."""
CHARACTERS_PER_TOKEN = 3.5
"""Source code is denser than prose; measured on kernel sources with common tokenizers."""
EMPTY = "empty reply: the first choice has no text"
"""The failure of a completion that says nothing, such as one whose reasoning took all the tokens it might have."""
OVER_BUDGET = f"{NOT_ASKED}: over budget"
"""First words of the failure of a request that was not sent because it might cost more than is left."""


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
    most_tokens: int | None = None
    """How long it might have been, where that is known."""

    @property
    def from_model(self) -> bool:
        """Whether the model itself replied, if with nothing; otherwise something went wrong on the way."""
        return self.failure is None or self.failure == EMPTY


class RefusedReplyError(Exception):
    """A server sends a request, and the source text in it, elsewhere, or a reply that is not read."""


class ChatModel(Protocol):
    """Whoever answers: an endpoint, or files."""

    def ask(self, bodies: Sequence[Body], /, *, tokens_left: int | None = None) -> list[Reply]:
        """A reply for each request, in order.

        Args:
            bodies: the requests.
            tokens_left: what they may cost together; a request that might cost more is not sent.
        """
        ...


def reply_from_body(body: Any) -> Reply:
    """A chat completion's JSON as a reply; whatever is wrong with it becomes the failure."""
    if not isinstance(body, Mapping):
        return Reply(failure=f"malformed reply: a JSON {type(body).__name__} instead of a completion")
    spent = with_account(Reply(), body)
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices:
        return dataclasses.replace(spent, failure="empty reply: the completion has no choice")
    message = choices[0].get("message") if isinstance(choices[0], Mapping) else None
    text = _content(message.get("content") if isinstance(message, Mapping) else None)
    if not text.strip():
        return dataclasses.replace(spent, failure=EMPTY)
    return dataclasses.replace(spent, text=text)


def _content(value: Any) -> str:
    """A message's text; some servers send it in parts. What is no text is none."""
    if isinstance(value, list):
        parts = [part.get("text") for part in value if isinstance(part, Mapping)]
        return "".join(encodable(part) for part in parts if isinstance(part, str))
    return encodable(value) if isinstance(value, str) else ""


def encodable(text: str) -> str:
    """The text without half characters, which JSON can spell and no file can hold."""
    return text.encode("utf-8", "replace").decode()


def with_account(reply: Reply, said: Mapping[str, Any]) -> Reply:
    """The reply with what `model`, `usage`, `created`, `date` and `most_tokens` say; both names of counts are read."""
    usage = said.get("usage")
    usage = usage if isinstance(usage, Mapping) else {}
    read = _count(usage.get("prompt_tokens", usage.get("input_tokens")))
    written = _count(usage.get("completion_tokens", usage.get("output_tokens")))
    model = said.get("model")
    return dataclasses.replace(
        reply,
        input_tokens=reply.input_tokens if read is None else read,
        output_tokens=reply.output_tokens if written is None else written,
        model=encodable(model) if isinstance(model, str) and model else reply.model,
        date=_date(said) or reply.date,
        most_tokens=reply.most_tokens if (most := _count(said.get("most_tokens"))) is None else most,
    )


def _date(said: Mapping[str, Any]) -> str | None:
    if isinstance(said.get("date"), str):
        return encodable(said["date"])
    created = _count(said.get("created"))
    try:
        return None if created is None else datetime.datetime.fromtimestamp(created, datetime.UTC).isoformat()
    except (OverflowError, ValueError, OSError):
        return None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS else None
