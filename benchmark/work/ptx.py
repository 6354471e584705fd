"""PTX as instructions: functions with parameters, shared variables and a flat list of instructions.

Only what counting work needs is kept: opcodes with their dotted parts, operands, guards, branch targets, and the source
line an instruction comes from. Registers and labels of inner scopes (inline assembly) get names of their own, so that
later steps need no scopes. The text may come from anyone: reading takes time linear in its length, and long texts,
numbers and nestings are refused.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence

MOST_CHARACTERS = 16 << 20
MOST_INSTRUCTIONS = 50_000
MOST_SCOPES = 64
"""How deep scopes may nest."""
BYTES = {"8": 1, "16": 2, "32": 4, "64": 8, "128": 16}

COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
ASSEMBLY = re.compile(r"// begin inline asm.*?(?:// end inline asm|\Z)", re.DOTALL)
MARK = re.compile(r"^\s*\.loc\b.*$", re.MULTILINE)
DELIMITER = re.compile(r"[;{}]")
HEADER = re.compile(r"\.(?:entry|func)\b\s*(?:\([^)]*\)\s*)?([\w$]+)\s*(?:\(([^)]*)\))?")
PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)(?:\s+\.ptr[^,)]*?)?\s+([\w$]+)(?:\[(\d*)\])?\s*$")
VARIABLE = re.compile(r"\.shared\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([\w$]+)((?:\[\d*\])*)")
PREFIX = re.compile(r"\s*(?:\.loc\s+(\d+\s+\d+\s+\d+)([^\n;]*)\n|([\w$]+)\s*:(?!:))")
INLINED = re.compile(r"inlined_at\s+(\d+\s+\d+\s+\d+)")
STATEMENT = re.compile(r"(?:@(!?)([%$\w]+)\s+)?([a-z]\w*(?:\.[\w:]+)*)\s*(.*)", re.DOTALL)
OPERAND = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^,\s{}\[\]|]+(?:\|[%\w]+)?")
TYPE = re.compile(r"[subfe]\d+|bf16|bf16x2|f16x2|tf32|pred")
NAME = re.compile(r"[%$\w]+")
REGISTER = re.compile(r"[%$_a-zA-Z][%$\w']*")
NUMBERED = re.compile(r"(.*?)\d+$")
WITHOUT_RESULT = frozenset({"bra", "brx", "call", "ret", "exit", "trap", "bar", "barrier", "fence", "membar"})


class PtxError(ValueError):
    """The text cannot be read within the limits."""


@dataclasses.dataclass(frozen=True, slots=True)
class Instruction:
    """One PTX instruction."""

    name: str
    parts: tuple[str, ...]
    """What follows the name, such as global, v4 and b32."""
    operands: tuple[str, ...]
    """Destination first; vectors and addresses keep their brackets."""
    type: str = ""
    """The last part that is a type, such as s32; empty without one."""
    writes: tuple[str, ...] = ()
    """Registers it writes."""
    guard: str | None = None
    """The predicate it is executed under."""
    negated: bool = False
    line: int | None = None
    """Line of the kernel's file, where the compiler says so; inlined library code stands at the line that calls it."""

    @property
    def nbytes(self) -> int:
        """Bytes that each lane moves: the type's, times the elements of a vector."""
        wide = next((int(part[1:]) for part in self.parts if part in ("v2", "v4", "v8")), 1)
        return wide * BYTES.get(self.type.lstrip("subfe"), 4)


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
    """The entry functions and device functions of a PTX text, by name.

    Raises:
        PtxError: the text is beyond the limits.
    """
    if len(text) > MOST_CHARACTERS:
        raise PtxError(f"the PTX has {len(text)} characters, more than {MOST_CHARACTERS}")
    # Within inline assembly LLVM counts the assembly's own lines on from the line that holds it.
    text = ASSEMBLY.sub(lambda assembly: MARK.sub("", assembly[0]), text)
    text = COMMENT.sub("", text)
    shared = _shared_offsets(text)
    functions: dict[str, Function] = {}
    for header, body in _bodies(text):
        code, labels = _Body(body).read()
        functions[header[1]] = Function(header[1], tuple(_parameters(header[2] or "")), code, labels, shared)
    return functions


def _bodies(text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Headers of functions and what stands between their braces."""
    depth, start, header = 0, 0, None
    for delimiter in DELIMITER.finditer(text):
        if delimiter[0] == "{":
            depth += 1
            if depth == 1:
                keyword_at = max(text.rfind(keyword, start, delimiter.start()) for keyword in (".entry", ".func"))
                header = HEADER.match(text, keyword_at, delimiter.start()) if keyword_at >= 0 else None
                start = delimiter.end()
        elif delimiter[0] == "}":
            depth = max(0, depth - 1)
            if depth == 0 and header is not None:
                yield header, text[start : delimiter.start()]
                header = None
        if depth == 0:
            start = delimiter.end()


def _number(digits: str) -> int:
    if len(digits) > 12:
        raise PtxError(f"a number of {len(digits)} digits")
    return int(digits or 0)


def _shared_offsets(text: str) -> dict[str, int]:
    """Where shared variables lie: one after another, aligned; those without a size share the end."""
    offsets: dict[str, int] = {}
    dynamic: list[str] = []
    end = 0
    for align, kind, name, extents in VARIABLE.findall(text):
        size = BYTES.get(kind[1:], 1)
        for count in re.findall(r"\[(\d*)\]", extents):
            size *= _number(count)
        if size == 0:
            dynamic.append(name)
            continue
        step = max(1, _number(align or "1"))
        offsets[name] = -(-end // step) * step
        end = offsets[name] + size
    return offsets | dict.fromkeys(dynamic, -(-end // 128) * 128)


def _parameters(text: str) -> Iterator[tuple[str, int]]:
    for piece in text.split(","):
        match = PARAMETER.search(piece.strip())
        if match:
            kind, name, count = match.groups()
            yield name, BYTES.get(kind[1:], 1) * _number(count or "1")


@dataclasses.dataclass(slots=True)
class _Scope:
    number: int
    registers: set[str] = dataclasses.field(default_factory=set)
    """Declared names; one that ends in < stands for all names with a number after it."""

    def declares(self, name: str) -> bool:
        numbered = NUMBERED.match(name)
        return name in self.registers or (numbered is not None and f"{numbered[1]}<" in self.registers)


class _Body:
    """A function's body, read statement by statement."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.code: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.branches: list[tuple[int, tuple[int, ...]]] = []
        self.scopes: list[_Scope] = []
        self.line: int | None = None
        self.file: str | None = None
        """Number of the file that holds the function."""
        self.lines: dict[tuple[str, ...], int | None] = {}
        """Lines of that file by file, line and column of the marks so far."""

    def read(self) -> tuple[tuple[Instruction, ...], dict[str, int]]:
        """Instructions and labels."""
        start, scopes, in_statement = 0, 0, False
        for delimiter in DELIMITER.finditer(self.text):
            if not in_statement:
                start = self._prefixes(start, delimiter.start())
                in_statement = bool(self.text[start : delimiter.start()].strip())
            if delimiter[0] == ";":
                self._statement(self.text[start : delimiter.start()].strip())
                in_statement = False
            elif in_statement:
                continue  # Braces within a statement hold a vector of operands.
            elif delimiter[0] == "{":
                scopes += 1
                self.scopes.append(_Scope(scopes))
                if len(self.scopes) > MOST_SCOPES:
                    raise PtxError(f"scopes nest deeper than {MOST_SCOPES}")
            elif self.scopes:
                self.scopes.pop()
            start = delimiter.end()
        self._prefixes(start, len(self.text))
        for at, numbers in self.branches:
            self.code[at] = self._resolved(self.code[at], numbers)
        return tuple(self.code), self.labels

    def _prefixes(self, start: int, end: int) -> int:
        """Read the labels and line marks before a statement; where it begins."""
        while prefix := PREFIX.match(self.text, start, end):
            if prefix[1]:
                self._mark(tuple(prefix[1].split()), INLINED.search(prefix[2]))
            else:
                scope = f"'{self.scopes[-1].number}" if self.scopes else ""
                self.labels[prefix[3] + scope] = len(self.code)
            start = prefix.end()
        return start

    def _mark(self, place: tuple[str, ...], inlined: re.Match[str] | None) -> None:
        """Take in a mark of file, line and column: it may name the mark of the code that it was inlined into."""
        if inlined is None and self.file is None:
            self.file = place[0]
        if inlined is None or place[0] == self.file:
            self.line = _number(place[1]) if place[0] == self.file else None
        else:
            self.line = self.lines.get(tuple(inlined[1].split()))
        self.lines[place] = self.line

    def _statement(self, text: str) -> None:
        if text.startswith(".reg") and self.scopes:
            names = re.findall(r"[%$\w]+<?", text.partition(" ")[2].lstrip(" ."))
            self.scopes[-1].registers.update(names[1:])
        match = None if text.startswith(".") else STATEMENT.match(text)
        if match is None:
            return
        if len(self.code) >= MOST_INSTRUCTIONS:
            raise PtxError(f"a function has more than {MOST_INSTRUCTIONS} instructions")
        negated, guard, opcode, rest = match.groups()
        operands = tuple(self._renamed(piece) for piece in OPERAND.findall(rest))
        name, *parts = opcode.split(".")
        kind = next((part for part in reversed(parts) if TYPE.fullmatch(part)), "")
        results = operands and name not in WITHOUT_RESULT and operands[0][0] != "["
        writes = tuple(REGISTER.findall(operands[0])) if results else ()
        guard = self._renamed(guard) if guard else None
        if name == "bra":
            self.branches.append((len(self.code), tuple(scope.number for scope in self.scopes)))
        self.code.append(Instruction(name, tuple(parts), operands, kind, writes, guard, negated == "!", self.line))

    def _renamed(self, operand: str) -> str:
        if not self.scopes:
            return operand

        def rename(match: re.Match[str]) -> str:
            for scope in reversed(self.scopes):
                if scope.declares(match[0]):
                    return f"{match[0]}'{scope.number}"
            return match[0]

        return NAME.sub(rename, operand)

    def _resolved(self, branch: Instruction, numbers: Sequence[int]) -> Instruction:
        """A branch whose target is the label of the innermost scope that has it."""
        if not branch.operands:
            return branch
        label = branch.operands[-1]
        inner = next((f"{label}'{n}" for n in reversed(numbers) if f"{label}'{n}" in self.labels), label)
        return dataclasses.replace(branch, operands=(*branch.operands[:-1], inner))
