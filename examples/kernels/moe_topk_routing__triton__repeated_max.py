"""Several tokens a program; k rounds of finding the largest logit and striking it out."""

import torch
import triton
import triton.language as tl


@triton.jit
def route(logit_ptr, weight_ptr, expert_ptr, T, E, k, BT: tl.constexpr, BE: tl.constexpr, BK: tl.constexpr):
    t = tl.program_id(0) * BT + tl.arange(0, BT)
    e = tl.arange(0, BE)
    j = tl.arange(0, BK)
    x = tl.load(logit_ptr + t[:, None] * E + e[None, :], mask=(t < T)[:, None] & (e < E)[None, :], other=-float("inf"))
    first = tl.max(x, axis=1)
    chosen = tl.zeros((BT, BK), dtype=tl.float32)
    who = tl.zeros((BT, BK), dtype=tl.int32)
    total = tl.zeros((BT,), dtype=tl.float32)
    for round_number in range(k):
        best = tl.max(x, axis=1)
        at = tl.min(tl.where(x == best[:, None], e[None, :], BE), axis=1)
        p = tl.exp(best - first)
        total += p
        here = j[None, :] == round_number
        chosen = tl.where(here, p[:, None], chosen)
        who = tl.where(here, at[:, None], who)
        x = tl.where(e[None, :] == at[:, None], -float("inf"), x)
    ok = (t < T)[:, None] & (j < k)[None, :]
    tl.store(weight_ptr + t[:, None] * k + j[None, :], chosen / total[:, None], mask=ok)
    tl.store(expert_ptr + t[:, None] * k + j[None, :], who, mask=ok)


def run(logits, k):
    tokens, experts = logits.shape
    weights = torch.empty((tokens, k), device=logits.device, dtype=torch.float32)
    chosen = torch.empty((tokens, k), device=logits.device, dtype=torch.int32)
    route[(triton.cdiv(tokens, 8),)](
        logits,
        weights,
        chosen,
        tokens,
        experts,
        k,
        BT=8,
        BE=triton.next_power_of_2(experts),
        BK=triton.next_power_of_2(k),
        num_warps=4,
    )
    return weights, chosen
