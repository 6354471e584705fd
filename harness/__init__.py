"""Plan, verify, time, audit and record kernels on local CUDA hardware.

Reads from top to bottom; each part imports those below it only:

cli, commands    what `kbench measure`, `compare`, `doctor` and the others do
harness          kernels in, measurements out; record makes a record of a worker's result
queue            jobs on their way through planning processes and devices, and what becomes of each that dies or hangs
worker           the processes: one that plans, one that carries out plans, one that holds the answers
plan             host code becomes data: recorded, checked, cached, replayed
audit            timed calls that are judged, and second looks at a suspicious kernel
timing, verify   how long a call takes; whether its answer is correct
bench            what kernels of a problem share on a device: inputs, answers, the judge
kernel           a kernel's text as a module, in our form or another suite's
device, isolate  the GPU and its driver; sandboxes, limits and messages

Beside this path: `cuda`, by which kernels launch CUDA C++; `callables`, which times any function in the caller's
process; `prune`, a hook for `triton.autotune`; `workloads`, the sizes that are measured; and `settings`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kbench.harness.commands.measure import KernelJudge as KernelJudge
    from kbench.harness.harness import Harness as Harness

_PLACES = {"Harness": "kbench.harness.harness", "KernelJudge": "kbench.harness.commands.measure"}


def __getattr__(name: str) -> Any:
    # Lazy: a kernel that imports `kbench.harness.cuda` must not load the harness.
    if name in _PLACES:
        return getattr(importlib.import_module(_PLACES[name]), name)
    raise AttributeError(f"module 'kbench.harness' has no attribute {name!r}")
