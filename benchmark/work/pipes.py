"""Pipes: which part of a multiprocessor an instruction keeps busy, and how many machine instructions it becomes.

PTX is not what is issued. The assembler drops moves, folds address arithmetic, and expands divisions and exact roots
into sequences. The figures here are the usual outcome on NVIDIA GPUs since Volta; they are rounded, not fitted.
"""

from __future__ import annotations

import enum
import math
import re

from kbench.benchmark.work.ptx import Instruction


class Pipe(enum.StrEnum):
    """A part of a multiprocessor that executes instructions."""

    ALU = "alu"
    """Integers, logic, comparisons, selections, narrow conversions."""
    FMA = "fma"
    """Float additions and multiplications, integer multiplications."""
    SPECIAL = "special"
    """Exponentials, roots, reciprocals, conversions between integers and floats."""
    MEMORY = "memory"
    """Loads, stores, atomics, shuffles, asynchronous copies."""
    TENSOR = "tensor"
    """Matrix products."""
    CONTROL = "control"
    """Branches, barriers and waits."""
    DOUBLE = "double"
    """Floats of 64 bits."""


SHAPE = re.compile(r"m(\d{1,4})n(\d{1,4})k(\d{1,4})")
SPECIAL = frozenset({"ex2", "lg2", "sin", "cos", "rcp", "sqrt", "rsqrt", "tanh"})
MEMORY = frozenset({
    "ld", "ldu", "st", "atom", "red", "cp", "ldmatrix", "stmatrix", "shfl", "prefetch", "movmatrix", "tex", "match",
    "redux",
})  # fmt: skip
CONTROL = frozenset({
    "bra", "brx", "call", "ret", "exit", "trap", "bar", "barrier", "mbarrier", "fence", "membar", "nanosleep", "elect",
    "vote", "activemask", "setmaxnreg", "griddepcontrol", "createpolicy", "mapa",
})  # fmt: skip
MULTIPLY = frozenset({"mul", "mad", "fma"})
FREE = frozenset({"mov", "cvta", "createpolicy", "pragma"})
"""Nothing is issued for them, as a rule: the assembler renames registers instead."""
EXACT = {"div": 10.0, "rcp": 8.0, "sqrt": 9.0}
"""Instructions of a correctly rounded 32-bit float operation."""
APPROXIMATE = {"div": 2.0, "sqrt": 2.0, "sin": 2.0, "cos": 2.0}
DENORMAL = {"ex2": 4.0, "lg2": 4.0, "rcp": 1.0, "rsqrt": 4.0, "sqrt": 5.0, "div": 4.0}
"""Instructions of an approximate operation that keeps denormal numbers: operands are scaled before and after."""

CONVERSION = 1 / 3
"""Lookups that a conversion between integers and floats takes as long as."""


def pipe_of(one: Instruction) -> Pipe:
    """Where an instruction runs."""
    name, kind = one.name, one.type
    if name in ("mma", "wgmma", "wmma"):
        is_product = name != "wgmma" or "mma_async" in one.parts
        return (
            (Pipe.TENSOR if "load" not in one.parts and "store" not in one.parts else Pipe.MEMORY)
            if is_product
            else Pipe.CONTROL
        )
    if name in MEMORY:
        return Pipe.MEMORY
    if name in CONTROL:
        return Pipe.CONTROL
    if kind == "f64":
        return Pipe.DOUBLE
    floating = kind[:1] == "f" or kind[:2] in ("bf", "tf")
    if name in SPECIAL or (name == "div" and floating):
        return Pipe.SPECIAL
    if name == "cvt":
        kinds = [part for part in one.parts if part[:1] in "suf" and part[1:].isdigit()]
        return Pipe.SPECIAL if len({part[0] == "f" for part in kinds}) > 1 else Pipe.ALU
    if name in MULTIPLY or (floating and name in ("add", "sub")):
        return Pipe.FMA
    return Pipe.ALU


def machine_instructions(one: Instruction) -> float:
    """How many machine instructions a PTX instruction becomes on average."""
    name, kind, parts = one.name, one.type, one.parts
    if name in FREE or (name in ("ld", "st") and "param" in parts):
        return 1.0 if name == "mov" and kind == "b32" and "{" in "".join(one.operands) else 0.0
    if name in ("div", "rem") and kind[:1] in "sub" and kind[:2] != "bf":
        return 70.0 if kind.endswith("64") else 18.0
    if name in SPECIAL or name == "div":
        return _function(one)
    if name == "wmma":
        return _fragments(one)
    if kind.endswith("64") and kind[:1] in "sub":
        if name == "cvt":
            return 0.0 if "u32" in parts else 0.5
        if name in MULTIPLY:
            return 4.0 if "lo" in parts else 8.0 if "hi" in parts else 1.0
        # Most additions of 64 bits become an operand of a load or join a multiplication.
        return (
            1.0
            if name == "add"
            else 2.0
            if name in ("shl", "shr", "setp", "selp", "and", "or", "xor", "sub", "min", "max")
            else 1.0
        )
    if name == "bra" and one.guard is None:
        return 0.5
    if name in ("and", "or", "xor", "not"):
        # The machine's logic takes three operands, and predicates combine where they are made.
        return 0.7 if kind != "pred" else 0.5
    return 0.3 if name in ("neg", "abs") else 1.0


def lookups(one: Instruction) -> float:
    """How many lookups the special unit does for an instruction; what scales and refines is work of the float units."""
    if pipe_of(one) is not Pipe.SPECIAL:
        return 0.0
    return CONVERSION if one.name == "cvt" else 1.0


def _function(one: Instruction) -> float:
    if one.type == "f64":
        return 20.0
    if "approx" not in one.parts and "full" not in one.parts:
        return EXACT.get(one.name, 1.0)
    if "ftz" in one.parts or one.type != "f32":
        return APPROXIMATE.get(one.name, 1.0)
    return DENORMAL.get(one.name, APPROXIMATE.get(one.name, 1.0))


def _fragments(one: Instruction) -> float:
    """wmma instructions move and multiply tiles of 16 by 16, which the machine does in pieces."""
    if "load" in one.parts:
        return 4.0
    return 8.0 if "store" in one.parts else 2.0


def fragment_extents(one: Instruction) -> tuple[int, int]:
    """Rows of a fragment that wmma loads or stores, as they lie in memory, and bytes of a row."""
    shape = next((match for part in one.parts if (match := SHAPE.fullmatch(part))), None)
    m, n, k = (int(extent) for extent in shape.groups()) if shape else (16, 16, 16)
    rows, columns = {"a": (m, k), "b": (k, n)}.get(one.parts[1], (m, n))
    return (columns, rows * one.nbytes) if "col" in one.parts else (rows, columns * one.nbytes)


def tensor_flops(one: Instruction) -> tuple[int, float]:
    """Bits of the factors and operations of one warp's share in a matrix product; a wgmma is shared by four warps."""
    shape = next((match for part in one.parts if (match := SHAPE.fullmatch(part))), None)
    if shape is None or pipe_of(one) is not Pipe.TENSOR:
        return 16, 0.0
    types = [part for part in one.parts if re.fullmatch(r"[subf]\d+|bf16|tf32|e\dm\d", part)]
    # The result's type comes first, where there is more than one; wgmma names the factors after it.
    factor = types[1] if len(types) > 1 else types[0] if types else ""
    bits = {"tf32": 32, "f32": 32, "f64": 64, "bf16": 16, "f16": 16}.get(factor, 8)
    flops = 2.0 * math.prod(int(extent) for extent in shape.groups())
    return bits, flops / 4 if one.name == "wgmma" else flops
