"""Loading a kernel: its text becomes a module with a `run` function, without touching the disk."""

from __future__ import annotations

import contextlib
import linecache
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kbench.harness.kernel.adapters import CUSTOM, adapt, adapter_for
from kbench.schemas import Backend, KernelSource, UserError

MODULE_PREFIX = "kbench_kernel_"
"""How the names of kernels' modules, and of their files, begin."""
TASK, UTILS = "task", "utils"


EXTENSION_JOBS = 8
"""Compilers that build one torch extension at a time."""


def kernel_of(message: Mapping[str, Any]) -> KernelSource:
    """The kernel whose fields a message has among others."""
    stated = message["workloads_json"]
    return KernelSource(message["problem_id"], Backend(message["backend"]), message["source"], stated)


def extension_variables(folder: str, target: str) -> dict[str, str]:
    """Environment under which a torch extension is built once and found again."""
    return {"TORCH_EXTENSIONS_DIR": folder, "TORCH_CUDA_ARCH_LIST": target, "MAX_JOBS": str(EXTENSION_JOBS)}


class LoadError(Exception):
    """The text is not a loadable kernel; the message is what the kernel's author needs to read."""


def compiler_errors(text: str) -> str:
    """What torch says of an extension that does not build, without the commands that it ran."""
    first, *lines = text.splitlines() or [""]
    wrong = [line.strip() for line in lines if "error" in line.lower()]
    return "; ".join([first.partition(": [")[0], *wrong]) if first.startswith("Error building") and wrong else text


class LoadedKernel:
    """A kernel's module, alive until `unload`."""

    def __init__(self, kernel: KernelSource) -> None:
        """Execute the kernel's module-level code.

        Raises:
            LoadError: the text does not parse, fails while loading, defines no `run`, or is of a published form and
                solves another problem than ours.
        """
        self.kernel_id = kernel.kernel_id
        # The same in every process: Triton hashes it, so build and run must agree.
        self.name = f"{MODULE_PREFIX}{self.kernel_id}"
        self.file = f"{self.name}.py"
        self.module = types.ModuleType(self.name)
        lines = kernel.source.splitlines(keepends=True)
        # Triton reads a function's source back through linecache; a null mtime keeps the entry from being dropped.
        linecache.cache[self.file] = (len(kernel.source), None, lines, self.file)
        sys.modules[self.name] = self.module
        imports = task_modules() if adapter_for(kernel.source) == CUSTOM else contextlib.nullcontext()
        try:
            with imports:
                exec(compile(kernel.source, self.file, "exec"), self.module.__dict__)
        except Exception as error:
            self.unload()
            # The file's own name is not known here, and that of its module means nothing to its author.
            text = compiler_errors(str(error)).replace(self.file, "the kernel's file")
            raise LoadError(f"{type(error).__name__}: {text}") from error
        try:
            run = self.module.__dict__.get("run") or adapt(self.module.__dict__, kernel.problem_id)
        except UserError as error:
            self.unload()
            raise LoadError(str(error)) from error
        if not callable(run):
            self.unload()
            raise LoadError("defines no function `run`")
        self.run: Callable[..., Any] = run

    def unload(self) -> None:
        """Forget the module, so that its device code can be freed."""
        sys.modules.pop(self.name, None)
        linecache.cache.pop(self.file, None)
        self.module.__dict__.clear()


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
    """Make `task` and `utils` importable, which a submission to GPU MODE takes from its task's folder.

    The names exist only while the text is loaded; nothing else from a task's folder does.
    """
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
