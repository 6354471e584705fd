# Draw of a token: softmax and an arg-max of probability over noise.
# family sampling_triton for sampling_softmax
# shape passes = "two", "lanes", "online"
# shape score = "log", "quotient"
# shape split = 1, 2, 4, 8
# pick block = 256, 512, 1024, 2048, 4096, 8192
# pick warps = 1, 2, 4, 8, 16
# refuse passes != "two" and score == "quotient": the quotient needs the maximum first
# refuse block > 64 * 32 * warps: too many values per thread

import torch
import triton
import triton.language as tl


@triton.jit
def scan_row(logits_ptr, noise_ptr, row, first, last, vocab, inverse, BLOCK: tl.constexpr):
    base = row.to(tl.int64) * vocab
    lane = tl.arange(0, BLOCK)
%% if passes == "two"
    tops = tl.full((BLOCK,), float("-inf"), tl.float32)
    for start in range(first, last, BLOCK):
        place = start + lane
        tops = tl.maximum(tops, tl.load(logits_ptr + base + place, mask=place < last, other=float("-inf")))
    top = tl.max(tops, 0) * inverse
    sums = tl.zeros((BLOCK,), tl.float32)
    scores = tl.full((BLOCK,), float("-inf"), tl.float32)
    places = tl.zeros((BLOCK,), tl.int32)
    for start in range(first, last, BLOCK):
        place = start + lane
        known = place < last
        value = tl.load(logits_ptr + base + place, mask=known, other=float("-inf")) * inverse
        drawn = tl.load(noise_ptr + base + place, mask=known, other=1.0)
        part = tl.exp(value - top)
        sums += part
%% if score == "quotient"
        score = tl.where(known, part / drawn, float("-inf"))
%% else
        score = value - tl.log(drawn)
%% endif
        better = score > scores
        scores = tl.where(better, score, scores)
        places = tl.where(better, place, places)
    total = tl.sum(sums, 0)
    best = tl.max(scores, 0)
    token = tl.min(tl.where(scores == best, places, 2147483647), 0)
%% elif passes == "lanes"
    tops = tl.full((BLOCK,), -1.0e30, tl.float32)
    sums = tl.zeros((BLOCK,), tl.float32)
    scores = tl.full((BLOCK,), float("-inf"), tl.float32)
    places = tl.zeros((BLOCK,), tl.int32)
    for start in range(first, last, BLOCK):
        place = start + lane
        known = place < last
        value = tl.load(logits_ptr + base + place, mask=known, other=float("-inf")) * inverse
        drawn = tl.load(noise_ptr + base + place, mask=known, other=1.0)
        higher = tl.maximum(tops, value)
        sums = sums * tl.exp(tops - higher) + tl.exp(value - higher)
        tops = higher
        score = value - tl.log(drawn)
        better = score > scores
        scores = tl.where(better, score, scores)
        places = tl.where(better, place, places)
    top = tl.max(tops, 0)
    total = tl.sum(sums * tl.exp(tops - top), 0)
    best = tl.max(scores, 0)
    token = tl.min(tl.where(scores == best, places, 2147483647), 0)
%% else
    top = -1.0e30
    total = 0.0
    best = -1.0e30
    token = 0
    for start in range(first, last, BLOCK):
        place = start + lane
        known = place < last
        value = tl.load(logits_ptr + base + place, mask=known, other=float("-inf")) * inverse
        drawn = tl.load(noise_ptr + base + place, mask=known, other=1.0)
        higher = tl.maximum(top, tl.max(value, 0))
        total = total * tl.exp(top - higher) + tl.sum(tl.exp(value - higher), 0)
        top = higher
        score = value - tl.log(drawn)
        here = tl.max(score, 0)
        found = tl.min(tl.where(score == here, place, 2147483647), 0)
        token = tl.where(here > best, found, token)
        best = tl.maximum(best, here)
%% endif
%% if passes == "two" and score == "quotient"
    best = tl.log(best) + top
%% endif
    return top, total, best, token


@triton.jit
def sample_kernel(logits_ptr, noise_ptr, tokens_ptr, logs_ptr, vocab, inverse, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    top, total, best, token = scan_row(logits_ptr, noise_ptr, row, 0, vocab, vocab, inverse, BLOCK)
    chosen = tl.load(logits_ptr + row.to(tl.int64) * vocab + token) * inverse
    tl.store(tokens_ptr + row, token)
    tl.store(logs_ptr + row, chosen - top - tl.log(total))


%% if split > 1
@triton.jit
def part_kernel(logits_ptr, noise_ptr, parts_ptr, part_tokens_ptr, vocab, share, inverse, BLOCK: tl.constexpr,
                SPLIT: tl.constexpr):
    row = tl.program_id(0)
    part = tl.program_id(1)
    last = tl.minimum(vocab, (part + 1) * share)
    top, total, best, token = scan_row(logits_ptr, noise_ptr, row, part * share, last, vocab, inverse, BLOCK)
    at = row * SPLIT + part
    tl.store(parts_ptr + at * 3, top)
    tl.store(parts_ptr + at * 3 + 1, total)
    tl.store(parts_ptr + at * 3 + 2, best)
    tl.store(part_tokens_ptr + at, token)


@triton.jit
def join_kernel(logits_ptr, parts_ptr, part_tokens_ptr, tokens_ptr, logs_ptr, vocab, inverse, SPLIT: tl.constexpr):
    row = tl.program_id(0)
    at = row * SPLIT + tl.arange(0, SPLIT)
    tops = tl.load(parts_ptr + at * 3)
    totals = tl.load(parts_ptr + at * 3 + 1)
    bests = tl.load(parts_ptr + at * 3 + 2)
    found = tl.load(part_tokens_ptr + at)
    top = tl.max(tops, 0)
    total = tl.sum(totals * tl.exp(tops - top), 0)
    token = tl.min(tl.where(bests == tl.max(bests, 0), found, 2147483647), 0)
    chosen = tl.load(logits_ptr + row.to(tl.int64) * vocab + token) * inverse
    tl.store(tokens_ptr + row, token)
    tl.store(logs_ptr + row, chosen - top - tl.log(total))


%% endif
def run(logits, noise, temperature):
    rows, vocab = logits.shape
    tokens = torch.empty(rows, dtype=torch.int32, device=logits.device)
    logs = torch.empty(rows, dtype=torch.float32, device=logits.device)
    inverse = 1.0 / temperature
%% if split > 1
    share = triton.cdiv(vocab, ${split})
    parts = torch.empty((rows, ${split}, 3), dtype=torch.float32, device=logits.device)
    part_tokens = torch.empty((rows, ${split}), dtype=torch.int32, device=logits.device)
    part_kernel[(rows, ${split})](
        logits, noise, parts, part_tokens, vocab, share, inverse, BLOCK=${block}, SPLIT=${split}, num_warps=${warps}
    )
    join_kernel[(rows,)](logits, parts, part_tokens, tokens, logs, vocab, inverse, SPLIT=${split}, num_warps=1)
%% else
    sample_kernel[(rows,)](logits, noise, tokens, logs, vocab, inverse, BLOCK=${block}, num_warps=${warps})
%% endif
    return tokens, logs
