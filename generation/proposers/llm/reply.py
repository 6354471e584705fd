"""Reply: what a model answered to one request, or why it did not."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A reply's text with its tokens; `failure` says why there is none."""

    text: str = ""
    failure: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0


def reply_from_body(body: Any) -> Reply:
    """A chat completion's JSON as a reply; whatever is wrong with it is a failure with its reason."""
    if not isinstance(body, Mapping):
        return Reply(failure=f"malformed reply: a JSON {type(body).__name__} instead of a completion")
    usage = body.get("usage")
    usage = usage if isinstance(usage, Mapping) else {}
    spent = Reply(input_tokens=_count(usage.get("prompt_tokens")), output_tokens=_count(usage.get("completion_tokens")))
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices:
        return dataclasses.replace(spent, failure="empty reply: the completion has no choice")
    message = choices[0].get("message") if isinstance(choices[0], Mapping) else None
    text = message.get("content") if isinstance(message, Mapping) else None
    if not isinstance(text, str) or not text.strip():
        return dataclasses.replace(spent, failure="empty reply: the first choice has no text")
    return dataclasses.replace(spent, text=text)


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
