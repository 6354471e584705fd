"""Switches: settings of torch that decide how fast and how exactly it computes.

Unscreened kernels set them for themselves, TF32 first of all. What they are compared with runs with the harness's own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class Switch:
    """One setting."""

    read: Callable[[], Any]
    write: Callable[[Any], object]

    def value(self) -> Any:
        """What it is set to; None when torch cannot tell, because two of its own ways to set it were mixed."""
        try:
            return self.read()
        except RuntimeError:
            return None


class Switches:
    """All settings, as they are when this is made."""

    def __init__(self) -> None:
        """Keep torch's current settings, and the functions that set them, before foreign code could replace them."""
        self._switches = find_switches()
        self._ours = self._values()

    def _values(self) -> list[Any]:
        return [switch.value() for switch in self._switches]

    def _set(self, values: list[Any]) -> None:
        for switch, value in zip(self._switches, values, strict=True):
            if value is not None and value != switch.value():
                switch.write(value)

    def restore(self) -> None:
        """Restore the settings torch had when this was made."""
        self._set(self._ours)

    @contextlib.contextmanager
    def ours(self) -> Iterator[None]:
        """Inside, torch has the settings it had when this was made; afterwards, its current ones again."""
        theirs = self._values()
        self.restore()
        try:
            yield
        finally:
            self._set(theirs)


def find_switches() -> list[Switch]:
    """The settings this version of torch has."""
    import torch

    core, cuda = torch._C, torch.backends.cuda
    matmul: Any = cuda.matmul
    found = [
        Switch(getattr(core, f"_get_{name}"), getattr(core, f"_set_{name}"))
        for name in ("cublas_allow_tf32", "cudnn_allow_tf32", "cudnn_enabled", "cudnn_benchmark", "cudnn_deterministic")
        if hasattr(core, f"_get_{name}")
    ]
    found += [
        Switch(functools.partial(getattr, matmul, name), functools.partial(setattr, matmul, name))
        for name in ("allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction")
    ]
    found += [
        Switch(getattr(cuda, f"{name}_sdp_enabled"), getattr(cuda, f"enable_{name}_sdp"))
        for name in ("flash", "mem_efficient", "math", "cudnn")
        if hasattr(cuda, f"{name}_sdp_enabled")
    ]
    return [
        *found,
        Switch(torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
        Switch(torch.get_default_dtype, torch.set_default_dtype),
        Switch(torch.is_grad_enabled, torch.set_grad_enabled),
        Switch(lambda: torch.is_autocast_enabled("cuda"), lambda value: torch.set_autocast_enabled("cuda", value)),
        Switch(lambda: torch.is_autocast_enabled("cpu"), lambda value: torch.set_autocast_enabled("cpu", value)),
    ]
