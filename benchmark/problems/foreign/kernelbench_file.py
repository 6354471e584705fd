"""KernelBench problem files: `Model`, `get_inputs` and, where the model has arguments, `get_init_inputs`.

Parameters and buffers of the model become inputs after those of `get_inputs`, in the order of its state dict: a kernel
must be handed the weights it needs. Those that a layer starts with all alike (ones, zeros) are drawn around their
value, because a kernel that leaves them out would be right. Everything else the model holds is closed over by the
reference.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.foreign.user_code import (
    USER_FACTS,
    attempt,
    derived_tolerance,
    identifier,
    input_spec,
    output_specs,
    required,
)
from kbench.benchmark.problems.inputs import Fill, TensorSpec
from kbench.benchmark.problems.lazy_torch import torch
from kbench.schemas import KbenchError, UserError
from kbench.schemas.ids import content_hash

if TYPE_CHECKING:
    from torch import Generator, Tensor


FACTS_VERSION = "1"
"""Of what is kept about a file; the rule of a tolerance changes it."""
SPREAD = 0.25
"""How far values that were all alike are drawn from theirs; variances stay positive."""


class KernelBenchFile:
    """The three functions of a file, run under a seed."""

    def __init__(self, path: Path, module: ModuleType) -> None:
        self.path = path
        self.model_class = required(path, module, "Model")
        self.get_inputs = required(path, module, "get_inputs")
        self.get_init_inputs = getattr(module, "get_init_inputs", list)
        # Inputs are asked for one by one, all of the same seed.
        self.values = functools.lru_cache(maxsize=1)(self._values)

    def build(self) -> Any:
        """A fresh model."""
        arguments = attempt(self.path, "get_init_inputs()", self.get_init_inputs)
        model = attempt(self.path, "Model(*get_init_inputs())", self.model_class, *arguments)
        if not isinstance(model, torch.nn.Module):
            raise UserError(f"{self.path.name}: Model is not a torch.nn.Module")
        return model

    def _values(self, seed: int) -> tuple[Any, ...]:
        with torch.random.fork_rng(devices=[]):
            torch.random.manual_seed(seed)
            weights = [told_apart(value.detach()) for value in self.build().state_dict().values()]
            inputs = attempt(self.path, "get_inputs()", self.get_inputs)
        if not isinstance(inputs, list | tuple):
            raise UserError(f"{self.path.name}: get_inputs() returned a {type(inputs).__name__}, expected a list")
        return (*inputs, *weights)

    def fill(self, index: int) -> Fill:
        """Draws one of the values by the generator's seed."""

        def draw(generator: Generator, spec: TensorSpec, device: str) -> Tensor:
            value = self.values(generator.initial_seed())[index]
            return value.clone().to(device)  # type: ignore[no-any-return]

        return draw


def told_apart(value: Tensor) -> Tensor:
    """A weight whose values differ: drawn around the one that a layer starts with."""
    if not value.is_floating_point() or value.numel() == 0:
        return value
    first = value.flatten()[0]
    if not bool(torch.isfinite(first)) or not bool((value == first).all()):
        return value
    return value + SPREAD * (first.abs() if first else 1.0) * (2 * torch.rand_like(value) - 1)


def from_module(path: Path, module: ModuleType) -> ProblemDefinition:
    """The problem in an imported KernelBench file.

    Raises:
        UserError: one line that says what is missing or wrong.
    """
    file = KernelBenchFile(path, module)
    model = file.build()
    names = list(model.state_dict())
    values = file.values(0)
    count = len(values) - len(names)

    def reference(*inputs: Any) -> Any:
        weights = dict(zip(names, inputs[count:], strict=True))
        with torch.no_grad():
            return torch.func.functional_call(model, weights, inputs[:count])

    reference.__wrapped__ = file.model_class  # type: ignore[attr-defined]
    labels = [f"input{i}" for i in range(count)] + [name.replace(".", "_") for name in names]
    specs = tuple(input_spec(path, label, values[i], file.fill(i)) for i, label in enumerate(labels))
    outputs, flops, tolerance = derived_facts(path, reference, values)
    size = Size("given", {})
    return ProblemDefinition(
        id=identifier(path.stem),
        title=path.stem,
        family="user",
        description=f"The model of {path.name}; its weights are inputs after its arguments.",
        reference=reference,
        inputs=lambda p: specs,
        outputs=lambda p: outputs,
        flops=lambda p: flops,
        sizes=(size,),
        tiny=size,
        tolerance=tolerance,
        init_inputs=file.get_init_inputs,
    )


def derived_facts(path: Path, reference: Any, values: tuple[Any, ...]) -> tuple[tuple[TensorSpec, ...], int, Tolerance]:
    """Outputs, work and tolerance, for which the model runs twice.

    Processes that this one starts are handed them, and later ones find them in the user's cache folder.
    """
    kept: dict[str, Any] = json.loads(os.environ.get(USER_FACTS, "{}"))
    key = content_hash("file", path.read_text())
    if key not in kept:
        beside = sorted(text_beside(path))
        name = content_hash("facts", FACTS_VERSION, key, str(torch.__version__), *beside)
        kept[key] = remembered(f"{name}.json", lambda: derived(path, reference, values))
        os.environ[USER_FACTS] = json.dumps(kept)
    specs, flops, tolerance = kept[key]
    outputs = tuple(TensorSpec(name, tuple(shape), dtype) for name, shape, dtype in specs)
    return outputs, max(flops, sum(spec.numel for spec in outputs)), Tolerance(*tolerance)


def derived(path: Path, reference: Any, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Outputs, work and tolerance as plain values."""
    flops, answer = attempt(path, "Model.forward", counted, reference, values)
    specs = [(spec.name, spec.shape, spec.dtype) for spec in output_specs(path, answer)]
    tolerance = attempt(path, "Model.forward in float64", derived_tolerance, reference, values, answer)
    return specs, flops, (tolerance.atol, tolerance.rtol, tolerance.reason)


def text_beside(path: Path) -> Iterator[str]:
    """Texts of the modules that lie beside a file and are loaded: it may import them."""
    for module in list(sys.modules.values()):
        file = Path(getattr(module, "__file__", None) or "")
        # Some modules of torch name a file that is none.
        if file.is_absolute() and file.is_file() and file.resolve().parent == path.resolve().parent:
            yield file.read_text(errors="replace")


def remembered(name: str, derive: Callable[[], tuple[Any, ...]]) -> Any:
    """What a file of the user's cache folder holds, or else what is derived and then kept there, if it can be."""
    from kbench.loaders.storage.atomic import write_atomically
    from kbench.loaders.storage.scratch import cache_folder

    place = cache_folder() / "problems" / name
    with contextlib.suppress(OSError, ValueError):
        return json.loads(place.read_text())
    facts = derive()
    with contextlib.suppress(OSError, KbenchError):
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(place, json.dumps(facts))
    return facts


def counted(reference: Any, values: tuple[Any, ...]) -> tuple[int, Any]:
    """Counted matrix and convolution work of a reference, and its answer."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        answer = reference(*values)
    return int(counter.get_total_flops()), answer
