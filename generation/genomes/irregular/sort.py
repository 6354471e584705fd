# Sorted rows: in registers or shared memory, by rank, radix, merging, or passes over memory.
# family sort_triton for sort
# shape method = "registers", "registers", "rank", "merge", "passes", "mixed"
# shape key = "float", "integer"
# pick rows = 1, 2, 4, 8
# pick block = 64, 128, 256, 512, 1024
# pick part = 16, 64, 128, 256
# pick warps = 1, 2, 4, 8, 16
# refuse method == "registers" and (block != 256 or part != 64): the register sort has no blocks
# let lanes = 32 * warps
# refuse method == "registers" and rows * 1024 > 16 * lanes: more than 16 keys per thread compile for minutes
# refuse method == "merge" and rows * block > 16 * lanes: more than 16 keys per thread compile for minutes
# refuse method in ("rank", "passes", "mixed") and rows != 1: rows per program belong to the register sort
# refuse method == "rank" and (block > 256 or block * part > 16384): compare matrix too large
# refuse method in ("merge", "passes") and part != 64: parts belong to the rank and mixed sorts
# refuse method == "passes" and block < 256: passes over memory want large blocks

import torch
import triton
import triton.language as tl


%% if key == "integer"
@triton.jit
def to_key(value):
    bits = value.to(tl.int32, bitcast=True)
    return tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


@triton.jit
def from_key(key):
    return tl.where(key < 0, key ^ 0x7FFFFFFF, key).to(tl.float32, bitcast=True)
%% else
@triton.jit
def to_key(value):
    return value


@triton.jit
def from_key(key):
    return key
%% endif


%% if method == "registers"
@triton.jit
def sort_kernel(x_ptr, y_ptr, rows, COLS: tl.constexpr, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    place = row.to(tl.int64)[:, None] * COLS + tl.arange(0, COLS)[None, :]
    known = (row < rows)[:, None]
    keys = to_key(tl.load(x_ptr + place, mask=known, other=0.0))
    tl.store(y_ptr + place, from_key(tl.sort(keys, 1)), mask=known)


def run(x):
    rows, cols = x.shape
    y = torch.empty_like(x)
    sort_kernel[(triton.cdiv(rows, ${rows}),)](x, y, rows, COLS=cols, ROWS=${rows}, num_warps=${warps})
    return y
%% elif method == "rank"
@triton.jit
def rank_kernel(x_ptr, y_ptr, COLS: tl.constexpr, BLOCK: tl.constexpr, PART: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * COLS
    own = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x_ptr + start + own, mask=own < COLS, other=0.0)
    key = to_key(value)
    rank = tl.zeros((BLOCK,), tl.int32)
    for first in range(0, COLS, PART):
        other = first + tl.arange(0, PART)
        known = other < COLS
        other_key = to_key(tl.load(x_ptr + start + other, mask=known, other=0.0))
        before = other_key[None, :] < key[:, None]
        twin = (other_key[None, :] == key[:, None]) & (other[None, :] < own[:, None])
        rank += tl.sum(((before | twin) & known[None, :]).to(tl.int32), 1)
    tl.store(y_ptr + start + rank, value, mask=own < COLS)


def run(x):
    rows, cols = x.shape
    y = torch.empty_like(x)
    grid = (rows, triton.cdiv(cols, ${block}))
    rank_kernel[grid](x, y, COLS=cols, BLOCK=${block}, PART=${part}, num_warps=${warps})
    return y
%% elif method == "merge"
@triton.jit
def chunk_kernel(x_ptr, y_ptr, chunks, CHUNK: tl.constexpr, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    place = row.to(tl.int64)[:, None] * CHUNK + tl.arange(0, CHUNK)[None, :]
    known = (row < chunks)[:, None]
    keys = to_key(tl.load(x_ptr + place, mask=known, other=0.0))
    tl.store(y_ptr + place, from_key(tl.sort(keys, 1)), mask=known)


@triton.jit
def merge_kernel(x_ptr, y_ptr, COLS: tl.constexpr, CHUNK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * COLS
    chunk = tl.program_id(1)
    own = tl.arange(0, CHUNK)
    value = tl.load(x_ptr + start + chunk * CHUNK + own)
    key = to_key(value)
    rank = own
    for other in range(COLS // CHUNK):
        if other != chunk:
            low = tl.zeros((CHUNK,), tl.int32)
            high = tl.full((CHUNK,), CHUNK, tl.int32)
            size = CHUNK
            while size > 0:
                middle = (low + high) // 2
                probe = to_key(tl.load(x_ptr + start + other * CHUNK + middle, mask=middle < high, other=0.0))
                less = (probe < key) | ((probe == key) & (other < chunk))
                low = tl.where(less & (low < high), middle + 1, low)
                high = tl.where(less, high, middle)
                size = size // 2
            rank += low
    tl.store(y_ptr + start + rank, value)


def run(x):
    rows, cols = x.shape
    chunk = min(${block}, cols)
    parts = torch.empty_like(x)
    chunks = rows * cols // chunk
    chunk_kernel[(triton.cdiv(chunks, ${rows}),)](x, parts, chunks, CHUNK=chunk, ROWS=${rows}, num_warps=${warps})
    if chunk == cols:
        return parts
    y = torch.empty_like(x)
    merge_kernel[(rows, cols // chunk)](parts, y, COLS=cols, CHUNK=chunk, num_warps=${warps})
    return y
%% else
@triton.jit
def swap_kernel(x_ptr, y_ptr, pairs, span, gap, COLS: tl.constexpr, BLOCK: tl.constexpr):
    pair = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    known = pair < pairs
    first = (pair // gap) * 2 * gap + pair % gap
    one = to_key(tl.load(x_ptr + first, mask=known, other=0.0))
    two = to_key(tl.load(x_ptr + first + gap, mask=known, other=0.0))
    rising = ((first % COLS) & span) == 0
    small = from_key(tl.minimum(one, two))
    large = from_key(tl.maximum(one, two))
    tl.store(y_ptr + first, tl.where(rising, small, large), mask=known)
    tl.store(y_ptr + first + gap, tl.where(rising, large, small), mask=known)


%% if method == "mixed"
@triton.jit
def chunk_kernel(x_ptr, y_ptr, CHUNK: tl.constexpr, COLS: tl.constexpr):
    chunk = tl.program_id(0)
    place = chunk.to(tl.int64) * CHUNK + tl.arange(0, CHUNK)
    keys = tl.sort(to_key(tl.load(x_ptr + place)), 0)
    falling = (chunk % (COLS // CHUNK)) % 2
    target = tl.where(falling == 1, CHUNK - 1 - tl.arange(0, CHUNK), tl.arange(0, CHUNK))
    tl.store(y_ptr + chunk.to(tl.int64) * CHUNK + target, from_key(keys))


%% endif
def run(x):
    rows, cols = x.shape
    y = torch.empty_like(x)
    pairs = rows * cols // 2
    grid = (triton.cdiv(pairs, ${block}),)
%% if method == "mixed"
    chunk = min(${part}, cols)
    chunk_kernel[(rows * cols // chunk,)](x, y, CHUNK=chunk, COLS=cols, num_warps=${warps})
    source = y
    span = 2 * chunk
%% else
    source = x
    span = 2
%% endif
    while span <= cols:
        gap = span // 2
        while gap > 0:
            swap_kernel[grid](source, y, pairs, span, gap, COLS=cols, BLOCK=${block}, num_warps=${warps})
            source = y
            gap //= 2
        span *= 2
    return y
%% endif
