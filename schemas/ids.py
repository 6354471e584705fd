"""Content-hash identities. Equal content, equal id, on every machine and in every version."""

from __future__ import annotations

import hashlib

_UNTIDY = ("\r", *(f"{blank}\n" for blank in " \t\v\f\x1c\x1d\x1e\x1f"))
"""What only a source that is not canonical holds, trailing blanks at its end aside."""
ID_LENGTH = 32
"""Hex digits of an id: 128 bits, past any accidental collision."""


def content_hash(*parts: str | bytes) -> str:
    """Hash of an ordered list of texts; the parts' boundaries count, so ("ab", "c") differs from ("a", "bc")."""
    # A structure has thousands of parts, few of them distinct.
    framed = {part: _framed(part) for part in set(parts)}
    return hashlib.sha256(b"".join([framed[part] for part in parts])).hexdigest()[:ID_LENGTH]


def _framed(part: str | bytes) -> bytes:
    data = part.encode() if isinstance(part, str) else part
    return len(data).to_bytes(8, "big") + data


def canonical_source(source: str) -> str:
    """Source with unix newlines, no trailing blanks and one final newline: what a kernel's id is taken of."""
    # Nearly every source is canonical already, and finding that out is far cheaper than going through its lines.
    if source.isascii() and not any(mark[0] in source and mark in source for mark in _UNTIDY):
        trimmed = source.strip("\n")
        if not trimmed[-1:].isspace():
            return trimmed + "\n"
    lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join(line.rstrip() for line in lines).strip("\n") + "\n"


def kernel_id(problem_id: str, backend: str, source: str) -> str:
    """A kernel's identity: the hash of problem, backend and canonical source."""
    return content_hash("kernel", problem_id, str(backend), canonical_source(source))
