# Forces between all bodies.
# family gravity_triton for nbody_forces
# shape layout = "plain", "packed"
# shape sums = "lanes", "each"
# shape root = "rsqrt", "divide"
# shape gather = "parts", "atomic"
# shape splits = 1, 4, 16
# pick rows = 16, 32, 64, 128
# pick block = 16, 32, 64, 128
# pick warps = 1, 2, 4, 8
# refuse rows * block > 32 * 32 * warps: too many pairs per thread
# refuse gather == "atomic" and splits == 1: nothing to gather

import torch
import triton
import triton.language as tl


%% set packed = layout == "packed"
%% if packed
@triton.jit
def pack_kernel(positions_ptr, masses_ptr, packed_ptr, count, BLOCK: tl.constexpr):
    body = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    known = body < count
    for axis in tl.static_range(3):
        tl.store(packed_ptr + axis * count + body, tl.load(positions_ptr + body * 3 + axis, mask=known), mask=known)
    tl.store(packed_ptr + 3 * count + body, tl.load(masses_ptr + body, mask=known), mask=known)


%% endif
@triton.jit
def axis_of(positions_ptr, body, axis: tl.constexpr, count):
%% if packed
    return tl.load(positions_ptr + axis * count + body, mask=body < count, other=0.0)
%% else
    return tl.load(positions_ptr + body * 3 + axis, mask=body < count, other=0.0)
%% endif


@triton.jit
def force_kernel(positions_ptr, masses_ptr, out_ptr, count, share, softening, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    body = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    part = tl.program_id(1)
    x = axis_of(positions_ptr, body, 0, count)
    y = axis_of(positions_ptr, body, 1, count)
    z = axis_of(positions_ptr, body, 2, count)
%% if sums == "lanes"
    ax = tl.zeros((ROWS, BLOCK), tl.float32)
    ay = tl.zeros((ROWS, BLOCK), tl.float32)
    az = tl.zeros((ROWS, BLOCK), tl.float32)
%% else
    ax = tl.zeros((ROWS,), tl.float32)
    ay = tl.zeros((ROWS,), tl.float32)
    az = tl.zeros((ROWS,), tl.float32)
%% endif
    for first in range(part * share, tl.minimum(count, (part + 1) * share), BLOCK):
        other = first + tl.arange(0, BLOCK)
        mass = tl.load(masses_ptr + other, mask=other < count, other=0.0)
        dx = axis_of(positions_ptr, other, 0, count)[None, :] - x[:, None]
        dy = axis_of(positions_ptr, other, 1, count)[None, :] - y[:, None]
        dz = axis_of(positions_ptr, other, 2, count)[None, :] - z[:, None]
%% if root == "rsqrt"
        inverse = tl.rsqrt(dx * dx + dy * dy + dz * dz + softening)
        weight = mass[None, :] * inverse * inverse * inverse
%% else
        square = dx * dx + dy * dy + dz * dz + softening
        weight = mass[None, :] / (square * tl.sqrt(square))
%% endif
%% if sums == "lanes"
        ax += dx * weight
        ay += dy * weight
        az += dz * weight
%% else
        ax += tl.sum(dx * weight, 1)
        ay += tl.sum(dy * weight, 1)
        az += tl.sum(dz * weight, 1)
%% endif
%% if sums == "lanes"
    ax = tl.sum(ax, 1)
    ay = tl.sum(ay, 1)
    az = tl.sum(az, 1)
%% endif
    known = body < count
%% if gather == "atomic"
    tl.atomic_add(out_ptr + body * 3, ax, mask=known, sem="relaxed")
    tl.atomic_add(out_ptr + body * 3 + 1, ay, mask=known, sem="relaxed")
    tl.atomic_add(out_ptr + body * 3 + 2, az, mask=known, sem="relaxed")
%% else
    place = (part * count + body) * 3
    tl.store(out_ptr + place, ax, mask=known)
    tl.store(out_ptr + place + 1, ay, mask=known)
    tl.store(out_ptr + place + 2, az, mask=known)
%% endif


%% if gather == "parts" and splits > 1
@triton.jit
def add_kernel(parts_ptr, out_ptr, count, SPLITS: tl.constexpr, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for part in range(SPLITS):
        total += tl.load(parts_ptr + part * count + place, mask=place < count, other=0.0)
    tl.store(out_ptr + place, total, mask=place < count)


%% endif
def run(positions, masses, softening):
    count = masses.numel()
%% if packed
    packed = torch.empty((4, count), dtype=torch.float32, device=masses.device)
    pack_kernel[(triton.cdiv(count, 256),)](positions, masses, packed, count, BLOCK=256)
    positions, masses = packed, packed[3]
%% endif
    share = triton.cdiv(triton.cdiv(count, ${splits}), ${block}) * ${block}
    grid = (triton.cdiv(count, ${rows}), ${splits})
%% if gather == "atomic"
    out = torch.zeros((count, 3), dtype=torch.float32, device=masses.device)
%% else
    out = torch.empty((${splits}, count, 3), dtype=torch.float32, device=masses.device)
%% endif
    force_kernel[grid](
        positions, masses, out, count, share, softening, ROWS=${rows}, BLOCK=${block}, num_warps=${warps}
    )
%% if gather == "atomic"
    return out
%% elif splits > 1
    total = torch.empty((count, 3), dtype=torch.float32, device=masses.device)
    add_kernel[(triton.cdiv(count * 3, 256),)](out, total, count * 3, SPLITS=${splits}, BLOCK=256)
    return total
%% else
    return out.view(count, 3)
%% endif
