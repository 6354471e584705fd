"""Stretches of the vocabulary in parallel leave maximum, sum and candidate; a small kernel settles each row."""

import torch
import triton
import triton.language as tl

SPAN = 4096


@triton.jit
def stretch(logits_ptr, noise_ptr, top_ptr, sum_ptr, best_ptr, place_ptr, inverse, V, pieces, SPAN: tl.constexpr):
    row = tl.program_id(1).to(tl.int64)
    piece = tl.program_id(0)
    i = piece * SPAN + tl.arange(0, SPAN)
    x = tl.load(logits_ptr + row * V + i, mask=i < V, other=-float("inf")) * inverse
    noise = tl.load(noise_ptr + row * V + i, mask=i < V, other=1.0)
    top = tl.max(x, axis=0)
    slot = row * pieces + piece
    tl.store(top_ptr + slot, top)
    tl.store(sum_ptr + slot, tl.sum(tl.exp(x - top), axis=0))
    score = x - tl.log(noise)
    best = tl.max(score, axis=0)
    tl.store(best_ptr + slot, best)
    tl.store(place_ptr + slot, tl.min(tl.where(score == best, i, V), axis=0))


@triton.jit
def settle(
    logits_ptr, top_ptr, sum_ptr, best_ptr, place_ptr, tokens_ptr, probs_ptr, inverse, V, pieces, BP: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    p = tl.arange(0, BP)
    ok = p < pieces
    tops = tl.load(top_ptr + row * pieces + p, mask=ok, other=-float("inf"))
    sums = tl.load(sum_ptr + row * pieces + p, mask=ok, other=0.0)
    bests = tl.load(best_ptr + row * pieces + p, mask=ok, other=-float("inf"))
    places = tl.load(place_ptr + row * pieces + p, mask=ok, other=0)
    top = tl.max(tops, axis=0)
    total = tl.sum(sums * tl.exp(tops - top), axis=0)
    chosen = tl.min(tl.where(bests == tl.max(bests, axis=0), places, V), axis=0)
    picked = tl.load(logits_ptr + row * V + chosen) * inverse
    tl.store(tokens_ptr + row, chosen)
    tl.store(probs_ptr + row, picked - top - tl.log(total))


def run(logits, noise, temperature):
    rows, vocab = logits.shape
    pieces = triton.cdiv(vocab, SPAN)
    tokens = torch.empty((rows,), device=logits.device, dtype=torch.int32)
    probs = torch.empty((rows,), device=logits.device, dtype=torch.float32)
    top = torch.empty((rows, pieces), device=logits.device, dtype=torch.float32)
    total = torch.empty((rows, pieces), device=logits.device, dtype=torch.float32)
    best = torch.empty((rows, pieces), device=logits.device, dtype=torch.float32)
    place = torch.empty((rows, pieces), device=logits.device, dtype=torch.int32)
    stretch[(pieces, rows)](
        logits, noise, top, total, best, place, 1.0 / temperature, vocab, pieces, SPAN=SPAN, num_warps=8
    )
    settle[(rows,)](
        logits,
        top,
        total,
        best,
        place,
        tokens,
        probs,
        1.0 / temperature,
        vocab,
        pieces,
        BP=triton.next_power_of_2(pieces),
        num_warps=1,
    )
    return tokens, probs
