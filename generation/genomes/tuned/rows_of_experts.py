# Rows to and from experts: weighted sums of gathered rows, and gathered rows quantised in groups of 128.
# family combine_tuned for moe_combine
# family gather_quantise_tuned for moe_gather_quantise
# let combine = problem == "moe_combine"
# pick groups = 1, 2, 4, 8, 16, 32, 64
# pick tokens = 1, 2, 4, 8
# pick warps = 1, 2, 4, 8
# pick stages = 1, 2, 3, 4
# refuse groups > 16 * warps: more than 64 numbers per thread
# refuse tokens == 1 and stages > 1: one token has no pipeline

import torch
import triton
import triton.language as tl


@triton.jit
def gather(
    rows_ptr, places_ptr, ${"share_ptr, shared_ptr, y_ptr" if combine else "y_ptr, scales_ptr"}, T, N,
    GROUPS: tl.constexpr, TOKENS: tl.constexpr, STAGES: tl.constexpr${", CHOSEN: tl.constexpr" if combine else ""},
):
    group = tl.program_id(1) * GROUPS + tl.arange(0, GROUPS)
    at = group[:, None] * 128 + tl.arange(0, 128)[None, :]
    for i in tl.range(0, TOKENS, num_stages=STAGES):
        t = tl.program_id(0) * TOKENS + i
        known = at < tl.where(t < T, N, 0)
%% if combine
        total = tl.load(shared_ptr + t.to(tl.int64) * N + at, mask=known, other=0.0).to(tl.float32)
        for j in tl.static_range(CHOSEN):
            place = tl.load(places_ptr + t * CHOSEN + j, mask=t < T, other=0).to(tl.int64)
            share = tl.load(share_ptr + t * CHOSEN + j, mask=t < T, other=0.0)
            total += share * tl.load(rows_ptr + place * N + at, mask=known, other=0.0).to(tl.float32)
        tl.store(y_ptr + t.to(tl.int64) * N + at, total.to(tl.bfloat16), mask=known)
%% else
        place = tl.load(places_ptr + t, mask=t < T, other=0).to(tl.int64)
        x = tl.load(rows_ptr + place * N + at, mask=known, other=0.0).to(tl.float32)
        scale = tl.div_rn(tl.maximum(tl.max(tl.abs(x), 1), 1e-10), 448.0)
        quantised = tl.clamp(tl.div_rn(x, scale[:, None]), -448.0, 448.0)
        tl.store(y_ptr + t.to(tl.int64) * N + at, quantised.to(tl.float8e4nv), mask=known)
        tl.store(scales_ptr + t.to(tl.int64) * (N // 128) + group, scale, mask=group < tl.where(t < T, N // 128, 0))
%% endif


%% if combine
def run(rows, places, share, shared):
    T, N = shared.shape
    y = torch.empty_like(shared)
%% else
def run(x, tokens):
    T, N = tokens.shape[0], x.shape[1]
    y = torch.empty((T, N), dtype=torch.float8_e4m3fn, device=x.device)
    scales = torch.empty((T, N // 128), dtype=torch.float32, device=x.device)
%% endif
    gather[(triton.cdiv(T, ${tokens}), triton.cdiv(N, ${128 * groups}))](
        ${"rows, places, share, shared, y" if combine else "x, tokens, y, scales"}, T, N, GROUPS=${groups}, TOKENS=${tokens},
        STAGES=${stages}, ${"CHOSEN=places.shape[1], " if combine else ""}num_warps=${warps},
    )
    return ${"y" if combine else "y, scales"}
