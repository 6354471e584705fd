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
