"""Instructions: what machine code consists of, counted by class, and the stack it addresses.

From Volta on, NVIDIA's instructions have sixteen bytes, and their lowest nine bits say what they do; the table below
was read off what NVIDIA's disassembler prints for the targets we compile for. A count is of the code, not of what runs:
a loop's body counts once. Functions that are not inlined lie in the section of the function that calls them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
