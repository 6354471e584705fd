"""One program an expert compacts its pairs with running sums; then each token's row is read once and written k times."""

import torch
import triton
import triton.language as tl


@triton.jit
def collect(experts_ptr, places_ptr, tokens_ptr, counts_ptr, n, k, BLOCK: tl.constexpr):
    mine = tl.program_id(0)
    less = tl.zeros((BLOCK,), dtype=tl.int32)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        e = tl.load(experts_ptr + i, mask=i < n, other=2147483647)
        less += (e < mine).to(tl.int32)
    first = tl.sum(less, axis=0)
    at = first
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        e = tl.load(experts_ptr + i, mask=i < n, other=-1)
        hit = (e == mine).to(tl.int32)
        place = at + tl.cumsum(hit, axis=0) - 1
        tl.store(places_ptr + i, place, mask=hit > 0)
        tl.store(tokens_ptr + place, i // k, mask=hit > 0)
        at += tl.sum(hit, axis=0)
    tl.store(counts_ptr + mine, at - first)


@triton.jit
def spread(x_ptr, places_ptr, out_ptr, H, k, BH: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    h = tl.program_id(1) * BH + tl.arange(0, BH)
    row = tl.load(x_ptr + token * H + h, mask=h < H)
    for choice in range(0, k):
        place = tl.load(places_ptr + token * k + choice).to(tl.int64)
        tl.store(out_ptr + place * H + h, row, mask=h < H)


def run(x, experts, num_experts):
    tokens_in, k = experts.shape
    hidden = x.shape[1]
    n = experts.numel()
    out = torch.empty((n, hidden), device=x.device, dtype=x.dtype)
    tokens = torch.empty((n,), device=x.device, dtype=torch.int32)
    places = torch.empty((n,), device=x.device, dtype=torch.int32)
    counts = torch.empty((num_experts,), device=x.device, dtype=torch.int32)
    collect[(num_experts,)](experts, places, tokens, counts, n, k, BLOCK=2048, num_warps=8)
    spread[(tokens_in, triton.cdiv(hidden, 1024))](x, places, out, hidden, k, BH=1024, num_warps=4)
    return out, tokens, counts
