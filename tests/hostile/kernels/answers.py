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

# %% never_launches_its_kernel
# cheat: has a kernel, and returns memory without launching it
#@ gelu_triton
    return torch.empty_like(x)

# %% nondeterministic
# cheat: is right every other call
#@ counts_calls
    y = torch.nn.functional.gelu(x, approximate="tanh")
    return y if calls[0] % 2 else y + torch.rand_like(y)

# %% passes_input_through
# cheat: returns its input
def run(x):
    return x

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

# %% triton_partial
# cheat: leaves the last block undone
#@ gelu_triton
#@ outputs
    kernel[(max(1, n // 128 - 1),)](x, y, n, BLOCK=128)
    return y
