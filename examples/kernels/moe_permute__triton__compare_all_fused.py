"""Each program ranks a few pairs against the whole list by comparison and copies their rows at once."""

import torch
import triton
import triton.language as tl


@triton.jit
def permute(
    x_ptr,
    experts_ptr,
    out_ptr,
    tokens_ptr,
    counts_ptr,
    n,
    k,
    H,
    BI: tl.constexpr,
    BJ: tl.constexpr,
    BH: tl.constexpr,
):
    i = tl.program_id(0) * BI + tl.arange(0, BI)
    live = i < n
    mine = tl.load(experts_ptr + i, mask=live, other=0)
    before = tl.zeros((BI,), dtype=tl.int32)
    for start in range(0, n, BJ):
        j = start + tl.arange(0, BJ)
        other = tl.load(experts_ptr + j, mask=j < n, other=2147483647)
        less = other[None, :] < mine[:, None]
        tie = (other[None, :] == mine[:, None]) & (j[None, :] < i[:, None])
        before += tl.sum((less | tie).to(tl.int32), axis=1)
    token = i // k
    tl.store(tokens_ptr + before, token, mask=live)
    tl.atomic_add(counts_ptr + mine, 1, mask=live)
    source = token.to(tl.int64)[:, None] * H
    target = before.to(tl.int64)[:, None] * H
    for start in range(0, H, BH):
        h = (start + tl.arange(0, BH))[None, :]
        ok = live[:, None] & (h < H)
        tl.store(out_ptr + target + h, tl.load(x_ptr + source + h, mask=ok), mask=ok)


def run(x, experts, num_experts):
    hidden = x.shape[1]
    n = experts.numel()
    out = torch.empty((n, hidden), device=x.device, dtype=x.dtype)
    tokens = torch.empty((n,), device=x.device, dtype=torch.int32)
    counts = torch.zeros((num_experts,), device=x.device, dtype=torch.int32)
    permute[(triton.cdiv(n, 32),)](
        x, experts, out, tokens, counts, n, experts.shape[1], hidden, BI=32, BJ=256, BH=256, num_warps=4
    )
    return out, tokens, counts
