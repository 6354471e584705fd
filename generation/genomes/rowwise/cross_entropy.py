# Cross entropy with its gradient.
# family cross_entropy_triton for cross_entropy_fwd_bwd
# shape method = "fused", "fused", "separate", "split"
# shape sums = "lanes", "online", "three_pass"
# shape walk = "rows", "persistent"
# pick block = 512, 1024, 2048, 4096, 8192, 16384
# pick wide = 512, 1024, 2048, 4096
# pick split = 2, 4, 8
# pick warps = 2, 4, 8, 16
# pick stages = 2, 3
# refuse method == "split" and (sums != "lanes" or walk != "rows" or stages != 2): the split form has one way to sum
# refuse method != "split" and walk == "rows" and (split != 4): nothing to split
# refuse method == "fused" and wide != 1024: wide belongs to the separate gradient
# refuse block > 64 * 32 * warps: too many values per thread

import torch
import triton
import triton.language as tl


@triton.jit
def gradient(logits_ptr, grad_ptr, base, start, last, target, log_sum, factor, BLOCK: tl.constexpr):
    place = start + tl.arange(0, BLOCK)
    known = place < last
    value = tl.load(logits_ptr + base + place, mask=known, other=0.0).to(tl.float32)
    share = tl.exp(value - log_sum)
    share = tl.where(place == target, share - 1.0, share)
    tl.store(grad_ptr + base + place, (share * factor).to(tl.bfloat16), mask=known)


%% if method != "split"
@triton.jit
def loss_kernel(logits_ptr, targets_ptr, weights_ptr, losses_ptr, grad_ptr, sums_ptr, rows, vocab, BLOCK: tl.constexpr):
%% if walk == "persistent"
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        one_row(logits_ptr, targets_ptr, weights_ptr, losses_ptr, grad_ptr, sums_ptr, row, vocab, BLOCK)
%% else
    one_row(logits_ptr, targets_ptr, weights_ptr, losses_ptr, grad_ptr, sums_ptr, tl.program_id(0), vocab, BLOCK)
%% endif


@triton.jit
def one_row(logits_ptr, targets_ptr, weights_ptr, losses_ptr, grad_ptr, sums_ptr, row, vocab, BLOCK: tl.constexpr):
    base = tl.cast(row, tl.int64) * vocab
    target = tl.load(targets_ptr + row)
    lane = tl.arange(0, BLOCK)
%% if sums == "three_pass"
    tops = tl.full((BLOCK,), -1.0e30, tl.float32)
    for start in range(0, vocab, BLOCK):
        place = start + lane
        value = tl.load(logits_ptr + base + place, mask=place < vocab, other=float("-inf")).to(tl.float32)
        tops = tl.maximum(tops, value)
    top = tl.max(tops, 0)
    parts = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, vocab, BLOCK):
        place = start + lane
        value = tl.load(logits_ptr + base + place, mask=place < vocab, other=float("-inf")).to(tl.float32)
        parts += tl.exp(value - top)
    total = tl.sum(parts, 0)
%% elif sums == "lanes"
    tops = tl.full((BLOCK,), -1.0e30, tl.float32)
    parts = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, vocab, BLOCK):
        place = start + lane
        value = tl.load(logits_ptr + base + place, mask=place < vocab, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(tops, value)
        parts = parts * tl.exp(tops - higher) + tl.exp(value - higher)
        tops = higher
    top = tl.max(tops, 0)
    total = tl.sum(parts * tl.exp(tops - top), 0)
%% else
    top = -1.0e30
    total = 0.0
    for start in range(0, vocab, BLOCK):
        place = start + lane
        value = tl.load(logits_ptr + base + place, mask=place < vocab, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(top, tl.max(value, 0))
        total = total * tl.exp(top - higher) + tl.sum(tl.exp(value - higher), 0)
        top = higher
%% endif
    log_sum = top + tl.log(total)
    tl.store(losses_ptr + row, log_sum - tl.load(logits_ptr + base + target).to(tl.float32))
%% if method == "fused"
    factor = tl.load(weights_ptr + row)
    for start in range(0, vocab, BLOCK):
        gradient(logits_ptr, grad_ptr, base, start, vocab, target, log_sum, factor, BLOCK)
%% else
    tl.store(sums_ptr + row, log_sum)
%% endif


%% else
@triton.jit
def part_kernel(logits_ptr, parts_ptr, vocab, share, BLOCK: tl.constexpr, SPLIT: tl.constexpr):
    row = tl.program_id(0)
    part = tl.program_id(1)
    base = row.to(tl.int64) * vocab
    last = tl.minimum(vocab, (part + 1) * share)
    tops = tl.full((BLOCK,), -1.0e30, tl.float32)
    parts = tl.zeros((BLOCK,), tl.float32)
    for start in range(part * share, last, BLOCK):
        place = start + tl.arange(0, BLOCK)
        value = tl.load(logits_ptr + base + place, mask=place < last, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(tops, value)
        parts = parts * tl.exp(tops - higher) + tl.exp(value - higher)
        tops = higher
    top = tl.max(tops, 0)
    tl.store(parts_ptr + (row * SPLIT + part) * 2, top)
    tl.store(parts_ptr + (row * SPLIT + part) * 2 + 1, tl.sum(parts * tl.exp(tops - top), 0))


@triton.jit
def join_kernel(logits_ptr, targets_ptr, parts_ptr, losses_ptr, sums_ptr, vocab, SPLIT: tl.constexpr):
    row = tl.program_id(0)
    part = tl.arange(0, SPLIT)
    tops = tl.load(parts_ptr + (row * SPLIT + part) * 2)
    totals = tl.load(parts_ptr + (row * SPLIT + part) * 2 + 1)
    top = tl.max(tops, 0)
    log_sum = top + tl.log(tl.sum(totals * tl.exp(tops - top), 0))
    chosen = tl.load(logits_ptr + row.to(tl.int64) * vocab + tl.load(targets_ptr + row)).to(tl.float32)
    tl.store(losses_ptr + row, log_sum - chosen)
    tl.store(sums_ptr + row, log_sum)


%% endif
%% if method != "fused"
@triton.jit
def gradient_kernel(logits_ptr, targets_ptr, weights_ptr, sums_ptr, grad_ptr, vocab, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    base = row.to(tl.int64) * vocab
    target = tl.load(targets_ptr + row)
    log_sum = tl.load(sums_ptr + row)
    factor = tl.load(weights_ptr + row)
    gradient(logits_ptr, grad_ptr, base, tl.program_id(1) * BLOCK, vocab, target, log_sum, factor, BLOCK)


%% endif
def run(logits, targets, loss_grad):
    rows, vocab = logits.shape
    losses = torch.empty(rows, dtype=torch.float32, device=logits.device)
    grad = torch.empty_like(logits)
    sums = torch.empty(rows, dtype=torch.float32, device=logits.device)
%% if method == "split"
    parts = torch.empty((rows, ${split}, 2), dtype=torch.float32, device=logits.device)
    share = triton.cdiv(vocab, ${split})
    part_kernel[(rows, ${split})](logits, parts, vocab, share, BLOCK=${block}, SPLIT=${split}, num_warps=${warps})
    join_kernel[(rows,)](logits, targets, parts, losses, sums, vocab, SPLIT=${split}, num_warps=1)
%% else
    programs = ${"min(rows, 132 * %d)" % split if walk == "persistent" else "rows"}
    loss_kernel[(programs,)](
        logits, targets, loss_grad, losses, grad, sums, rows, vocab, BLOCK=${block}, num_warps=${warps},
        num_stages=${stages}
    )
%% endif
%% if method != "fused"
    grid = (rows, triton.cdiv(vocab, ${wide}))
    gradient_kernel[grid](logits, targets, loss_grad, sums, grad, vocab, BLOCK=${wide}, num_warps=${warps})
%% endif
    return losses, grad
