"""PTX as instructions: functions with parameters, shared variables and a flat list of instructions.

Only what counting work needs is kept: opcodes with their dotted parts, operands, guards, branch targets, and the source
line an instruction comes from. Names inside inline assembly are made unique, so that scopes need no stack later.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator, Mapping

COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
FUNCTION = re.compile(r"\.(entry|func)\b\s*(?:\([^)]*\)\s*)?([\w$]+)\s*(?:\(([^)]*)\))?[^{};]*\{")
PARAMETER = re.compile(r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)(?:\s+\.ptr[^,)]*?)?\s+([\w$]+)(?:\[(\d*)\])?\s*$")
VARIABLE = re.compile(r"\.(shared|local|global|const)\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$]+)((?:\[\d*\])*)")
TOKEN = re.compile(r"\s*(?:\.loc\s+(\d+)\s+(\d+)[^\n]*\n|([{}])|([\w$]+):(?!:)|((?:[^;{}]|\{[^{};]*\})+);)")
STATEMENT = re.compile(r"(?:@(!?)([%$\w]+)\s+)?([a-z][\w]*(?:\.[\w:]+)*)\s*(.*)", re.DOTALL)
REGISTER = re.compile(r"\.reg\s+\.\w+\s+(.*)", re.DOTALL)
OPERAND = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^,\s{}\[\]|]+(?:\|[%\w]+)?")
BYTES = {"8": 1, "16": 2, "32": 4, "64": 8, "128": 16}


@dataclasses.dataclass(frozen=True, slots=True)
class Instruction:
    """One PTX instruction."""

    opcode: str
    """All of it, such as ld.global.v4.b32."""
    name: str
    parts: tuple[str, ...]
    operands: tuple[str, ...]
    """Destination first; vectors and addresses keep their brackets."""
    guard: str | None = None
    """The predicate it is executed under."""
    negated: bool = False
    line: int | None = None
    """Line of the source file, where the compiler says so."""

    @property
    def type(self) -> str:
        """The last dotted part that is a type, such as s32; empty without one."""
        return next((part for part in reversed(self.parts) if part[:1] in "subfp" and part[1:2].isdigit()), "")

    @property
    def nbytes(self) -> int:
        """Bytes that each lane moves: the type's, times the elements of a vector."""
        wide = next((int(part[1:]) for part in self.parts if part in ("v2", "v4", "v8")), 1)
        return wide * BYTES.get("".join(c for c in self.type if c.isdigit()), 4)


@dataclasses.dataclass(frozen=True, slots=True)
class Function:
    """A function with a body."""

    name: str
    parameters: tuple[tuple[str, int], ...]
    """Names and sizes in bytes."""
    code: tuple[Instruction, ...]
    labels: Mapping[str, int]
    """Index of the instruction that follows each label."""
    shared: Mapping[str, int]
    """Offsets of shared variables; dynamic shared memory begins after them."""


def read_functions(text: str) -> dict[str, Function]:
    """The entry functions and device functions of a PTX text, by name."""
    text = COMMENT.sub("", text)
    shared = _shared_offsets(text)
    functions: dict[str, Function] = {}
    for match in FUNCTION.finditer(text):
        body = text[match.end() : _closing(text, match.end())]
        code, labels = _read_body(body)
        parameters = tuple(_parameters(match[3] or ""))
        functions[match[2]] = Function(match[2], parameters, code, labels, shared)
    return functions


def _closing(text: str, start: int) -> int:
    depth = 1
    for match in re.finditer(r"[{}]", text[start:]):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return start + match.start()
    return len(text)


def _shared_offsets(text: str) -> dict[str, int]:
    offsets, end = {}, 0
    dynamic: list[str] = []
    for space, align, kind, name, extents in VARIABLE.findall(text):
        if space != "shared":
            continue
        counts = [int(n) if n else 0 for n in re.findall(r"\[(\d*)\]", extents)]
        size = BYTES.get(kind[1:], 1)
        for count in counts:
            size *= count
        if size == 0:
            dynamic.append(name)
            continue
        step = int(align or 1)
        end = -(-end // step) * step
        offsets[name] = end
        end += size
    return offsets | dict.fromkeys(dynamic, -(-end // 128) * 128)


def _parameters(text: str) -> Iterator[tuple[str, int]]:
    for piece in text.split(","):
        match = PARAMETER.search(piece.strip())
        if match:
            _, kind, name, count = match.groups()
            yield name, BYTES.get(kind[1:], 1) * int(count or 1)


def _read_body(body: str) -> tuple[tuple[Instruction, ...], dict[str, int]]:
    """Instructions and labels; names declared in an inner scope are renamed."""
    code: list[Instruction] = []
    labels: dict[str, int] = {}
    scopes: list[dict[str, str]] = []
    numbers = itertools.count()
    line: int | None = None
    for _, source_line, brace, label, statement in TOKEN.findall(body + "\n"):
        if source_line:
            line = int(source_line)
        elif brace == "{":
            scopes.append({})
        elif brace == "}":
            if scopes:
                scopes.pop()
        elif label:
            labels[label] = len(code)
        elif statement.strip():
            _read_statement(statement.strip(), code, scopes, numbers, line)
    return tuple(code), labels


def _read_statement(
    text: str, code: list[Instruction], scopes: list[dict[str, str]], numbers: Iterator[int], line: int | None
) -> None:
    declared = REGISTER.match(text)
    if declared:
        if scopes:
            for name in re.findall(r"[%\w]+", declared[1]):
                scopes[-1][name] = f"{name}'{next(numbers)}"
        return
    match = STATEMENT.match(text)
    if match is None or text.startswith("."):
        return
    negated, guard, opcode, rest = match.groups()
    rename = {old: new for scope in scopes for old, new in scope.items()}
    operands = tuple(_renamed(piece, rename) for piece in OPERAND.findall(rest))
    name, *parts = opcode.split(".")
    guard = rename.get(guard, guard) if guard else None
    code.append(Instruction(opcode, name, tuple(parts), operands, guard, negated == "!", line))


def _renamed(operand: str, rename: Mapping[str, str]) -> str:
    if not rename:
        return operand
    return re.sub(r"[%\w]+", lambda match: rename.get(match[0], match[0]), operand)
