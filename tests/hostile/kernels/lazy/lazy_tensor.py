# cheat: a tensor subclass that computes when somebody looks
# tags: class-lazy
import torch


class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        args = tuple(torch.nn.functional.gelu(a.as_subclass(torch.Tensor), approximate="tanh") if isinstance(a, Lazy) else a for a in args)
        return func(*args, **(kwargs or {}))


def run(x):
    return x.clone().as_subclass(Lazy)
