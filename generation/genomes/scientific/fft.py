# Fourier transforms: in registers, in shared memory, or passes over device memory.
# family fft_triton for fft_butterfly
# let cosines = {2: roots(2, "cos"), 4: roots(4, "cos"), 8: roots(8, "cos"), 16: roots(16, "cos")}
# let sines = {2: roots(2, "sin"), 4: roots(4, "sin"), 8: roots(8, "sin"), 16: roots(16, "sin")}
# shape method = "registers", "passes", "passes"
# shape radix = 2, 4, 8, 16
# shape turns = "chain", "direct"
# pick rows = 1, 2, 4
# pick block = 64, 128, 256, 512
# pick warps = 1, 2, 4, 8, 16
# let passes = method != "registers"
# refuse not passes and (radix != 2 or block != 128): the register form has one radix
# refuse not passes and rows * 1024 > 16 * 32 * warps: too many values per thread
# refuse passes and rows != 1: rows belong to the register form
# refuse passes and turns == "direct" and radix > 4: many angle functions compile for minutes

import torch
import triton
import triton.language as tl


%% if method == "registers"
@triton.jit
def fft_kernel(real_ptr, imag_ptr, out_real_ptr, out_imag_ptr, rows, scale, N: tl.constexpr, LOG: tl.constexpr,
               ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    place = row.to(tl.int64)[:, None] * N + tl.arange(0, N)[None, :]
    known = (row < rows)[:, None]
    real = tl.load(real_ptr + place, mask=known, other=0.0)
    imag = tl.load(imag_ptr + place, mask=known, other=0.0)
    for stage in tl.static_range(LOG):
        near_real, far_real = tl.split(tl.permute(tl.reshape(real, (ROWS, 2, N // 2)), (0, 2, 1)))
        near_imag, far_imag = tl.split(tl.permute(tl.reshape(imag, (ROWS, 2, N // 2)), (0, 2, 1)))
        turn = (tl.arange(0, N // 2) >> stage).to(tl.float32) * (-6.283185307179586 / (N >> stage))
%% if turns == "direct"
        turn_real = tl.cos(turn)[None, :]
        turn_imag = tl.sin(turn)[None, :]
%% else
        # Half angles keep the cosine accurate where it is near one.
        half = tl.sin(turn * 0.5)
        turn_real = (1.0 - 2.0 * half * half)[None, :]
        turn_imag = (2.0 * half * tl.cos(turn * 0.5))[None, :]
%% endif
        gap_real = near_real - far_real
        gap_imag = near_imag - far_imag
        one_real = near_real + far_real
        one_imag = near_imag + far_imag
        two_real = gap_real * turn_real - gap_imag * turn_imag
        two_imag = gap_real * turn_imag + gap_imag * turn_real
        grouped_real = tl.reshape(tl.join(one_real, two_real), (ROWS, N >> (stage + 1), 1 << stage, 2))
        grouped_imag = tl.reshape(tl.join(one_imag, two_imag), (ROWS, N >> (stage + 1), 1 << stage, 2))
        real = tl.reshape(tl.permute(grouped_real, (0, 1, 3, 2)), (ROWS, N))
        imag = tl.reshape(tl.permute(grouped_imag, (0, 1, 3, 2)), (ROWS, N))
    tl.store(out_real_ptr + place, real * scale, mask=known)
    tl.store(out_imag_ptr + place, imag * scale, mask=known)


def run(real, imag):
    rows, size = real.shape
    out_real = torch.empty_like(real)
    out_imag = torch.empty_like(imag)
    fft_kernel[(triton.cdiv(rows, ${rows}),)](
        real, imag, out_real, out_imag, rows, size**-0.5, N=size, LOG=size.bit_length() - 1, ROWS=${rows},
        num_warps=${warps}
    )
    return out_real, out_imag
%% else
%% for radix in (2, 4, 8, 16)
@triton.jit
def pass_${radix}(real_ptr, imag_ptr, out_real_ptr, out_imag_ptr, count, size, left, stride, scale,
             BLOCK: tl.constexpr):
    item = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    known = item < count
    each = size // ${radix}
    row = (item // each).to(tl.int64)
    j = item % each
    p = j // stride
    q = j % stride
    from_place = row * size + j
    to_place = row * size + q + stride * ${radix} * p
    angle = p.to(tl.float32) * (-6.283185307179586 / left)
%% if turns == "chain"
    step_real = tl.cos(angle)
    step_imag = tl.sin(angle)
%% endif
%% for k in range(radix)
    real_${k} = tl.load(real_ptr + from_place + ${k} * each, mask=known, other=0.0)
    imag_${k} = tl.load(imag_ptr + from_place + ${k} * each, mask=known, other=0.0)
%% endfor
%% for r in range(radix)
    sum_real = real_0
    sum_imag = imag_0
%% for k in range(1, radix)
%% set c = cosines[radix][(k * r) % radix]
%% set s = sines[radix][(k * r) % radix]
    sum_real += real_${k} * ${c} - imag_${k} * ${s}
    sum_imag += real_${k} * ${s} + imag_${k} * ${c}
%% endfor
%% if r == 0
    tl.store(out_real_ptr + to_place, sum_real * scale, mask=known)
    tl.store(out_imag_ptr + to_place, sum_imag * scale, mask=known)
%% else
%% if turns == "direct"
    turn_real = tl.cos(angle * ${r}) * scale
    turn_imag = tl.sin(angle * ${r}) * scale
%% elif r == 1
    turn_real = step_real * scale
    turn_imag = step_imag * scale
%% else
    next_real = turn_real * step_real - turn_imag * step_imag
    turn_imag = turn_real * step_imag + turn_imag * step_real
    turn_real = next_real
%% endif
    tl.store(out_real_ptr + to_place + ${r} * stride, sum_real * turn_real - sum_imag * turn_imag, mask=known)
    tl.store(out_imag_ptr + to_place + ${r} * stride, sum_real * turn_imag + sum_imag * turn_real, mask=known)
%% endif
%% endfor


%% endfor
def run(real, imag):
    rows, size = real.shape
    spare = (torch.empty_like(real), torch.empty_like(imag))
    out = (torch.empty_like(real), torch.empty_like(imag))
    source = (real, imag)
    left, stride = size, 1
    scale = size**-0.5
    while left > 1:
        radix = min(${radix}, left)
        while left % radix:
            radix //= 2
        count = rows * size // radix
        grid = (triton.cdiv(count, ${block}),)
        target = out if source[0] is not out[0] else spare
        args = (*source, *target, count, size, left, stride, scale if stride == 1 else 1.0)
        if radix == 16:
            pass_16[grid](*args, BLOCK=${block}, num_warps=${warps})
        elif radix == 8:
            pass_8[grid](*args, BLOCK=${block}, num_warps=${warps})
        elif radix == 4:
            pass_4[grid](*args, BLOCK=${block}, num_warps=${warps})
        else:
            pass_2[grid](*args, BLOCK=${block}, num_warps=${warps})
        source = target
        left //= radix
        stride *= radix
    return source
%% endif
