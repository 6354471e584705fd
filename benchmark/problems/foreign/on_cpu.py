"""Run a user's code with the CPU in the GPU's place, where it names `cuda` as a device.

GPU MODE tasks draw their inputs on `cuda`. Processes that plan have no GPU, and one that forks workers must not touch
it. Drawn on the CPU, inputs are also the same in every process.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any
from unittest import mock


@contextlib.contextmanager
def on_cpu() -> Iterator[None]:
    """Tensors and generators that are asked for on `cuda` are made on the CPU; torch finds no GPU."""
    import torch

    mode, generator = _replacements()
    with (
        mode(),
        mock.patch.object(torch, "Generator", generator),
        mock.patch.object(torch.cuda, "is_available", return_value=False),
    ):
        yield


@functools.cache
def _replacements() -> tuple[type[contextlib.AbstractContextManager[Any]], type]:
    import torch
    from torch.overrides import TorchFunctionMode

    class OnCpu(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.Tensor.cuda:
                return args[0]
            named = {name: _elsewhere(value) for name, value in (kwargs or {}).items()}
            return func(*map(_elsewhere, args), **named)

    class Generator(torch.Generator):
        def __new__(cls, device: Any = "cpu") -> Generator:
            return super().__new__(cls, device=_elsewhere(device))  # type: ignore[call-arg]

    return OnCpu, Generator


def _elsewhere(value: Any) -> Any:
    """The CPU where a value names a GPU; any other value as it is."""
    import torch

    is_name = isinstance(value, str | torch.device)
    return "cpu" if is_name and str(value).partition(":")[0] == "cuda" else value
