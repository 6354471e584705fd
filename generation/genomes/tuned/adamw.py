# An AdamW step over tensors that lie one after another: a block looks up which tensor each of its elements belongs to.
# family adamw_tuned for adamw_step
# pick block = 256, 512, 1024, 2048, 4096
# pick tiles = 1, 2, 4, 8
# pick warps = 1, 2, 4, 8, 16
# pick stages = 1, 2, 3, 4
# refuse block > 512 * warps: more than 16 elements per thread
# refuse block < 64 * warps: fewer than two elements per thread
# refuse tiles == 1 and stages > 1: one tile has no pipeline

import torch
import triton
import triton.language as tl


@triton.jit
def adamw(
    weight_ptr, grad_ptr, m_ptr, v_ptr, ends_ptr, rate_ptr, decay_ptr, w_out, m_out, v_out, SIZE, count,
    COUNT: tl.constexpr, BLOCK: tl.constexpr, TILES: tl.constexpr, STAGES: tl.constexpr,
):
    every = tl.arange(0, COUNT)
    ends = tl.load(ends_ptr + every, mask=every < count, other=2147483647)
    for tile in tl.range(0, TILES, num_stages=STAGES):
        first = (tl.program_id(0) * TILES + tile) * BLOCK
        at = first + tl.arange(0, BLOCK)
        inside = at < SIZE
        # Most blocks lie in one tensor; the others walk through the tensors that end inside them.
        tensor = tl.sum((ends <= first).to(tl.int32), 0)
        last = tl.sum((ends <= first + BLOCK - 1).to(tl.int32), 0)
        own = tl.zeros((BLOCK,), dtype=tl.int32) + tensor
        for i in range(tensor, tl.minimum(last, count)):
            own += (tl.load(ends_ptr + i) <= at).to(tl.int32)
        rate = tl.load(rate_ptr + own, mask=inside, other=0.0)
        decay = tl.load(decay_ptr + own, mask=inside, other=0.0)
        w = tl.load(weight_ptr + at, mask=inside, other=0.0)
        g = tl.load(grad_ptr + at, mask=inside, other=0.0).to(tl.float32)
        m = 0.9 * tl.load(m_ptr + at, mask=inside, other=0.0) + 0.1 * g
        v = 0.95 * tl.load(v_ptr + at, mask=inside, other=0.0) + 0.05 * g * g
        step = (m * 1.0000265621044142) / (tl.sqrt(v * 1.0059557906529248) + 1e-8)
        tl.store(w_out + at, w - rate * (step + decay * w), mask=inside)
        tl.store(m_out + at, m, mask=inside)
        tl.store(v_out + at, v, mask=inside)


def run(weight, grad, m, v, ends, rate, decay):
    size, count = weight.shape[0], ends.shape[0]
    new_weight, new_m, new_v = torch.empty_like(weight), torch.empty_like(m), torch.empty_like(v)
    adamw[(triton.cdiv(size, ${block * tiles}),)](
        weight, grad, m, v, ends, rate, decay, new_weight, new_m, new_v, size, count,
        COUNT=triton.next_power_of_2(count), BLOCK=${block}, TILES=${tiles}, STAGES=${stages}, num_warps=${warps},
    )
    return new_weight, new_m, new_v
