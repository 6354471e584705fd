"""Offline: requests go to a file and responses come from one, each under an id that says which prompt it answers.

Answers to another prompt, such as one without the kernels that `--shots` shows, are not taken, nor are those of another
model than the one that was named.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from kbench.benchmark.llm.batch import Responses, read_responses, request_ids, write_requests
from kbench.benchmark.llm.chat import WRITTEN, Body, Messages, Reply
from kbench.schemas import UserError
from kbench.schemas.ids import content_hash

DIGEST = 8
"""Hex digits of a prompt's hash in an id."""
NO_ANSWER = "the responses hold no answer to this query"
OTHER_PROMPT = "the responses answer another prompt of this query (--shots, facts or the question differs)"
RELEASE = re.compile(r"[-@:._](latest|\d{4,8}(-\d\d-\d\d)?)(-v\d+)?(:\d+)?")
"""What providers add to the name that was asked for: the model's date."""


@dataclasses.dataclass(frozen=True, slots=True)
class AskedRequest:
    """A request and whose answer it asks for."""

    query_id: str
    repeat: int
    body: Body
    shows_more: bool = False
    """Whether the prompt shows measured kernels or counted facts."""

    @property
    def name(self) -> str:
        """Query and repeat; until release 2.2 this was the whole id."""
        return f"{self.query_id}:{self.repeat}"

    @property
    def custom_id(self) -> str:
        """Query, repeat and a digest of the prompt."""
        return f"{self.name}:{prompt_digest(self.body['messages'])}"

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids under which it may be answered: without a digest nobody knows what else a prompt showed."""
        return (self.custom_id,) if self.shows_more else (self.custom_id, self.name)


def prompt_digest(messages: Messages) -> str:
    """A few digits that tell prompts apart."""
    return content_hash("prompt", json.dumps(list(messages), sort_keys=True))[:DIGEST]


@dataclasses.dataclass(slots=True)
class Offline:
    """A file of requests, a file of responses, or both: then only what has no answer is requested."""

    requests: Path | None
    responses: Path | None
    model: str = ""
    any_model: bool = False
    """Whether answers of another model than `model` are taken."""
    replaced: set[str] = dataclasses.field(default_factory=set, init=False, repr=False)
    """Ids of requests that the file held before and that this run does not ask."""
    _read: Responses | None = dataclasses.field(default=None, init=False, repr=False)
    _begun: bool = dataclasses.field(default=False, init=False, repr=False)

    def ask(self, asked: Sequence[AskedRequest]) -> list[Reply]:
        """A reply to each request, in order; a request that is written has none yet.

        Raises:
            UserError: the responses do not exist or are another model's, or the requests would replace another file.
            DataError: names the line that is no response.
        """
        answers = self.answers()
        names = {":".join(each.split(":")[:2]) for each in (*answers.replies, *answers.errors)}
        replies = [_reply(each, answers, names) for each in asked]
        if self.requests is None:
            return replies
        waiting = {one.custom_id: one for one, reply in zip(asked, replies, strict=True) if reply.failure is not None}
        self._write(self.requests, {key: one.body for key, one in waiting.items()})
        unsent = Reply(failure=WRITTEN)
        return [unsent if one.custom_id in waiting else reply for one, reply in zip(asked, replies, strict=True)]

    def answers(self) -> Responses:
        """What the responses say.

        Raises:
            UserError: the file does not exist, or another model answered.
            DataError: names the line that is no response.
        """
        if self._read is None:
            if self.responses is None:
                self._read = Responses()
            elif not self.responses.is_file():
                raise UserError(f"responses_file {str(self.responses)!r} does not exist")
            else:
                self._read = read_responses(self.responses)
                self._check_model(self._read.replies.values())
        return self._read

    def answered_by(self) -> str | None:
        """The model that answered, where all answers name the same."""
        models = {reply.model for reply in self.answers().replies.values()}
        return models.pop() if len(models) == 1 else None

    def strays(self, asked: Iterable[AskedRequest]) -> int:
        """How many answers are to none of these requests."""
        ids = {each for one in asked for each in one.ids}
        answers = self.answers()
        return len({*answers.replies, *answers.errors} - ids)

    def _check_model(self, replies: Iterable[Reply]) -> None:
        models = Counter(reply.model for reply in replies if reply.model)
        others = Counter({name: count for name, count in models.items() if not same_model(self.model, name)})
        if self.model and others and not self.any_model:
            ((name, count),) = others.most_common(1)
            raise UserError(
                f"responses_file {str(self.responses)!r} holds {count:,} answers of model {name!r}, and model is "
                f"{self.model!r}; give model={name}, or any_model=true if they are {self.model}'s all the same"
            )

    def _write(self, path: Path, bodies: dict[str, Body]) -> None:
        if not self._begun:
            ids = request_ids(path) if path.is_file() else None
            if ids is None and path.exists():
                raise UserError(
                    f"requests_file {str(path)!r} exists and holds something else than requests; choose another"
                )
            self.replaced = set(ids or ())
            if not bodies and not path.exists():
                return
        self.replaced -= set(bodies)
        write_requests(path, bodies, keep=self._begun)
        self._begun = True


def _reply(one: AskedRequest, answers: Responses, names: set[str]) -> Reply:
    reply = next((answers.replies[each] for each in one.ids if each in answers.replies), None)
    if reply is not None:
        return reply
    unanswered = OTHER_PROMPT if one.name in names else NO_ANSWER
    return Reply(failure=next((answers.errors[each] for each in one.ids if each in answers.errors), unanswered))


def same_model(asked: str, named: str) -> bool:
    """Whether two names may be of one model: one may name its provider or its date as well."""
    one, other = (name.lower().rpartition("/")[2] for name in (asked, named))
    longer, shorter = (one, other) if len(one) > len(other) else (other, one)
    rest = longer.removeprefix(shorter) if longer.startswith(shorter) else None
    return rest is not None and (not rest or RELEASE.fullmatch(rest) is not None)
