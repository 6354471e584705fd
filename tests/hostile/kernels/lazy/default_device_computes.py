# cheat: setting a default device installs a mode of torch's own, whose method on the instance pays debts
# tags: class-lazy process-open
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
