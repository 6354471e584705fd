"""A user's code: it is imported, called and described here, and whatever it raises becomes one line."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

from kbench.benchmark.problems.check import first_line
from kbench.benchmark.problems.definition import Tolerance, as_tuple, upcast
from kbench.benchmark.problems.inputs import ITEM_BYTES, Fill, InputSpec, ScalarSpec, TensorSpec
from kbench.benchmark.problems.lazy_torch import torch
from kbench.schemas import MissingDependencyError, UserError

USER_FACTS = "KBENCH_PROBLEM_FACTS"
"""Environment variable that tells the processes that plan and verify what running a file's model has shown."""
LEAST_TOLERANCES = {"float64": 1e-7, "float32": 1e-4, "float16": 1e-2, "bfloat16": 2e-2, "float8_e4m3fn": 0.13}
"""Smallest tolerance of a problem that states none, relative to the size of its outputs, by the coarsest of their
types; other types must agree exactly."""
ERROR_FACTOR = 16.0
"""Times the error of a reference that a kernel may have: another order of the same sums can cost as much."""


def import_file(path: Path) -> ModuleType:
    """Import a file under a name of its own; its source stays readable for the prompt."""
    name = f"kbench_user_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UserError(f"{path.name}: not a Python file; give a file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    attempt(path, "importing it", spec.loader.exec_module, module)
    return module


def attempt(path: Path, what: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a user's function on the CPU; whatever it raises becomes one line that names file, step and cause."""
    try:
        with on_cpu():
            return function(*args, **kwargs)
    except UserError:
        raise
    except ModuleNotFoundError as error:
        if error.name in ("torch", "triton"):
            raise MissingDependencyError(error.name, "gpu", f"{path.name}: {what}") from None
        raise UserError(f"{path.name}: {what} needs the package {error.name!r}; install it") from None
    except Exception as error:
        raise UserError(f"{path.name}: {what} raised {type(error).__name__}: {first_line(error)}") from error


def required(path: Path, module: ModuleType, name: str) -> Any:
    """A function or class that the file must define."""
    attribute = getattr(module, name, None)
    if not callable(attribute):
        raise UserError(f"{path.name}: {name!r} is missing or not callable; define it as the format asks")
    return attribute


def identifier(text: str) -> str:
    """A problem id made of a file's or folder's name."""
    name = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
    return name if name[:1].isalpha() else f"problem_{name}"


def input_spec(path: Path, name: str, value: Any, fill: Fill) -> InputSpec:
    """The specification of a drawn value."""
    if isinstance(value, torch.Tensor):
        refuse_nan(path, name, value)
        return TensorSpec(name, tuple(value.shape), _dtype(path, name, value), fill)
    if isinstance(value, int | float):
        return ScalarSpec(name, value)
    raise UserError(f"{path.name}: input {name!r} is a {type(value).__name__}; inputs are tensors or numbers")


def refuse_nan(path: Path, name: str, value: Any) -> None:
    """Refuse an input that holds NaN, which is nearly always memory that nobody has filled."""
    if value.is_floating_point() and value.element_size() > 1 and bool(value.isnan().any()):
        raise UserError(f"{path.name}: input {name!r} holds NaN, so no answer can be judged; draw it with torch.randn")


def output_specs(path: Path, outputs: Any) -> tuple[TensorSpec, ...]:
    """The specifications of what a reference returned."""
    values = tuple(outputs) if isinstance(outputs, tuple | list) else (outputs,)
    names = ["y"] if len(values) == 1 else [f"y{i}" for i in range(len(values))]
    specs = []
    for name, value in zip(names, values, strict=True):
        if not isinstance(value, torch.Tensor):
            raise UserError(f"{path.name}: the reference returns a {type(value).__name__}, expected tensors")
        specs.append(TensorSpec(name, tuple(value.shape), _dtype(path, name, value)))
    if not specs:
        raise UserError(f"{path.name}: the reference returns an empty tuple, expected at least one tensor")
    return tuple(specs)


def _type_name(value: Any) -> str:
    return str(value.dtype).removeprefix("torch.")


def _dtype(path: Path, name: str, value: Any) -> str:
    dtype = _type_name(value)
    if dtype not in ITEM_BYTES:
        raise UserError(f"{path.name}: {name!r} has dtype {dtype}; supported are {', '.join(ITEM_BYTES)}")
    return dtype


def derived_tolerance(reference: Callable[..., Any], inputs: Sequence[Any], outputs: Any) -> Tolerance:
    """A tolerance for a problem that states none: from the error of its reference in its own precision."""
    floats = [at for at, value in enumerate(as_tuple(outputs)) if value.is_floating_point()]
    least = max((LEAST_TOLERANCES[_type_name(as_tuple(outputs)[at])] for at in floats), default=0.0)
    if not floats:
        return Tolerance(0.0, 0.0, "exact: no float outputs")
    with on_cpu():
        expected = as_tuple(reference(*(upcast(value) for value in inputs)))
    sizes, errors, shares = [], [], []
    for at in floats:
        want = expected[at].double()
        error = torch.where(want.isfinite(), (as_tuple(outputs)[at].double() - want).abs(), 0.0).nan_to_num()
        want = want.nan_to_num(0.0, 0.0, 0.0)
        sizes.append(float(want.square().mean().sqrt()))
        errors.append(float(error.max()))
        shares.append(float((error / (sizes[-1] + want.abs()).clamp_min(1e-300)).max()))
    rtol = _up(max(least, ERROR_FACTOR * max(shares)))
    # Outputs that lie near zero by chance are no more precise than the others.
    atol = _up(max(rtol * min(sizes), ERROR_FACTOR * max(errors)))
    reason = (
        f"none is stated: {ERROR_FACTOR:g} times the error of the reference in its own precision, which is up to "
        f"{max(shares):.2g} of outputs of size {min(sizes):.3g}, and at least {least:g} of their size"
    )
    return Tolerance(atol, rtol, reason)


def _up(value: float) -> float:
    """The next number with one digit: the last ones of an error differ from machine to machine."""
    if not 0.0 < value < math.inf:
        return 0.0
    unit = 10.0 ** math.floor(math.log10(value))
    return float(f"{math.ceil(value / unit - 1e-9) * unit:.0e}")


@contextlib.contextmanager
def on_cpu() -> Iterator[None]:
    """Tensors and generators that are asked for on `cuda` are made on the CPU; torch finds no GPU.

    GPU MODE tasks draw their inputs on `cuda`. Processes that plan have no GPU, and one that forks workers must not
    touch it. Drawn on the CPU, inputs are also the same in every process.
    """
    import torch  # The module itself, whose names are replaced, not the stand-in that loads it.

    mode, generator = _replacements()
    with (
        mode(),
        mock.patch.object(torch, "Generator", generator),
        mock.patch.object(torch.cuda, "is_available", return_value=False),
    ):
        yield


@functools.cache
def _replacements() -> tuple[type[contextlib.AbstractContextManager[Any]], type]:
    import torch
    from torch.overrides import TorchFunctionMode

    class OnCpu(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.Tensor.cuda:
                return args[0]
            named = {name: _elsewhere(value) for name, value in (kwargs or {}).items()}
            return func(*map(_elsewhere, args), **named)

    class Generator(torch.Generator):
        def __new__(cls, device: Any = "cpu") -> Generator:
            return super().__new__(cls, device=_elsewhere(device))  # type: ignore[call-arg]

    return OnCpu, Generator


def _elsewhere(value: Any) -> Any:
    """The CPU where a value names a GPU; any other value as it is."""
    import torch

    is_name = isinstance(value, str | torch.device)
    return "cpu" if is_name and str(value).partition(":")[0] == "cuda" else value
