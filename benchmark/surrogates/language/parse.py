"""Reads a language model's answer: strict about what it means, tolerant about how it is wrapped."""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from kbench.benchmark.surrogates.protocol import failure, normalised
from kbench.schemas import Forecast, bins

LONGEST = 200_000
"""Characters of an answer that are looked at."""
LONGEST_REASON = 200
LARGEST_SHARE = 1e6
"""A larger share is no probability, in whatever unit; sums of smaller ones are exact."""
MOST_OBJECTS = 1000
"""Places at the end of an answer where an object is looked for: each may cost as much as the answer is long."""
OBJECT = re.compile(r'\{\s*"')
KEY = re.compile(r"^(?:bin[ _]?)?([1-9])$", re.IGNORECASE)


class AnswerError(ValueError):
    """The answer holds no distribution; the message says why."""


def parse(text: str, query_id: str, repeat: int = 0) -> Forecast:
    """The forecast an answer states; a failure where it states none. Never raises.

    Sums other than one are kept as `raw_sum` and normalised; all zero is a failure.
    """
    try:
        found = _answer(text[:LONGEST])
        shares = _shares(found)
    except AnswerError as error:
        return failure(query_id, f"answer not understood: {str(error)[:LONGEST_REASON]}", repeat)
    base = Forecast(
        query_id=query_id,
        repeat=repeat,
        speedup=_number(found.get("speedup"), low=1e-6, high=1e6),
        p_valid=_number(found.get("p_valid"), low=0.0, high=1.0),
        confidence=_number(found.get("confidence"), low=0.0, high=1.0),
    )
    return normalised(base, shares)


def _answer(text: str) -> Mapping[str, Any]:
    """The last JSON object that speaks of probabilities: models think aloud before they answer."""
    found: Mapping[str, Any] | None = None
    for value in _objects(text):
        if "probabilities" in value or "bin_probabilities" in value or sum(map(_is_bin, value)) == bins.COUNT:
            found = value
    if found is None:
        raise AnswerError("no JSON object with probabilities")
    return found


def _objects(text: str) -> Iterator[Mapping[str, Any]]:
    decoder = json.JSONDecoder()
    end = 0
    for start in [found.start() for found in OBJECT.finditer(text)][-MOST_OBJECTS:]:
        if start >= end:
            with contextlib.suppress(ValueError, RecursionError):
                value, end = decoder.raw_decode(text, start)
                yield value


def _is_bin(key: object) -> bool:
    return KEY.match(str(key).strip()) is not None


def _shares(found: Mapping[str, Any]) -> list[float]:
    given = found.get("probabilities", found.get("bin_probabilities", found))
    by_bin: dict[int, float] = {}
    if isinstance(given, list) and given and all(isinstance(item, dict) for item in given):
        pairs = [(item.get("bin"), item.get("p", item.get("probability"))) for item in given]
    elif isinstance(given, list):
        if len(given) != bins.COUNT:
            raise AnswerError(f"{len(given)} probabilities; {bins.COUNT} are needed")
        pairs = list(zip(bins.NUMBERS, given, strict=True))
    elif isinstance(given, dict):
        pairs = [(key, value) for key, value in given.items() if _is_bin(key)]
    else:
        raise AnswerError(f"probabilities are {type(given).__name__}")
    for key, value in pairs:
        match = KEY.match(str(key).strip())
        if match is None or int(match[1]) not in bins.NUMBERS:
            raise AnswerError(f"bin {key!r} does not exist")
        if int(match[1]) in by_bin:
            raise AnswerError(f"bin {key!r} is given twice")
        by_bin[int(match[1])] = _share(value, int(match[1]))
    missing = [number for number in bins.NUMBERS if number not in by_bin]
    if missing:
        raise AnswerError(f"bins {missing} are missing")
    if not math.fsum(by_bin.values()) > 0:
        raise AnswerError("all probabilities are zero")
    return [by_bin[number] for number in bins.NUMBERS]


def _share(value: Any, number: int) -> float:
    if isinstance(value, str):
        scale = 100 if value.strip().endswith("%") else 1
        with contextlib.suppress(ValueError):
            value = float(value.strip().rstrip("%")) / scale
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LARGEST_SHARE:
        shown = repr(value) if isinstance(value, float | str | bool | None) else type(value).__name__
        raise AnswerError(f"probability of bin {number} is {shown[:40]}")
    return float(value)


def _number(value: Any, low: float, high: float) -> float | None:
    """An optional figure; what is out of bounds was not given."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if low <= value <= high else None
