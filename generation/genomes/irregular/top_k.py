# The largest values of a row: repeated maxima, sorting, private lists, radix or threshold selection.
# family top_k_triton for top_k
# shape method = "maxima", "split", "split", "select", "sort"
# shape pick = "value", "packed"
# shape join = "maxima", "sort"
# pick parts = 2, 4, 8, 16
# pick rows = 1, 2, 4
# pick warps = 1, 2, 4, 8, 16
# refuse method in ("select", "sort") and (rows != 1 or pick != "value"): rows and pick belong to the maxima
# refuse method != "split" and (parts != 4 or join != "maxima"): parts and join belong to the split
# refuse method == "sort" and warps != 16: sorting a long row needs many warps
# refuse method == "maxima" and (rows > 2 or warps < 4): a long row needs many warps

import torch
import triton
import triton.language as tl


@triton.jit
def to_key(value):
    bits = value.to(tl.int32, bitcast=True)
    return tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


@triton.jit
def from_key(key):
    return tl.where(key < 0, key ^ 0x7FFFFFFF, key).to(tl.float32, bitcast=True)


@triton.jit
def pack(value, place):
    return (to_key(value).to(tl.int64) << 32) | place.to(tl.int64)


@triton.jit
def put(values_ptr, places_ptr, slot, packed, known):
    tl.store(values_ptr + slot, from_key((packed >> 32).to(tl.int32)), mask=known)
    tl.store(places_ptr + slot, (packed & 0xFFFFFFFF).to(tl.int32), mask=known)


%% if method == "select"
@triton.jit
def select_kernel(x_ptr, chosen_ptr, K: tl.constexpr, COLS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    place = tl.arange(0, COLS)
    value = tl.load(x_ptr + row * COLS + place)
    key = to_key(value)
    # Grow the largest threshold that K keys still reach, from the sign bit down.
    threshold = tl.where(tl.sum((key >= 0).to(tl.int32), 0) >= K, 0, -2147483648)
    for bit in range(31):
        trial = threshold | (1 << (30 - bit))
        reached = tl.sum((key >= trial).to(tl.int32), 0)
        threshold = tl.where(reached >= K, trial, threshold)
    kept = key >= threshold
    slot = tl.cumsum(kept.to(tl.int32), 0) - 1
    tl.store(chosen_ptr + row * K + slot, pack(value, place), mask=kept & (slot < K))


@triton.jit
def order_kernel(chosen_ptr, values_ptr, places_ptr, rows, K: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    slot = tl.arange(0, WIDTH)
    inside = (row < rows)[:, None] & (slot < K)[None, :]
    at = row[:, None] * K + slot[None, :]
    packed = tl.load(chosen_ptr + at, mask=inside, other=-9223372036854775807)
    put(values_ptr, places_ptr, at, tl.sort(packed, 1, descending=True), inside)


def run(x, k):
    rows, cols = x.shape
    values = torch.empty((rows, k), dtype=torch.float32, device=x.device)
    places = torch.empty((rows, k), dtype=torch.int32, device=x.device)
    chosen = torch.empty((rows, k), dtype=torch.int64, device=x.device)
    select_kernel[(rows,)](x, chosen, K=k, COLS=cols, num_warps=${warps})
    width = triton.next_power_of_2(k)
    order_kernel[(triton.cdiv(rows, 16),)](chosen, values, places, rows, K=k, WIDTH=width, ROWS=16, num_warps=2)
    return values, places
%% elif method == "sort"
@triton.jit
def sort_kernel(x_ptr, values_ptr, places_ptr, K: tl.constexpr, COLS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    place = tl.arange(0, COLS)
    packed = tl.sort(pack(tl.load(x_ptr + row * COLS + place), place), 0, descending=True)
    put(values_ptr, places_ptr, row * K + place, packed, place < K)


def run(x, k):
    rows, cols = x.shape
    values = torch.empty((rows, k), dtype=torch.float32, device=x.device)
    places = torch.empty((rows, k), dtype=torch.int32, device=x.device)
    sort_kernel[(rows,)](x, values, places, K=k, COLS=cols, num_warps=${warps})
    return values, places
%% else
@triton.jit
def maxima_kernel(x_ptr, values_ptr, places_ptr, rows, K: tl.constexpr, PART: tl.constexpr, ROWS: tl.constexpr):
    part = tl.program_id(1)
    parts = tl.num_programs(1)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    known = row < rows
    place = part * PART + tl.arange(0, PART)
    at = row.to(tl.int64)[:, None] * (PART * parts) + place[None, :]
    value = tl.load(x_ptr + at, mask=known[:, None], other=0.0)
    slot = (row.to(tl.int64) * parts + part) * K
%% if pick == "packed"
    packed = pack(value, place[None, :] + tl.zeros((ROWS, PART), tl.int32))
    for step in range(K):
        best = tl.max(packed, 1)
        put(values_ptr, places_ptr, slot + step, best, known)
        packed = tl.where(packed == best[:, None], -9223372036854775807, packed)
%% else
    for step in range(K):
        best = tl.max(value, 1)
        where = tl.argmax(value, 1)
        tl.store(values_ptr + slot + step, best, mask=known)
        tl.store(places_ptr + slot + step, part * PART + where, mask=known)
        value = tl.where(tl.arange(0, PART)[None, :] == where[:, None], float("-inf"), value)
%% endif


%% if method == "split"
@triton.jit
def join_kernel(part_values_ptr, part_places_ptr, values_ptr, places_ptr, rows, K: tl.constexpr, SLOTS: tl.constexpr,
                WIDTH: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    slot = tl.arange(0, WIDTH)
    value = tl.load(part_values_ptr + row * SLOTS + slot, mask=slot < SLOTS, other=float("-inf"))
    place = tl.load(part_places_ptr + row * SLOTS + slot, mask=slot < SLOTS, other=0)
%% if join == "maxima"
    for step in range(K):
        best = tl.max(value, 0)
        chosen = (value == best) & (slot < SLOTS)
        tl.store(values_ptr + row * K + step, best)
        tl.store(places_ptr + row * K + step, tl.max(tl.where(chosen, place, -1), 0))
        value = tl.where(chosen, float("-inf"), value)
%% else
    packed = tl.sort(pack(value, place), 0, descending=True)
    put(values_ptr, places_ptr, row * K + slot, packed, slot < K)
%% endif


%% endif
def run(x, k):
    rows, cols = x.shape
    values = torch.empty((rows, k), dtype=torch.float32, device=x.device)
    places = torch.empty((rows, k), dtype=torch.int32, device=x.device)
%% if method == "split"
    parts = min(${parts}, cols // 32)
    part_values = torch.empty((rows, parts, k), dtype=torch.float32, device=x.device)
    part_places = torch.empty((rows, parts, k), dtype=torch.int32, device=x.device)
    maxima_kernel[(triton.cdiv(rows, ${rows}), parts)](
        x, part_values, part_places, rows, K=k, PART=cols // parts, ROWS=${rows}, num_warps=${warps}
    )
    width = triton.next_power_of_2(parts * k)
    join_kernel[(rows,)](
        part_values, part_places, values, places, rows, K=k, SLOTS=parts * k, WIDTH=width, num_warps=1
    )
%% else
    maxima_kernel[(triton.cdiv(rows, ${rows}), 1)](
        x, values, places, rows, K=k, PART=cols, ROWS=${rows}, num_warps=${warps}
    )
%% endif
    return values, places
%% endif
