"""Instructions: what PTX text consists of, counted by class.

PTX is what the compiler means before registers are assigned: how wide loads are, whether tensor cores are used, how
much of a kernel is addresses. A count is of the text, not of what runs: a loop's body counts once.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Mapping

GLOBAL_LOADS, GLOBAL_STORES = "global_loads", "global_stores"
VECTOR_LOADS, VECTOR_STORES = "vector_loads", "vector_stores"
SHARED_LOADS, SHARED_STORES = "shared_loads", "shared_stores"
ASYNC_COPIES, MATRIX, FUSED = "async_copies", "matrix", "fused"
FLOAT, SPECIAL, INTEGER = "float", "special", "integer"
CONVERSIONS, COMPARISONS, BRANCHES = "conversions", "comparisons", "branches"
BARRIERS, SHUFFLES, ATOMICS = "barriers", "shuffles", "atomics"
TOTAL = "total"
CLASSES = (
    GLOBAL_LOADS, VECTOR_LOADS, GLOBAL_STORES, VECTOR_STORES, SHARED_LOADS, SHARED_STORES, ASYNC_COPIES, MATRIX, FUSED,
    FLOAT, SPECIAL, INTEGER, CONVERSIONS, COMPARISONS, BRANCHES, BARRIERS, SHUFFLES, ATOMICS, TOTAL,
)  # fmt: skip
"""Every count there is. Vector loads and stores are those of the global ones that move several elements; the total also
counts moves, parameters and the rest."""

BY_NAME: Mapping[str, str] = {
    name: kind
    for kind, names in {
        SHARED_LOADS: "ldmatrix",
        SHARED_STORES: "stmatrix",
        FUSED: "fma",
        SPECIAL: "ex2 lg2 sin cos rcp sqrt rsqrt tanh",
        INTEGER: "and or xor not cnot shl shr shf bfe bfi bfind brev popc clz lop3 prmt rem sad mul24 mad24 dp4a dp2a "
        "addc subc madc szext bmsk fns",
        CONVERSIONS: "cvt",
        COMPARISONS: "setp set selp slct testp",
        BRANCHES: "bra brx call",
        BARRIERS: "bar barrier mbarrier membar fence griddepcontrol",
        SHUFFLES: "shfl redux vote match elect activemask",
        ATOMICS: "atom red multimem",
    }.items()
    for name in names.split()
}
"""Classes of instructions that the first word identifies."""
ARITHMETIC = {"add", "sub", "mul", "mad", "div", "neg", "abs", "min", "max", "copysign"}
"""Instructions on integers or on floats, as their type says."""
OTHER_SPACES = {"param", "const", "local"}

NOT_CODE = re.compile(r"//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/|^[ \t]*\.(?:loc|file)\b[^\n]*", re.MULTILINE)
"""Comments, and directives that end with their line and not with a semicolon."""
FUNCTION = re.compile(r"\.(?:entry|func)\b\s*(?:\([^)]*\)\s*)?([\w$%]+)")
BOUNDARY = re.compile(r"[;{}]|(?<!:):(?!:)")
"""Ends of statements and labels; two colons are part of a name such as shared::cta."""
OPCODE = re.compile(r"\s*(?:@!?\s*[%$\w]+\s+)?([a-z]\w*(?:\.[\w:]+)*)(?=\s|$)")
FLOAT_TYPE = re.compile(r"(?:bf16|f16|tf32|f32|f64)(?:x2)?")


def read_instructions(ptx: str) -> dict[str, dict[str, int]]:
    """Counts of every function with a body in PTX text, by mangled name: each of CLASSES."""
    pieces = FUNCTION.split(NOT_CODE.sub("", ptx))
    found: dict[str, dict[str, int]] = {}
    for name, text in zip(pieces[1::2], pieces[2::2], strict=True):
        head, _, body = text.partition("{")
        if ";" in head:
            # A declaration: the code that follows is not its own.
            continue
        found[name] = _counts(Counter(match[1] for part in BOUNDARY.split(body) if (match := OPCODE.match(part))))
    return found


def largest_counts(found: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The largest count of each class over functions; empty when there is none."""
    known = list(found)
    return {name: max(counts[name] for counts in known) for name in CLASSES} if known else {}


def _counts(opcodes: Mapping[str, int]) -> dict[str, int]:
    counts = dict.fromkeys(CLASSES, 0)
    for opcode, times in opcodes.items():
        counts[TOTAL] += times
        for kind in _classes(opcode):
            counts[kind] += times
    return counts


@functools.lru_cache(maxsize=4096)
def _classes(opcode: str) -> tuple[str, ...]:
    """The classes an instruction counts in: usually one, none for moves and the like."""
    name, *parts = opcode.split(".")
    if name in ("ld", "ldu", "st"):
        return _memory(name, parts)
    if name == "cp":
        return (_copy(parts),)
    if name in ("mma", "wgmma", "wmma", "tcgen05"):
        return _matrix(parts, name == "mma")
    if name in ARITHMETIC:
        return (_arithmetic(name, parts),)
    return (BY_NAME[name],) if name in BY_NAME else ()


def _memory(name: str, parts: list[str]) -> tuple[str, ...]:
    spaces = {part.partition("::")[0] for part in parts}
    if spaces & OTHER_SPACES:
        return ()
    if "shared" in spaces:
        return (SHARED_STORES if name == "st" else SHARED_LOADS,)
    # An address of no stated space is one the compiler could not prove to be shared: in practice global.
    plain, vector = (GLOBAL_STORES, VECTOR_STORES) if name == "st" else (GLOBAL_LOADS, VECTOR_LOADS)
    return (plain, vector) if spaces & {"v2", "v4", "v8"} else (plain,)


def _copy(parts: list[str]) -> str:
    if "reduce" in parts:
        return ATOMICS
    waits = ("commit_group", "wait_group", "wait_all", "mbarrier")
    return BARRIERS if any(part in waits for part in parts) else ASYNC_COPIES


def _matrix(parts: list[str], plain: bool) -> tuple[str, ...]:
    if plain or "mma" in parts or "mma_async" in parts:
        return (MATRIX,)
    if "load" in parts or "store" in parts:
        # Fragments of a warp's matrix, from or to shared or global memory.
        return _memory("st" if "store" in parts else "ld", parts)
    return (BARRIERS,) if {"fence", "commit_group", "wait_group", "wait", "commit"} & set(parts) else ()


def _arithmetic(name: str, parts: list[str]) -> str:
    if not any(FLOAT_TYPE.fullmatch(part) for part in parts):
        return INTEGER
    return {"mad": FUSED, "div": SPECIAL}.get(name, FLOAT)
