"""A token stream of C++ with offsets: identifiers, numbers, literals, comments, directives and punctuation."""

from __future__ import annotations

import ast
import dataclasses
import re

from kbench.generation.proposers.rewrite.edit import Module
from kbench.loaders.source.literal import Literal

PATTERN = re.compile(
    r"""
    (?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)
  | (?P<directive>(?m:^)[ \t]*\#(?:\\\n|[^\n])*)
  | (?P<text>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
  | (?P<number>(?:0[xX][0-9a-fA-F']+|\d[\d']*\.?[\d']*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)[a-zA-Z]*)
  | (?P<name>[A-Za-z_]\w*)
  | (?P<mark><<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||\+=|-=|\*=|/=|%=|&=|\|=|\^=|::|[^\s\w])
  | (?P<blank>\s+)
    """,
    re.VERBOSE | re.DOTALL,
)
OPENING = {"(": ")", "[": "]", "{": "}"}


@dataclasses.dataclass(frozen=True, slots=True)
class Token:
    """A token of the C++ text; offsets are within that text."""

    kind: str
    text: str
    start: int
    end: int


def tokenize(text: str) -> list[Token]:
    """Every token but blanks and comments."""
    return [
        Token(found.lastgroup, found.group(), found.start(), found.end())
        for found in PATTERN.finditer(text)
        if found.lastgroup is not None and found.lastgroup not in ("blank", "comment")
    ]


def closing(tokens: list[Token], at: int) -> int | None:
    """Index of the bracket that closes the one at `at`; None when it is never closed."""
    depth: list[str] = []
    for index in range(at, len(tokens)):
        text = tokens[index].text
        if tokens[index].kind != "mark":
            continue
        if text in OPENING:
            depth.append(OPENING[text])
        elif depth and text == depth[-1]:
            depth.pop()
            if not depth:
                return index
        elif text in OPENING.values():
            return None
    return None


def is_balanced(tokens: list[Token]) -> bool:
    """Whether every bracket has its partner."""
    depth: list[str] = []
    for token in tokens:
        if token.kind != "mark":
            continue
        if token.text in OPENING:
            depth.append(OPENING[token.text])
        elif token.text in OPENING.values() and (not depth or depth.pop() != token.text):
            return False
    return not depth


@dataclasses.dataclass(frozen=True, slots=True)
class CudaText:
    """CUDA source inside a kernel text: spelt as it reads, so that offsets differ by a constant."""

    start: int
    text: str
    tokens: list[Token]

    def at(self, offset: int) -> int:
        """Offset in the kernel text of an offset in the CUDA source."""
        return self.start + offset


def cuda_texts(module: Module) -> list[CudaText]:
    """The string literals handed to CudaModule, where they are spelt as they read."""
    found = []
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "__global__" in node.value:
            start, end = module.span(node)
            literal = Literal(module.source[start:end])
            if literal.body == node.value:
                found.append(CudaText(start + len(literal.opening), literal.body, tokenize(literal.body)))
    return found
