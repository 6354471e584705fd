"""Meter: a hard limit on what requests cost. One goes out only when its worst case fits into what is left."""

from __future__ import annotations

import asyncio
import dataclasses
import math

from kbench.benchmark.llm.chat import Body, Reply

CHARACTERS_PER_TOKEN_AT_LEAST = 2.0
"""Denser than any tokenizer cuts code, so that a request's length bounds what reading it costs."""
LONGEST_ANSWER = 8192
"""Tokens an answer may have where a request does not say."""
SHORTEST_ANSWER = 64
"""A request that could be answered with fewer tokens than this is not worth sending."""

NOT_BILLED = ("connection error", "endpoint error", "request refused", "not sent")
"""First words of failures that no server charges for."""


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
        reading = self.per_input * _most_input_tokens(body)
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


def _most_input_tokens(body: Body) -> float:
    characters = sum(len(message["content"].encode()) for message in body["messages"])
    return characters / CHARACTERS_PER_TOKEN_AT_LEAST + 16 * len(body["messages"])
