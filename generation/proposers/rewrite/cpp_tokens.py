"""The CUDA sources inside a kernel text, as tokens, and the brackets that belong together."""

from __future__ import annotations

import ast
import dataclasses

from kbench.generation.proposers.rewrite.edit import Module
from kbench.loaders.source.cpp import CppToken, tokens
from kbench.loaders.source.literal import Literal

OPENING = {"(": ")", "[": "]", "{": "}"}


def closing(tokens: list[CppToken], at: int) -> int | None:
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


def is_balanced(tokens: list[CppToken]) -> bool:
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
    tokens: list[CppToken]

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
                found.append(CudaText(start + len(literal.opening), literal.body, tokens(literal.body)))
    return found
