# Logarithms of a softmax at one target per row: the vocabulary may be split over programs, whose sums are joined after.
# family log_probs_tuned for token_log_probs
# pick block = 1024, 2048, 4096, 8192, 16384
# pick splits = 1, 2, 4, 8, 16
# pick warps = 2, 4, 8, 16, 32
# pick stages = 1, 2, 3, 4
# refuse block > 2048 * warps: more than 64 numbers per thread
# refuse block < 64 * warps: fewer than two numbers per thread

import torch
import triton
import triton.language as tl


@triton.jit
def scan(logits_ptr, part_ptr, V, SPLITS: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    share = tl.cdiv(tl.cdiv(V, SPLITS), BLOCK) * BLOCK
    top = tl.full((BLOCK,), -1.0e30, dtype=tl.float32)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in tl.range(part * share, tl.minimum(V, (part + 1) * share), BLOCK, num_stages=STAGES):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + row.to(tl.int64) * V + at, mask=at < V, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(top, x)
        total = total * tl.exp(top - higher) + tl.exp(x - higher)
        top = higher
    highest = tl.max(top, 0)
    slot = row * SPLITS + part
    tl.store(part_ptr + 2 * slot, highest)
    tl.store(part_ptr + 2 * slot + 1, tl.sum(total * tl.exp(top - highest), 0))


@triton.jit
def pick(logits_ptr, targets_ptr, part_ptr, y_ptr, V, SPLITS: tl.constexpr):
    row = tl.program_id(0)
    slot = row * SPLITS + tl.arange(0, SPLITS)
    top = tl.load(part_ptr + 2 * slot)
    highest = tl.max(top, 0)
    total = tl.sum(tl.load(part_ptr + 2 * slot + 1) * tl.exp(top - highest), 0)
    target = tl.load(targets_ptr + row)
    chosen = tl.load(logits_ptr + row.to(tl.int64) * V + target).to(tl.float32)
    tl.store(y_ptr + row, chosen - highest - tl.log(total))


def run(logits, targets):
    M, V = logits.shape
    y = torch.empty((M,), dtype=torch.float32, device=logits.device)
    parts = torch.empty((M, ${splits}, 2), dtype=torch.float32, device=logits.device)
    scan[(M, ${splits})](logits, parts, V, SPLITS=${splits}, BLOCK=${block}, STAGES=${stages}, num_warps=${warps})
    pick[(M,)](logits, targets, parts, y, V, SPLITS=${splits}, num_warps=1)
    return y
