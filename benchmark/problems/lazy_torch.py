"""`torch`, `F` and torch's types for the problem files, imported on first use: listing problems must not need torch."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from kbench.schemas.errors import MissingDependencyError

if TYPE_CHECKING:
    import torch
    import torch.nn.functional as F  # noqa: N812 - the name every torch user knows
    from torch import Generator, Tensor
else:

    class _LazyModule:
        def __init__(self, name: str) -> None:
            self._name = name

        def __getattr__(self, attribute: str) -> Any:
            try:
                module = importlib.import_module(self._name)
            except ImportError:
                raise MissingDependencyError("torch", "gpu", "running a reference") from None
            return getattr(module, attribute)

    torch = _LazyModule("torch")
    F = _LazyModule("torch.nn.functional")
    # Annotations alone name them, and those are not evaluated.
    Generator = Tensor = Any

__all__ = ["F", "Generator", "Tensor", "torch"]
