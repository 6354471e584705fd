# honest: counts of integers added atomically into zeros
# problem: histogram
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, counts, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    bins = tl.load(x + at, mask=at < n, other=0)
    tl.atomic_add(counts + bins, 1, mask=at < n)


def run(x, bins):
    counts = torch.zeros(bins, device=x.device, dtype=torch.int32)
    n = x.numel()
    kernel[(triton.cdiv(n, 1024),)](x, counts, n, block=1024)
    return counts
