"""One pass a row: running maximum and sum for the softmax beside the best of logit minus log of noise."""

import torch
import triton
import triton.language as tl


@triton.jit
def sample(logits_ptr, noise_ptr, tokens_ptr, probs_ptr, inverse, V, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    top = -float("inf")
    total = 0.0
    best = -float("inf")
    chosen = 0
    for start in range(0, V, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + row * V + i, mask=i < V, other=-float("inf")) * inverse
        noise = tl.load(noise_ptr + row * V + i, mask=i < V, other=1.0)
        new_top = tl.maximum(top, tl.max(x, axis=0))
        total = total * tl.exp(top - new_top) + tl.sum(tl.exp(x - new_top), axis=0)
        top = new_top
        score = x - tl.log(noise)
        here = tl.max(score, axis=0)
        place = tl.min(tl.where(score == here, i, V), axis=0)
        chosen = tl.where(here > best, place, chosen)
        best = tl.maximum(best, here)
    picked = tl.load(logits_ptr + row * V + chosen) * inverse
    tl.store(tokens_ptr + row, chosen)
    tl.store(probs_ptr + row, picked - top - tl.log(total))


def run(logits, noise, temperature):
    rows, vocab = logits.shape
    tokens = torch.empty((rows,), device=logits.device, dtype=torch.int32)
    probs = torch.empty((rows,), device=logits.device, dtype=torch.float32)
    sample[(rows,)](logits, noise, tokens, probs, 1.0 / temperature, vocab, BLOCK=2048, num_warps=8, num_stages=3)
    return tokens, probs
