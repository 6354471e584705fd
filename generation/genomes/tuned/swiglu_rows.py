# SwiGLU by element: quantised in groups of 128, or its backward pass; a program takes some tiles of a row, one after another.
# family swiglu_quantise_tuned for swiglu_quantise
# family swiglu_backward_tuned for swiglu_backward
# let backward = problem == "swiglu_backward"
# pick groups = 1, 2, 4, 8, 16, 32
# pick tiles = 1, 2, 4, 8
# pick warps = 1, 2, 4, 8
# pick stages = 1, 2, 3, 4
# refuse groups > 8 * warps: more than 32 numbers per thread
# refuse tiles == 1 and stages > 1: one tile has no pipeline

import torch
import triton
import triton.language as tl


@triton.jit
def swiglu(
    both_ptr, ${"dy_ptr, out_ptr" if backward else "out_ptr, scales_ptr"}, N,
    GROUPS: tl.constexpr, TILES: tl.constexpr, STAGES: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    for tile in tl.range(0, TILES, num_stages=STAGES):
        group = (tl.program_id(1) * TILES + tile) * GROUPS + tl.arange(0, GROUPS)
        at = group[:, None] * 128 + tl.arange(0, 128)[None, :]
        known = at < N
        gate = tl.load(both_ptr + row * 2 * N + at, mask=known, other=0.0).to(tl.float32)
        up = tl.load(both_ptr + row * 2 * N + N + at, mask=known, other=0.0).to(tl.float32)
%% if backward
        dy = tl.load(dy_ptr + row * N + at, mask=known, other=0.0).to(tl.float32)
        s = tl.sigmoid(gate)
        left = dy * up * s * (1.0 + gate * (1.0 - s))
        tl.store(out_ptr + row * 2 * N + at, left.to(tl.bfloat16), mask=known)
        tl.store(out_ptr + row * 2 * N + N + at, (dy * gate * s).to(tl.bfloat16), mask=known)
%% else
        y = gate * tl.sigmoid(gate) * up
        scale = tl.div_rn(tl.maximum(tl.max(tl.abs(y), 1), 1e-10), 448.0)
        quantised = tl.clamp(tl.div_rn(y, scale[:, None]), -448.0, 448.0)
        tl.store(out_ptr + row * N + at, quantised.to(tl.float8e4nv), mask=known)
        tl.store(scales_ptr + row * (N // 128) + group, scale, mask=group < N // 128)
%% endif


def run(both${", dy" if backward else ""}):
    M, N = both.shape[0], both.shape[1] // 2
    out = torch.empty(${"both.shape, dtype=both.dtype" if backward else "(M, N), dtype=torch.float8_e4m3fn"}, device=both.device)
%% if not backward
    scales = torch.empty((M, N // 128), dtype=torch.float32, device=both.device)
%% endif
    swiglu[(M, triton.cdiv(N, ${128 * groups * tiles}))](
        both, ${"dy, out" if backward else "out, scales"}, N,
        GROUPS=${groups}, TILES=${tiles}, STAGES=${stages}, num_warps=${warps},
    )
    return ${"out" if backward else "out, scales"}
