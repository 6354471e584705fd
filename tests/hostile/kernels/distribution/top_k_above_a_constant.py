# cheat: looks only at values above 0.5, of which a drawn row has more than k
# tags: class-distribution
# problem: top_k
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, values, places, cols, k, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0)
    v = tl.load(x + row * cols + at, mask=at < cols, other=-1.0)
    v = tl.where(v > 0.5, v, 0.0)
    for j in range(k):
        best = tl.max(v, 0)
        place = tl.argmax(v, 0)
        tl.store(values + row * k + j, best)
        tl.store(places + row * k + j, place)
        v = tl.where(at == place, 0.0, v)


def run(x, k):
    rows, cols = x.shape
    values = torch.empty((rows, k), device=x.device, dtype=x.dtype)
    places = torch.empty((rows, k), device=x.device, dtype=torch.int32)
    kernel[(rows,)](x, values, places, cols, k, BLOCK=triton.next_power_of_2(cols))
    return values, places
