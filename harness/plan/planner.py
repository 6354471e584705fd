"""Planner: runs a kernel's host code on tensors without memory and records what it would do on a GPU.

Runs in a process of its own per kernel, in a sandbox, without a GPU. Whatever the foreign code does to this process
ends with it; what it sends is checked as data from outside.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kbench.benchmark.problems import ProblemDefinition, ScalarSpec, Size, problem
from kbench.benchmark.work.count import count_plan
from kbench.benchmark.work.table import index_contents, plain_work
from kbench.benchmark.work.totals import Work
from kbench.harness.cuda import CudaModule, LaunchRequest, TensorMap
from kbench.harness.device.driver import LaunchShape
from kbench.harness.device.target import DeviceFacts, Target
from kbench.harness.isolate.limits import COMPILE_ERRORS
from kbench.harness.kernel.loading import LoadedKernel, LoadError
from kbench.harness.plan.check import MOST_CONFIGS, plan_hash, planned_sizes
from kbench.harness.plan.recorder import (
    Code,
    Recorder,
    UnplannableError,
    in_host_memory,
    plain_value,
    real_device,
    replaced,
)
from kbench.harness.plan.resources import read_resources
from kbench.harness.plan.torch_calls import GPU, DeviceMode, RecordingMode, pretending
from kbench.harness.plan.triton_calls import Machinery, triton_recorded
from kbench.schemas import KernelSource, Status, UserError, to_dict
from kbench.schemas.records.launch_plan import LaunchPlan, PlanArgument, PlanOutput

ERROR_LENGTH = 2000
"""Characters of a compiler's error message that are kept."""
COUNTED_CONFIGS = 8
"""Autotuning configurations whose work is counted."""


@dataclasses.dataclass(slots=True)
class Planned:
    """The result of planning a kernel."""

    plans: dict[str, list[LaunchPlan]] = dataclasses.field(default_factory=dict)
    """By workload; several where autotuning has a choice."""
    cubins: dict[str, bytes] = dataclasses.field(default_factory=dict)
    """Machine code by hash."""
    status: Status = Status.OK
    error: str | None = None
    unplannable: bool = False
    """Whether the error may say nothing about the kernel itself, only that its host code cannot be planned."""
    work: dict[str, list[dict[str, Any]]] | None = None
    """The work of each plan of a timed workload, as plain values, where it was asked for."""

    def message(self) -> dict[str, Any]:
        """The message that the planning process sends."""
        return {
            "plans": {name: [to_dict(plan) for plan in plans] for name, plans in self.plans.items()},
            "cubins": [base64.b64encode(cubin).decode() for cubin in self.cubins.values()],
            "status": self.status.value,
            "error": self.error,
            "unplannable": self.unplannable,
            "work": self.work,
        }


class ReturnedError(Exception):
    """The value that `run` returned cannot be a correct answer; the message says why."""


def plan_kernel(
    kernel: KernelSource,
    target: Target,
    facts: DeviceFacts,
    cache: Path,
    *,
    workloads: Sequence[str] | None = None,
    count_work: bool = False,
) -> Planned:
    """Plan a kernel on workloads of its problem, and on `tiny`.

    Args:
        kernel: what to plan.
        target: the architecture to compile for.
        facts: what host code may ask of the device.
        cache: a private folder, empty where the work is wanted.
        workloads: names of the workloads; all by default.
        count_work: whether to count the work of what the timed workloads launch.
    """
    definition, machinery = problem(kernel.problem_id), Machinery()
    UnplannableError.first = None
    plans: dict[str, list[LaunchPlan]] = {}
    with (
        triton_recorded(target.triton, machinery, facts, str(cache), ptx=count_work),
        cuda_recorded(target, machinery, kernel.source, ptx=count_work),
        compilers_replaced(compile=refuse_compiling("uses torch.compile")),
    ):
        try:
            with pretending(facts), DeviceMode():
                loaded = LoadedKernel(kernel)
            host_code = HostCode(loaded, kernel, definition, target, facts, machinery)
            for size in planned_sizes(definition, workloads):
                plans[size.name] = []
                plans[size.name] += host_code.plans(size)
        except Exception as error:  # noqa: BLE001 - whatever host code raises is a verdict on it
            verdict = verdict_of(error)
            if len(plans) > 1:
                # The first workload's failure is everybody's; a later one is that workload's own.
                verdict.error = f"{verdict.error} (workload {list(plans)[-1]})"
            return verdict
        work: dict[str, list[dict[str, Any]]] = {}
        for size in planned_sizes(definition, workloads)[:-1] if count_work else ():
            contents = index_contents(definition, size.name)
            counted = plans[size.name][:COUNTED_CONFIGS]
            work[size.name] = [plain_work(plan_work(plan, machinery, contents)) for plan in counted]
    return Planned(plans, machinery.cubins, work=work if count_work else None)


@dataclasses.dataclass(frozen=True, slots=True)
class HostCode:
    """A kernel's host code, with what it takes to plan it."""

    loaded: LoadedKernel
    kernel: KernelSource
    definition: ProblemDefinition
    target: Target
    facts: DeviceFacts
    machinery: Machinery
    """Where machine code and launches go."""

    def plans(self, size: Size) -> Iterator[LaunchPlan]:
        """The plan of a workload; one for each configuration where the kernel is autotuned."""
        machinery, seen = self.machinery, set[str]()
        failure: Exception | None = None
        machinery.config, machinery.configs = 0, 1
        while machinery.config < min(machinery.configs, MOST_CONFIGS):
            try:
                plan = self.plan_once(size)
            except Exception as error:
                # Autotuning drops configurations that do not compile; a kernel with one choice has none to drop.
                if machinery.configs == 1 or not is_compile_error(error):
                    raise
                failure = error
            else:
                if plan.plan_id not in seen:
                    seen.add(plan.plan_id)
                    yield dataclasses.replace(plan, choice="; ".join(machinery.chosen.values()) or None)
            machinery.config += 1
            forget_choices(self.loaded)
        if not seen and failure is not None:
            raise failure

    def plan_once(self, size: Size) -> LaunchPlan:
        """Call `run` once and return what it did."""
        inputs = meta_inputs(self.definition, size)
        recorder = self.machinery.recorder = Recorder(inputs)
        self.machinery.chosen.clear()
        try:
            with pretending(self.facts), RecordingMode(recorder), DeviceMode():
                returned = self.loaded.run(*inputs)
            outputs = tuple(recorder.output(tensor) for tensor in returned_tensors(returned))
        finally:
            self.machinery.recorder = None
        return recorded_plan(recorder, self.kernel, size.name, self.target, outputs)


def plan_work(plan: LaunchPlan, machinery: Machinery, contents: Mapping[int, Any] | None = None) -> Work:
    """The work that the launches of a plan do, counted in their PTX."""
    resources = {
        (sha, name): (each.registers, each.shared_bytes - each.reserved_bytes, each.spill_bytes)
        for sha, cubin in machinery.cubins.items()
        for name, each in read_resources(cubin).items()
    }
    return count_plan(plan, machinery.ptx, resources=resources, contents=contents, first_lines=machinery.first_lines)


def refuse_compiling(reason: str) -> Callable[..., Any]:
    """A stand-in for a compiler of torch's, whose products cannot be planned."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise UnplannableError(reason)

    return refuse


@contextlib.contextmanager
def compilers_replaced(*, compile: Callable[..., Any]) -> Iterator[None]:
    """Inside, `torch.compile` is another function, and torch's C++ compilers fail at once.

    `torch.compile` itself would take seconds to find out that nothing can be planned, and wrap the reason in an
    exception of its own.
    """
    import torch
    from torch.utils import cpp_extension

    refuse = refuse_compiling("compiles a torch extension")
    with replaced(cpp_extension, load=refuse, load_inline=refuse), replaced(torch, compile=compile):
        yield


def recorded_plan(
    recorder: Recorder, kernel: KernelSource, workload: str, target: Target, outputs: tuple[PlanOutput, ...]
) -> LaunchPlan:
    """The plan of a recorded call."""
    return make_plan(
        kernel_id=kernel.kernel_id,
        problem_id=kernel.problem_id,
        workload=workload,
        target=target.nvrtc,
        choice=None,
        buffers=tuple(recorder.buffers),
        steps=tuple(recorder.steps),
        outputs=outputs,
    )


def make_plan(**fields: Any) -> LaunchPlan:
    """A plan with its id."""
    plan = LaunchPlan(plan_id="0" * 64, **fields)
    return dataclasses.replace(plan, plan_id=plan_hash(plan))


def meta_inputs(definition: ProblemDefinition, size: Size) -> tuple[Any, ...]:
    """Inputs without memory."""
    import torch

    return tuple(
        spec.value
        if isinstance(spec, ScalarSpec)
        else torch.empty(spec.shape, dtype=getattr(torch, spec.dtype), device="meta")
        for spec in definition.inputs(size.params)
    )


def returned_tensors(returned: Any) -> list[Any]:
    """The outputs that `run` returned, as a list of contiguous tensors on the GPU.

    Raises:
        ReturnedError: it is something else.
    """
    import torch

    outputs = list(returned) if type(returned) in (tuple, list) else [returned]
    for output in outputs:
        if type(output) is not torch.Tensor:
            raise ReturnedError(f"returned a {type(output).__name__}, expected a tensor or a tuple of tensors")
        if in_host_memory(output):
            raise ReturnedError(f"an output is on {real_device(output)}, expected {GPU}")
        if not output.is_contiguous():
            raise ReturnedError(f"an output is not contiguous (strides {list(output.stride())})")
    return outputs


def forget_choices(loaded: LoadedKernel) -> None:
    """Have every autotuner of a module choose again."""
    for value in list(loaded.module.__dict__.values()):
        while value is not None:
            cache = getattr(value, "cache", None)
            if type(value).__name__ == "Autotuner" and isinstance(cache, dict):
                cache.clear()
            value = getattr(value, "fn", None) if hasattr(value, "run") else None


@contextlib.contextmanager
def cuda_recorded(target: Target, machinery: Machinery, source: str, *, ptx: bool = False) -> Iterator[None]:
    """Inside, launches of CUDA modules are recorded; machine code is made at a module's first launch.

    Args:
        target: the architecture.
        machinery: where machine code and launches go.
        source: the kernel's text, in which CUDA C++ may stand word for word.
        ptx: whether to keep the PTX of what is compiled.
    """
    built: dict[str, tuple[str, Mapping[str, str]]] = {}

    def record(module: CudaModule, request: LaunchRequest) -> None:
        recorder, key = machinery.recording(), module.key(target.nvrtc)
        if key not in built:
            compiled = module.compiled(target.nvrtc)
            sha = machinery.keep(compiled.cubin)
            if ptx:
                machinery.ptx[sha] = module.ptx(target.nvrtc)
                if module.source in source:
                    machinery.first_lines[sha] = 1 + source[: source.index(module.source)].count("\n")
            built[key] = sha, compiled.symbols
        sha, symbols = built[key]
        shape = LaunchShape(request.grid, request.block, request.shared_bytes, request.cluster, request.cooperative)
        code = Code(sha, symbols.get(request.name, request.name))
        recorder.launch(code, shape, cuda_arguments(recorder, request.arguments))

    with replaced(CudaModule, recorder=record):
        yield


def cuda_arguments(recorder: Recorder, values: Sequence[Any]) -> list[PlanArgument]:
    """Arguments of a CUDA function as they are recorded."""
    arguments: list[PlanArgument] = []
    for value in values:
        if isinstance(value, TensorMap):
            arguments.append(recorder.tensor_map(value.tensor, value.spec()))
        elif hasattr(value, "untyped_storage"):
            arguments.append(recorder.pointer(value))
        else:
            arguments.append(plain_value(value))
    return arguments


def verdict_of(error: BaseException) -> Planned:
    """The verdict that an exception means: the kernel does not compile, cannot be planned, is wrong, or fails."""
    reason = f"{type(error).__name__}: {error}" + (f" ({error.__cause__})" if error.__cause__ is not None else "")
    # Perhaps for want of a GPU.
    status, unplannable = Status.LAUNCH_ERROR, True
    # Whatever it is wrapped in: libraries catch exceptions and raise others.
    if UnplannableError.first is not None:
        status, reason = Status.REJECTED, f"cannot be planned: {UnplannableError.first}"
    elif isinstance(error, ReturnedError):
        status, reason, unplannable = Status.INCORRECT, str(error), False
    elif isinstance(error, LoadError):
        parsed = not isinstance(error.__cause__, SyntaxError | UserError | None)
        status, reason, unplannable = Status.COMPILE_ERROR, str(error), parsed
    elif is_compile_error(error):
        status, unplannable = Status.COMPILE_ERROR, False
    return Planned(status=status, error=reason[:ERROR_LENGTH], unplannable=unplannable)


def is_compile_error(error: BaseException) -> bool:
    """Whether a compiler gave up on the kernel."""
    name, text = type(error).__name__, str(error)
    if (
        name in COMPILE_ERRORS
        or name in ("OutOfResources", "SyntaxError", "IndentationError")
        or "nvrtc" in text.lower()
    ):
        return True
    # Triton's passes report that they gave up by a plain RuntimeError.
    return isinstance(error, RuntimeError) and "PassManager::run failed" in text
