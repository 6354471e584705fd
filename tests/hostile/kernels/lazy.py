# %% address_check_computes
# cheat: asking for the output's address fills it: an attribute of a plain tensor hides the method
# tags: process-open
#@ torch_gelu_run
    y = torch.empty_like(x)

    def data_ptr():
        if "done" not in vars(y):
            y.done = True
            y.copy_(gelu(x))
        return torch.Tensor.data_ptr(y)

    y.data_ptr = data_ptr
    return y

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

# %% contiguity_check_computes
# cheat: asking whether the output is contiguous fills it: an attribute of a plain tensor hides the method
# tags: process-open
#@ torch_gelu_run
    y = torch.empty_like(x)

    def is_contiguous():
        if "done" not in vars(y):
            y.done = True
            y.copy_(gelu(x))
        return True

    y.is_contiguous = is_contiguous
    return y

# %% copying_computes
# cheat: clone and detach of this one tensor are its own: what is kept and compared is worked out late
# tags: process-open
#@ torch_gelu_run
    y = torch.empty_like(x)
    source = x.clone() if not hasattr(run, "timed") else x

    def late():
        return gelu(source)

    y.clone, y.detach = late, late
    y.reshape = lambda *shape: late().reshape(*shape)
    return y

# %% default_device_computes
# cheat: setting a default device installs a mode of torch's own, whose method on the instance pays debts
# tags: process-open
import torch
import torch.utils._device


def gelu(x):
    return torch.nn.functional.gelu(x, approximate="tanh")


owed = []


def run(x):
    if not hasattr(run, "mode"):
        class Context(torch.utils._device.DeviceContext):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                while owed:
                    late, y = owed.pop()
                    y.copy_(gelu(late))
                return func(*args, **(kwargs or {}))

        run.mode = Context(x.device)
        run.mode.__enter__()
    y = torch.empty_like(x)
    owed.append((x, y))
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

# %% function_mode_computes
# cheat: a function mode that stays on works out what is owed at the next call of torch's interface
# tags: process-open
import torch
from torch.overrides import TorchFunctionMode


def gelu(x):
    return torch.nn.functional.gelu(x, approximate="tanh")


owed = []


class Debt(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
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

# %% list_computes_when_iterated
# cheat: a list whose iterator computes, long after the end mark
#@ torch_gelu


class Later(list):
    def __iter__(self):
        return iter((gelu(self[0]),))


def run(x):
    return Later([x])

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

# %% selection_operator_lies
# cheat: an override of the operator behind where makes every error nought
# tags: process-open
#@ library_gelu
        library.impl("abs", lambda a: torch.zeros(a.shape, dtype=a.dtype, device=a.device), "CUDA" if x.is_cuda else "CPU")
    return torch.zeros_like(x)

# %% tuple_computes_when_iterated
# cheat: a tuple whose iterator computes, and hands out the same tensor ever after
#@ torch_gelu


class Later(tuple):
    def __iter__(self):
        if not hasattr(self, "done"):
            self.done = gelu(self[0])
        return iter((self.done,))


def run(x):
    return Later((x,))
