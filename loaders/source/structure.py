"""The shape of a kernel: its tokens with the names its author chose and every literal masked.

Two kernels that differ in comments, layout, names or tuning numbers have one shape. Names of the languages and of
their libraries stay (`tl.exp` is not `tl.sin`), so kernels that compute different things keep different shapes.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterator

from kbench.loaders.source.cpp import stripped_tokens
from kbench.loaders.source.python import UNREADABLE, PythonToken, parse, tokens, walk
from kbench.loaders.source.strip import Spans, is_cuda, meaning_of, read, string_groups
from kbench.schemas.ids import content_hash

NAME, NUMBER, TEXT = "n", "0", "s"
"""What a chosen name, a number and a string are masked as."""

_CPP_TYPES = frozenset(
    "auto bfloat16 bool char double float half int long short signed unsigned void".split()  # noqa: SIM905
)
CPP_WORDS = _CPP_TYPES | {
    "alignas", "alignof", "asm", "break", "case", "class", "const", "constexpr", "continue", "default", "delete", "do",
    "else", "enum", "explicit", "extern", "false", "for", "goto", "if", "inline", "namespace", "new", "noexcept",
    "nullptr", "operator", "private", "public", "register", "reinterpret_cast", "return", "sizeof", "static",
    "static_assert", "static_cast", "struct", "switch", "template", "this", "true", "typedef", "typename", "union",
    "using", "volatile", "while", "half2", "float2", "float4", "int2", "int4", "uint2", "uint4",
    "threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize",
    "define", "elif", "endif", "ifdef", "ifndef", "include", "pragma", "undef", "unroll",
}  # fmt: skip
"""C++ and CUDA words that carry structure; every `__word` counts as one too."""


def structure_id(source: str) -> str:
    """Hash of the source's shape: comments gone, chosen names and literals masked."""
    stripped, tree, pieces = read(source)
    try:
        # Stripping takes out no name, so the tree at hand serves; a source that did not parse may do so stripped.
        tree = tree or parse(stripped)
        pieces = pieces or tokens(stripped)
    except UNREADABLE:
        return content_hash("structure", *_mask_cpp(stripped))
    return content_hash("structure", *_mask_python(pieces, _chosen_names(tree)))


def _chosen_names(tree: ast.AST) -> set[str]:
    """Every name the source itself binds; imported modules keep theirs."""
    names: set[str] = set()
    for node in walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
    return names


def _mask_python(pieces: list[PythonToken], chosen: set[str]) -> Iterator[str]:
    groups = {group[0].start: group for group, _ in string_groups(pieces)}
    for piece in pieces:
        if piece.kind == "STRING":
            group = groups.get(piece.start, [])
            if group and is_cuda(group, Spans()):
                yield from _mask_cpp(meaning_of(group))
            elif group:
                yield TEXT
        elif piece.kind == "NUMBER":
            yield NUMBER
        elif piece.kind == "NAME":
            keeps_name = keyword.iskeyword(piece.text) or piece.text not in chosen
            yield piece.text if keeps_name else NAME
        elif piece.kind in ("INDENT", "DEDENT", "NEWLINE"):
            yield piece.kind
        elif piece.kind == "OP":
            yield piece.text


def _mask_cpp(text: str) -> Iterator[str]:
    tokens = stripped_tokens(text)
    library = _library_functions(tokens)
    before = ""
    for kind, value in tokens:
        member, before = before == "." and value in ("x", "y", "z", "w"), value
        if kind == "text":
            yield TEXT
        elif kind == "number":
            yield NUMBER
        elif member or kind == "mark" or value in CPP_WORDS or value.startswith("__") or value in library:
            yield value
        else:
            yield NAME


def _library_functions(tokens: list[tuple[str, str]]) -> set[str]:
    """Functions that are called and never declared here, such as expf."""
    called: set[str] = set()
    declared: set[str] = set()
    for position, (kind, value) in enumerate(tokens[:-1]):
        if kind != "name" or value in CPP_WORDS or tokens[position + 1][1] != "(":
            continue
        before = [token[1] for token in tokens[max(0, position - 2) : position]] or [""]
        typed = before[-1] in _CPP_TYPES or (before[-1] in "*&" and before[0] in _CPP_TYPES)
        named = before[-1] not in CPP_WORDS and re.fullmatch(r"\w+", before[-1]) is not None
        (declared if typed or named or before[-1] == ">" or before[-1] == "define" else called).add(value)
    return called - declared
