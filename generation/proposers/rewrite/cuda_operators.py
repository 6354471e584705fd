"""Edits of CUDA C++ over its tokens: loads, stores, unrolling, bounds, accumulators, constants, order."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Iterator

from kbench.generation.proposers.rewrite.cpp_tokens import CudaText, closing, cuda_texts
from kbench.generation.proposers.rewrite.edit import Edit, Module, Operator
from kbench.loaders.source.cpp import CppToken

LOADS = ("__ldg", "__ldcs", "__ldcg", "__ldca", "__ldlu")
STORES = ("__stcs", "__stcg", "__stwb", "__stwt")
PLAIN_TYPES = frozenset({"float", "int", "float2", "float4", "int2", "int4", "double", "__half", "half", "unsigned"})
"""Types the load and store intrinsics take."""
UNROLLS = ("1", "2", "4", "8", "")
FAST = {"expf": "__expf", "logf": "__logf", "sinf": "__sinf", "cosf": "__cosf", "tanf": "__tanf",
        "log2f": "__log2f", "powf": "__powf", "sqrtf": "__fsqrt_rn"}  # fmt: skip
PRECISE = {fast: precise for precise, fast in FAST.items()}
DEFINE = re.compile(r"\s*#\s*define\s+(\w+)\s+(\d+)\s*$")
PRAGMA = re.compile(r"\s*#\s*pragma\s+unroll\b\s*(\S*)\s*$")


def _over(find: Callable[[CudaText, random.Random], Iterator[Edit]]) -> Callable[[Module, random.Random], list[Edit]]:
    def all_texts(module: Module, rng: random.Random) -> list[Edit]:
        return [edit for cuda in cuda_texts(module) for edit in find(cuda, rng)]

    return all_texts


def _line(cuda: CudaText, token: CppToken) -> int:
    return cuda.text.count("\n", 0, token.start) + 1


def _replace(cuda: CudaText, token: CppToken, text: str, what: str) -> Edit:
    return Edit(((cuda.at(token.start), cuda.at(token.end), text),), what)


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
    """CppToken ranges `name [ … ]`, ends included."""
    for at, token in enumerate(cuda.tokens[:-1]):
        if token.kind == "name" and token.text in names and cuda.tokens[at + 1].text == "[":
            end = closing(cuda.tokens, at + 1)
            before = cuda.tokens[at - 1].text if at else ""
            if end is not None and before not in ("&", ".", "->", "*"):
                yield at, end


def _load_hint(cuda: CudaText, rng: random.Random) -> Iterator[Edit]:
    """x[i] of a read-only parameter through a load intrinsic with its own cache policy."""
    tokens = cuda.tokens
    for at, end in _subscripts(cuda, _pointers(tokens, constant=True)):
        chosen = rng.choice(LOADS[:4])
        start, stop = tokens[at].start, tokens[end].end
        text = f"{chosen}(&{cuda.text[start:stop]})"
        what = f"line {_line(cuda, tokens[at])}: load of {tokens[at].text} by {chosen}"
        yield Edit(((cuda.at(start), cuda.at(stop), text),), what)


def _other_load(cuda: CudaText, rng: random.Random) -> Iterator[Edit]:
    for token in cuda.tokens:
        if token.text in LOADS:
            chosen = rng.choice([name for name in LOADS[:4] if name != token.text])
            yield _replace(cuda, token, chosen, f"line {_line(cuda, token)}: {token.text} -> {chosen}")


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
        target = cuda.text[tokens[at].start : tokens[end].end]
        value = cuda.text[tokens[end + 2].start : tokens[stop - 1].end]
        what = f"line {_line(cuda, tokens[at])}: store to {tokens[at].text} by {chosen}"
        yield Edit(((cuda.at(tokens[at].start), cuda.at(tokens[stop - 1].end), f"{chosen}(&{target}, {value})"),), what)


def _unroll(cuda: CudaText, rng: random.Random) -> Iterator[Edit]:
    """Another unroll factor, or a pragma where a loop has none."""
    for before, token in zip([None, *cuda.tokens], cuda.tokens, strict=False):
        pragma = PRAGMA.match(token.text) if token.kind == "directive" else None
        if pragma is not None:
            chosen = rng.choice([factor for factor in UNROLLS if factor != pragma[1]])
            text = f"#pragma unroll {chosen}".rstrip()
            yield _replace(cuda, token, text, f"line {_line(cuda, token)}: {text}")
        bare = before is not None and not (before.kind == "directive" and PRAGMA.match(before.text))
        if token.text == "for" and bare:
            chosen = rng.choice(UNROLLS)
            text = f"#pragma unroll {chosen}".rstrip()
            at = cuda.at(token.start)
            yield Edit(((at, at, f"\n{text}\n"),), f"line {_line(cuda, token)}: {text}")


def _bounds(cuda: CudaText, rng: random.Random) -> Iterator[Edit]:
    """Launch bounds: other least blocks an SM where they are given, the widest bounds where they are not."""
    tokens = cuda.tokens
    for at, token in enumerate(tokens):
        if token.text == "__launch_bounds__":
            end = closing(tokens, at + 1)
            if end is None:
                continue
            blocks = rng.choice(("1", "2", "3", "4"))
            inner = tokens[at + 2 : end]
            comma = next((one for one in inner if one.text == ","), None)
            head = cuda.text[tokens[at + 2].start : comma.start if comma else tokens[end - 1].end]
            what = f"line {_line(cuda, token)}: launch bounds ({head}, {blocks})"
            yield Edit(((cuda.at(tokens[at + 2].start), cuda.at(tokens[end - 1].end), f"{head}, {blocks}"),), what)
        elif token.text == "void" and at and tokens[at - 1].text == "__global__":
            if tokens[at + 1].text == "__launch_bounds__":
                continue
            where = cuda.at(token.end)
            what = f"line {_line(cuda, token)}: launch bounds (1024)"
            yield Edit(((where, where, " __launch_bounds__(1024)"),), what)


def _wider(cuda: CudaText, rng: random.Random) -> Iterator[Edit]:
    """A float accumulator that starts at zero becomes a double."""
    for one, two, three, four in zip(*(cuda.tokens[i:] for i in range(4)), strict=False):
        zero = four.kind == "number" and four.text.rstrip("fF").strip("0") in ("", ".")
        if one.text == "float" and two.kind == "name" and three.text == "=" and zero:
            yield _replace(cuda, one, "double", f"line {_line(cuda, one)}: {two.text} accumulates in double")


def _intrinsic(cuda: CudaText, rng: random.Random) -> Iterator[Edit]:
    for token, after in zip(cuda.tokens, cuda.tokens[1:], strict=False):
        other = FAST.get(token.text) or PRECISE.get(token.text)
        if other is not None and after.text == "(":
            yield _replace(cuda, token, other, f"line {_line(cuda, token)}: {token.text} -> {other}")


def _constant(cuda: CudaText, rng: random.Random) -> Iterator[Edit]:
    """Power-of-two constants of the device code, doubled or halved."""
    for token in cuda.tokens:
        defined = DEFINE.match(token.text) if token.kind == "directive" else None
        if defined is not None and _is_tile(defined[2]):
            value = _other_tile(int(defined[2]), rng)
            yield _replace(cuda, token, f"#define {defined[1]} {value}", f"{defined[1]}: {defined[2]} -> {value}")
    for one, two, three, four in zip(*(cuda.tokens[i:] for i in range(4)), strict=False):
        if one.text == "int" and two.kind == "name" and three.text == "=" and _is_tile(four.text):
            value = _other_tile(int(four.text), rng)
            yield _replace(cuda, four, str(value), f"{two.text}: {four.text} -> {value}")


def _is_tile(text: str) -> bool:
    return text.isdigit() and 2 <= int(text) <= 4096 and int(text) & (int(text) - 1) == 0


def _other_tile(value: int, rng: random.Random) -> int:
    return value * 2 if rng.random() < 0.5 else value // 2


def _statements(cuda: CudaText) -> Iterator[tuple[int, int]]:
    """CppToken ranges of declarations with a value, `type name = …;`, semicolon included."""
    start = 0
    for at, token in enumerate(cuda.tokens):
        if token.text in ("{", "}") or token.kind == "directive":
            start = at + 1
        elif token.text == ";":
            if any(t.text == "=" for t in cuda.tokens[start:at]) and not any(
                t.text in ("for", "if", "while", "(", "return") and t.text != "(" for t in cuda.tokens[start:at]
            ):
                yield start, at
            start = at + 1


def _swap(cuda: CudaText, rng: random.Random) -> Iterator[Edit]:
    """Two neighbouring declarations that need nothing of each other, in the other order."""
    tokens = cuda.tokens
    found = list(_statements(cuda))
    for (a, b), (c, d) in itertools.pairwise(found):
        if c != b + 1:
            continue
        one, other = tokens[a : b + 1], tokens[c : d + 1]
        if _declared(one) is None or _declared(other) is None or _effects(one) or _effects(other):
            continue
        if _declared(one) in {t.text for t in other} or _declared(other) in {t.text for t in one}:
            continue
        texts = [cuda.text[part[0].start : part[-1].end] for part in (one, other)]
        spans = (
            (cuda.at(one[0].start), cuda.at(one[-1].end), texts[1]),
            (cuda.at(other[0].start), cuda.at(other[-1].end), texts[0]),
        )
        yield Edit(spans, f"lines {_line(cuda, one[0])} and {_line(cuda, other[0])} swapped")


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
    Operator("load hint", _over(_load_hint)),
    Operator("other load hint", _over(_other_load)),
    Operator("store hint", _over(_store_hint)),
    Operator("unroll", _over(_unroll)),
    Operator("launch bounds", _over(_bounds)),
    Operator("wider accumulator", _over(_wider)),
    Operator("intrinsic", _over(_intrinsic)),
    Operator("device constant", _over(_constant)),
    Operator("load order", _over(_swap)),
)
