"""Sources: kernel files as given on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kbench.benchmark.problems import problem
from kbench.harness.kernel.adapters import adapter_for, problem_of
from kbench.harness.kernel.raw import RawLaunch, wrap
from kbench.schemas import Backend, KernelSource, UserError

RAW = (".cu", ".cuh")


def read_kernel(
    path: Path, problem_id: str, backend: str | None = None, launch: RawLaunch | None = None
) -> KernelSource:
    """A file as a kernel.

    Args:
        path: the file.
        problem_id: the problem it solves; a published form may show that another suite's of that name is meant.
        backend: triton or cuda; by default cuda when the text uses CudaModule.
        launch: how a file of raw CUDA C++ is launched.

    Raises:
        UserError: the file cannot be read as text, or is plainly not of the backend given.
    """
    try:
        source = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read kernel file {str(path)!r}: {error}") from error
    if path.suffix in RAW:
        source = wrap(source, launch, problem(problem_id), path.name)
    elif launch is not None:
        raise UserError(f"--entry is for files of raw CUDA C++ ({', '.join(RAW)}); {path.name} has its own `run`")
    told = Backend.CUDA if "CudaModule" in source else Backend.TRITON
    chosen = Backend(backend) if backend else told
    if chosen is not told and adapter_for(source) is None:
        uses = "a" if told is Backend.CUDA else "no"
        raise UserError(f"{str(path)!r} is no {chosen} kernel: it uses {uses} CudaModule; leave --backend out")
    return KernelSource(problem_of(source, problem_id), chosen, source)


def read_kernels(
    paths: Sequence[Path], problem_id: str, backend: str | None = None, launch: RawLaunch | None = None
) -> list[tuple[str, KernelSource]]:
    """Files, and all Python files of folders, as kernels, each with its path."""
    found: list[Path] = []
    for path in paths:
        found += sorted(path.glob("*.py")) if path.is_dir() else [path]
    if not found:
        raise UserError(f"no Python files in {', '.join(map(str, paths))}")
    return [(str(path), read_kernel(path, problem_id, backend, launch)) for path in found]
