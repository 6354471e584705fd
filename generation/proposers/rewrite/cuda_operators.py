"""Edits of the CUDA C++ in a kernel over its tokens: loads, stores, unrolling, bounds, accumulators, constants."""

from __future__ import annotations

import ast
import dataclasses
import itertools
import random
import re
from collections.abc import Callable, Iterator, Sequence

from kbench.generation.proposers.rewrite.edit import Edit, EditOperator, Module, is_tile, other_tile
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
    expected: list[str] = []
    for mark in (token.text for token in tokens if token.kind == "mark"):
        if mark in OPENING:
            expected.append(OPENING[mark])
        elif mark in OPENING.values() and (not expected or expected.pop() != mark):
            return False
    return not expected


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


LOADS = ("__ldg", "__ldcs", "__ldcg", "__ldca", "__ldlu")
STORES = ("__stcs", "__stcg", "__stwb", "__stwt")
PLAIN_TYPES = frozenset({"float", "int", "float2", "float4", "int2", "int4", "double", "__half", "half", "unsigned"})
"""Types the load and store intrinsics take."""
SMALLEST, LARGEST = 2, 4096
"""Powers of two outside these bounds are no tile sizes."""
UNROLLS = ("1", "2", "4", "8", "")
FAST = {"expf": "__expf", "logf": "__logf", "sinf": "__sinf", "cosf": "__cosf", "tanf": "__tanf",
        "log2f": "__log2f", "powf": "__powf", "sqrtf": "__fsqrt_rn"}  # fmt: skip
PRECISE = {fast: precise for precise, fast in FAST.items()}
DEFINE = re.compile(r"\s*#\s*define\s+(\w+)\s+(\d+)\s*$")
PRAGMA = re.compile(r"\s*#\s*pragma\s+unroll\b\s*(\S*)\s*$")


def _over(name: str, find: Callable[[CudaText, random.Random], Iterator[Edit]]) -> EditOperator:
    """The operator that finds its places in every CUDA text of a kernel."""
    return EditOperator(name, lambda module, rng: (edit for cuda in cuda_texts(module) for edit in find(cuda, rng)))


def _pointers(tokens: list[CppToken], constant: bool) -> set[str]:
    """Names of pointer parameters to plain types, read-only or written."""
    names = set()
    for at, token in enumerate(tokens):
        if token.text != "*" or at < 1 or tokens[at - 1].text not in PLAIN_TYPES:
            continue
        is_constant = at >= 2 and tokens[at - 2].text == "const"
        ahead = at + 1
        while ahead < len(tokens) and tokens[ahead].text in ("__restrict__", "const"):
            ahead += 1
        is_parameter = ahead + 1 < len(tokens) and tokens[ahead].kind == "name" and tokens[ahead + 1].text in (",", ")")
        if is_parameter and is_constant == constant:
            names.add(tokens[ahead].text)
    return names


def _subscripts(cuda: CudaText, names: set[str]) -> Iterator[tuple[int, int]]:
    """Token ranges `name [ … ]`, ends included."""
    for at, token in enumerate(cuda.tokens[:-1]):
        if token.kind == "name" and token.text in names and cuda.tokens[at + 1].text == "[":
            end = closing(cuda.tokens, at + 1)
            before = cuda.tokens[at - 1].text if at else ""
            if end is not None and before not in ("&", ".", "->", "*"):
                yield at, end


def _load_hint(cuda: CudaText, rng: random.Random) -> Iterator[Edit]:
    """x[i] of a read-only parameter through a load intrinsic with its own cache policy."""
    for at, end in _subscripts(cuda, _pointers(cuda.tokens, constant=True)):
        chosen = rng.choice(LOADS[:4])
        first, last = cuda.tokens[at], cuda.tokens[end]
        what = f"line {cuda.line(first)}: load of {first.text} by {chosen}"
        yield cuda.replace(first, last, f"{chosen}(&{cuda.between(first, last)})", what)


def _other_load(cuda: CudaText, rng: random.Random) -> Iterator[Edit]:
    for token in cuda.tokens:
        if token.text in LOADS:
            chosen = rng.choice([name for name in LOADS[:4] if name != token.text])
            yield _renamed(cuda, token, chosen)


def _renamed(cuda: CudaText, token: CppToken, name: str) -> Edit:
    return cuda.replace(token, token, name, f"line {cuda.line(token)}: {token.text} -> {name}")


def _store_hint(cuda: CudaText, rng: random.Random) -> Iterator[Edit]:
    """y[i] = v; through a store intrinsic with its own cache policy."""
    tokens = cuda.tokens
    for at, end in _subscripts(cuda, _pointers(tokens, constant=False)):
        if end + 1 >= len(tokens) or tokens[end + 1].text != "=":
            continue
        stop = next((i for i in range(end + 2, len(tokens)) if tokens[i].text in (";", "{")), None)
        if stop is None or tokens[stop].text != ";":
            continue
        chosen = rng.choice(STORES)
        target, value = cuda.between(tokens[at], tokens[end]), cuda.between(tokens[end + 2], tokens[stop - 1])
        what = f"line {cuda.line(tokens[at])}: store to {tokens[at].text} by {chosen}"
        yield cuda.replace(tokens[at], tokens[stop - 1], f"{chosen}(&{target}, {value})", what)


def _unroll(cuda: CudaText, rng: random.Random) -> Iterator[Edit]:
    """Another unroll factor, or a pragma where a loop has none."""
    for before, token in zip([None, *cuda.tokens], cuda.tokens, strict=False):
        pragma = PRAGMA.match(token.text) if token.kind == "directive" else None
        if pragma is not None:
            text = _pragma(rng.choice([factor for factor in UNROLLS if factor != pragma[1]]))
            yield cuda.replace(token, token, text, f"line {cuda.line(token)}: {text}")
        bare = before is not None and not (before.kind == "directive" and PRAGMA.match(before.text))
        if token.text == "for" and bare:
            text = _pragma(rng.choice(UNROLLS))
            yield cuda.insert(token.start, f"\n{text}\n", f"line {cuda.line(token)}: {text}")


def _pragma(factor: str) -> str:
    return f"#pragma unroll {factor}".rstrip()


def _bounds(cuda: CudaText, rng: random.Random) -> Iterator[Edit]:
    """Launch bounds: another least number of blocks per SM where they are given, the widest bounds where not."""
    tokens = cuda.tokens
    for at, token in enumerate(tokens):
        if token.text == "__launch_bounds__":
            end = closing(tokens, at + 1)
            if end is None:
                continue
            blocks = rng.choice(("1", "2", "3", "4"))
            first, last = tokens[at + 2], tokens[end - 1]
            comma = next((one for one in tokens[at + 2 : end] if one.text == ","), None)
            head = cuda.text[first.start : comma.start if comma else last.end]
            what = f"line {cuda.line(token)}: launch bounds ({head}, {blocks})"
            yield cuda.replace(first, last, f"{head}, {blocks}", what)
        elif [one.text for one in tokens[at - 1 : at + 1]] == ["__global__", "void"] and (
            tokens[at + 1].text != "__launch_bounds__"
        ):
            what = f"line {cuda.line(token)}: launch bounds (1024)"
            yield cuda.insert(token.end, " __launch_bounds__(1024)", what)


def _wider(cuda: CudaText, rng: random.Random) -> Iterator[Edit]:
    """A float accumulator that starts at zero becomes a double."""
    for kind, name, sign, value in zip(*(cuda.tokens[i:] for i in range(4)), strict=False):
        zero = value.kind == "number" and value.text.rstrip("fF").strip("0") in ("", ".")
        if kind.text == "float" and name.kind == "name" and sign.text == "=" and zero:
            what = f"line {cuda.line(kind)}: {name.text} accumulates in double"
            yield cuda.replace(kind, kind, "double", what)


def _intrinsic(cuda: CudaText, rng: random.Random) -> Iterator[Edit]:
    for token, after in itertools.pairwise(cuda.tokens):
        other = FAST.get(token.text) or PRECISE.get(token.text)
        if other is not None and after.text == "(":
            yield _renamed(cuda, token, other)


def _constant(cuda: CudaText, rng: random.Random) -> Iterator[Edit]:
    """Power-of-two constants of the device code, doubled or halved."""
    for token in cuda.tokens:
        defined = DEFINE.match(token.text) if token.kind == "directive" else None
        if defined is not None and _is_tile(defined[2]):
            value = other_tile(int(defined[2]), rng)
            what = f"{defined[1]}: {defined[2]} -> {value}"
            yield cuda.replace(token, token, f"#define {defined[1]} {value}", what)
    for kind, name, sign, held in zip(*(cuda.tokens[i:] for i in range(4)), strict=False):
        if kind.text == "int" and name.kind == "name" and sign.text == "=" and _is_tile(held.text):
            value = other_tile(int(held.text), rng)
            yield cuda.replace(held, held, str(value), f"{name.text}: {held.text} -> {value}")


def _is_tile(text: str) -> bool:
    return text.isdigit() and is_tile(int(text), SMALLEST, LARGEST)


def _statements(cuda: CudaText) -> Iterator[tuple[int, int]]:
    """Token ranges of declarations with a value, `type name = …;`, semicolon included."""
    start = 0
    for at, token in enumerate(cuda.tokens):
        if token.text in ("{", "}") or token.kind == "directive":
            start = at + 1
        elif token.text == ";":
            words = {token.text for token in cuda.tokens[start:at]}
            if "=" in words and not words & {"for", "if", "while", "return"}:
                yield start, at
            start = at + 1


def _swap(cuda: CudaText, rng: random.Random) -> Iterator[Edit]:
    """Two neighbouring declarations that need nothing of each other, in the other order."""
    for (a, b), (c, d) in itertools.pairwise(_statements(cuda)):
        one, other = cuda.tokens[a : b + 1], cuda.tokens[c : d + 1]
        names = _declared(one), _declared(other)
        if c != b + 1 or None in names or _effects(one) or _effects(other):
            continue
        if names[0] in {t.text for t in other} or names[1] in {t.text for t in one}:
            continue
        what = f"lines {cuda.line(one[0])} and {cuda.line(other[0])} swapped"
        first = cuda.replace(one[0], one[-1], cuda.between(other[0], other[-1]), what)
        second = cuda.replace(other[0], other[-1], cuda.between(one[0], one[-1]), what)
        yield Edit((*first.spans, *second.spans), what)


def _declared(statement: list[CppToken]) -> str | None:
    """The name a statement `type name = …;` declares; None when it is no such statement."""
    at = next((i for i, token in enumerate(statement) if token.text == "="), 0)
    ok = at >= 2 and statement[at - 1].kind == "name" and statement[at - 2].text in {*PLAIN_TYPES, "long", "auto"}
    return statement[at - 1].text if ok else None


def _effects(statement: list[CppToken]) -> bool:
    marks = {"++", "--", "+=", "-=", "*=", "/="}
    return sum(t.text == "=" for t in statement) != 1 or any(
        t.text in marks or t.text.startswith(("atomic", "__sync", "__shfl")) for t in statement
    )


OPERATORS = (
    _over("load hint", _load_hint),
    _over("other load hint", _other_load),
    _over("store hint", _store_hint),
    _over("unroll", _unroll),
    _over("launch bounds", _bounds),
    _over("wider accumulator", _wider),
    _over("intrinsic", _intrinsic),
    _over("device constant", _constant),
    _over("load order", _swap),
)
