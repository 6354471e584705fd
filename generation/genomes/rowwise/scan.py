# Running sums and products along rows, and one long prefix sum, in Triton.
%% section rows
# let product = problem == "cumprod"
# let reverse = problem == "cumsum_reverse"
# let masked = problem == "masked_cumsum"
# let neutral = "1.0" if product else "0.0"
# family row_scan_triton for cumsum, cumprod, cumsum_reverse, masked_cumsum
# shape plan = "whole", "chunk", "two", *(() if product else ("nested", "dot"))
# shape primitive = "library", "associative"
# shape gate = ("select", "multiply") if masked else "none"
# shape rows = 1, 2, 4
# shape schedule = "grid", "persistent"
# shape load = "plain", "ca", "cg", "first", "last"
# shape store = "plain", "cs", "cg", "first"
# pick block = 256, 512, 1024, 2048, 4096
# pick inner = 16, 32, 64
# pick per_sm = 2, 4, 8, 16
# pick stages = 1, 2, 3
# pick warps = 1, 2, 4, 8, 16
# let lanes = 32 * warps
# let held = rows * (8192 if plan == "whole" else block)
# refuse not lanes <= held <= 64 * lanes: elements per lane out of bounds
# refuse plan == "chunk" and rows > 1: a scan carried along a tile of rows, which Triton 3.6 does not compile
# refuse plan in ("two", "nested", "dot") and rows > 1: only one row at a time
# refuse plan == "two" and schedule == "persistent": two kernels take their grid from the pieces
# refuse plan in ("nested", "dot") and block // inner < 16: fewer than 16 inner rows
# refuse plan in ("nested", "dot") and primitive == "associative": nested scans use the library's
# refuse schedule == "persistent" and not 8 <= per_sm * warps <= 64: too few or too many warps on an SM
# let axis = 1 if rows > 1 else 0
# let hint = HINTS[load]
# let store = HINTS[store]
# polish tidy

import torch
import triton
import triton.language as tl


@triton.jit
def join(a, b):
    return a ${"*" if product else "+"} b


@triton.jit
def scan(v):
%% if primitive == "library"
    return tl.${"cumprod" if product else "cumsum"}(v, axis=${axis}, reverse=${reverse})
%% else
    return tl.associative_scan(v, ${axis}, join, reverse=${reverse})
%% endif


@triton.jit
def fold(v):
%% if product
    return tl.reduce(v, ${axis}, join)
%% else
    return tl.sum(v, axis=${axis})
%% endif


%% macro take(tab)
%% if masked and gate == "select"
${tab}v = tl.where(tl.load(mask_ptr + o, mask=m, other=0) != 0, tl.load(x_ptr + o, mask=m, other=0.0${hint}), 0.0)
%% elif masked
${tab}v = tl.load(x_ptr + o, mask=m, other=0.0${hint}) * tl.load(mask_ptr + o, mask=m, other=0).to(tl.float32)
%% else
${tab}v = tl.load(x_ptr + o, mask=m, other=${neutral}${hint})
%% endif
%% endmacro
%% set pointers = "x_ptr, mask_ptr, y_ptr" if masked else "x_ptr, y_ptr"
%% set handed = "x, mask, y" if masked else "x, y"
%% if plan == "two"
@triton.jit
def total(${pointers}, parts_ptr, cols, BLOCK: tl.constexpr, PARTS: tl.constexpr):
    row = tl.program_id(0)
    part = tl.program_id(1)
    c = part * BLOCK + tl.arange(0, BLOCK)
    m = c < cols
    o = row * cols + c
${take("    ")}
    tl.store(parts_ptr + row * PARTS + part, fold(v))
@triton.jit
def kernel(${pointers}, parts_ptr, cols, BLOCK: tl.constexpr, PARTS: tl.constexpr):
    row = tl.program_id(0)
    part = tl.program_id(1)
    k = tl.arange(0, PARTS)
    before = k ${">" if reverse else "<"} part
    carry = fold(tl.load(parts_ptr + row * PARTS + k, mask=before & (k < tl.num_programs(1)), other=${neutral}))
    c = part * BLOCK + tl.arange(0, BLOCK)
    m = c < cols
    o = row * cols + c
${take("    ")}
    tl.store(y_ptr + o, join(carry, scan(v)), mask=m${store})
%% else
@triton.jit
def kernel(${pointers}, rows, cols, BLOCK: tl.constexpr, ROWS: tl.constexpr, INNER: tl.constexpr):
%% set tile = rows > 1
%% if schedule == "persistent"
    for item in tl.range(tl.program_id(0), tl.cdiv(rows, ROWS), tl.num_programs(0)):
        row = ${"item * ROWS + tl.arange(0, ROWS)" if tile else "item"}
%% set tab = "        "
%% else
    row = ${"tl.program_id(0) * ROWS + tl.arange(0, ROWS)" if tile else "tl.program_id(0)"}
%% set tab = "    "
%% endif
%% macro at(tab, start)
${tab}c = ${start}tl.arange(0, BLOCK)
%% if tile
${tab}m = (row < rows)[:, None] & (c < cols)[None, :]
${tab}o = row[:, None] * cols + c[None, :]
%% else
${tab}m = c < cols
${tab}o = row * cols + c
%% endif
%% endmacro
%% if plan == "whole"
${at(tab, "")}
${take(tab)}
${tab}tl.store(y_ptr + o, scan(v), mask=m${store})
%% else
${tab}carry = ${"tl.full([ROWS], " ~ neutral ~ ", tl.float32)" if tile else neutral}
%% if plan == "dot"
${tab}i = tl.arange(0, INNER)
${tab}ones = tl.where(i[:, None] ${">=" if reverse else "<="} i[None, :], 1.0, 0.0)
%% endif
${tab}for step in tl.range(0, cols, BLOCK, num_stages=${stages}):
%% if reverse
${tab}    start = (tl.cdiv(cols, BLOCK) - 1) * BLOCK - step
${at(tab + "    ", "start + ")}
%% else
${at(tab + "    ", "step + ")}
%% endif
${take(tab + "    ")}
%% if plan == "chunk"
%% if tile
${tab}    tl.store(y_ptr + o, join(carry[:, None], scan(v)), mask=m${store})
%% else
${tab}    tl.store(y_ptr + o, join(carry, scan(v)), mask=m${store})
%% endif
${tab}    carry = join(carry, fold(v))
%% else
${tab}    grid = tl.reshape(v, [BLOCK // INNER, INNER])
%% if plan == "dot"
${tab}    inner = tl.dot(grid, ones, input_precision="ieee")
%% else
${tab}    inner = tl.cumsum(grid, axis=1, reverse=${reverse})
%% endif
${tab}    sums = tl.sum(grid, axis=1)
${tab}    outer = tl.cumsum(sums, axis=0, reverse=${reverse}) - sums
${tab}    y = tl.reshape(inner + outer[:, None], [BLOCK]) + carry
${tab}    tl.store(y_ptr + o, y, mask=m${store})
${tab}    carry += tl.sum(sums, axis=0)
%% endif
%% endif
%% endif


def run(x${", mask" if masked else ""}):
    y = torch.empty_like(x)
    rows, cols = x.shape
%% if plan == "two"
    count = triton.cdiv(cols, ${block})
    width = triton.next_power_of_2(count)
    parts = torch.empty((rows, width), dtype=torch.float32, device=x.device)
    total[(rows, count)](${handed}, parts, cols, BLOCK=${block}, PARTS=width, num_warps=${warps})
    kernel[(rows, count)](${handed}, parts, cols, BLOCK=${block}, PARTS=width, num_warps=${warps})
%% else
    count = triton.cdiv(rows, ${rows})
%% if schedule == "persistent"
    processors = torch.cuda.get_device_properties(x.device).multi_processor_count if x.is_cuda else 4
    count = min(count, processors * ${per_sm})
%% endif
    kernel[(count,)](${handed}, rows, cols, BLOCK=${"triton.next_power_of_2(cols)" if plan == "whole" else block},
                     ROWS=${rows}, INNER=${inner}, num_warps=${warps})
%% endif
    return y
%% section long
# family long_scan_triton for prefix_sum
# shape method = "reduce_scan", "scan_add"
# shape middle = "kernel", "fold"
# shape nested = False, True
# shape primitive = "library", "associative"
# shape hint = HINTS["plain"], HINTS["ca"], HINTS["cg"], HINTS["first"], HINTS["last"]
# shape write = HINTS["plain"], HINTS["cs"], HINTS["cg"], HINTS["first"]
# pick inner = 16, 32, 64
# pick block = 512, 1024, 2048, 4096, 8192, 16384
# pick steps = 1, 2, 4, 8, 16
# pick width = 512, 1024, 2048
# pick stages = 1, 2
# pick warps = 2, 4, 8, 16
# refuse not 1 <= block / (32 * warps) <= 64: elements per lane out of bounds
# refuse block * steps < (16384 if middle == "fold" else 4096): too many parts
# refuse nested and method == "scan_add": only the rescan is nested

import torch
import triton
import triton.language as tl


@triton.jit
def join(a, b):
    return a + b


@triton.jit
def scan(v):
%% if primitive == "library"
    return tl.cumsum(v, axis=0)
%% else
    return tl.associative_scan(v, 0, join)
%% endif


@triton.jit
def first(x_ptr, y_ptr, sums_ptr, n, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    begin = tl.program_id(0) * (STEPS * BLOCK)
%% if method == "scan_add"
    carry = 0
    for step in tl.range(0, STEPS, num_stages=${stages}):
        i = begin + step * BLOCK + tl.arange(0, BLOCK)
        v = tl.load(x_ptr + i, mask=i < n, other=0)
        tl.store(y_ptr + i, scan(v) + carry, mask=i < n)
        carry += tl.sum(v, axis=0)
    tl.store(sums_ptr + tl.program_id(0), carry)
%% else
    held = tl.zeros([BLOCK], tl.int32)
    for step in tl.range(0, STEPS, num_stages=${stages}):
        i = begin + step * BLOCK + tl.arange(0, BLOCK)
        held += tl.load(x_ptr + i, mask=i < n, other=0${hint})
    tl.store(sums_ptr + tl.program_id(0), tl.sum(held, axis=0))
%% endif


%% if middle == "kernel"
@triton.jit
def second(sums_ptr, count, WIDTH: tl.constexpr):
    carry = 0
    for start in tl.range(0, count, WIDTH):
        k = start + tl.arange(0, WIDTH)
        v = tl.load(sums_ptr + k, mask=k < count, other=0)
        tl.store(sums_ptr + k, tl.cumsum(v, axis=0) - v + carry, mask=k < count)
        carry += tl.sum(v, axis=0)


%% endif
@triton.jit
def third(x_ptr, y_ptr, sums_ptr, n, STEPS: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
    part = tl.program_id(0)
%% if middle == "kernel"
    carry = tl.load(sums_ptr + part)
%% else
    held = tl.zeros([WIDTH], tl.int32)
    for start in tl.range(0, part, WIDTH):
        k = start + tl.arange(0, WIDTH)
        held += tl.load(sums_ptr + k, mask=k < part, other=0)
    carry = tl.sum(held, axis=0)
%% endif
    begin = part * (STEPS * BLOCK)
    for step in tl.range(0, STEPS, num_stages=${stages}):
        i = begin + step * BLOCK + tl.arange(0, BLOCK)
%% if method == "scan_add"
        v = tl.load(y_ptr + i, mask=i < n, other=0)
        tl.store(y_ptr + i, v + carry, mask=i < n${write})
%% else
        v = tl.load(x_ptr + i, mask=i < n, other=0)
%% if nested
        grid = tl.reshape(v, [BLOCK // ${inner}, ${inner}])
        sums = tl.sum(grid, axis=1)
        outer = tl.cumsum(sums, axis=0) - sums
        y = tl.reshape(tl.cumsum(grid, axis=1) + outer[:, None], [BLOCK])
%% else
        y = scan(v)
%% endif
        tl.store(y_ptr + i, y + carry, mask=i < n${write})
        carry += tl.sum(v, axis=0)
%% endif


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    count = triton.cdiv(n, ${block * steps})
    sums = torch.empty(count, dtype=torch.int32, device=x.device)
    first[(count,)](x, y, sums, n, STEPS=${steps}, BLOCK=${block}, num_warps=${warps})
%% if middle == "kernel"
    second[(1,)](sums, count, WIDTH=${width}, num_warps=8)
%% endif
    third[(count,)](x, y, sums, n, STEPS=${steps}, BLOCK=${block}, WIDTH=${width}, num_warps=${warps})
    return y
