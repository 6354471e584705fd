"""Bounded: no reply of a server takes more memory than a reply needs, whatever its client would read.

A client reads errors and redirects whole and decodes what it reads piece by piece: an error without end, or one that is
packed twice, would take all memory.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import AsyncIterator
from typing import Any

from kbench.benchmark.llm.chat import RefusedReplyError

ACCEPTED = {"Accept-Encoding": "gzip"}
READ = ("", "identity", "gzip", "deflate")
"""Encodings that pack a thousandfold at most; others have no such bound, nor have two on top of each other."""
MOST_BYTES, MOST_ERROR_BYTES = 16 * 2**20, 2**16
"""Of a reply, and of an error or redirect, of which no more than the beginning is shown."""


@functools.cache
def _stream_class(package: str) -> Any:
    """The class of streams that end early, for the HTTP library that the client is made of."""

    class BeginningStream(importlib.import_module(package).AsyncByteStream):  # type: ignore[misc]
        def __init__(self, stream: Any, most_bytes: int) -> None:
            self._stream, self._left = stream, most_bytes

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for piece in self._stream:
                yield piece[: self._left]
                self._left -= len(piece)
                if self._left <= 0:
                    return

        async def aclose(self) -> None:
            await self._stream.aclose()

    return BeginningStream


async def screen(response: Any) -> None:
    """Bound what is read of a response.

    Raises:
        RefusedReplyError: it is encoded in a way that has no bound.
    """
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in READ:
        raise RefusedReplyError(f"its reply is encoded as {encoding[:40]!r}; only gzip is asked for")
    most_bytes = MOST_BYTES + 1 if response.is_success else MOST_ERROR_BYTES
    package = type(response).__module__.partition(".")[0]
    response.stream = _stream_class(package)(response.stream, most_bytes)
