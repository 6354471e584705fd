"""Shards: data that the page loads when it needs it.

A page opened from a folder may not fetch a file, but it may run a script beside it. So a shard is a script that hands
over its name and its data: JSON, compressed, as base64.
"""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

DIGITS = 4
"""Significant digits of figures in shards; measurements repeat to about two."""
CHECK_SHARD = "check"
"""Tells the page whether its host checks submissions. The site's own says no; `kbench.leaderboard.space` says yes."""


def shard(name: str, value: Any) -> bytes:
    """The content of a shard; the same bytes for the same value."""
    return shard_text(name, compact(value))


def shard_text(name: str, text: str) -> bytes:
    """The content of a shard whose value is JSON already."""
    return f"kbench({json.dumps(name)},{json.dumps(packed(text))});\n".encode()


def packed(text: str) -> str:
    """JSON, compressed, as base64: nothing in it can end a script or an element."""
    return base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()


def compact(value: Any) -> str:
    """JSON without a space."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def shortened(value: float | None, digits: int = DIGITS) -> float | int | None:
    """A figure with as many digits as people compare; whole numbers without a point."""
    if value is None:
        return None
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() else short
