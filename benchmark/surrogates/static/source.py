"""What a kernel's source says about its speed: launch geometry, tile sizes, memory and arithmetic, counts of words.

Texts may be hostile: no pattern here may look at a character more than a few times.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


def names_in(text: str) -> tuple[str, ...]:
    """Names set off by blanks: long lists read better without quotes."""
    return tuple(text.split())


TOKEN = re.compile(r"\w+|[^\s\w]")
SETTING = re.compile(r"=\s*(\d{1,7})(?!\w)\s*(?=(.?))", re.DOTALL)
NAME_BEFORE = re.compile(r"\s*(\w+)")
LONGEST_NAME = 256
# A pattern that begins with its word is found several times faster than one that begins with what is not before it.
DEFINE = re.compile(r"define(?<!\wdefine)\s+(\w+)\s+(\d{1,7})(?!\w)")
OPERATORS = frozenset("*/%+-.<>&|")
"""What follows a number that is only the beginning of an expression."""
MOST_TEXT = 128 * 1024
"""Characters of a source that are read, more than twice those of the longest kernel; a longer one is cut there, so
that whoever writes it does not decide how long it is read."""
MOST_SETTINGS = 1024
"""Settings of either form that are read, the first ones."""
Row = npt.NDArray[np.float32]

LONGEST_NUMBER = 9
"""Digits; longer numbers are no sizes."""
WORD = re.compile(r"\w+")
BOUNDS = re.compile(r"__launch_bounds__\s*\(\s*(\d{1,9})(?!\d)\s*(?:,\s*(\d{1,9})(?!\d))?")
UNROLL = re.compile(r"unroll\s*(?:[(=]\s*)?(\d{1,9})(?!\d)")
STATIC_RANGE = re.compile(r"static_range\s*\(\s*(\d{1,9})(?!\d)")
PROCESSORS = frozenset(("132", "processors", "sms", "sm", "num_sms", "NUM_SMS"))
"""How sources name the number of multiprocessors."""
KINDS: dict[str, re.Pattern[str]] = {
    "split": re.compile(r"split|parts?$|pieces|chunks", re.IGNORECASE),
    "tile": re.compile(r"block|tile|^b[mnkpcqhdrs]$|rows?|cols?|width|span|chunk|head", re.IGNORECASE),
    "vector": re.compile(r"vec|unroll|items|per_thread|words|lanes|step", re.IGNORECASE),
}
"""Kinds of settings that a kernel may have several of, by their names."""
ROLES: dict[str, re.Pattern[str]] = {
    "m": re.compile(r"(?:^|_)(?:b|block_?|tile_?)(?:m|r|rows?|q|y|c)$", re.IGNORECASE),
    "n": re.compile(r"(?:^|_)(?:b|block_?|tile_?)(?:n|cols?|x|p|d)$", re.IGNORECASE),
    "k": re.compile(r"(?:^|_)(?:b|block_?|tile_?|t)(?:k|s|inner)$", re.IGNORECASE),
    "one": re.compile(r"^(?:block|block_size|size|tile|chunk|width)$", re.IGNORECASE),
    "thread_m": re.compile(r"^(?:t(?:m|c|y|h)|down)$", re.IGNORECASE),
    "thread_n": re.compile(r"^(?:t(?:n|p|x|w)|ex|across)$", re.IGNORECASE),
}
ARRAY = re.compile(r"\[(?<=\w\[)[^\]]+\](?:\[[^\]]+\])*")
MOST_SHARED = 1 << 20
"""Elements; more than any GPU can hold."""
DOTS = ("tl.dot", "mma_sync", "mma.sync")
"""How sources ask for tensor cores."""
WIDE: Mapping[str, int] = {"float2": 2, "uint2": 2, "int2": 2, "half2": 1, "float4": 4, "uint4": 4, "int4": 4}
"""Words of 32 bits a vector type moves at once."""


TELLING: tuple[str, ...] = names_in(
    """
    for while if load store __ldg __shared__ __syncthreads atomic_add atomicAdd __shfl_down_sync __shfl_xor_sync
    __shfl_sync dot sum reduce cumsum associative_scan sort histogram exp where pragma / %
    """
)
"""Words that say how a kernel works, whatever it computes."""
COUNTED: tuple[str, ...] = TELLING + names_in(
    """
    return range static_range jit __global__ __device__ constexpr mask other cache_modifier eviction_policy
    __ldcs __ldcg __stcs __stcg __syncwarp extern float4 float2 int4 uint4 half2 __half2 __nv_bfloat162 cp async
    cooperative_groups restrict __restrict__ make_block_ptr advance make_tensor_descriptor contiguous empty
    empty_like zeros zero_ permute transpose view reshape expand trans gather pad mma wmma mma_sync asm
    allow_tf32 input_precision fp8e4nv float8_e4m3fn float16 bfloat16 float32 float64 int8 int32 int64 long
    double half fma fmaf exp2 expf __expf log log2 sqrt rsqrt rsqrtf div_rn __fdividef tanh sigmoid erf max
    maximum min minimum scan argmax cdiv atomicMax atomic_max __match_any_sync __popc __ballot_sync ieee tf32x3
    tf32 ahead program_id num_programs arange threadIdx blockIdx gridDim blockDim num_warps num_stages
    warp_specialize flatten fast_math max_registers unroll shared_bytes debug_barrier multi_processor_count
    processors to None launch + - * [ ( < & ? =
    """
)
LITERALS = tuple(str(2**exponent) for exponent in range(13))
WORDS = (*COUNTED, *LITERALS)


def tokens_of(source: str) -> list[str]:
    """Words, numbers and marks, in order."""
    return TOKEN.findall(source)


@functools.lru_cache(maxsize=32768)
def settings_of(source: str) -> tuple[tuple[str, int], ...]:
    """Every `name = number` and `#define name number`, in order."""
    source, found = source[:MOST_TEXT], []
    for match in itertools.islice(SETTING.finditer(source), MOST_SETTINGS):
        # Few marks of equality have a number after them, so the name before is looked for last, from its end.
        name = NAME_BEFORE.match(source[max(match.start() - LONGEST_NAME, 0) : match.start()][::-1])
        if name and name[1][::-1].isidentifier() and match[2] not in OPERATORS:
            found.append((match.start(), name[1][::-1], int(match[1])))
    for match in itertools.islice(DEFINE.finditer(source), MOST_SETTINGS) if "define" in source else ():
        if match[1].isidentifier():
            found.append((match.start(), match[1], int(match[2])))
    return tuple((name, value) for _, name, value in sorted(found))


def _is_number(token: str) -> bool:
    return len(token) <= LONGEST_NUMBER and token.isdecimal()


def _per_processor(source: str, counts: Mapping[str, int]) -> list[int]:
    """Factors of the number of multiprocessors: how many programs a persistent grid has on each."""
    factors = []
    tokens = tokens_of(source) if PROCESSORS & counts.keys() else []
    for at in (i for i, token in enumerate(tokens) if token in PROCESSORS):
        before, after = tokens[max(at - 2, 0) : at], tokens[at + 1 : at + 3]
        if len(before) == 2 and before[1] == "*" and _is_number(before[0]):
            factors.append(int(before[0]))
        elif len(after) == 2 and after[0] == "*" and _is_number(after[1]):
            factors.append(int(after[1]))
    return [factor for factor in factors if factor < 1024]


def _matches(pattern: re.Pattern[str], source: str, mark: str) -> list[Any]:
    """All matches; the pattern is tried only where the mark occurs, since most sources have none."""
    return pattern.findall(source) if mark in source else []


def _log2(value: float) -> float:
    return math.log2(value) if value > 0 else -1.0


def numbers(source: str, counts: Mapping[str, int]) -> dict[str, float]:
    """Launch geometry and tile sizes as logarithms, in the order of the features; −1 where the source does not say.

    `counts` says how often each token occurs.
    """
    settings = _settings(source)
    cuda = "CudaModule" in source
    warps = settings.get("num_warps", [])
    bounds = [(int(a), int(b or 0)) for a, b in _matches(BOUNDS, source, "__launch_bounds__")]
    blocks = settings.get("block", []) or settings.get("threads", []) or settings.get("THREADS", [])
    threads = max([a for a, _ in bounds] + (blocks if cuda else [32 * w for w in warps]), default=0)
    by_role = _by_role(settings)
    tiles = sorted(by_role["tile"], reverse=True)
    # Two patterns that begin with a word are found faster than one with a choice.
    unrolls = [*map(int, _matches(UNROLL, source, "unroll")), *map(int, _matches(STATIC_RANGE, source, "static_range"))]
    per_sm = _per_processor(source, counts)
    every = [v for vs in settings.values() for v in vs if v > 0]
    roles = {role: max(by_role[role], default=0) for role in ROLES}
    m, n, k, down, across = (roles[role] for role in ("m", "n", "k", "thread_m", "thread_n"))
    stages = max(settings.get("num_stages", []), default=1)
    product = (m or 1) * (n or 1) if (m or n) else (roles["one"] or max(tiles, default=0))
    return {
        "length": _log2(len(source)),
        "lines": _log2(source.count("\n") + 1),
        "tokens": _log2(sum(counts.values())),
        # The deepest indentation, up to twelve: a deeper one begins with every shallower one, and most are shallow.
        "depth": float(next((d for d in range(12) if "\n" + "    " * (d + 1) not in source), 12)),
        "launches": float(source.count("](") + source.count(".launch(")),
        "warps": _log2(max(warps, default=0)),
        "stages": float(max(settings.get("num_stages", []), default=0)),
        "threads": _log2(threads),
        "bounds_blocks": float(max((b for _, b in bounds), default=0)),
        "unroll": _log2(max(unrolls, default=0)),
        "unrolls": float(len(unrolls)),
        "persistent": float("num_programs" in source or "gridDim" in source or bool(per_sm)),
        "per_sm": _log2(max(per_sm, default=0)),
        **{f"tile_{place}": _log2(tile) for place, tile in enumerate([*tiles, 0, 0, 0][:3], start=1)},
        "tile_product": _log2(product),
        "tile_count": float(len(tiles)),
        "vector": _log2(max(by_role["vector"], default=0)),
        "split": _log2(max(by_role["split"], default=0)),
        **{role: _log2(roles[role]) for role in ("m", "n", "k", "one")},
        "per_thread": _log2(product / threads) if product and threads else -1.0,
        "intensity": _log2(m * n / (m + n)) if m and n else -1.0,
        "staged_bytes": _log2(2 * k * (m + n) * stages) if m and n and k else -1.0,
        "setting_max": _log2(max(every, default=0)),
        "setting_product": float(sum(map(_log2, every))),
        "is_cuda": float(cuda),
        "floats": _log2(source.count(".0") + 1),
        "registers_cap": _log2(max(settings.get("max_registers", []), default=0)),
        "thread_m": _log2(down),
        "thread_n": _log2(across),
        "reuse": _log2(down * across / (down + across)) if down and across else -1.0,
        "shared_elements": _log2(_shared(source, settings)),
        "dot": float(any(mark in source for mark in DOTS)),
        "exact": float('"ieee"' in source),
        "three_pass": float("tf32x3" in source),
        "vector_words": _log2(max((w for name, w in WIDE.items() if name in source), default=1) if cuda else 1),
        "blocks_of_grid": float(source.count("blockIdx.") + source.count("program_id(")),
    }


def _shared(source: str, settings: Mapping[str, Sequence[int]]) -> int:
    """Elements of the shared arrays whose sizes the source states; a size that is not known counts as one."""
    largest = {name: max(values) for name, values in settings.items()}
    total, at = 0, source.find("__shared__")
    while at >= 0 and (end := source.find(";", at)) >= 0:
        # Up to the last bracket before the semicolon: then no bracket is open whose end is looked for in vain.
        for sizes in ARRAY.findall(source[at : source.rfind("]", at, end) + 1]):
            product = 1
            for size in WORD.findall(sizes):
                known = largest.get(size, 1) if not size.isdecimal() else int(size) if _is_number(size) else MOST_SHARED
                product = min(product * (known or 1), MOST_SHARED)
            total += product
        at = source.find("__shared__", end)
    return min(total, MOST_SHARED)


def _settings(source: str) -> dict[str, list[int]]:
    settings: dict[str, list[int]] = {}
    for name, value in settings_of(source):
        settings.setdefault(name, []).append(value)
    return settings


def _by_role(settings: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    values_of: dict[str, list[int]] = {role: [] for role in (*ROLES, *KINDS)}
    for name, values in settings.items():
        for role in _roles_of(name):
            values_of[role] += values
    return values_of


@functools.lru_cache(maxsize=4096)
def _roles_of(name: str) -> tuple[str, ...]:
    """What a setting of this name is; few names recur in many sources."""
    roles = [role for role, pattern in (ROLES | KINDS).items() if pattern.search(name)]
    return tuple(role for role in roles if (role, name) != ("tile", "block"))


NUMBERS = tuple(numbers("", {}))
NAMES: tuple[str, ...] = (
    *(f"number:{name}" for name in NUMBERS),
    *(f"count:{word}" for word in COUNTED),
    *(f"literal:{power}" for power in LITERALS),
)
"""Names of the features, in order."""
OWN = len(NUMBERS) + len(TELLING)
"""Leading features that mean the same in every problem."""


@functools.lru_cache(maxsize=32768)
def fixed_row(source: str) -> Row:
    """The features of one source."""
    source = source[:MOST_TEXT]
    counts = Counter(tokens_of(source))
    often = counts.get
    counted = np.array([often(word, 0) for word in WORDS], dtype=np.float32)
    return np.concatenate([np.array([*numbers(source, counts).values()], dtype=np.float32), np.log1p(counted)])
