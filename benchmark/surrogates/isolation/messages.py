"""Messages between our process and a surrogate's: one JSON object per line, tagged with its type."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from kbench.benchmark.surrogates.protocol import SurrogateFacts
from kbench.benchmark.surrogates.resolve import SurrogateTarget
from kbench.schemas import Backend, Forecast, KnownKernel, Pair, PairKind, Query, to_dict

TAG = "@type"
QUERY_FIELDS = tuple(field.name for field in dataclasses.fields(Query) if field.name != "known")


@dataclasses.dataclass(frozen=True, slots=True)
class PackedQueries:
    """Distinct texts, and for each query the positions of its fields: pairs of one problem share most texts."""

    texts: list[str]
    rows: list[list[int]]
    known: list[list[tuple[int, str, float]]]
    """For each query, its known kernels: the position of the source, the backend and the speedup."""

    @classmethod
    def of(cls, queries: Sequence[Query]) -> PackedQueries:
        """Pack."""
        texts: dict[str, int] = {}

        def place(text: str) -> int:
            return texts.setdefault(text, len(texts))

        rows = [[place(str(getattr(query, name))) for name in QUERY_FIELDS] for query in queries]
        known = [[(place(k.source), k.backend.value, k.speedup) for k in query.known] for query in queries]
        return cls(list(texts), rows, known)

    def queries(self) -> list[Query]:
        """The queries again."""
        found = []
        for row, measured in zip(self.rows, self.known, strict=True):
            values: dict[str, Any] = {name: self.texts[at] for name, at in zip(QUERY_FIELDS, row, strict=True)}
            values |= {"backend": Backend(values["backend"]), "kind": PairKind(values["kind"])}
            known = [KnownKernel(source=self.texts[at], backend=Backend(b), speedup=s) for at, b, s in measured]
            found.append(Query(**values, known=tuple(known)))
        return found


@dataclasses.dataclass(frozen=True, slots=True)
class Training:
    """Training pairs: the content of the file that `Fit` names."""

    questions: PackedQueries
    answers: list[dict[str, Any]]

    @classmethod
    def of(cls, train: Sequence[tuple[Query, Pair]]) -> Training:
        """Pack."""
        return cls(PackedQueries.of([query for query, _ in train]), [to_dict(pair) for _, pair in train])

    def pairs(self) -> list[tuple[Query, Pair]]:
        """The training pairs again."""
        pairs = [
            Pair(**row | {"backend": Backend(row["backend"]), "kind": PairKind(row["kind"])}) for row in self.answers
        ]
        return list(zip(self.questions.queries(), pairs, strict=True))


@dataclasses.dataclass(frozen=True, slots=True)
class Make:
    """Construct the surrogate; answered by `SurrogateFacts`."""

    target: SurrogateTarget
    arguments: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Fit:
    """Learn from the training file; answered by `Fitted`."""

    path: str


@dataclasses.dataclass(frozen=True, slots=True)
class Ask:
    """Forecast; answered by `Answered`."""

    queries: PackedQueries


@dataclasses.dataclass(frozen=True, slots=True)
class Fitted:
    """The surrogate has learned."""


@dataclasses.dataclass(frozen=True, slots=True)
class Answered:
    """Forecasts as JSON rows; the receiver checks them one by one."""

    forecasts: list[Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Failed:
    """The request raised an exception."""

    reason: str


Request = Make | Fit | Ask
Reply = SurrogateFacts | Fitted | Answered | Failed
Message = Request | Reply | Training
TYPES: Mapping[str, type] = {
    kind.__name__: kind
    for kind in (
        PackedQueries, Training, SurrogateTarget, SurrogateFacts, Make, Fit, Ask, Fitted, Answered, Failed,
    )
}  # fmt: skip


def encode(message: Message) -> bytes:
    """One line. NaN and Infinity pass, so that the reader can refuse them by name."""
    return json.dumps(message, default=_plain).encode() + b"\n"


def decode(line: bytes) -> Any:
    """The message of a line.

    Raises:
        ValueError: the line is no message.
    """
    try:
        return json.loads(line, object_hook=_typed)
    except (TypeError, KeyError, RecursionError) as error:
        raise ValueError(str(error)) from None


def _plain(value: Any) -> Any:
    if isinstance(value, Forecast):
        return {name: each for name, each in to_dict(value).items() if each is not None}
    if hasattr(value, "tolist"):
        # Most models have numpy numbers at hand.
        return value.tolist()
    return {TAG: type(value).__name__} | {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}


def _typed(data: dict[str, Any]) -> Any:
    return TYPES[data.pop(TAG)](**data) if TAG in data else data
