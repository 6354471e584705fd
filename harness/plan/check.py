"""Check: a plan as it came from the planning process, read strictly, and held against its problem.

Nothing in a plan is believed. What passes can be replayed without the replaying process reading or writing memory that
is not the plan's own.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from kbench.benchmark.problems import ProblemDefinition, Size, TensorSpec
from kbench.benchmark.problems.inputs import ITEM_BYTES
from kbench.benchmark.work.render import plain_name
from kbench.harness.plan.recorder import MOST_BUFFERS, MOST_STEPS
from kbench.harness.plan.resources import Resources
from kbench.schemas import DataError, KernelSource, Status, from_dict, to_dict
from kbench.schemas.records.launch_plan import ArgumentKind, LaunchPlan, PlanArgument, PlanStep, StepKind

MOST_BYTES = 16 << 30
"""Memory a kernel may allocate in one call."""
MOST_ARGUMENTS, LONGEST_ARGUMENT, LONGEST_NAME = 1024, 4096, 2048
GRID_LIMITS = (2**31 - 1, 65_535, 65_535)
THREADS_PER_BLOCK, BLOCKS_PER_CLUSTER, SHARED_BYTES = 1024, 16, 256 << 10
PATTERN_BYTES = (1, 2, 4, 8)
ARGUMENT_BYTES = {ArgumentKind.POINTER: 8, ArgumentKind.TENSOR_MAP: 128}
"""Of arguments that are no number."""
WORDS = {
    ArgumentKind.POINTER: "a tensor's address", ArgumentKind.TENSOR_MAP: "a tensor map", ArgumentKind.VALUE: "a number"
}  # fmt: skip
MOST_CONFIGS = 64
"""Autotuning configurations that are planned."""
Functions = Mapping[str, Mapping[str, Resources]]
"""Device functions by their symbol, for the hash of each piece of machine code."""


class PlanError(Exception):
    """A plan that is well formed but not a correct answer to the problem."""

    def __init__(self, status: Status, reason: str) -> None:
        """Keep the verdict."""
        super().__init__(reason)
        self.status, self.reason = status, reason


def read_plan(
    data: Mapping[str, Any],
    kernel: KernelSource,
    definition: ProblemDefinition,
    size: Size,
    target: str,
    functions: Functions,
) -> LaunchPlan:
    """A plan that may be replayed.

    Args:
        data: what the planning process sent.
        kernel: the kernel it was asked to plan.
        definition: the kernel's problem.
        size: the workload.
        target: architecture the machine code was asked for.
        functions: those of the machine code that came with it, by its hash.

    Raises:
        DataError: it is not a plan. PlanError: it is one, but what it returns cannot be correct.
    """
    plan = dataclasses.replace(
        from_dict(LaunchPlan, data),
        kernel_id=kernel.kernel_id,
        problem_id=kernel.problem_id,
        workload=size.name,
        target=target,
        # Not believed either: where there are several plans, the parent says what tells them apart.
        choice=None,
    )
    _check_buffers(plan, definition, size)
    if len(plan.steps) > MOST_STEPS:
        raise DataError(f"plan.steps has {len(plan.steps)} entries; at most {MOST_STEPS} are allowed")
    for at, step in enumerate(plan.steps):
        _check_step(plan, step, functions, f"plan.steps[{at}]")
    _check_outputs(plan, definition, size)
    return dataclasses.replace(plan, plan_id=plan_hash(plan))


def planned_sizes(definition: ProblemDefinition, workloads: Sequence[str] | None) -> list[Size]:
    """The timed workloads to plan, all unless some are named, and `tiny`, which every kernel is checked on."""
    timed = [size for size in definition.sizes if workloads is None or size.name in workloads]
    return [*timed, definition.tiny]


def plan_hash(plan: LaunchPlan) -> str:
    """The id a plan must have."""
    fields = to_dict(plan) | {"plan_id": None}
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def _check_buffers(plan: LaunchPlan, definition: ProblemDefinition, size: Size) -> None:
    specs = definition.inputs(size.params)
    wanted = {at: spec.nbytes for at, spec in enumerate(specs) if isinstance(spec, TensorSpec)}
    stated = [(buffer.input, buffer.nbytes) for buffer in plan.buffers if buffer.input is not None]
    if len(plan.buffers) > MOST_BUFFERS:
        raise DataError(f"plan.buffers has {len(plan.buffers)} entries; at most {MOST_BUFFERS} are allowed")
    if sorted(stated) != sorted(wanted.items()):
        raise DataError(f"plan.buffers states inputs and bytes {stated}; they must be {list(wanted.items())}")
    total = sum(buffer.nbytes for buffer in plan.buffers if buffer.input is None)
    if total > MOST_BYTES:
        raise PlanError(Status.OUT_OF_MEMORY, f"allocates {total} bytes; at most {MOST_BYTES} are allowed")


def _inside(plan: LaunchPlan, buffer: int | None, offset: int | None, nbytes: int, where: str) -> None:
    if buffer is None or offset is None or buffer >= len(plan.buffers):
        raise DataError(f"{where} names buffer {buffer}; there are {len(plan.buffers)}")
    if offset + nbytes > plan.buffers[buffer].nbytes:
        raise DataError(f"{where} ends at byte {offset + nbytes} of {plan.buffers[buffer].nbytes}")


def _check_step(plan: LaunchPlan, step: PlanStep, functions: Functions, where: str) -> None:
    if step.kind is StepKind.LAUNCH:
        _check_launch(plan, step, functions, where)
        return
    nbytes = step.nbytes
    if nbytes is None:
        raise DataError(f"{where}.nbytes is missing")
    _inside(plan, step.buffer, step.offset, nbytes, where)
    if step.kind is StepKind.COPY:
        _inside(plan, step.source, step.source_offset, nbytes, where)
        return
    width = len(step.pattern or "") // 2
    if width not in PATTERN_BYTES or nbytes % width or (step.offset or 0) % width:
        raise DataError(f"{where}.pattern has {width} bytes for {nbytes}; it must be 1, 2, 4 or 8 and divide them")


def _check_launch(plan: LaunchPlan, step: PlanStep, functions: Functions, where: str) -> None:
    if step.code is None or step.code not in functions:
        raise DataError(f"{where}.code is {step.code!r}; no such machine code came with the plan")
    name = step.function or ""
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise DataError(f"{where}.function is {name[:80]!r}; it must be a symbol")
    if name not in functions[step.code]:
        raise PlanError(Status.LAUNCH_ERROR, f"launches {name[:80]!r}, which its machine code does not have")
    grid, block = step.grid or (), step.block or ()
    if len(grid) != 3 or len(block) != 3 or not all(1 <= n <= top for n, top in zip(grid, GRID_LIMITS, strict=True)):
        raise PlanError(Status.LAUNCH_ERROR, f"launches a grid of {list(grid)} blocks of {list(block)}")
    if min(block) < 1 or math.prod(block) > THREADS_PER_BLOCK or (step.shared_bytes or 0) > SHARED_BYTES:
        raise PlanError(
            Status.LAUNCH_ERROR, f"launches blocks of {list(block)} threads with {step.shared_bytes} shared bytes"
        )
    cluster = step.cluster
    if cluster is not None and (len(cluster) != 3 or not 1 <= math.prod(cluster) <= BLOCKS_PER_CLUSTER):
        raise PlanError(Status.LAUNCH_ERROR, f"launches clusters of {list(cluster)} blocks")
    arguments = step.arguments or ()
    if len(arguments) > MOST_ARGUMENTS:
        raise DataError(f"{where} has {len(arguments)} arguments; at most {MOST_ARGUMENTS} are allowed")
    for at, argument in enumerate(arguments):
        _check_argument(plan, argument, f"{where}.arguments[{at}]")
    parameters = functions[step.code][name].parameters
    if parameters is not None:
        _fit(name, parameters, arguments)


def _fit(name: str, parameters: Sequence[int], arguments: Sequence[PlanArgument]) -> None:
    """Refuse arguments that are not as many as a function's parameters, or not as large.

    The driver would read what lies beside them. A number may be larger than its parameter: an int of Python has eight
    bytes for integers of any size.
    """
    name = plain_name(name)[:80]
    if len(arguments) != len(parameters):
        *first, last = map(str, parameters or (0,))
        sizes = f" ({', '.join(first)}{' and ' if first else ''}{last} bytes)" if parameters else ""
        count = f"{len(parameters)} parameter{'s' * (len(parameters) != 1)}"
        raise PlanError(Status.LAUNCH_ERROR, f"{name} takes {count}{sizes}, args has {len(arguments)}")
    for at, (argument, size) in enumerate(zip(arguments, parameters, strict=True)):
        given = ARGUMENT_BYTES.get(argument.kind, len(argument.data or "") // 2)
        exact = argument.kind is not ArgumentKind.VALUE
        if given < size or (exact and given != size):
            raise PlanError(
                Status.LAUNCH_ERROR,
                f"{name}: args[{at}] is {WORDS[argument.kind]} of {given} bytes, and its parameter has {size} bytes",
            )


def _check_argument(plan: LaunchPlan, argument: PlanArgument, where: str) -> None:
    if argument.kind is ArgumentKind.VALUE:
        if not argument.data or len(argument.data) > 2 * LONGEST_ARGUMENT:
            raise DataError(f"{where}.data has {len(argument.data or '') // 2} bytes; it must have 1 to 4096")
        return
    if argument.kind is ArgumentKind.POINTER and argument.buffer is None:
        return
    _inside(plan, argument.buffer, argument.offset, 0, where)
    if argument.kind is ArgumentKind.TENSOR_MAP:
        spec = argument.tensor_map
        if spec is None or not 1 <= len(spec.extents) <= 5:
            raise DataError(f"{where} describes no tensor of one to five dimensions")
        if len(spec.strides) != len(spec.extents) - 1 or len(spec.box) != len(spec.extents):
            raise DataError(f"{where} has {len(spec.strides)} strides for {len(spec.extents)} extents")


def _check_outputs(plan: LaunchPlan, definition: ProblemDefinition, size: Size) -> None:
    specs = definition.outputs(size.params)
    if len(plan.outputs) != len(specs):
        raise PlanError(Status.INCORRECT, f"returned {len(plan.outputs)} outputs, expected {len(specs)}")
    ranges: list[tuple[int, int, int]] = []
    for output, spec in zip(plan.outputs, specs, strict=True):
        if output.shape != tuple(spec.shape) or output.dtype != spec.dtype:
            have, wanted = f"{output.dtype}{list(output.shape)}", f"{spec.dtype}{list(spec.shape)}"
            raise PlanError(Status.INCORRECT, f"output {spec.name!r} is {have}, expected {wanted}")
        _inside(plan, output.buffer, output.offset, spec.nbytes, f"output {spec.name!r}")
        if plan.buffers[output.buffer].input is not None:
            raise PlanError(Status.INCORRECT, f"output {spec.name!r} lies in the memory of an input")
        if output.offset % ITEM_BYTES[spec.dtype]:
            raise DataError(f"output {spec.name!r} begins at byte {output.offset}, which is no element")
        end = output.offset + spec.nbytes
        for buffer, start, stop in ranges:
            if buffer == output.buffer and output.offset < stop and start < end:
                raise PlanError(Status.INCORRECT, "two outputs share memory")
        ranges.append((output.buffer, output.offset, end))
