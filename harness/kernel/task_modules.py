"""Task modules: what a submission to GPU MODE imports from its task's folder, which is not there when it runs here.

    from task import input_t, output_t
    from utils import DisableCuDNNTF32, make_match_reference

The names exist only while the text is loaded; nothing else from a task's folder does.
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

TASK, UTILS = "task", "utils"


@contextlib.contextmanager
def exact_convolutions() -> Iterator[None]:
    """CuDNN without TF32 and with one result for one input."""
    from torch.backends import cudnn

    with cudnn.flags(enabled=cudnn.enabled, benchmark=cudnn.benchmark, deterministic=True, allow_tf32=False):
        yield


def match(reference: Callable[[Any], Any], rtol: float = 1e-5, atol: float = 1e-8) -> Callable[[Any, Any], Any]:
    """A check of one output tensor against a reference's, for texts that make one while they are loaded."""

    def check(data: Any, output: Any) -> tuple[bool, str]:
        import torch

        same = torch.allclose(output, reference(data), rtol=rtol, atol=atol)
        return same, "" if same else "the output differs from the reference's"

    return check


@contextlib.contextmanager
def task_modules() -> Iterator[None]:
    """Make `task` and `utils` importable, whatever else may have these names."""
    before = {name: sys.modules.get(name) for name in (TASK, UTILS)}
    task, utils = types.ModuleType(TASK), types.ModuleType(UTILS)
    vars(task).update(input_t=Any, output_t=Any)
    vars(utils).update(DisableCuDNNTF32=exact_convolutions, make_match_reference=match)
    sys.modules.update({TASK: task, UTILS: utils})
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module
