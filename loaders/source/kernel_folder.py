"""Kernels as files of a folder, named PROBLEM__BACKEND__NAME.py."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from kbench.schemas import Backend, DataError, UserError

SEPARATOR = "__"


@dataclasses.dataclass(frozen=True, slots=True)
class KernelFile:
    """A kernel file named PROBLEM__BACKEND__NAME.py."""

    problem_id: str
    backend: Backend
    name: str
    source: str


def read_folder(folder: Path) -> list[KernelFile]:
    """Every kernel file of a folder, sorted by name."""
    paths = sorted(folder.glob("*.py"))
    if not paths:
        raise UserError(f"no kernels in {str(folder)!r}; expected files named <problem>__<backend>__<name>.py")
    return [_read(path) for path in paths]


def _read(path: Path) -> KernelFile:
    problem_id, _, rest = path.stem.partition(SEPARATOR)
    backend, _, name = rest.partition(SEPARATOR)
    if backend not in ("triton", "cuda") or not name:
        raise DataError(f"{path.name!r} is not named <problem>__<triton|cuda>__<name>.py; rename it")
    try:
        source = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise DataError(f"{path.name!r} is not UTF-8 text; save it as UTF-8") from None
    return KernelFile(problem_id, Backend(backend), name, source)
