"""A hash of what a surrogate consists of: once it changes, earlier forecasts are no longer its own."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from kbench import __version__
from kbench.benchmark.surrogates.resolve import SurrogateTarget, entry_point
from kbench.schemas import UserError
from kbench.schemas.ids import content_hash

BUILT_IN_FOLDER = Path(__file__).parent
"""Built-ins share code and ship their models in this folder, so any file here is part of each."""


def signature(target: SurrogateTarget, arguments: Mapping[str, Any], *asked: str) -> str:
    """Changes when kbench, the surrogate's code, its model or an argument changes; nothing of it is run.

    Args:
        target: where the surrogate is found.
        arguments: its constructor's; one that names a file counts with the file's content.
        asked: what else decides the answers, such as the dataset.

    Raises:
        UserError: a file that an argument names cannot be read.
    """
    settings = [f"{key}={arguments[key]!r} {_named_file(key, arguments[key])}" for key in sorted(arguments)]
    code = [f"{path}: {_digest(path)}" for path in _code(target)]
    where = (target.kind, target.location, target.attribute)
    return content_hash("surrogate", __version__, *where, str(len(code)), *code, str(len(settings)), *settings, *asked)


def _code(target: SurrogateTarget) -> list[Path]:
    """The files a surrogate consists of, in a fixed order."""
    if target.parts:
        # How parts are combined is code of ours.
        whole = [SurrogateTarget(target.kind, "built_in", target.kind), *target.parts]
        return sorted({path for part in whole for path in _code(part)})
    if target.kind == "built_in":
        return sorted(path for path in BUILT_IN_FOLDER.rglob("*") if path.is_file() and path.suffix != ".pyc")
    if target.kind in ("file", "forecasts"):
        return [Path(target.location)]
    module = target.location if target.kind == "module" else entry_point(target.location).module
    return sorted(_module_files(module))


def _module_files(module: str) -> Iterator[Path]:
    """A module's own file, or every Python file of the package it lies in: its parts import one another.

    Only the outermost name is looked up: finding a part of a package runs the package.
    """
    outermost = module.partition(".")[0]
    # Where the worker looks: the current folder first. Editable installs may have a finder of their own.
    spec = PathFinder.find_spec(outermost, [os.getcwd(), *sys.path]) or importlib.util.find_spec(outermost)
    if spec is None:
        return
    for folder in spec.submodule_search_locations or ():
        yield from Path(folder).rglob("*.py")
    if not spec.submodule_search_locations and spec.origin is not None and os.path.isfile(spec.origin):
        yield Path(spec.origin)


def _named_file(key: str, value: Any) -> str:
    """The content of the file an argument names; nothing where it names none."""
    if not isinstance(value, str) or not os.path.isfile(value):
        return ""
    try:
        return _digest(Path(value))
    except OSError as error:
        raise UserError(f"--surrogate-arg {key} names {value!r}, which cannot be read ({error.strerror})") from None


def _digest(path: Path) -> str:
    # In pieces: weights may be larger than memory.
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
