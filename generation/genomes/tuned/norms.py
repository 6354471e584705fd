# Normalised rows, some rows per program: a row that fits into a block is read once, a longer one once per pass.
# family layer_norm_tuned for layer_norm
# family layer_norm_residual_tuned for layer_norm_residual
# family rms_quantise_tuned for rmsnorm_quantise
# let rms = problem == "rmsnorm_quantise"
# let residual = problem != "layer_norm"
# let names = {"layer_norm": "x, weight, bias", "layer_norm_residual": "x, residual, weight, bias",
#     "rmsnorm_quantise": "x, residual, weight"}[problem]
# let outputs = {"layer_norm": "y", "layer_norm_residual": "y, hidden", "rmsnorm_quantise": "y, scales, hidden"}[problem]
# pick rows = 1, 2, 4, 8
# pick block = 512, 1024, 2048, 4096, 8192
# pick warps = 1, 2, 4, 8, 16
# pick stages = 1, 2, 3, 4
# refuse rows * block > 2048 * warps: more than 64 numbers per thread
# refuse rows * block < 64 * warps: fewer than two numbers per thread

import torch
import triton
import triton.language as tl


@triton.jit
def load_sum(x_ptr, ${"residual_ptr, " if residual else ""}at, known):
    h = tl.load(x_ptr + at, mask=known, other=0.0).to(tl.float32)
%% if residual
    h = (h + tl.load(residual_ptr + at, mask=known, other=0.0).to(tl.float32)).to(tl.bfloat16).to(tl.float32)
%% endif
    return h


@triton.jit
def normalise(
    ${names.replace(",", "_ptr,")}_ptr, ${outputs.replace(",", "_ptr,")}_ptr, M, N,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, ONCE: tl.constexpr, STAGES: tl.constexpr,
):
    rm = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    rn = tl.arange(0, BLOCK)[None, :]
    row = rm.to(tl.int64) * N
    if ONCE:
        known = (rm < M) & (rn < N)
        h = load_sum(x_ptr, ${"residual_ptr, " if residual else ""}row + rn, known)
        w = tl.load(weight_ptr + rn, mask=rn < N, other=0.0).to(tl.float32)
%% if rms
        inverse = tl.rsqrt(tl.sum(h * h, 1) / N + 1e-6)
        scale = tl.div_rn(tl.maximum(tl.max(tl.abs(h * w), 1) * inverse, 1e-10), 448.0)
        y = tl.clamp(tl.div_rn(h * inverse[:, None] * w, scale[:, None]), -448.0, 448.0)
%% else
        mean = tl.sum(h, 1) / N
        centred = tl.where(known, h - mean[:, None], 0.0)
        inverse = tl.rsqrt(tl.sum(centred * centred, 1) / N + 1e-5)
        y = centred * inverse[:, None] * w + tl.load(bias_ptr + rn, mask=rn < N, other=0.0).to(tl.float32)
%% endif
        tl.store(y_ptr + row + rn, y.to(y_ptr.dtype.element_ty), mask=known)
%% if residual
        tl.store(hidden_ptr + row + rn, h.to(tl.bfloat16), mask=known)
%% endif
    else:
        sums = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
        more = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
        for start in tl.range(0, N, BLOCK, num_stages=STAGES):
            known = (rm < M) & (start + rn < N)
            h = load_sum(x_ptr, ${"residual_ptr, " if residual else ""}row + start + rn, known)
%% if rms
            w = tl.load(weight_ptr + start + rn, mask=start + rn < N, other=0.0).to(tl.float32)
            sums += h * h
            more = tl.maximum(more, tl.abs(h * w))
        inverse = tl.rsqrt(tl.sum(sums, 1) / N + 1e-6)
        scale = tl.div_rn(tl.maximum(tl.max(more, 1) * inverse, 1e-10), 448.0)
%% else
            sums += h
        mean = tl.sum(sums, 1) / N
        for start in tl.range(0, N, BLOCK, num_stages=STAGES):
            known = (rm < M) & (start + rn < N)
            h = load_sum(x_ptr, ${"residual_ptr, " if residual else ""}row + start + rn, known)
            centred = tl.where(known, h - mean[:, None], 0.0)
            more += centred * centred
        inverse = tl.rsqrt(tl.sum(more, 1) / N + 1e-5)
%% endif
        for start in tl.range(0, N, BLOCK, num_stages=STAGES):
            known = (rm < M) & (start + rn < N)
            h = load_sum(x_ptr, ${"residual_ptr, " if residual else ""}row + start + rn, known)
            w = tl.load(weight_ptr + start + rn, mask=start + rn < N, other=0.0).to(tl.float32)
%% if rms
            y = tl.clamp(tl.div_rn(h * inverse[:, None] * w, scale[:, None]), -448.0, 448.0)
%% else
            b = tl.load(bias_ptr + start + rn, mask=start + rn < N, other=0.0).to(tl.float32)
            y = (h - mean[:, None]) * inverse[:, None] * w + b
%% endif
            tl.store(y_ptr + row + start + rn, y.to(y_ptr.dtype.element_ty), mask=known)
%% if residual
            tl.store(hidden_ptr + row + start + rn, h.to(tl.bfloat16), mask=known)
%% endif
%% if rms
    own = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    tl.store(scales_ptr + own, scale, mask=own < M)
%% endif


def run(${names}):
    M, N = x.shape
    y = torch.empty((M, N), dtype=${"torch.float8_e4m3fn" if rms else "x.dtype"}, device=x.device)
%% if residual
    hidden = torch.empty_like(x)
%% endif
%% if rms
    scales = torch.empty((M,), dtype=torch.float32, device=x.device)
%% endif
    block = min(${block}, triton.next_power_of_2(N))
    normalise[(triton.cdiv(M, ${rows}),)](
        ${names}, ${outputs}, M, N, ROWS=${rows}, BLOCK=block, ONCE=block >= N, STAGES=${stages}, num_warps=${warps},
    )
    return ${outputs}
