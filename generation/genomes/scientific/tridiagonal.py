# Many tridiagonal systems: elimination, parallel reduction, and both in turn.
# family tridiagonal_triton for tridiagonal_solve
# shape steps = 0, 1, 2, 3, 4, 5, 6, 8
# shape order = "row", "column"
# shape ahead = False, True
# pick block = 128, 256, 512, 1024
# pick lanes = 32, 64, 128, 256
# pick warps = 1, 2, 4, 8
# refuse steps == 0 and (order != "row" or block != 256 or warps != 4): no reduction to tune

import torch
import triton
import triton.language as tl


@triton.jit
def reduce_kernel(a_ptr, b_ptr, c_ptr, d_ptr, out_a_ptr, out_b_ptr, out_c_ptr, out_d_ptr, count, size, gap,
                  BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    known = place < count
    i = place % size
    above = known & (i >= gap)
    below = known & (i + gap < size)
    a = tl.load(a_ptr + place, mask=above, other=0.0)
    c = tl.load(c_ptr + place, mask=below, other=0.0)
    up = -a / tl.load(b_ptr + place - gap, mask=above, other=1.0)
    down = -c / tl.load(b_ptr + place + gap, mask=below, other=1.0)
    b = tl.load(b_ptr + place, mask=known, other=1.0)
    d = tl.load(d_ptr + place, mask=known, other=0.0)
    b += up * tl.load(c_ptr + place - gap, mask=above, other=0.0)
    b += down * tl.load(a_ptr + place + gap, mask=below, other=0.0)
    d += up * tl.load(d_ptr + place - gap, mask=above, other=0.0)
    d += down * tl.load(d_ptr + place + gap, mask=below, other=0.0)
    farther = above & (i >= 2 * gap)
    deeper = below & (i + 2 * gap < size)
    tl.store(out_a_ptr + place, up * tl.load(a_ptr + place - gap, mask=farther, other=0.0), mask=known)
    tl.store(out_b_ptr + place, b, mask=known)
    tl.store(out_c_ptr + place, down * tl.load(c_ptr + place + gap, mask=deeper, other=0.0), mask=known)
    tl.store(out_d_ptr + place, d, mask=known)


@triton.jit
def eliminate_kernel(a_ptr, b_ptr, c_ptr, d_ptr, ratio_ptr, x_ptr, systems, size, gap, BLOCK: tl.constexpr):
    # After the reduction every gap-th number belongs together: gap independent systems in a row.
    item = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    known = item < systems * gap
%% if order == "row"
    base = (item // gap) * size + item % gap
%% else
    base = (item % systems) * size + item // systems
%% endif
    ratio = tl.load(c_ptr + base, mask=known, other=0.0) / tl.load(b_ptr + base, mask=known, other=1.0)
    value = tl.load(d_ptr + base, mask=known, other=0.0) / tl.load(b_ptr + base, mask=known, other=1.0)
    tl.store(ratio_ptr + base, ratio, mask=known)
    tl.store(x_ptr + base, value, mask=known)
    steps = size // gap
%% if ahead
    # The next numbers are on their way while the present ones are used.
    place = base + gap
    here = known & (place - base < size)
    next_a = tl.load(a_ptr + place, mask=here, other=0.0)
    next_b = tl.load(b_ptr + place, mask=here, other=1.0)
    next_c = tl.load(c_ptr + place, mask=here, other=0.0)
    next_d = tl.load(d_ptr + place, mask=here, other=0.0)
    for step in range(1, steps):
        a, b, c, d = next_a, next_b, next_c, next_d
        place = base + step * gap
        later = place + gap
        here = known & (later - base < size)
        next_a = tl.load(a_ptr + later, mask=here, other=0.0)
        next_b = tl.load(b_ptr + later, mask=here, other=1.0)
        next_c = tl.load(c_ptr + later, mask=here, other=0.0)
        next_d = tl.load(d_ptr + later, mask=here, other=0.0)
        scale = 1.0 / (b - a * ratio)
        ratio = c * scale
        value = (d - a * value) * scale
        tl.store(ratio_ptr + place, ratio, mask=known)
        tl.store(x_ptr + place, value, mask=known)
%% else
    for step in range(1, steps):
        place = base + step * gap
        a = tl.load(a_ptr + place, mask=known, other=0.0)
        scale = 1.0 / (tl.load(b_ptr + place, mask=known, other=1.0) - a * ratio)
        ratio = tl.load(c_ptr + place, mask=known, other=0.0) * scale
        value = (tl.load(d_ptr + place, mask=known, other=0.0) - a * value) * scale
        tl.store(ratio_ptr + place, ratio, mask=known)
        tl.store(x_ptr + place, value, mask=known)
%% endif
    for back in range(1, steps):
        place = base + (steps - 1 - back) * gap
        ratio = tl.load(ratio_ptr + place, mask=known, other=0.0)
        value = tl.load(x_ptr + place, mask=known, other=0.0) - ratio * value
        tl.store(x_ptr + place, value, mask=known)


def run(lower, diagonal, upper, rhs):
    systems, size = rhs.shape
    x = torch.empty_like(rhs)
    ratio = torch.empty_like(rhs)
    source = (lower, diagonal, upper, rhs)
    one = tuple(torch.empty_like(rhs) for _ in range(4))
    two = tuple(torch.empty_like(rhs) for _ in range(4))
    gap = 1
    for step in range(${steps}):
        if gap * 2 > size:
            break
        target = two if step % 2 else one
        grid = (triton.cdiv(systems * size, ${block}),)
        reduce_kernel[grid](*source, *target, systems * size, size, gap, BLOCK=${block}, num_warps=${warps})
        source = target
        gap *= 2
    grid = (triton.cdiv(systems * gap, ${lanes}),)
    eliminate_kernel[grid](*source, ratio, x, systems, size, gap, BLOCK=${lanes}, num_warps=${[1, lanes // 64] | max})
    return x
