# %% clone_operator_computes
# cheat: an override of the operator clone fills in what the audit copies
import torch
import torch.library


def gelu(x):
    return torch.nn.functional.gelu(x, approximate="tanh")


owed = {}
library = torch.library.Library("aten", "IMPL")


def clone(tensor, memory_format=None):
    if tensor.data_ptr() in owed:
        return gelu(owed.pop(tensor.data_ptr()))
    copy = torch.empty_like(tensor)
    return copy.copy_(tensor)


def run(x):
    if not owed:
        owed[0] = None
        library.impl("clone", clone, "CUDA" if x.is_cuda else "CPU")
    run.calls = getattr(run, "calls", 0) + 1
    if run.calls < 10:
        return gelu(x)
    y = torch.empty_like(x)
    owed[y.data_ptr()] = x
    return y

# %% dispatch_mode_computes
# cheat: a dispatch mode that stays on works out what is owed before the next operator runs
# tags: process-open
import torch
from torch.utils._python_dispatch import TorchDispatchMode


def gelu(x):
    return torch.nn.functional.gelu(x, approximate="tanh")


owed = []


class Debt(TorchDispatchMode):
    @classmethod
    def _should_skip_dynamo(cls):
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
#@ owes_answers

# %% lazy_tensor
# cheat: a tensor subclass that computes when somebody looks
import torch


class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        args = tuple(torch.nn.functional.gelu(a.as_subclass(torch.Tensor), approximate="tanh") if isinstance(a, Lazy) else a for a in args)
        return func(*args, **(kwargs or {}))


def run(x):
    return x.clone().as_subclass(Lazy)

# %% less_or_equal_operator_lies
# cheat: an override of the operator behind <= says that every error is within bounds
# tags: process-open
#@ library_gelu
        library.impl("le.Tensor", lambda a, b: torch.ones(a.shape, dtype=torch.bool, device=a.device), "CUDA" if x.is_cuda else "CPU")
    return torch.zeros_like(x)

# %% list_fills_at_its_second_reading
# cheat: the form is shown at the first reading; numbers are filled in at the second, which makes the copy
#@ torch_gelu


class Later(list):
    readings = 0

    def __iter__(self):
        self.readings += 1
        if self.readings > 1:
            self.y.copy_(gelu(self.x))
        return iter((self.y,))


def run(x):
    later = Later()
    later.x, later.y = x, torch.empty_like(x)
    return later
