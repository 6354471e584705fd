"""Foreign kernels: host code of any suite, run on tensors without memory to count what it would do.

Nothing here is ever timed or verified, so nothing must be refused that can be counted: PyTorch's own operators become
work made up from their shapes, and what `torch.compile` is given is taken to fuse what lies between matrix products.
Runs where the planner runs: in a process of its own, in a sandbox, without a GPU.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from kbench.benchmark.work.count import MOST_LAUNCHES
from kbench.benchmark.work.operators import Operator, operator_work
from kbench.benchmark.work.table import plain_work
from kbench.benchmark.work.totals import Work
from kbench.harness.device.target import H200, DeviceFacts, Target
from kbench.harness.kernel.loading import LoadedKernel
from kbench.harness.plan.operators import CountingMode, Fused, LenientMode, OperatorRecorder, operator_recorder
from kbench.harness.plan.planner import (
    Planned,
    compilers_replaced,
    cuda_recorded,
    forget_choices,
    plan_work,
    recorded_plan,
    verdict_of,
)
from kbench.harness.plan.recorder import UnplannableError, in_host_memory, replaced
from kbench.harness.plan.torch_calls import NullStream, pretending
from kbench.harness.plan.triton_calls import Machinery, triton_recorded
from kbench.schemas import Backend, KernelSource

MOST_WORKLOADS = 2
"""Workloads that are counted, spread over their sizes."""
COUNTED_CONFIGS = 2
STATED = re.compile(r"(\w+)\[([\d,]*)\]")
REFERENCES = "\n\nif 'Model' in globals() and 'ModelNew' not in globals():\n    ModelNew = Model\n"
"""References of KernelBench are counted as the kernels are."""
SCALAR_VALUES = {"bool": False, "int64": 1, "int32": 1}
"""What stands for a number that a workload does not state."""
AMD_OPTIONS = frozenset(("waves_per_eu", "matrix_instr_nonkdim", "kpack", "instruction_sched_variant", "schedule_hint"))
"""Options of Triton's compiler for AMD, which that for NVIDIA does not know."""


def count_foreign(kernel: KernelSource, target: Target, facts: DeviceFacts, cache: Path) -> Planned:
    """Count the work of a kernel on stated workloads.

    Args:
        kernel: its text, with the workloads.
        target: the architecture to compile for.
        facts: what host code may ask of the device.
        cache: a private, empty folder.
    """
    machinery = Machinery()
    UnplannableError.first = None
    work: dict[str, list[dict[str, Any]]] = {}
    with (
        triton_recorded(target.triton, machinery, facts, str(cache), ptx=True),
        amd_options_dropped(),
        cuda_recorded(target, machinery, kernel.source, ptx=True),
        compilers_replaced(compile=fusing_compiler(machinery)),
    ):
        try:
            with on_device(facts, machinery), torch.device("meta"), LenientMode(None):
                loaded = LoadedKernel(dataclasses.replace(kernel, source=kernel.source + REFERENCES))
            for workload in chosen(json.loads(kernel.workloads_json or "[]")):
                name, inputs = str(workload["name"]), stated_inputs(workload)
                machinery.config, machinery.configs, work[name] = 0, 1, []
                while machinery.config < min(machinery.configs, COUNTED_CONFIGS):
                    forget_choices(loaded)
                    recorder = _recorded(loaded, inputs, machinery, facts)
                    plan = recorded_plan(recorder, kernel, name, target, ())
                    work[name].append(plain_work(_with_operators(plan_work(plan, machinery), recorder)))
                    machinery.config += 1
        except Exception as error:  # noqa: BLE001 - whatever host code raises says that it cannot be counted
            return verdict_of(error)
    if UnplannableError.first is not None:
        # Whoever caught it does something else here than on a GPU.
        return verdict_of(UnplannableError(UnplannableError.first))
    return Planned(work=work)


def chosen(workloads: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """A few workloads that state their inputs, spread over their sizes."""
    stated = sorted((one for one in workloads if one["inputs"]), key=lambda one: (one["min_bytes"], one["name"]))
    if len(stated) <= MOST_WORKLOADS:
        return stated
    return [stated[(2 * n + 1) * len(stated) // (2 * MOST_WORKLOADS)] for n in range(MOST_WORKLOADS)]


def stated_inputs(workload: Mapping[str, Any]) -> list[Any]:
    """Inputs without memory; a number that nobody states is one that most problems could have."""
    values: list[Any] = []
    for one in workload["inputs"]:
        matched = STATED.fullmatch(one)
        if matched is None:
            raise UnplannableError(f"an input is {one!r}")
        dtype, shape = matched[1], [int(size) for size in matched[2].split(",") if size]
        if not shape:
            values.append(SCALAR_VALUES.get(dtype, 1e-5))
        elif dtype == "float4_e2m1fn_x2":
            values.append(torch.empty(shape, dtype=torch.uint8, device="meta"))
        else:
            values.append(torch.empty(shape, dtype=getattr(torch, dtype), device="meta"))
    return values


def _recorded(
    loaded: LoadedKernel, inputs: Sequence[Any], machinery: Machinery, facts: DeviceFacts
) -> OperatorRecorder:
    """What a call of `run` launches and which operators it calls."""
    try:
        # The first call makes models, captures graphs, and keeps what later calls reuse; timers warm up too.
        for _ in range(2):
            recorder = machinery.recorder = OperatorRecorder(inputs)
            with (
                on_device(facts, machinery), torch.device("meta"), torch.no_grad(),
                CountingMode(recorder), LenientMode(recorder),
            ):  # fmt: skip
                returned = loaded.run(*inputs)
        recorder.fusing = 0
        for tensor in tree_leaves(returned):
            if isinstance(tensor, torch.Tensor) and not in_host_memory(tensor):
                recorder.read(tensor)
    finally:
        machinery.recorder = None
    return recorder


def _with_operators(work: Work, recorder: OperatorRecorder) -> Work:
    """Work with that of torch's operators, each as a launch."""
    counts = Counter(one.operator() if isinstance(one, Fused) else one for one in recorder.operators)
    operators = [dataclasses.replace(operator_work(one), times=times) for one, times in counts.items()]
    return dataclasses.replace(work, launches=(*work.launches, *operators[: 16 * MOST_LAUNCHES]))


def warm() -> None:
    """Count a kernel that calls operators of every kind, so that torch loads once, before forking, what they need."""
    source = (
        "import torch\nimport torch.nn.functional as F\n\n@torch.compile\ndef norm(x):\n"
        "    return F.layer_norm(F.gelu(x).float(), x.shape[-1:])\n\ndef run(x, w):\n"
        "    return F.softmax(norm(x @ w), -1).to(x.dtype).sum(-1), F.scaled_dot_product_attention(x, x, x)\n"
    )
    workload = {"name": "warm", "inputs": ["float32[2,32,32]", "float32[32,32]"], "min_bytes": 0}
    kernel = KernelSource("warm", Backend.TORCH, source, json.dumps([workload]))
    with tempfile.TemporaryDirectory() as folder:
        count_foreign(kernel, Target(9, 0), H200, Path(folder))


class OneStream(NullStream):
    """Stands for every stream and event: what they order is counted as one after another."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Take whatever a stream or event is made with."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args, **kwargs: None


class Graph:
    """A captured graph: what was called while it was captured is called again by a replay."""

    def __init__(self, machinery: Machinery) -> None:
        """Start empty."""
        self._machinery, self._first = machinery, (0, 0)
        self._calls: list[Operator | Fused] = []

    def capture_begin(self, *args: Any, **kwargs: Any) -> None:
        """Begin to capture."""
        recorder = operator_recorder(self._machinery)
        self._first = len(recorder.operators), len(recorder.steps)

    def capture_end(self) -> None:
        """Keep what was called, which capturing does not run."""
        recorder, (first, step) = operator_recorder(self._machinery), self._first
        if len(recorder.steps) > step:
            raise UnplannableError("captures launches of its own in a graph")
        self._calls = recorder.operators[first:]
        del recorder.operators[first:]

    def replay(self) -> None:
        """Call it all again."""
        operator_recorder(self._machinery).operators += self._calls

    def reset(self) -> None:
        """Forget it."""
        self._calls = []


@contextlib.contextmanager
def captured(graph: Graph, *args: Any, **kwargs: Any) -> Iterator[None]:
    """Stands for `torch.cuda.graph`."""
    graph.capture_begin()
    yield
    graph.capture_end()


@contextlib.contextmanager
def on_device(facts: DeviceFacts, machinery: Machinery) -> Iterator[None]:
    """As `pretending`, with streams, events and graphs of operators."""
    stand_ins = {
        "Stream": OneStream, "Event": OneStream, "stream": lambda stream: contextlib.nullcontext(),
        "CUDAGraph": lambda *args, **kwargs: Graph(machinery), "graph": captured,
    }  # fmt: skip
    with pretending(facts), replaced(torch.cuda, **stand_ins):
        yield


def amd_options_dropped() -> contextlib.AbstractContextManager[None]:
    """Inside, launches may name options of the compiler for AMD."""
    from triton.runtime.jit import JITFunction

    real = JITFunction.run

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        own = set(self.arg_names)
        kept = {name: value for name, value in kwargs.items() if name in own or name not in AMD_OPTIONS}
        if kept.get("num_stages") == 0 and "num_stages" not in own:
            kept["num_stages"] = 1
        return real(self, *args, **kept)

    return replaced(JITFunction, run=run)


def fusing_compiler(machinery: Machinery) -> Callable[..., Any]:
    """What stands for `torch.compile`: what it is given runs as it is, and marks what is fused."""

    def compile_(model: Any = None, **options: Any) -> Any:
        return functools.partial(FusedCallable, machinery) if model is None else FusedCallable(machinery, model)

    return compile_


class FusedCallable:
    """What stands for a compiled function or module."""

    def __init__(self, machinery: Machinery, inner: Any) -> None:
        """Wrap it."""
        self.__dict__["_machinery"], self.__dict__["_inner"] = machinery, inner

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._machinery.recorder is None:
            return self._inner(*args, **kwargs)
        recorder = operator_recorder(self._machinery)
        recorder.fusing += 1
        try:
            return self._inner(*args, **kwargs)
        finally:
            recorder.fusing -= 1

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else FusedCallable(self._machinery, self._inner.__get__(instance, owner))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_inner"], name)
