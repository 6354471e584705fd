"""Resources: what a cubin says about registers, shared memory, the stack and instructions, read from its ELF sections.

The assembler keeps a function's register count and stack frame as attributes in `.nv.info`, and its static shared
memory as the size of `.nv.shared.<name>`. Reading them takes microseconds and needs neither a GPU nor a CUDA toolkit.

From Volta on, NVIDIA's instructions have sixteen bytes, and their lowest nine bits say what they do; the table of CODES
was read off what NVIDIA's disassembler prints for the targets we compile for. A count is of the code, not of what runs:
a loop's body counts once. Functions that are not inlined lie in the section of the function that calls them.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterable, Iterator, Mapping

from kbench.schemas import DataError

FRAME_SIZE, STACK_SIZE, REGISTER_COUNT = 0x11, 0x12, 0x2F
"""The `.nv.info` attributes with a function's own frame, its stack with those it calls, and its registers, each as
(symbol index, value)."""
GLOBALS = (".nv.global", ".nv.global.init")
"""Sections of variables in device memory that outlive a launch."""
PER_LAUNCH = (".nv.shared.", ".nv.local.")
"""Name prefixes of writable sections that every launch gets afresh."""
RESERVED, RESERVED_BYTES = "reserved.0", 1024
"""What follows .nv.shared. where the GPU's own part is stated, and how much of every function's it is."""
TWICE = ".nv.merc"
"""From Blackwell on, compilers describe a section twice; this begins the name of the second description."""
WRITABLE = 0x3
"""ELF section flags of memory that a kernel can write to: allocated and writable."""
CONSTANTS = ".nv.constant3"
"""The section of `__constant__` variables."""
PARAMETER, PARAMETERS_BYTES = 0x17, 0x19
"""Attributes in `.nv.info.<name>`: one parameter as (index, place and offset, flags with its size), and the bytes of
all, which stand in place of a length."""
SIZE_SHIFT, MOST_PARAMETER_BYTES = 18, 0x3FFF
"""Where a parameter's flags have its size."""
OBJECT = 1
"""ELF symbol type of variables."""
HEAP_SYMBOL = "malloc"
"""The symbol that device code asks the driver to link if it allocates, by `new` too."""
SYMBOL_TABLE, NO_DATA = 2, 8
"""ELF section types: the symbol table, and sections such as static shared memory that have a size but no bytes."""
MOST_SHARED = 4
"""How many times over sections, or names, may cover a file's bytes."""
HEADER_BYTES, LONGEST_NAME = 64, 64 << 10
"""Size of a section's header, and of the longest name."""
VALUE_OF_SIZE = 0x04
"""Attribute format: a 16-bit length and that many bytes follow."""


@dataclasses.dataclass(frozen=True, slots=True)
class Resources:
    """The registers and memory that one device function needs."""

    registers: int
    shared_bytes: int
    """Static shared memory, with what the GPU reserves; dynamic shared memory is chosen at launch."""
    spill_bytes: int
    """Stack per thread, which is spills and local arrays."""
    code: bytes = dataclasses.field(default=b"", repr=False)
    """Its machine code, with that of functions it calls which are not inlined."""
    parameters: tuple[int, ...] | None = None
    """Bytes of each parameter; None where the machine code does not say."""
    reserved_bytes: int = 0
    """Part of the shared memory that the GPU reserves for itself: compilers state it from Hopper on."""


@dataclasses.dataclass(frozen=True, slots=True)
class Variable:
    """A variable in device or constant memory."""

    name: str
    nbytes: int
    constant: bool
    """Whether it lies in constant memory."""
    section: str
    section_bytes: int
    offset: int
    """Where it begins in its section."""


@dataclasses.dataclass(frozen=True, slots=True)
class HiddenMemory:
    """Writable device memory of a section that outlives a launch and that no symbol names."""

    nbytes: int
    beside_variables: bool
    """Whether the section has variables, with which it can be restored."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Section:
    name: str
    kind: int
    flags: int
    link: int
    data: bytes
    size: int


def read_resources(cubin: bytes) -> dict[str, Resources]:
    """Resources of every device function in a cubin, by mangled name.

    Raises:
        DataError: these bytes are not a 64-bit ELF file.
    """
    sections = list(_sections(cubin))
    frames, stacks = _attributes(sections, FRAME_SIZE), _attributes(sections, STACK_SIZE)
    registers = _attributes(sections, REGISTER_COUNT)
    shared = {s.name.removeprefix(".nv.shared."): s.size for s in sections if s.name.startswith(".nv.shared.")}
    notes = ".nv.info."
    parameters = {s.name.removeprefix(notes): _parameters(s.data) for s in sections if s.name.startswith(notes)}
    return {
        name: Resources(
            registers.get(name, 0),
            shared.get(name, 0),
            max(frames.get(name, 0), stacks.get(name, 0)),
            section.data,
            parameters.get(name),
            RESERVED_BYTES if name in shared and RESERVED in shared else 0,
        )
        for section in sections
        if section.name.startswith(".text.") and (name := section.name.removeprefix(".text."))
    }


def kept_bytes(cubin: bytes) -> int:
    """Device memory a cubin's functions share and find again at the next launch.

    Raises:
        DataError: these bytes are not a 64-bit ELF file.
    """
    return sum(section.size for section in _sections(cubin) if section.name in GLOBALS)


def read_variables(cubin: bytes) -> list[Variable]:
    """Variables of a cubin that outlive a launch, by symbol: `__device__`, `__managed__` and `__constant__` ones.

    Raises:
        DataError: these bytes are not a 64-bit ELF file.
    """
    sections = list(_sections(cubin))
    variables: list[Variable] = []
    for section in sections:
        if section.kind != SYMBOL_TABLE:
            continue
        names = _Names(sections[section.link].data, len(cubin))
        for name, info, _, home, start, size in struct.iter_unpack("<IBBHQQ", section.data):
            kept = home < len(sections) and sections[home].name in (*GLOBALS, CONSTANTS)
            if kept and info & 0xF == OBJECT and size:
                place = sections[home]
                constant = place.name == CONSTANTS
                variables.append(Variable(names.at(name), size, constant, place.name, place.size, start))
    return variables


def hidden_memory(cubin: bytes) -> list[HiddenMemory]:
    """The part of each section that its variables do not cover, where there is one.

    Compilers leave no more than what aligns their variables; machine code need not come from one.

    Raises:
        DataError: these bytes are not a 64-bit ELF file.
    """
    sections = list(_sections(cubin))
    named: dict[int, list[tuple[int, int]]] = {}
    for section in sections:
        if section.kind == SYMBOL_TABLE:
            for _, info, _, home, start, size in struct.iter_unpack("<IBBHQQ", section.data):
                if info & 0xF == OBJECT and size and home < len(sections) and sections[home].name in GLOBALS:
                    named.setdefault(home, []).append((start, start + size))
    again = {(TWICE + section.name, section.size) for section in sections}
    uncovered = [
        HiddenMemory(section.size - _covered(named.get(at, []), section.size), at in named)
        for at, section in enumerate(sections)
        if section.flags & WRITABLE == WRITABLE and not section.name.startswith(PER_LAUNCH)
        if (section.name, section.size) not in again
    ]
    return [one for one in uncovered if one.nbytes]


def _covered(ranges: Iterable[tuple[int, int]], size: int) -> int:
    """Bytes of 0 to `size` that lie in any of some ranges."""
    covered = reached = 0
    for start, end in sorted(ranges):
        first, last = max(start, reached), min(end, size)
        if last > first:
            covered, reached = covered + last - first, last
    return covered


def uses_heap(cubin: bytes) -> bool:
    """Whether device code allocates from the heap, which outlives a launch too.

    Raises:
        DataError: these bytes are not a 64-bit ELF file.
    """
    return HEAP_SYMBOL in _symbol_names(list(_sections(cubin))).values()


class _Names:
    """Names in a table of strings; entries may share their bytes, but not without limit."""

    def __init__(self, strings: bytes, file_bytes: int) -> None:
        self._strings, self._left = strings, MOST_SHARED * file_bytes

    def at(self, start: int) -> str:
        """The name that begins there."""
        end = self._strings.find(b"\0", start, start + LONGEST_NAME)
        self._left -= max(1, end - start)
        if end < 0 or self._left < 0:
            raise DataError("cubin has a name that does not end, or names of far more than its bytes")
        return self._strings[start:end].decode()


def _sections(cubin: bytes) -> Iterator[_Section]:
    if cubin[:5] != b"\x7fELF\x02":
        raise DataError(f"cubin starts with {cubin[:5]!r}, expected a 64-bit ELF file")
    table, size, count, names = struct.unpack_from("<Q", cubin, 0x28) + struct.unpack_from("<HHH", cubin, 0x3A)
    if size != HEADER_BYTES:
        raise DataError(f"cubin has section headers of {size} bytes, expected {HEADER_BYTES}")
    headers = [struct.unpack_from("<IIQQQQIIQQ", cubin, table + i * size) for i in range(count)]
    if sum(header[1] == SYMBOL_TABLE for header in headers) > 1:
        raise DataError("cubin has more than one symbol table")
    # A few sections share their bytes; where all do, the file would be read many times over.
    if sum(header[5] for header in headers if header[1] != NO_DATA) > MOST_SHARED * len(cubin):
        raise DataError(f"cubin has sections of far more than its {len(cubin)} bytes")
    titles, strings_at = _Names(cubin, len(cubin)), headers[names][4]
    for name, kind, flags, _, offset, length, link, _, _, _ in headers:
        title = titles.at(strings_at + name)
        data = b"" if kind == NO_DATA else cubin[offset : offset + length]
        yield _Section(title, kind, flags, link, data, length)


def _attributes(sections: list[_Section], wanted: int) -> dict[str, int]:
    names = _symbol_names(sections)
    values: dict[str, int] = {}
    for section in sections:
        for attribute, _, data in _notes(section.data) if section.name == ".nv.info" else ():
            if attribute == wanted and len(data) == 8:
                symbol, value = struct.unpack("<II", data)
                values[names.get(symbol, "")] = value
    return values


def _notes(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Attributes of a section: number, what stands in place of a length, and the bytes that follow."""
    at = 0
    while at + 4 <= len(data):
        form, attribute, length = struct.unpack_from("<BBH", data, at)
        at += 4
        following = data[at : at + length] if form == VALUE_OF_SIZE else b""
        yield attribute, length, following
        at += len(following)


def _parameters(data: bytes) -> tuple[int, ...] | None:
    """Bytes of a function's parameters in order, from its own attributes; None where they say too little."""
    sizes: dict[int, int] = {}
    stated = 0
    for attribute, length, following in _notes(data):
        if attribute == PARAMETERS_BYTES:
            stated = length
        if attribute == PARAMETER and len(following) == 12:
            _, ordinal, _, flags = struct.unpack("<IHHI", following)
            sizes[ordinal] = flags >> SIZE_SHIFT & MOST_PARAMETER_BYTES
    complete = sorted(sizes) == list(range(len(sizes))) and (sizes or not stated)
    return tuple(sizes[at] for at in sorted(sizes)) if complete else None


def _symbol_names(sections: list[_Section]) -> dict[int, str]:
    for section in sections:
        if section.kind == SYMBOL_TABLE:
            names = _Names(sections[section.link].data, sum(len(one.data) for one in sections))
            return {at: names.at(entry[0]) for at, entry in enumerate(struct.iter_unpack("<IBBHQQ", section.data))}
    return {}


GLOBAL_LOADS, GLOBAL_STORES = "global_loads", "global_stores"
VECTOR_LOADS, VECTOR_STORES = "vector_loads", "vector_stores"
TOTAL = "total"
CODES: Mapping[str, str] = {
    # LDG and LD; STG and ST: generic addresses are those that the compiler could not prove to be shared.
    GLOBAL_LOADS: "181 180",
    GLOBAL_STORES: "186 185",
    # LDS LDSM; STS STSM
    "shared_loads": "184 03b",
    "shared_stores": "188 044",
    # LDGSTS UTMALDG UTMASTG UTMAPF UBLKCP
    "async_copies": "1ae 1b4 1b5 1b8 1ba",
    # IMMA HMMA BMMA DMMA HGMMA IGMMA BGMMA QGMMA
    "matrix": "037 03c 03d 03f 1f0 1f1 1f2 1f3",
    # FFMA DFMA HFMA2 (two encodings) FFMA2
    "fused": "023 02b 031 035 049",
    # FMNMX FMUL FADD DMUL DADD HADD2 HMUL2 HMNMX2 FMUL2 FADD2 FMNMX3
    "float": "009 020 021 028 029 030 032 040 04a 04b 076",
    # MUFU
    "special": "108",
    # IADD3 LEA LOP3 IABS PRMT IMNMX SHF SGXT IMAD IDP VIADD VIADDMNMX VIMNMX, their uniform forms, FLO BREV POPC
    "integer": "010 011 012 013 016 017 019 01a 024 025 026 027 036 046 048 090 091 092 096 097 099 09a 0a4 0a5 0bf "
    "100 101 109",
    # F2FP I2FP F2I I2F FRND F2F
    "conversions": "03e 045 105 106 107 110 111 112",
    # SEL FSEL FSETP ISETP PLOP3 DSETP HSET2 HSETP2 USEL UISETP UPLOP3 FCHK
    "comparisons": "007 008 00b 00c 01c 02a 033 034 087 08c 09c 102",
    # CALL BRA BRX JMP RET
    "branches": "144 147 149 14a 150",
    # PREEXIT ACQBULK DEPBAR BAR WARPSYNC MEMBAR SYNCS ERRBAR LDGDEPBAR UTMACMDFLUSH WARPGROUP FENCE UCGABAR
    "barriers": "02d 02e 11a 11d 148 192 1a7 1ab 1af 1b1 1b2 1b7 1c5 1c6 1c7",
    # VOTE ELECT VOTEU SHFL MATCH REDUX
    "shuffles": "006 02f 086 189 1a1 1c4",
    # ATOM ATOMS RED ATOMG REDG UTMAREDG UBLKRED
    "atomics": "18a 18b 18c 18d 18e 1a2 1a3 1a6 1a8 1a9 1b6 1bb",
}
"""The lowest nine bits of the instructions of each class, in hexadecimal, below their names."""
CLASSES = (*CODES, VECTOR_LOADS, VECTOR_STORES, TOTAL)
"""Every count there is. Vector loads and stores are those of the global ones that move more than four bytes; the total
also counts moves, parameters and the rest, but no padding."""
PADDING, LOCAL_LOAD, LOCAL_STORE = 0x118, 0x183, 0x187
STACK_POINTER = 1
"""The register with the address of the stack."""
WIDTHS = (1, 1, 2, 2, 4, 8, 16, 16)
"""Bytes that a load or store moves, by the three bits that say so; from the sixth on they are more than four."""


def count_instructions(code: bytes) -> dict[str, int]:
    """Counts of one function's machine code: each of CLASSES."""
    import numpy as np

    words = np.frombuffer(code, dtype="<u8", count=len(code) // 16 * 2).reshape(-1, 2)
    kinds = words[:, 0] & np.uint64(0x1FF)
    times = np.bincount(kinds.astype(np.int64), minlength=512)
    counts = {name: int(sum(times[int(one, 16)] for one in codes.split())) for name, codes in CODES.items()}
    wide = (words[:, 1] >> np.uint64(9)) & np.uint64(7) > 4
    for name, part in ((GLOBAL_LOADS, VECTOR_LOADS), (GLOBAL_STORES, VECTOR_STORES)):
        counts[part] = int(np.count_nonzero(wide & np.isin(kinds, [int(one, 16) for one in CODES[name].split()])))
    return counts | {TOTAL: len(words) - int(times[PADDING])}


def stack_bytes(code: bytes) -> int:
    """The least stack that a function's machine code uses: what loads and stores address from the stack's pointer.

    One byte where it uses local memory in other ways only; 0 where it uses none.
    """
    import numpy as np

    words = np.frombuffer(code, dtype="<u8", count=len(code) // 16 * 2).reshape(-1, 2)
    kinds = words[:, 0] & np.uint64(0x1FF)
    local = words[(kinds == LOCAL_LOAD) | (kinds == LOCAL_STORE)]
    if not len(local):
        return 0
    fixed = local[(local[:, 0] >> np.uint64(24)) & np.uint64(0xFF) == STACK_POINTER]
    offsets = fixed[:, 0].astype(np.int64) >> 40
    ends = offsets + np.array(WIDTHS)[((fixed[:, 1] >> np.uint64(9)) & np.uint64(7)).astype(np.int64)]
    return max(1, int(ends.max(initial=0)))


def largest_counts(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The largest count of each class over functions; empty when there is none."""
    functions = list(counts)
    return {name: max(one[name] for one in functions) for name in CLASSES} if functions else {}
