# honest: a grid of one block per multiprocessor that loops over the work
# problem: gelu_tanh
# tags: gpu
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, block: tl.constexpr):
    for part in range(tl.program_id(0), tl.cdiv(n, block), tl.num_programs(0)):
        at = part * block + tl.arange(0, block)
        v = tl.load(x + at, mask=at < n)
        u = 0.7978845608028654 * (v + 0.044715 * v * v * v)
        tl.store(y + at, v / (1.0 + tl.exp(-2.0 * u)), mask=at < n)


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    blocks = torch.cuda.get_device_properties(x.device).multi_processor_count
    kernel[(min(4 * blocks, triton.cdiv(n, 1024)),)](x, y, n, block=1024)
    return y
