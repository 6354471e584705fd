# honest: both outputs are views of one larger block
# problem: top_k
# tags: gpu
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, values, places, cols, k, block: tl.constexpr):
    at = tl.arange(0, block)
    row = tl.program_id(0)
    v = tl.load(x + row * cols + at, mask=at < cols, other=float("-inf"))
    for j in range(k):
        best = tl.max(v, 0)
        place = tl.argmax(v, 0)
        tl.store(values + row * k + j, best)
        tl.store(places + row * k + j, place)
        v = tl.where(at == place, float("-inf"), v)


def run(x, k):
    rows, cols = x.shape
    block = torch.empty(2 * rows * k + 64, device=x.device, dtype=torch.int32)
    values = block[: rows * k].view(torch.float32).view(rows, k)
    places = block[rows * k : 2 * rows * k].view(rows, k)
    kernel[(rows,)](x, values, places, cols, k, block=triton.next_power_of_2(cols))
    return values, places
