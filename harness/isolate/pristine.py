"""Pristine: notices when a kernel has replaced functions that judging relies on.

A snapshot of what names meant before the kernel was loaded is compared with what they mean when its answers are about
to be judged. New names are fine; a function, method or class that was there must still be the same object with the
same code.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

DEEP = ("collections", "contextlib", "dataclasses", "functools", "hashlib", "hmac", "itertools", "json",
        "math", "random", "statistics", "struct", "time")  # fmt: skip
"""Modules that judging relies on whose own classes are inspected."""
MODULES = ("builtins", "gc", "socket", "sys", "torch", "torch.cuda", "torch.cuda.streams", "torch.cuda.memory",
           "torch.nn.functional", "torch.random", *DEEP)  # fmt: skip
OWN = "kbench."
CONSTANTS = (bool, int, float, str, bytes, tuple, frozenset)
"""What else is checked of our own modules: thresholds and sizes are as good a target as functions."""
CHECKED = (types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType, types.GetSetDescriptorType,
           types.WrapperDescriptorType, type, property, staticmethod, classmethod)  # fmt: skip
CHANGEABLE = frozenset({"builtins._", "sys.last_value", "sys.last_type", "torch.manual_seed"})
"""The last is replaced by importing torch's compiler, as the profiler does; torch.random has the function, too."""


class Pristine:
    """A snapshot taken before foreign code runs."""

    def __init__(self) -> None:
        """Take the snapshot."""
        self._names = dict(_entries())

    def changed(self) -> str | None:
        """The first name that no longer means what it did; None when all do."""
        if sys.getprofile() is not None or sys.gettrace() is not None:
            return "a profile or trace function was set"
        now = dict(_entries())
        # A name added to a class hides the one it inherits.
        added = next((name for name in now if name not in self._names and name.startswith("class ")), None)
        if added is not None:
            return f"{added} was added"
        for name, (before, code) in self._names.items():
            found = now.get(name)
            if found is None:
                return f"{name} was removed"
            if found[0] is not before:
                return f"{name} was replaced"
            if found[1] is not code:
                return f"the code of {name} was replaced"
        return None


def _entries() -> Iterator[tuple[str, tuple[Any, Any]]]:
    for name, module in list(sys.modules.items()):
        if isinstance(module, types.ModuleType) and (name in MODULES or name.startswith(OWN)):
            yield from _members(name, vars(module), deep=name in DEEP or name.startswith(OWN))
    for title, kind in _classes():
        yield from _members(f"class {title}", vars(kind), deep=False)


def _classes() -> Iterator[tuple[str, type]]:
    torch = sys.modules.get("torch")
    if torch is not None:
        yield "torch.Tensor", torch.Tensor
        yield "torch._C.TensorBase", torch._C.TensorBase
        event = getattr(sys.modules.get("torch.cuda"), "Event", None)
        if isinstance(event, type):
            yield "torch.cuda.Event", event


def _members(where: str, names: Any, *, deep: bool) -> Iterator[tuple[str, tuple[Any, Any]]]:
    checked = (*CHECKED, *CONSTANTS) if where.removeprefix("class ").startswith(OWN) else CHECKED
    for name, value in list(names.items()):
        title = f"{where}.{name}"
        if not isinstance(value, checked) or title in CHANGEABLE:
            continue
        yield title, (value, getattr(value, "__code__", None))
        if deep and isinstance(value, type) and (value.__module__ in DEEP or value.__module__.startswith(OWN)):
            # By this name, what is added to the class is noticed, too.
            yield from _members(f"class {title}", vars(value), deep=False)
