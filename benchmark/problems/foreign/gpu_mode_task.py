"""GPU MODE task folders: task.yml with tests and benchmarks, reference.py with `generate_input` and `ref_kernel`.

What `generate_input` returns may be nested; its tensors and numbers, in order, are the inputs of a kernel, and
whatever else it holds is handed to `ref_kernel` as it was.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbench.benchmark.problems.definition import ProblemDefinition, Size
from kbench.benchmark.problems.foreign.user_code import (
    attempt,
    derived_tolerance,
    identifier,
    import_file,
    input_spec,
    output_specs,
    required,
)
from kbench.benchmark.problems.inputs import Fill, InputSpec, Params, TensorSpec
from kbench.benchmark.problems.lazy_torch import torch
from kbench.schemas import UserError

if TYPE_CHECKING:
    from torch import Generator, Tensor

MAX_SIZES = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Form:
    """What `generate_input` returns for one case, but for the inputs of kernels."""

    inputs: tuple[InputSpec, ...]
    places: list[int]
    """Where the inputs stand among the leaves."""
    others: list[Any]
    """The leaves; None in place of inputs."""
    spec: Any
    """How the leaves are nested."""


class GpuModeTask:
    """A folder's functions, run for named parameters and a seed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.description = _read_yaml(folder)
        reference = folder / "reference.py"
        if not reference.is_file():
            raise UserError(f"{folder.name}: reference.py is missing; it defines generate_input and ref_kernel")
        with _importable(folder, self.description):
            module = import_file(reference)
        self.generate_input = required(reference, module, "generate_input")
        self.ref_kernel = required(reference, module, "ref_kernel")
        # Inputs are asked for one by one, all of the same seed.
        self.drawn = functools.lru_cache(maxsize=1)(self._drawn)
        # Of every case: the reference is timed, and must not draw inputs to learn what they look like.
        self.form = functools.cache(self._form)

    def sizes(self) -> tuple[tuple[Size, ...], Size]:
        """The timed sizes, and the first test as the tiny one."""
        benchmarks = self._cases("benchmarks")[:MAX_SIZES]
        tests = self.description.get("tests")
        sizes = tuple(Size(f"benchmark{i}", case) for i, case in enumerate(benchmarks))
        return sizes, Size("tiny", self._cases("tests")[0]) if tests else sizes[0]

    def _cases(self, key: str) -> list[dict[str, Any]]:
        cases = self.description.get(key)
        if not isinstance(cases, list) or not cases or not all(isinstance(case, dict) for case in cases):
            raise UserError(f"{self.folder.name}: task.yml has no list {key!r} of parameter mappings")
        return [{name: value for name, value in case.items() if name != "seed"} for case in cases]

    def draw(self, params: Params, seed: int) -> tuple[list[Any], Any]:
        """Inputs as a flat list, and the shape of what held them."""
        return self.drawn(_key(params), seed)

    def _drawn(self, params: tuple[tuple[str, Any], ...], seed: int) -> tuple[list[Any], Any]:
        from torch.utils import _pytree as pytree

        data = attempt(self.folder, "generate_input", self.generate_input, **dict(params), seed=seed)
        leaves, spec = pytree.tree_flatten(data)
        return leaves, spec

    def _form(self, params: tuple[tuple[str, Any], ...]) -> Form:
        leaves, spec = self.draw(dict(params), 0)
        places = _kernel_inputs(leaves)
        inputs = tuple(
            input_spec(self.folder, f"input{n}", leaves[i], self._fill(dict(params), i)) for n, i in enumerate(places)
        )
        return Form(inputs, places, [None if i in places else leaf for i, leaf in enumerate(leaves)], spec)

    def inputs(self, params: Params) -> tuple[InputSpec, ...]:
        """Specifications of the tensors and numbers of one case."""
        return self.form(_key(params)).inputs

    def _fill(self, params: Params, index: int) -> Fill:
        def fill(generator: Generator, spec: TensorSpec, device: str) -> Tensor:
            leaves, _ = self.draw(params, generator.initial_seed())
            return leaves[index].clone().to(device)  # type: ignore[no-any-return]

        return fill

    def reference(self, params: Params, *inputs: Any) -> Any:
        """`ref_kernel` on inputs put back where they came from."""
        from torch.utils import _pytree as pytree

        form = self.form(_key(params))
        filled = list(form.others)
        for place, value in zip(form.places, inputs, strict=True):
            filled[place] = value
        return self.ref_kernel(pytree.tree_unflatten(filled, form.spec))


def load_task(folder: Path) -> ProblemDefinition:
    """The problem in a GPU MODE task folder.

    Raises:
        UserError: one line that says what is missing or wrong.
    """
    task = GpuModeTask(folder)
    sizes, tiny = task.sizes()

    def reference(*inputs: Any) -> Any:
        return task.reference(_params_of(task, (*sizes, tiny), inputs), *inputs)

    @functools.cache
    def answered(key: tuple[tuple[str, Any], ...]) -> tuple[list[Any], Any, tuple[TensorSpec, ...]]:
        leaves, _ = task.draw(dict(key), 0)
        inputs = [leaves[i] for i in _kernel_inputs(leaves)]
        # Some references write into what they are given.
        own = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]
        answer = attempt(folder, "ref_kernel", task.reference, dict(key), *own)
        return inputs, answer, output_specs(folder, answer)

    def outputs(p: Params) -> tuple[TensorSpec, ...]:
        return answered(_key(p))[2]

    reference.__wrapped__ = task.ref_kernel  # type: ignore[attr-defined]
    return ProblemDefinition(
        id=identifier(folder.name),
        title=folder.name,
        family="user",
        description=str(task.description.get("description", f"The task of {folder.name}.")),
        reference=reference,
        inputs=task.inputs,
        outputs=outputs,
        flops=lambda p: sum(spec.numel for spec in outputs(p)),
        sizes=sizes,
        tiny=tiny,
        tolerance=attempt(
            folder, "ref_kernel in float64", derived_tolerance, reference, *answered(_key(tiny.params))[:2]
        ),
    )


def _params_of(task: GpuModeTask, sizes: tuple[Size, ...], inputs: tuple[Any, ...]) -> Params:
    """The case whose inputs have these shapes: what `ref_kernel` is handed besides tensors depends on it."""
    shapes = [tuple(value.shape) for value in inputs if isinstance(value, torch.Tensor)]
    for size in sizes:
        if [spec.shape for spec in task.inputs(size.params) if isinstance(spec, TensorSpec)] == shapes:
            return size.params
    raise UserError(f"{task.folder.name}: inputs of shapes {shapes} belong to no benchmark or test of task.yml")


def _key(params: Params) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(params.items()))


def _kernel_inputs(leaves: list[Any]) -> list[int]:
    numbers = [isinstance(v, int | float) and not isinstance(v, bool) for v in leaves]
    return [i for i, value in enumerate(leaves) if isinstance(value, torch.Tensor) or numbers[i]]


def _read_yaml(folder: Path) -> Mapping[str, Any]:
    path = folder / "task.yml"
    if not path.is_file():
        raise UserError(f"{folder.name}: task.yml is missing; a task folder holds task.yml and reference.py")
    import yaml

    parsed = attempt(path, "reading it", yaml.safe_load, path.read_text())
    if not isinstance(parsed, dict):
        raise UserError(f"{folder.name}: task.yml is not a mapping")
    return parsed


@contextlib.contextmanager
def _importable(folder: Path, description: Mapping[str, Any]) -> Iterator[None]:
    """The folder's other files importable by name, wherever task.yml says they are; not a moment longer."""
    before = dict(sys.modules)
    folders = [folder, *(folder / str(f["source"]) for f in description.get("files", []) if "source" in f)]
    paths = list(dict.fromkeys(str((p if p.is_dir() else p.parent).resolve()) for p in folders))
    sys.path[:0] = paths
    try:
        for stem in ("task", "utils"):
            sys.modules.pop(stem, None)
        yield
    finally:
        for path in paths:
            sys.path.remove(path)
        for stem in ("task", "utils"):
            sys.modules.pop(stem, None)
            if stem in before:
                sys.modules[stem] = before[stem]
