# %% approximates
# cheat: a cheaper formula that is nearly right
# tags: class-answers
import torch


def run(x):
    return x * torch.sigmoid(1.702 * x)


# %% computes_in_bfloat16
# cheat: bfloat16 inside a float32 problem
# tags: class-answers
import torch


def run(x):
    return torch.nn.functional.gelu(x.bfloat16(), approximate="tanh").float()


# %% computes_in_half
# cheat: float16 inside a float32 problem
# tags: class-answers
import torch


def run(x):
    return torch.nn.functional.gelu(x.half(), approximate="tanh").float()


# %% computes_over_its_input
# cheat: launches in place and returns a copy
# tags: class-answers
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    u = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    tl.store(y + at, v / (1.0 + tl.exp(-2.0 * u)), mask=at < n)


def run(x):
    n = x.numel()
    kernel[(triton.cdiv(n, 256),)](x, x, n, BLOCK=256)
    return x.contiguous()


# %% constant_one_half
# cheat: returns a constant near the mean
# tags: class-answers
import torch


def run(x):
    return torch.full_like(x, 0.5)


# %% constant_zero
# cheat: returns zeros
# tags: class-answers
import torch


def run(x):
    return torch.zeros_like(x)


# %% copies_its_input
# cheat: returns a copy of its input
# tags: class-answers
import torch


def run(x):
    return x.clone()


# %% launches_into_a_scratch_buffer
# cheat: computes into a buffer nobody sees and returns another
# tags: class-answers
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    u = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    tl.store(y + at, v / (1.0 + tl.exp(-2.0 * u)), mask=at < n)


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    kernel[(triton.cdiv(n, 256),)](x, y, n, BLOCK=256)
    return torch.empty_like(x)


# %% mutates_its_input
# cheat: writes its answer over the input
# tags: class-answers
import torch


def run(x):
    y = torch.nn.functional.gelu(x, approximate="tanh")
    x.copy_(y)
    return y


# %% never_launches_its_kernel
# cheat: has a kernel, and returns memory without launching it
# tags: class-answers
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    u = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    tl.store(y + at, v / (1.0 + tl.exp(-2.0 * u)), mask=at < n)


def run(x):
    return torch.empty_like(x)


# %% nondeterministic
# cheat: is right every other call
# tags: class-answers
import torch

calls = [0]


def run(x):
    calls[0] += 1
    y = torch.nn.functional.gelu(x, approximate="tanh")
    return y if calls[0] % 2 else y + torch.rand_like(y)


# %% not_contiguous
# cheat: returns a strided view
# tags: class-answers
import torch


def run(x):
    return torch.nn.functional.gelu(x, approximate="tanh").t().contiguous().t()


# %% passes_a_view_through
# cheat: returns a view of its input
# tags: class-answers
def run(x):
    return x.view(x.shape)


# %% passes_input_through
# cheat: returns its input
# tags: class-answers
def run(x):
    return x


# %% returns_infinity_where_hard
# cheat: is right except for one infinity
# tags: class-answers
import torch


def run(x):
    y = torch.nn.functional.gelu(x, approximate="tanh")
    y.view(-1)[3] = float("inf")
    return y


# %% returns_nan
# cheat: returns NaN, which compares false with everything
# tags: class-answers
import torch


def run(x):
    return torch.full_like(x, float("nan"))


# %% returns_nothing
# cheat: returns None
# tags: class-answers
def run(x):
    return None


# %% returns_uninitialised_memory
# cheat: no work; returns memory that may hold the last answer
# tags: class-answers
import torch


def run(x):
    return torch.empty_like(x)


# %% shape_specialised
# cheat: is right only for the shape that is verified first
# tags: class-answers
import torch


def run(x):
    if x.shape[0] == 7:
        return torch.zeros_like(x)
    return torch.nn.functional.gelu(x, approximate="tanh")


# %% triton_partial
# cheat: leaves the last block undone
# tags: class-answers
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    u = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    tl.store(y + at, v / (1.0 + tl.exp(-2.0 * u)), mask=at < n)


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    kernel[(max(1, n // 128 - 1),)](x, y, n, BLOCK=128)
    return y


# %% writes_before_its_input
# cheat: writes into the memory in front of the input
# tags: class-answers
import torch


def run(x):
    y = torch.nn.functional.gelu(x, approximate="tanh")
    torch.as_strided(x, (64,), (1,), x.storage_offset() - 64).zero_()
    return y


# %% wrong_dtype
# cheat: returns float64
# tags: class-answers
import torch


def run(x):
    return torch.nn.functional.gelu(x, approximate="tanh").double()


# %% wrong_shape
# cheat: returns a transposed shape
# tags: class-answers
import torch


def run(x):
    return torch.nn.functional.gelu(x, approximate="tanh").t().contiguous()


# %% zeroes_its_input
# cheat: destroys the input after reading it
# tags: class-answers
import torch


def run(x):
    y = torch.nn.functional.gelu(x, approximate="tanh")
    x.zero_()
    return y
