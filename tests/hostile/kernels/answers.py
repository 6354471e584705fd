# %% approximates
# cheat: a cheaper formula that is nearly right
#@ torch_run
    return x * torch.sigmoid(1.702 * x)

# %% computes_in_bfloat16
# cheat: bfloat16 inside a float32 problem
#@ torch_run
    return torch.nn.functional.gelu(x.bfloat16(), approximate="tanh").float()

# %% computes_in_half
# cheat: float16 inside a float32 problem
#@ torch_run
    return torch.nn.functional.gelu(x.half(), approximate="tanh").float()

# %% computes_over_its_input
# cheat: launches in place and returns a copy
#@ gelu_triton
    n = x.numel()
    kernel[(triton.cdiv(n, 256),)](x, x, n, BLOCK=256)
    return x.contiguous()

# %% constant_one_half
# cheat: returns a constant near the mean
#@ torch_run
    return torch.full_like(x, 0.5)

# %% constant_zero
# cheat: returns zeros
#@ torch_run
    return torch.zeros_like(x)

# %% copies_its_input
# cheat: returns a copy of its input
#@ torch_run
    return x.clone()

# %% launches_into_a_scratch_buffer
# cheat: computes into a buffer nobody sees and returns another
#@ gelu_triton
#@ outputs
    kernel[(triton.cdiv(n, 256),)](x, y, n, BLOCK=256)
    return torch.empty_like(x)

# %% mutates_its_input
# cheat: writes its answer over the input
#@ torch_run
    y = torch.nn.functional.gelu(x, approximate="tanh")
    x.copy_(y)
    return y

# %% never_launches_its_kernel
# cheat: has a kernel, and returns memory without launching it
#@ gelu_triton
    return torch.empty_like(x)

# %% nondeterministic
# cheat: is right every other call
#@ counts_calls
    y = torch.nn.functional.gelu(x, approximate="tanh")
    return y if calls[0] % 2 else y + torch.rand_like(y)

# %% not_contiguous
# cheat: returns a strided view
#@ torch_run
    return torch.nn.functional.gelu(x, approximate="tanh").t().contiguous().t()

# %% passes_a_view_through
# cheat: returns a view of its input
def run(x):
    return x.view(x.shape)

# %% passes_input_through
# cheat: returns its input
def run(x):
    return x

# %% returns_infinity_where_hard
# cheat: is right except for one infinity
#@ torch_run
    y = torch.nn.functional.gelu(x, approximate="tanh")
    y.view(-1)[3] = float("inf")
    return y

# %% returns_nan
# cheat: returns NaN, which compares false with everything
#@ torch_run
    return torch.full_like(x, float("nan"))

# %% returns_nothing
# cheat: returns None
def run(x):
    return None

# %% returns_uninitialised_memory
# cheat: no work; returns memory that may hold the last answer
#@ torch_run
    return torch.empty_like(x)

# %% shape_specialised
# cheat: is right only for the shape that is verified first
#@ torch_run
    if x.shape[0] == 7:
        return torch.zeros_like(x)
    return torch.nn.functional.gelu(x, approximate="tanh")

# %% triton_partial
# cheat: leaves the last block undone
#@ gelu_triton
#@ outputs
    kernel[(max(1, n // 128 - 1),)](x, y, n, BLOCK=128)
    return y

# %% writes_before_its_input
# cheat: writes into the memory in front of the input
#@ torch_run
    y = torch.nn.functional.gelu(x, approximate="tanh")
    torch.as_strided(x, (64,), (1,), x.storage_offset() - 64).zero_()
    return y

# %% wrong_dtype
# cheat: returns float64
#@ torch_run
    return torch.nn.functional.gelu(x, approximate="tanh").double()

# %% wrong_shape
# cheat: returns a transposed shape
#@ torch_run
    return torch.nn.functional.gelu(x, approximate="tanh").t().contiguous()

# %% zeroes_its_input
# cheat: destroys the input after reading it
#@ torch_run
    y = torch.nn.functional.gelu(x, approximate="tanh")
    x.zero_()
    return y
