"""Accept: a planning process's message becomes a build, checked by the parent, with ids that the parent computes."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
import itertools
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from kbench.benchmark.problems import ProblemDefinition, Size, problem
from kbench.benchmark.work.table import plain_work, read_work
from kbench.harness.device.target import Target
from kbench.harness.plan.cache import FIGURES, Build, readable
from kbench.harness.plan.check import (
    LONGEST_NAME,
    MOST_CONFIGS,
    Functions,
    PlanError,
    plan_hash,
    planned_sizes,
    read_plan,
)
from kbench.harness.plan.resources import (
    Resources,
    count_instructions,
    hidden_memory,
    kept_bytes,
    largest_counts,
    read_resources,
    read_variables,
    stack_bytes,
    uses_heap,
)
from kbench.schemas import DataError, KernelSource, Status, to_dict
from kbench.schemas.ids import content_hash
from kbench.schemas.records.launch_plan import LaunchPlan, PlanStep, StepKind

KEPT_BYTES = 64 << 20
"""Device variables a kernel may have: all are reset to their initial values before every call."""
HIDDEN_BYTES = 4096
"""Device memory between variables, which aligns them; more of it holds something that cannot be restored."""
FAILURES = (Status.COMPILE_ERROR, Status.LAUNCH_ERROR, Status.INCORRECT, Status.REJECTED)
"""Statuses that planning may give a kernel."""
MALFORMED = (
    DataError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    MemoryError,
    RecursionError,
    struct.error,
)
"""Exceptions that reading data of an unexpected form raises."""
MOST_STATED = 64
"""Workloads of a kernel that is only counted."""
MOST_VALUES = 4_000_000
"""Values in all plans of a kernel together: reading them takes the parent's time."""


def accept(
    message: Mapping[str, Any],
    identity: str,
    kernel: KernelSource,
    target: Target,
    compile_ms: float,
    workloads: Sequence[str] | None = None,
) -> tuple[Build, dict[str, bytes]]:
    """A build and its machine code from a planning process's message, of which nothing is believed.

    Args:
        message: from the planning process.
        identity: the build's id.
        kernel: that was to be planned.
        target: that was to be compiled for.
        compile_ms: time that planning took.
        workloads: names of the workloads that were to be planned; all by default.
    """
    try:
        if message["error"] is not None:
            status, reason = Status(message["status"]), readable(str(message["error"]))
            if status not in FAILURES:
                raise ValueError(f"status is {status}")
            return Build(identity, status.value, reason, unplannable=bool(message["unplannable"])), {}
        _refuse_size([message["plans"], message.get("work")])
        if kernel.workloads_json is not None:
            # A kernel that is only counted: nothing of it is ever run.
            stated = itertools.islice(message["work"].items(), MOST_STATED)
            counted = {readable(str(name)): _work(works[:MOST_CONFIGS]) for name, works in stated}
            return Build(identity, compile_ms=compile_ms, work=counted), {}
        sent = {hashlib.sha256(code).hexdigest(): code for code in map(_decoded, message["cubins"])}
        functions = {sha: read_resources(code) for sha, code in sent.items()}
        sizes = planned_sizes(problem(kernel.problem_id), workloads)
        plans = _plans(message["plans"], kernel, target, functions, sizes)
        cubins = {sha: sent[sha] for sha in sorted({step.code for step in _launches(plans) if step.code})}
        _refuse_state(cubins)
        _refuse_undeclared_stacks(plans, functions)
        work = message.get("work")
        build = Build(
            identity,
            compile_ms=compile_ms,
            cubin_sha=content_hash(*sorted(cubins.values())) if cubins else None,
            code=tuple(cubins),
            plans={name: [to_dict(plan) for plan in each] for name, each in plans.items()},
            configs=_configs(message["plans"], plans),
            work=None if work is None else {name: _work(work[name]) for name in plans if name in work},
            **_resources(plans, problem(kernel.problem_id), functions),
        )
    except PlanError as error:
        return Build(identity, error.status.value, readable(error.reason)), {}
    except MALFORMED as error:
        reason = f"left no valid plan: {type(error).__name__}: {error}"
        return Build(identity, Status.REJECTED.value, readable(reason)), {}
    return build, cubins


def _refuse_size(plans: Any) -> None:
    waiting, count = [plans], 0
    while waiting:
        value = waiting.pop()
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        count += len(inner)
        if count > MOST_VALUES:
            raise DataError(f"its plans have more than {MOST_VALUES} values")
        waiting.extend(inner)


def _work(sent: Any) -> list[dict[str, Any]]:
    """The work of a workload's plans, read strictly."""
    return [plain_work(read_work(one)) for one in sent]


def _configs(sent: Mapping[str, Any], plans: Mapping[str, list[LaunchPlan]]) -> dict[str, list[str]]:
    """Names of configurations, by the planning process, for workloads that have several plans."""
    return {
        name: [readable(str(plan["choice"] or ""))[:LONGEST_NAME] for plan in sent[name][: len(each)]]
        for name, each in plans.items()
        if len(each) > 1
    }


def _decoded(text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"machine code is no base64: {error}") from None


def _plans(
    data: Mapping[str, Any], kernel: KernelSource, target: Target, functions: Functions, sizes: Sequence[Size]
) -> dict[str, list[LaunchPlan]]:
    definition = problem(kernel.problem_id)
    plans_of: dict[str, list[LaunchPlan]] = {}
    for size in sizes:
        sent = data[size.name][: MOST_CONFIGS + 1]
        plans = [read_plan(plan, kernel, definition, size, target.nvrtc, functions) for plan in sent]
        if not 1 <= len(plans) <= MOST_CONFIGS:
            raise DataError(f"workload {size.name!r} has {len(plans)} plans; it must have 1 to {MOST_CONFIGS}")
        plans_of[size.name] = plans if len(plans) == 1 else [_with_choice(plan, functions) for plan in plans]
    return plans_of


def _with_choice(plan: LaunchPlan, functions: Functions) -> LaunchPlan:
    """A plan with the configuration it stands for, as far as plan and machine code show it."""
    parts = []
    for step in _launches({"": [plan]}):
        needs = _needs(step, functions)
        threads = math.prod(step.block or ())
        parts.append(f"{threads} threads, {needs.shared_bytes} bytes shared, {needs.registers} registers")
    plan = dataclasses.replace(plan, choice="; ".join(parts)[:LONGEST_NAME])
    return dataclasses.replace(plan, plan_id=plan_hash(plan))


def _launches(plans: Mapping[str, list[LaunchPlan]]) -> list[PlanStep]:
    return [step for each in plans.values() for plan in each for step in plan.steps if step.kind is StepKind.LAUNCH]


def _needs(step: PlanStep, functions: Functions) -> Resources:
    """The resources of a launch: its function's, with the shared memory that the launch adds."""
    function = functions[step.code or ""][step.function or ""]
    return dataclasses.replace(function, shared_bytes=function.shared_bytes + (step.shared_bytes or 0))


def _refuse_state(cubins: Mapping[str, bytes]) -> None:
    for cubin in cubins.values():
        names = [variable.name for variable in read_variables(cubin)]
        # What restores them asks the driver for each by its name.
        if len(set(names)) < len(names):
            raise PlanError(Status.REJECTED, "has two device variables of one name")
    kept = sum(map(kept_bytes, cubins.values()))
    if kept > KEPT_BYTES:
        reason = f"has {kept} bytes of device variables, at most {KEPT_BYTES} are allowed; put scratch into a tensor"
        raise PlanError(Status.REJECTED, reason)
    hidden = [one for cubin in cubins.values() for one in hidden_memory(cubin)]
    nbytes = sum(one.nbytes for one in hidden)
    if nbytes > HIDDEN_BYTES or not all(one.beside_variables for one in hidden):
        raise PlanError(Status.REJECTED, f"has {nbytes} bytes of device variables that no symbol names")
    if any(map(uses_heap, cubins.values())):
        reason = "allocates on the device's heap, which outlives the call; put scratch into a tensor"
        raise PlanError(Status.REJECTED, reason)


def _refuse_undeclared_stacks(plans: Mapping[str, list[LaunchPlan]], functions: Functions) -> None:
    """Refuse machine code that hides how much it spills: drivers grant a usual stack whatever it declares.

    Registers and shared memory cannot be hidden: the device faults where code uses more than was asked for.
    """
    for sha, name in {(step.code or "", step.function or "") for step in _launches(plans)}:
        used, declared = stack_bytes(functions[sha][name].code), functions[sha][name].spill_bytes
        if used > declared:
            reason = f"{name[:80]} uses {used} bytes of stack or more, and its machine code declares {declared}"
            raise PlanError(Status.REJECTED, reason)


def _resources(
    plans: Mapping[str, list[LaunchPlan]], definition: ProblemDefinition, functions: Functions
) -> dict[str, Any]:
    """The launches' needs, as a build has them: by plan, and for all timed workloads together; tiny is never timed."""
    resources: dict[str, dict[str, int]] = {}
    for plan in (plan for each in plans.values() for plan in each):
        needs = [_needs(step, functions) for step in _launches({"": [plan]})]
        if needs:
            resources[plan.plan_id] = {name: max(getattr(one, name) for one in needs) for name in FIGURES}
    timed = {size.name: plans[size.name] for size in definition.sizes if size.name in plans}
    of_timed = [resources[plan.plan_id] for each in timed.values() for plan in each if plan.plan_id in resources]
    launched = {(step.code or "", step.function or "") for step in _launches(timed)}
    counts = largest_counts(count_instructions(functions[sha][name].code) for sha, name in launched)
    figures: dict[str, Any] = {name: max((one[name] for one in of_timed), default=None) for name in FIGURES}
    return figures | {"resources": resources, "instructions": counts or None}
