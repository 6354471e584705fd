"""Batch files: requests written as JSON lines, responses read back, so that any model or person can answer offline.

The lines are those of the OpenAI Batch API. Whoever finds requests unanswered collects them, writes them in one go and
stops; once the responses are there, the same command goes on where it was. An error in place of a response answers
nothing.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from kbench.benchmark.llm.chat import Body, Reply, encodable, reply_from_body, with_account
from kbench.loaders.storage.atomic import write_atomically
from kbench.loaders.storage.lines import raw_lines
from kbench.schemas import DataError, KbenchError
from kbench.schemas.ids import content_hash

RECORDED_ERROR = "error "
"""How the failure of a request begins that a file answers with an error."""
LONGEST_ERROR = 120
"""Characters of a recorded error in a message."""


@dataclasses.dataclass(frozen=True, slots=True)
class Unanswered:
    """Requests without a reply, by their id."""

    files: BatchFiles
    bodies: Mapping[str, Body]
    errors: Mapping[str, str]
    """What came in place of a reply, for those that were answered with an error."""


class WaitingForResponsesError(KbenchError):
    """Requests are not answered yet."""

    exit_code = 3

    def __init__(self, message: str, unanswered: Unanswered) -> None:
        super().__init__(message)
        self.unanswered = unanswered


@dataclasses.dataclass(slots=True, kw_only=True)
class BatchFiles:
    """A file of requests and a file of responses."""

    requests: Path
    responses: Path
    _known: tuple[tuple[int, int], Responses] | None = dataclasses.field(default=None, init=False, repr=False)
    """What the responses file held when it had this size and time: thousands of answers are read once."""

    def ask(self, bodies: Sequence[Body], /, *, tokens_left: int | None = None, ids: Sequence[str] = ()) -> list[Reply]:
        """A reply for each request, in order. Nothing is written: the caller may have more to ask.

        Args:
            bodies: the requests.
            tokens_left: changes nothing here: whoever sends the requests decides what they may cost.
            ids: their names, where these follow from something else than the text.

        Raises:
            WaitingForResponsesError: carries the unanswered requests.
            DataError: the responses file cannot be read.
        """
        ids = ids or [request_id(body) for body in bodies]
        answers = self.answers()
        missing = {key: body for key, body in zip(ids, bodies, strict=True) if key not in answers.replies}
        if missing:
            errors = {key: answers.errors[key] for key in missing if key in answers.errors}
            raise WaitingForResponsesError(
                f"{len(missing)} requests have no response in {self.responses}", Unanswered(self, missing, errors)
            )
        return [answers.replies[key] for key in ids]

    def answers(self) -> Responses:
        """What the responses file holds now.

        Raises:
            DataError: names the line that is not a response.
        """
        if not self.responses.is_file():
            return Responses()
        facts = self.responses.stat()
        state = (facts.st_size, facts.st_mtime_ns)
        if self._known is None or self._known[0] != state:
            self._known = (state, read_responses(self.responses))
        return self._known[1]

    def write(self, bodies: Mapping[str, Body], *, keep: bool = False) -> int:
        """Have the requests file hold exactly what waits; how many requests that is.

        Args:
            bodies: requests by their id.
            keep: earlier requests that have no reply wait too. Otherwise nobody waits for them any more.
        """
        return write_requests(self.requests, bodies, keep=keep, answered=self.answers().replies)


def request_id(body: Body) -> str:
    """The name of a request by its model and messages: equal requests are asked once."""
    return content_hash("request", body["model"], json.dumps(list(body["messages"]), sort_keys=True))


def write_requests(path: Path, bodies: Mapping[str, Body], *, keep: bool = True, answered: Collection[str] = ()) -> int:
    """Write requests to a file, which then holds each id once: the latest request of an id replaces an earlier one.

    Args:
        path: the file.
        bodies: requests by their id.
        keep: whether the requests that are there already stay.
        answered: ids that need no request any more.

    Returns:
        how many requests the file holds.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    old = path.read_bytes().splitlines() if keep and path.is_file() else []
    earlier = {key: line for line in old if (key := _id_of(line)) is not None}
    lines = earlier | {key: _line(key, body) for key, body in bodies.items()}
    waiting = [line for key, line in lines.items() if key not in answered]
    write_atomically(path, b"".join(line + b"\n" for line in waiting))
    return len(waiting)


def request_ids(path: Path) -> list[str] | None:
    """The ids of the requests in a file; None where it holds anything else."""
    ids = []
    for line in path.read_bytes().splitlines():
        key = _id_of(line)
        if key is None or not isinstance(json.loads(line).get("body"), dict):
            return None
        ids.append(key)
    return ids


def _line(key: str, body: Body) -> bytes:
    request = {"custom_id": key, "method": "POST", "url": "/v1/chat/completions", "body": dict(body)}
    return json.dumps(request, ensure_ascii=False).encode("utf-8", "replace")


def _id_of(line: bytes) -> str | None:
    """The id of a request; None for a line that is not one, such as half a line of a writer that was killed."""
    try:
        return str(json.loads(line)["custom_id"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


@dataclasses.dataclass(frozen=True, slots=True)
class Responses:
    """What a file of responses says, by request id."""

    replies: dict[str, Reply] = dataclasses.field(default_factory=dict)
    errors: dict[str, str] = dataclasses.field(default_factory=dict)
    """The last error of each request that has no reply."""


def read_responses(path: Path) -> Responses:
    """The responses in a file; the later of two replies wins, and an error never replaces a reply.

    A last line without its end is still being written: it counts once it is whole.
    """
    responses = Responses()
    if not path.is_file():
        return responses
    *whole, last = b"".join(raw_lines(path)).split(b"\n")
    for number, line in enumerate([*whole, last] if _id_of(last) is not None else whole, 1):
        if not line.strip():
            continue
        try:
            data = json.loads(line)
            key = str(data["custom_id"])
        except (ValueError, KeyError, TypeError, RecursionError):
            raise DataError(f"{path}: line {number} is no response: it must be JSON with a custom_id") from None
        answer = _answer(data)
        if isinstance(answer, Reply):
            responses.replies[key] = answer
            responses.errors.pop(key, None)
        elif key not in responses.replies:
            responses.errors[key] = answer
    return responses


def _answer(data: dict[str, Any]) -> Reply | str:
    """The reply of a line, or why it answers nothing; people who answer by hand may put bare text under `text`."""
    if isinstance(data.get("text"), str):
        return with_account(Reply(text=encodable(data["text"])), data)
    response = data.get("response")
    if not data.get("error") and isinstance(response, dict) and response.get("status_code", 200) == 200:
        return with_account(reply_from_body(response.get("body")), data)
    if not data.get("error") and "response" not in data:
        return f"{RECORDED_ERROR}no text in a field 'text', and no field 'response'; the line has {', '.join(data)}"
    return f"{RECORDED_ERROR}{encodable(' '.join(str(data.get('error') or response).split())[:LONGEST_ERROR])}"
