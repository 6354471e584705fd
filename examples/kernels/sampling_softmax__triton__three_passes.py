"""As the definition reads: a pass for the maximum, one for the sum, one for the largest probability over noise."""

import torch
import triton
import triton.language as tl


@triton.jit
def sample(logits_ptr, noise_ptr, tokens_ptr, probs_ptr, temperature, V, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, BLOCK)
    tops = tl.full((BLOCK,), -float("inf"), dtype=tl.float32)
    for start in range(0, V, BLOCK):
        i = start + lane
        x = tl.load(logits_ptr + row * V + i, mask=i < V, other=-float("inf"))
        tops = tl.maximum(tops, x / temperature)
    top = tl.max(tops, axis=0)
    sums = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, V, BLOCK):
        i = start + lane
        x = tl.load(logits_ptr + row * V + i, mask=i < V, other=-float("inf"))
        sums += tl.exp(x / temperature - top)
    total = tl.sum(sums, axis=0)
    # Each lane remembers its own best quotient and where it was.
    best = tl.full((BLOCK,), -1.0, dtype=tl.float32)
    place = lane
    for start in range(0, V, BLOCK):
        i = start + lane
        x = tl.load(logits_ptr + row * V + i, mask=i < V, other=-float("inf"))
        noise = tl.load(noise_ptr + row * V + i, mask=i < V, other=1.0)
        quotient = tl.exp(x / temperature - top) / total / noise
        better = (quotient > best) & (i < V)
        place = tl.where(better, i, place)
        best = tl.where(better, quotient, best)
    chosen = tl.min(tl.where(best == tl.max(best, axis=0), place, V), axis=0)
    picked = tl.load(logits_ptr + row * V + chosen) / temperature
    tl.store(tokens_ptr + row, chosen)
    tl.store(probs_ptr + row, picked - top - tl.log(total))


def run(logits, noise, temperature):
    rows, vocab = logits.shape
    tokens = torch.empty((rows,), device=logits.device, dtype=torch.int32)
    probs = torch.empty((rows,), device=logits.device, dtype=torch.float32)
    sample[(rows,)](logits, noise, tokens, probs, temperature, vocab, BLOCK=1024, num_warps=4)
    return tokens, probs
