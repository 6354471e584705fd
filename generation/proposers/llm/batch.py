"""Batch files: requests written as JSON lines, responses read back, so that any model or person can answer offline.

The lines are those of the OpenAI Batch API. A search that finds a request unanswered writes it and stops; once the
responses are there, starting it again goes on where it was. An error in place of a response answers nothing.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kbench.generation.proposers.llm.endpoint import Messages
from kbench.generation.proposers.llm.reply import Reply, reply_from_body
from kbench.schemas import DataError, KbenchError
from kbench.schemas.ids import content_hash

LONGEST_ERROR = 120
"""Characters of a recorded error in a message."""


class WaitingForResponsesError(KbenchError):
    """Requests were written and are not answered yet."""

    exit_code = 3


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BatchFiles:
    """A file of requests and a file of responses."""

    model: str
    requests: Path
    responses: Path

    def ask(self, asked: Sequence[Messages]) -> list[Reply]:
        """A reply for each request, in order.

        Raises:
            WaitingForResponsesError: names those that are unanswered; they are in the requests file now.
            DataError: the responses file cannot be read.
        """
        ids = [request_id(self.model, messages) for messages in asked]
        answers = read_responses(self.responses)
        missing = {key: messages for key, messages in zip(ids, asked, strict=True) if key not in answers.replies}
        if missing:
            self._write(missing)
            names = [f"{key} (got {answers.errors[key]})" if key in answers.errors else key for key in missing]
            raise WaitingForResponsesError(
                f"{len(missing)} requests wait in {self.requests}; put their responses into {self.responses} "
                f"and run the same command again; unanswered: {', '.join(names)}"
            )
        return [answers.replies[key] for key in ids]

    def _write(self, missing: dict[str, Messages]) -> None:
        written = set()
        if self.requests.is_file():
            written = {json.loads(line)["custom_id"] for line in self.requests.read_text("utf-8").splitlines() if line}
        self.requests.parent.mkdir(parents=True, exist_ok=True)
        with self.requests.open("a", encoding="utf-8") as stream:
            for key, messages in missing.items():
                if key not in written:
                    body = {"model": self.model, "messages": list(messages)}
                    line = {"custom_id": key, "method": "POST", "url": "/v1/chat/completions", "body": body}
                    stream.write(json.dumps(line, ensure_ascii=False) + "\n")


def request_id(model: str, messages: Messages) -> str:
    """The name of a request: equal requests are asked once."""
    return content_hash("request", model, json.dumps(list(messages), sort_keys=True))


@dataclasses.dataclass(frozen=True, slots=True)
class Responses:
    """What a file of responses says, by request id."""

    replies: dict[str, Reply] = dataclasses.field(default_factory=dict)
    errors: dict[str, str] = dataclasses.field(default_factory=dict)
    """The last error of each request that has no reply."""


def read_responses(path: Path) -> Responses:
    """The responses in a file; of two replies to a request the later wins, and an error never stands for a reply.

    Raises:
        DataError: names the line that is not a response.
    """
    found = Responses()
    if not path.is_file():
        return found
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if not line.strip():
            continue
        try:
            data = json.loads(line)
            key = str(data["custom_id"])
        except (ValueError, KeyError, TypeError):
            raise DataError(f"{path}: line {number} is no response: it must be JSON with a custom_id") from None
        error = _error(data)
        if error is None:
            found.replies[key] = _reply(data)
            found.errors.pop(key, None)
        elif key not in found.replies:
            found.errors[key] = error
    return found


def _error(data: dict[str, Any]) -> str | None:
    """Why a line answers nothing; None when it is a reply, if only an empty one."""
    if isinstance(data.get("text"), str):
        return None
    response = data.get("response")
    if not data.get("error") and isinstance(response, dict) and response.get("status_code", 200) == 200:
        return None
    return f"error {' '.join(str(data.get('error') or response).split())[:LONGEST_ERROR]}"


def _reply(data: dict[str, Any]) -> Reply:
    """A response line as a reply; a line may carry the bare text under `text`, for people who answer by hand."""
    if isinstance(data.get("text"), str):
        return Reply(text=data["text"])
    return reply_from_body(data["response"].get("body"))
