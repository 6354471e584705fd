"""Comments and docstrings out of kernel sources: Python, and the CUDA C++ inside its string literals.

Comments can give away what a kernel was meant to achieve, and they hide that two kernels are the same program.
A string is CUDA source when it holds a CUDA mark such as `__global__`, or when it reaches a call that compiles it;
every other string is left alone, so a `//` in a URL stays.
"""

from __future__ import annotations

import ast
import bisect
import functools
import itertools
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kbench.loaders.source.cpp import Edit, comment_edits, strip_cpp
from kbench.loaders.source.python import UNREADABLE, Literal, Offsets, PythonToken, parse, tokens, walk

COMPILE_CALLS = frozenset(
    {"CudaModule", "RawKernel", "RawModule", "SourceModule", "Program", "load_inline", "inline_asm_elementwise"}
)
"""Functions whose source argument is C++ or PTX, both of which have C++ comments."""
CUDA_MARK = re.compile(
    r"__(?:global|device|shared|constant|host|launch_bounds|forceinline|restrict)__"
    r"|\bextern\s*\"C|^[ \t]*#[ \t]*(?:include|define|pragma|ifdef|ifndef|if|endif|undef)\b"
    r"|\b(?:threadIdx|blockIdx|blockDim|gridDim)\s*\.\s*[xyz]\b",
    re.MULTILINE,
)
_DANGLING = re.compile(r"[ \t]*(?:\\\n[ \t]*)+\Z")
_PYTHON = re.compile(r"^(?:import |from \w+ import |def \w+\(|@triton)", re.MULTILINE)
_CPP_COMMENT = re.compile(r"/[/*]")
_FORMATTED = re.compile(r"[rRbB]?[fFtT]")
_BODIES = ("body", "orelse", "finalbody", "handlers", "cases")
_SOURCE_ARGUMENTS = re.compile(r"source|code|asm|src", re.IGNORECASE)


class Reading(NamedTuple):
    """What reading a source once tells."""

    stripped: str
    tree: ast.Module | None
    """The syntax tree of the source; None when it does not parse, or when stripping could take names out of it, which
    only an f-string holds inside a comment."""
    pieces: list[PythonToken] | None
    """The tokens of the stripped text where it is the source itself, as most are; None otherwise."""


@functools.lru_cache(maxsize=65536)
def strip_comments(source: str) -> str:
    """The source without comments and docstrings, remembered: queries ask for the same kernels again and again.

    What remains has the same tokens in the same order; a body that held only a docstring holds `pass`. A source that
    is not Python is stripped as C++ when it looks like CUDA, else line by line as well as can be.
    """
    return read(source).stripped


@functools.lru_cache(maxsize=16)
def read(source: str) -> Reading:
    """Parse and strip a source; the last few answers are kept, for who asks for a structure after stripping."""
    source = source.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    try:
        tree = parse(source)
        pieces = tokens(source)
    except UNREADABLE:
        is_cpp = CUDA_MARK.search(source) and not _PYTHON.search(source)
        return Reading(strip_cpp(source) if is_cpp else _strip_broken(source), None, None)
    offsets = Offsets(source)
    bare = {offsets.span(node): removable for node, removable in _bare_strings(tree)}
    sharing = _spans_sharing_a_line(pieces) if bare else ()
    edits = [(*span, "" if removable and span[0] not in sharing else "pass") for span, removable in bare.items()]
    removed = Spans(bare)
    edits += [(p.start, p.end, "") for p in pieces if p.kind == "COMMENT" and not removed.hold(p)]
    edits += _cuda_edits(tree, pieces, offsets, removed)
    stripped = _apply(source, edits)
    if stripped == source:
        return Reading(stripped, tree, pieces)
    formatted = any(p.kind == "STRING" and _FORMATTED.match(p.text) for p in pieces)
    return Reading(stripped, None if formatted else tree, None)


def _bare_strings(tree: ast.AST) -> Iterator[tuple[ast.stmt, bool]]:
    """Statements that are only a string, and whether their body has other statements."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        for name in _BODIES:
            body = getattr(node, name, None)
            if not isinstance(body, list):
                continue
            # Statements hold statements only in these fields, so expressions need not be walked.
            waiting += body
            if name in ("handlers", "cases"):
                continue
            strings = [s for s in body if isinstance(s, ast.Expr) and _is_string(s.value)]
            spared = strings[:1] if len(strings) == len(body) and not isinstance(node, ast.Module) else []
            yield from ((s, s not in spared) for s in strings)


def _is_string(value: ast.expr) -> bool:
    if isinstance(value, ast.JoinedStr):
        return all(isinstance(part, ast.Constant) for part in value.values)
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _spans_sharing_a_line(pieces: list[PythonToken]) -> set[int]:
    """Where simple statements start that a `;` or a `:` puts on a line with others."""
    sharing: set[int] = set()
    line: list[PythonToken] = []
    for piece in pieces:
        if piece.kind not in ("NEWLINE", "ENDMARKER"):
            if piece.kind not in ("NL", "COMMENT", "INDENT", "DEDENT", "ENCODING"):
                line.append(piece)
            continue
        if any(p.text in (";", ":") for p in line):
            sharing |= {p.start for p in line}
        line = []
    return sharing


class Spans:
    """Stretches of a text, asked for every token of it."""

    def __init__(self, spans: Iterable[tuple[int, int]] = ()) -> None:
        ordered = sorted(spans)
        self._starts = [start for start, _ in ordered]
        self._ends = list(itertools.accumulate((end for _, end in ordered), max))

    def hold(self, piece: PythonToken) -> bool:
        """Whether one of them holds a token."""
        begun = bisect.bisect_right(self._starts, piece.start)
        return begun > 0 and piece.end <= self._ends[begun - 1]


def cuda_spans(tree: ast.AST) -> Iterator[ast.expr]:
    """String expressions that reach a compiling call, directly or through names."""
    assigned: dict[str, list[ast.expr]] = {}
    waiting: list[ast.expr] = []
    for node in walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    assigned.setdefault(target.id, []).append(node.value)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in COMPILE_CALLS:
            waiting += node.args[:2]
            waiting += [k.value for k in node.keywords if k.arg and _SOURCE_ARGUMENTS.search(k.arg)]
    seen: set[str] = set()
    while waiting:
        for node in walk(waiting.pop()):
            if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
                yield node
            elif isinstance(node, ast.Name) and node.id not in seen:
                seen.add(node.id)
                waiting += assigned.get(node.id, [])


def string_groups(pieces: list[PythonToken]) -> Iterator[tuple[list[PythonToken], str]]:
    """Runs of adjacent literals, which Python joins into one string, each with the token that follows it."""
    group: list[PythonToken] = []
    for piece in pieces:
        if piece.kind == "STRING":
            group.append(piece)
        elif group and piece.kind not in ("NL", "COMMENT"):
            yield group, piece.text
            group = []


def _cuda_edits(tree: ast.Module, pieces: list[PythonToken], offsets: Offsets, removed: Spans) -> Iterator[Edit]:
    # Few sources have a string with a C++ comment in it; the trees of the others need no walk.
    commented = [
        (group, following)
        for group, following in string_groups(pieces)
        if _CPP_COMMENT.search(meaning_of(group)) and not removed.hold(group[0])
    ]
    compiling = commented and any(piece.kind == "NAME" and piece.text in COMPILE_CALLS for piece in pieces)
    compiled = Spans(offsets.span(node) for node in cuda_spans(tree)) if compiling else Spans()
    for group, following in commented:
        if is_cuda(group, compiled):
            yield from _group_edits(group, following == "+")


def meaning_of(group: list[PythonToken]) -> str:
    """The string that adjacent literals are together."""
    return "".join(Literal(piece.text).value for piece in group)


def is_cuda(group: list[PythonToken], compiled: Spans) -> bool:
    """Whether adjacent literals are CUDA source: by what they say, or because they are compiled."""
    return CUDA_MARK.search(meaning_of(group)) is not None or compiled.hold(group[0])


def _group_edits(group: list[PythonToken], appended: bool) -> Iterator[Edit]:
    """Strip literals that form one string; an edit that runs over several is made in each."""
    literals = [Literal(piece.text) for piece in group]
    edits = comment_edits("".join(literal.value for literal in literals), keep_final_mark=appended)
    first = 0
    for piece, literal in zip(group, literals, strict=True):
        past = first + len(literal.value)
        body: list[str] = []
        position = 0
        for start, end, new in edits:
            if start < past and end > first:
                low, high = literal.offsets[max(start - first, 0)], literal.offsets[min(end, past) - first]
                body += [literal.body[position:low], new if start >= first else ""]
                position = high
        stripped = "".join(body) + literal.body[position:]
        yield piece.start, piece.end, literal.opening + _safe_end(stripped, literal) + literal.closing
        first = past


def _safe_end(body: str, literal: Literal) -> str:
    """The body, with a blank after an end that would swallow the closing quotes (only stripping brings one about)."""
    if body == literal.body:
        return body
    before_quote = body[:-1] if body.endswith(literal.closing[0]) else body
    backslashes = len(before_quote) - len(before_quote.rstrip("\\"))
    quoted = before_quote is not body and backslashes % 2 == 0
    open_escape = before_quote is body and backslashes % 2 == 1
    return body + " " if quoted or open_escape else body


def _apply(source: str, edits: list[Edit]) -> str:
    """Make the edits; a line that loses all it had goes with its newline."""
    result: list[str] = []
    position = 0
    for start, end, new in _merged(source, edits):
        before = source[position:start]
        if new == "":
            line = source.rfind("\n", 0, start) + 1
            newline = source.find("\n", end)
            newline = len(source) if newline < 0 else newline
            if not source[end:newline].strip():
                if line >= position and not source[line:start].strip():
                    before, end = source[position:line], min(newline + 1, len(source))
                else:
                    before = before.rstrip(" \t\f")
        result += [before, new]
        position = end
    # A line that went on with nothing but a comment ends now.
    return _DANGLING.sub("\n", "".join(result) + source[position:]) if edits else source


def _merged(source: str, edits: list[Edit]) -> list[Edit]:
    """The edits in order, deletions with only blanks between them as one."""
    merged: list[Edit] = []
    for start, end, new in sorted(edits):
        if merged and new == merged[-1][2] == "" and not source[merged[-1][1] : start].strip(" \t\f"):
            merged[-1] = (merged[-1][0], end, "")
        else:
            merged.append((start, end, new))
    return merged


_BROKEN = re.compile(
    r"""(?P<block>^[ \t]*(?:'''(?:\\.|[^\\])*?'''|\"\"\"(?:\\.|[^\\])*?\"\"\")[ \t]*\n)"""
    r"""|(?P<string>'''(?:\\.|[^\\])*?'''|\"\"\"(?:\\.|[^\\])*?\"\"\"|'(?:\\.|[^\\\n'])*'|"(?:\\.|[^\\\n"])*")"""
    r"""|(?P<line>^[ \t]*\#[^\n]*\n)|(?P<comment>[ \t]*\#[^\n]*)""",
    re.MULTILINE | re.DOTALL,
)


def _strip_broken(source: str) -> str:
    """Best effort on text Python refuses: strings are respected, comments and string statements go."""

    def replace(found: re.Match[str]) -> str:
        text = found.group("string") or (found.group("block") or "")
        if not CUDA_MARK.search(text):
            return found.group("string") or ""
        indent, text, end = re.split(r"(?s)([\"'].*[\"'])", text, maxsplit=1)
        literal = Literal(text)
        return indent + literal.opening + strip_cpp(literal.body) + literal.closing + end

    return _BROKEN.sub(replace, source)
