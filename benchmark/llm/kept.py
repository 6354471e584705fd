"""KeptReplies: a model whose every reply is on disk the moment it arrives, so that nothing is paid for twice.

A reply is whatever the model said, nothing included. What went wrong on the way is no reply and is asked for again.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kbench.benchmark.llm.batch import read_responses
from kbench.benchmark.llm.chat import EMPTY, Body, Reply, with_account
from kbench.benchmark.llm.endpoint import Endpoint, Meter
from kbench.loaders.storage.lines import LineWriter, parse_json, read_lines
from kbench.schemas.ids import content_hash


@dataclasses.dataclass(slots=True)
class KeptReplies:
    """An endpoint and the file that keeps what it said; without a file nothing is kept."""

    endpoint: Endpoint
    path: Path | None = None
    meter: Meter | None = None
    """What all requests may cost, those of earlier runs included; None sets no limit."""
    _known: dict[str, Reply] | None = dataclasses.field(default=None, init=False, repr=False)

    def ask(
        self,
        bodies: Sequence[Body],
        /,
        *,
        tokens_left: int | None = None,
        usable: Callable[[int, Reply], bool] = lambda at, reply: True,
    ) -> list[Reply]:
        """A reply for each request, in order: kept ones, and those of the endpoint.

        Args:
            bodies: the requests.
            tokens_left: what they may cost together; a request that might cost more is not sent.
            usable: whether a kept reply to the request at this position will do; it is asked again otherwise.

        Raises:
            MissingDependencyError: the openai package is not installed.
            UserError: no client can be made, or another process writes the file.
            DataError: the file is damaged.
        """
        stored = self._read()
        keys = [self._key(body) for body in bodies]
        replies = {at: stored[key] for at, key in enumerate(keys) if key in stored and usable(at, stored[key])}
        first = {key: at for at, key in reversed(list(enumerate(keys))) if at not in replies}
        unanswered = sorted(first.values())
        if unanswered:
            fresh = self._ask([bodies[at] for at in unanswered], [keys[at] for at in unanswered], tokens_left)
            replies |= {at: fresh[keys[at]] for at in range(len(bodies)) if at not in replies}
        return [replies[at] for at in range(len(bodies))]

    def _ask(self, bodies: Sequence[Body], keys: Sequence[str], tokens_left: int | None) -> dict[str, Reply]:
        meter = self.meter if tokens_left is None else Meter(limit=tokens_left)
        fresh: dict[str, Reply] = {}
        if self.path is None:
            return {keys[at]: reply for at, reply in self.endpoint.stream(bodies, meter)}
        with LineWriter(self.path, parse_json) as lines:
            for at, reply in self.endpoint.stream(bodies, meter):
                fresh[keys[at]] = reply
                lines.append([_line(keys[at], reply)])
                if reply.from_model:
                    self._read()[keys[at]] = reply
        return fresh

    def _key(self, body: Body) -> str:
        """All of a request but its length counts: a seed tells repeats apart."""
        identifying = {name: value for name, value in body.items() if name != "max_completion_tokens"}
        return content_hash("reply", self.endpoint.base_url or "", json.dumps(identifying, sort_keys=True))

    def _read(self) -> dict[str, Reply]:
        if self._known is None:
            self._known = {}
            if self.path is not None and self.path.is_file():
                rows = [row for row, _ in read_lines(self.path, parse_json)]
                silent = {row["custom_id"]: row for row in rows if row.get("error") == EMPTY}
                self._known = {key: with_account(Reply(failure=EMPTY), row) for key, row in silent.items()}
                self._known |= read_responses(self.path).replies
                if self.meter is not None:
                    # What failed was paid for too, and an answer that was asked for again was paid for twice.
                    self.meter.spent = sum(self.meter.cost(with_account(Reply(), row)) or 0.0 for row in rows)
        return self._known


def _line(key: str, reply: Reply) -> str:
    """A reply as a line of a responses file, which reads back as it was."""
    usage = {"prompt_tokens": reply.input_tokens, "completion_tokens": reply.output_tokens}
    row: dict[str, Any] = {"custom_id": key, "model": reply.model, "date": reply.date, "elapsed_s": reply.elapsed_s}
    row |= {} if reply.most_tokens is None else {"most_tokens": reply.most_tokens}
    row["usage"] = {name: count for name, count in usage.items() if count is not None}
    row |= {"text": reply.text} if reply.failure is None else {"error": reply.failure}
    return json.dumps(row) + "\n"
