"""CudaText: the CUDA source inside a kernel, as tokens with their offsets."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Sequence

from kbench.generation.proposers.rewrite.edit import Edit, Module
from kbench.loaders.source.cpp import CppToken, tokens
from kbench.loaders.source.python import Literal

OPENING = {"(": ")", "[": "]", "{": "}"}


def closing(tokens: Sequence[CppToken], at: int) -> int | None:
    """Index of the bracket that closes the one at `at`; None when it is never closed."""
    expected: list[str] = []
    for index in range(at, len(tokens)):
        token = tokens[index]
        if token.kind == "mark" and token.text in OPENING:
            expected.append(OPENING[token.text])
        elif token.kind == "mark" and token.text in OPENING.values():
            if not expected or expected.pop() != token.text:
                return None
            if not expected:
                return index
    return None


def is_balanced(tokens: Sequence[CppToken]) -> bool:
    """Whether every bracket has its partner."""
    at = 0
    while at < len(tokens):
        if tokens[at].kind == "mark" and tokens[at].text in {*OPENING, *OPENING.values()}:
            end = closing(tokens, at)
            if end is None:
                return False
            at = end
        at += 1
    return True


@dataclasses.dataclass(frozen=True, slots=True)
class CudaText:
    """CUDA source inside a kernel text, spelt as it reads, so that offsets differ by a constant."""

    start: int
    text: str
    tokens: list[CppToken]

    def line(self, token: CppToken) -> int:
        """The token's line within the CUDA source, from 1."""
        return self.text.count("\n", 0, token.start) + 1

    def replace(self, first: CppToken, last: CppToken, text: str, what: str) -> Edit:
        """An edit that puts other text in the place of some tokens, ends included."""
        return Edit(((self.start + first.start, self.start + last.end, text),), what)

    def insert(self, offset: int, text: str, what: str) -> Edit:
        """An edit that inserts text at an offset of the CUDA source."""
        return Edit(((self.start + offset, self.start + offset, text),), what)

    def between(self, first: CppToken, last: CppToken) -> str:
        """The text of some tokens, ends included."""
        return self.text[first.start : last.end]


def cuda_texts(module: Module) -> list[CudaText]:
    """The string literals handed to CudaModule, where they are spelt as they read."""
    texts = []
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "__global__" in node.value:
            start, end = module.span(node)
            literal = Literal(module.source[start:end])
            if literal.body == node.value:
                texts.append(CudaText(start + len(literal.opening), literal.body, tokens(literal.body)))
    return texts
