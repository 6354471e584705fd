"""Batch files: requests written as JSON lines, responses read back, so that any model or person can answer offline.

The lines are those of the OpenAI Batch API. Whoever finds requests unanswered writes them and stops; once the responses
are there, the same command goes on where it was. An error in place of a response answers nothing.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kbench.benchmark.llm.chat import Body, Reply, reply_from_body
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

    requests: Path
    responses: Path

    def ask(self, bodies: Sequence[Body], /) -> list[Reply]:
        """A reply for each request, in order.

        Raises:
            WaitingForResponsesError: names the unanswered requests, which are now in the requests file.
            DataError: the responses file cannot be read.
        """
        ids = [request_id(body) for body in bodies]
        answers = read_responses(self.responses)
        missing = {key: body for key, body in zip(ids, bodies, strict=True) if key not in answers.replies}
        if missing:
            write_requests(self.requests, missing)
            names = [f"{key} (got {answers.errors[key]})" if key in answers.errors else key for key in missing]
            raise WaitingForResponsesError(
                f"{len(missing)} requests wait in {self.requests}; put their responses into {self.responses} "
                f"and run the same command again; unanswered: {', '.join(names)}"
            )
        return [answers.replies[key] for key in ids]


def request_id(body: Body) -> str:
    """The name of a request by its model and messages: equal requests are asked once."""
    return content_hash("request", body["model"], json.dumps(list(body["messages"]), sort_keys=True))


def write_requests(path: Path, bodies: Mapping[str, Body]) -> None:
    """Append requests by custom id, except those that the file already holds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written = set(path.read_bytes().splitlines()) if path.is_file() else set()
    with path.open("ab") as stream:
        for key, body in bodies.items():
            request = {"custom_id": key, "method": "POST", "url": "/v1/chat/completions", "body": dict(body)}
            line = json.dumps(request, ensure_ascii=False).encode()
            if line not in written:
                stream.write(line + b"\n")


@dataclasses.dataclass(frozen=True, slots=True)
class Responses:
    """What a file of responses says, by request id."""

    replies: dict[str, Reply] = dataclasses.field(default_factory=dict)
    errors: dict[str, str] = dataclasses.field(default_factory=dict)
    """The last error of each request that has no reply."""


def read_responses(path: Path) -> Responses:
    """The responses in a file; the later of two replies wins, and an error never replaces a reply.

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
        answer = _answer(data)
        if isinstance(answer, Reply):
            found.replies[key] = answer
            found.errors.pop(key, None)
        elif key not in found.replies:
            found.errors[key] = answer
    return found


def _answer(data: dict[str, Any]) -> Reply | str:
    """The reply of a line, or why it answers nothing; people who answer by hand may put bare text under `text`."""
    if isinstance(data.get("text"), str):
        return Reply(text=data["text"])
    response = data.get("response")
    if not data.get("error") and isinstance(response, dict) and response.get("status_code", 200) == 200:
        return reply_from_body(response.get("body"))
    return f"error {' '.join(str(data.get('error') or response).split())[:LONGEST_ERROR]}"
