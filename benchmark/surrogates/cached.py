"""`kbench.cached`: results of an author's functions are kept on disk, so that an edit elsewhere costs no second fit.

A result is found again while its arguments, the function, what it uses of its file, and the versions of the packages
it uses are the same. Results lie beside the file that defines the function, where a surrogate may write.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import pickle
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from kbench.loaders.storage.atomic import write_atomically

P = ParamSpec("P")
R = TypeVar("R")
FOLDER = "__kbench_cache__"
MOST_FILES = 40
"""Results that are kept beside one file; those not used for the longest time go first."""
MOST_BYTES = 200 * 10**6
"""What they may take in all; the newest result stays, however large it is."""
WORTH_S = 0.1
"""Seconds from which a result is kept: the many small ones that forecasting makes would displace a fit."""


def cached(function: Callable[P, R]) -> Callable[P, R]:
    """Keep a function's results on disk between runs.

    It is for slow functions of plain arguments: features of a list of sources, a model fitted to rows and labels. Both
    must be what `pickle` takes. An argument or result that it does not take is computed every time, and so is a result
    that takes less than a tenth of a second.
    """

    @functools.wraps(function)
    def remembered(*args: P.args, **kwargs: P.kwargs) -> R:
        file = _file_of(function, args, kwargs)
        if file is not None and file.is_file():
            try:
                result: R = pickle.loads(file.read_bytes())
            except Exception:  # noqa: BLE001 - a damaged or outdated file, whatever it raises, is computed again
                file.unlink(missing_ok=True)
            else:
                os.utime(file)
                return result
        began = time.monotonic()
        computed = function(*args, **kwargs)
        if file is not None and time.monotonic() - began >= WORTH_S:
            _keep(file, computed)
        return computed

    return remembered


def _file_of(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Path | None:
    """Where the result of a call lies; None for arguments that cannot be told apart."""
    try:
        pickled = pickle.dumps((args, sorted(kwargs.items())))
        source = inspect.getsourcefile(function)
    except Exception:  # noqa: BLE001 - pickling runs code of the arguments' types
        return None
    if source is None:
        return None
    total = hashlib.blake2b(pickled, digest_size=16)
    for part in _parts(function, set()):
        total.update(f"{len(part)}:{part}".encode("utf-8", "replace"))
    return Path(source).with_name(FOLDER) / f"{function.__name__}-{total.hexdigest()}.pickle"


def _parts(thing: Any, seen: set[int]) -> Iterator[str]:
    """What a function or class is made of: its text, and that of whatever else of its file it names."""
    thing = inspect.unwrap(thing)
    if id(thing) in seen:
        return
    seen.add(id(thing))
    try:
        yield inspect.getsource(thing)
    except (OSError, TypeError):
        yield repr(thing)
    module = sys.modules.get(getattr(thing, "__module__", "") or "")
    own = getattr(thing, "__globals__", None) or vars(module or object)
    for name in sorted(_names(thing)):
        value = own.get(name, seen)
        if isinstance(value, types.ModuleType):
            yield _version(value.__name__)
        elif isinstance(value, types.FunctionType | type) or hasattr(value, "__wrapped__"):
            if getattr(value, "__module__", None) == getattr(thing, "__module__", None):
                yield from _parts(value, seen)
            else:
                yield f"{value.__module__}.{value.__qualname__} {_version(value.__module__)}"
        elif value is not seen:
            yield f"{name} = {value!r}"


def _names(thing: Any) -> set[str]:
    """Names that the code of a function, or of a class's methods, looks up."""
    if isinstance(thing, type):
        return {name for value in vars(thing).values() if callable(value) for name in _names(inspect.unwrap(value))}
    codes, names = [getattr(thing, "__code__", None)], set[str]()
    while codes:
        code = codes.pop()
        if code is not None:
            names |= set(code.co_names)
            codes += [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return names


def _version(module: str) -> str:
    package = module.partition(".")[0]
    return f"{package} {getattr(sys.modules.get(package), '__version__', '')}"


def _keep(file: Path, result: Any) -> None:
    """Write a result, and remove what was not used for the longest time; a full disk or odd type keeps nothing."""
    try:
        data = pickle.dumps(result)
        file.parent.mkdir(exist_ok=True)
        (file.parent / ".gitignore").write_text("*\n")
        write_atomically(file, data)
        stored = sorted(file.parent.glob("*.pickle"), key=lambda path: path.stat().st_mtime, reverse=True)
        total = 0
        for number, path in enumerate(stored):
            total += path.stat().st_size
            if number >= MOST_FILES or (number and total > MOST_BYTES):
                path.unlink(missing_ok=True)
    except Exception:  # noqa: BLE001 - pickling runs code of the result's type, and a cache is no reason to fail
        return
