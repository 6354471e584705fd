"""Items are threaded into a linked list for each row by atomic exchange; a program then walks each list."""

import torch
import triton
import triton.language as tl


@triton.jit
def thread_lists(index_ptr, head_ptr, next_ptr, items, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = i < items
    row = tl.load(index_ptr + i, mask=ok, other=0)
    # Heads and links hold item + 1, so that zero ends a list.
    before = tl.atomic_xchg(head_ptr + row, i + 1, mask=ok)
    tl.store(next_ptr + i, before, mask=ok)


@triton.jit
def walk(source_ptr, head_ptr, next_ptr, sums_ptr, D, BD: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, BD)
    acc = tl.zeros((BD,), dtype=tl.float32)
    at = tl.load(head_ptr + row)
    while at > 0:
        item = (at - 1).to(tl.int64)
        at = tl.load(next_ptr + item)
        acc += tl.load(source_ptr + item * D + d, mask=d < D, other=0.0)
    tl.store(sums_ptr + row * D + d, acc, mask=d < D)


def run(source, index, rows):
    items, dim = source.shape
    sums = torch.empty((rows, dim), device=source.device, dtype=torch.float32)
    head = torch.zeros((rows,), device=source.device, dtype=torch.int32)
    following = torch.empty((items,), device=source.device, dtype=torch.int32)
    thread_lists[(triton.cdiv(items, 512),)](index, head, following, items, BLOCK=512, num_warps=4)
    walk[(rows,)](source, head, following, sums, dim, BD=triton.next_power_of_2(dim), num_warps=1)
    return sums
