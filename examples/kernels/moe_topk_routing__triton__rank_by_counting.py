"""No rounds: an expert's rank is how many logits beat it, and those ranked below k store themselves."""

import torch
import triton
import triton.language as tl


@triton.jit
def rank_route(logit_ptr, weight_ptr, expert_ptr, E, k, BE: tl.constexpr):
    t = tl.program_id(0)
    e = tl.arange(0, BE)
    x = tl.load(logit_ptr + t * E + e, mask=e < E, other=-float("inf"))
    beaten = (x[None, :] > x[:, None]) | ((x[None, :] == x[:, None]) & (e[None, :] < e[:, None]))
    rank = tl.sum(beaten.to(tl.int32), axis=1)
    top = tl.max(x, axis=0)
    taken = (rank < k) & (e < E)
    p = tl.where(taken, tl.exp(x - top), 0.0)
    tl.store(weight_ptr + t * k + rank, p / tl.sum(p, axis=0), mask=taken)
    tl.store(expert_ptr + t * k + rank, e, mask=taken)


def run(logits, k):
    tokens, experts = logits.shape
    weights = torch.empty((tokens, k), device=logits.device, dtype=torch.float32)
    chosen = torch.empty((tokens, k), device=logits.device, dtype=torch.int32)
    rank_route[(tokens,)](logits, weights, chosen, experts, k, BE=triton.next_power_of_2(experts), num_warps=4)
    return weights, chosen
