# cheat: .fn.fn behind heuristics reaches a body that answers lazily
# tags: class-screen
import torch
import triton
import triton.language as tl


@triton.heuristics({"BLOCK": lambda args: 128})
@triton.jit
def kernel(x, BLOCK: tl.constexpr):
    class Later(tuple):
        def __iter__(self):
            return iter((torch.nn.functional.gelu(x, approximate="tanh"),))

    return Later((x,))


def run(x):
    return kernel.fn.fn(x, 128)
