import torch
import triton
import triton.language as tl

GROUPS = 8


@triton.jit
def partial_moments(x_ptr, part_ptr, size, splits, CHUNK: tl.constexpr, BLOCK: tl.constexpr):
    g = tl.program_id(0)
    s = tl.program_id(1)
    lane = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    acc2 = tl.zeros((BLOCK,), tl.float32)
    for k in range(0, CHUNK, BLOCK):
        i = s * CHUNK + k + lane
        v = tl.load(x_ptr + g * size + i, mask=i < size, other=0.0)
        acc += v
        acc2 += v * v
    tl.store(part_ptr + (g * splits + s) * 2, tl.sum(acc, 0))
    tl.store(part_ptr + (g * splits + s) * 2 + 1, tl.sum(acc2, 0))


@triton.jit
def finish_moments(part_ptr, stat_ptr, size, splits, SB: tl.constexpr):
    g = tl.program_id(0)
    s = tl.arange(0, SB)
    a = tl.load(part_ptr + (g * splits + s) * 2, mask=s < splits, other=0.0)
    b = tl.load(part_ptr + (g * splits + s) * 2 + 1, mask=s < splits, other=0.0)
    mean = tl.sum(a, 0) / size
    var = tl.sum(b, 0) / size - mean * mean
    tl.store(stat_ptr + g * 2, mean)
    tl.store(stat_ptr + g * 2 + 1, tl.rsqrt(var + 1e-5))


@triton.jit
def apply_affine(x_ptr, w_ptr, b_ptr, stat_ptr, y_ptr, C, plane, per_group, groups, BLOCK: tl.constexpr):
    nc = tl.program_id(0)
    c = nc % C
    g = (nc // C) * groups + c // per_group
    mean = tl.load(stat_ptr + g * 2)
    rstd = tl.load(stat_ptr + g * 2 + 1)
    scale = tl.load(w_ptr + c) * rstd
    shift = tl.load(b_ptr + c) - mean * scale
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x_ptr + nc * plane + i, mask=i < plane, other=0.0)
    tl.store(y_ptr + nc * plane + i, v * scale + shift, mask=i < plane)


def run(x, weight, bias):
    N, C, H, W = x.shape
    plane = H * W
    size = C // GROUPS * plane
    y = torch.empty_like(x)
    chunk = 16384
    splits = triton.cdiv(size, chunk)
    part = torch.empty((N * GROUPS, splits, 2), device=x.device, dtype=torch.float32)
    stat = torch.empty((N * GROUPS, 2), device=x.device, dtype=torch.float32)
    partial_moments[(N * GROUPS, splits)](x, part, size, splits, CHUNK=chunk, BLOCK=1024)
    finish_moments[(N * GROUPS,)](part, stat, size, splits, SB=triton.next_power_of_2(splits))
    apply_affine[(N * C, triton.cdiv(plane, 2048))](
        x, weight, bias, stat, y, C, plane, C // GROUPS, GROUPS, BLOCK=2048
    )
    return y
