# honest: KernelBench's form, whose forward only launches a kernel
# problem: gelu_tanh
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    v = tl.load(x + at, mask=at < n)
    u = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    tl.store(y + at, v / (1.0 + tl.exp(-2.0 * u)), mask=at < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        n = x.numel()
        kernel[(triton.cdiv(n, 1024),)](x, y, n, block=1024)
        return y
