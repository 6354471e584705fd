"""Accept: what a planning process sent becomes a build, checked by the parent, with ids that the parent computes."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kbench.benchmark.problems import problem
from kbench.benchmark.work.table import plain_work, read_work
from kbench.harness.device.target import Target
from kbench.harness.plan.cache import Build, readable
from kbench.harness.plan.check import MOST_CONFIGS, PlanError, read_plan
from kbench.harness.plan.resources import (
    Resources,
    hidden_memory,
    kept_bytes,
    largest,
    read_resources,
    read_variables,
    uses_heap,
)
from kbench.schemas import DataError, KernelSource, Status, to_dict
from kbench.schemas.ids import content_hash
from kbench.schemas.records.launch_plan import LaunchPlan, StepKind

if TYPE_CHECKING:
    # The parent reads plans without torch, which the planner needs.
    from kbench.harness.plan.planner import Planned

KEPT_BYTES = 64 << 20
"""Device variables a kernel may have: all are reset to their initial values before every call."""
HIDDEN_BYTES = 4096
"""Device memory between variables, which aligns them; more of it holds something that cannot be restored."""
FAILURES = (Status.COMPILE_ERROR, Status.LAUNCH_ERROR, Status.INCORRECT, Status.REJECTED)
"""What planning may find wrong with a kernel."""
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
"""What reading data of an unexpected form raises."""
MOST_VALUES = 4_000_000
"""Values in all plans of a kernel together: reading them takes the parent's time."""
MOST_OPCODES, LONGEST_OPCODE, MOST_COUNTED = 1000, 64, 2**40
"""Kinds of instructions that are counted, the length of their names, and what a count can be."""


def as_message(planned: Planned) -> dict[str, Any]:
    """What a planning process sends."""
    return {
        "plans": {name: [to_dict(plan) for plan in plans] for name, plans in planned.plans.items()},
        "cubins": [base64.b64encode(cubin).decode() for cubin in planned.cubins.values()],
        "status": planned.status.value,
        "error": planned.error,
        "unplannable": planned.unplannable,
        "instructions": planned.instructions,
        "work": planned.work,
        "asks_sm_count": planned.asks_sm_count,
    }


def accept(
    message: Mapping[str, Any], identity: str, kernel: KernelSource, target: Target, compile_ms: float
) -> tuple[Build, dict[str, bytes]]:
    """A build and its machine code from what a planning process sent; nothing of it is believed.

    Args:
        message: what it sent.
        identity: the build's id.
        kernel: what it was asked to plan.
        target: what it was asked to compile for.
        compile_ms: how long it took.
    """
    try:
        if message["error"] is not None:
            return _failed(message, identity), {}
        _refuse_size([message["plans"], message.get("work")])
        cubins = {hashlib.sha256(code).hexdigest(): code for code in map(_decoded, message["cubins"])}
        plans = _plans(message["plans"], kernel, target, cubins)
        _refuse_state(cubins)
        made = _described(identity, plans, cubins, compile_ms)
        work = _work(message.get("work"), plans)
        made = dataclasses.replace(made, instructions=_counts(message["instructions"]), work=work)
    except PlanError as error:
        return Build(identity, error.status.value, readable(error.reason)), {}
    except MALFORMED as error:
        reason = f"left no valid plan: {type(error).__name__}: {error}"
        return Build(identity, Status.REJECTED.value, readable(reason)), {}
    return made, cubins


def _refuse_size(plans: Any) -> None:
    waiting, count = [plans], 0
    while waiting:
        value = waiting.pop()
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        count += len(inner)
        if count > MOST_VALUES:
            raise DataError(f"its plans have more than {MOST_VALUES} values")
        waiting.extend(inner)


def _counts(sent: Mapping[str, Any] | None) -> dict[str, int] | None:
    if sent is None:
        return None
    counts = {str(name): int(count) for name, count in sent.items()}
    plain = all(name.isascii() and len(name) <= LONGEST_OPCODE for name in counts)
    if len(counts) > MOST_OPCODES or not plain or not all(0 <= count <= MOST_COUNTED for count in counts.values()):
        raise DataError("its instruction counts are malformed")
    return counts


def _work(
    sent: Mapping[str, Any] | None, plans: Mapping[str, list[LaunchPlan]]
) -> dict[str, list[dict[str, Any]]] | None:
    if sent is None:
        return None
    return {name: [plain_work(read_work(one)) for one in sent[name]] for name in plans if name in sent}


def _failed(message: Mapping[str, Any], identity: str) -> Build:
    status = Status(message["status"])
    if status not in FAILURES:
        raise ValueError(f"status is {status}")
    return Build(identity, status.value, readable(str(message["error"])), unplannable=bool(message["unplannable"]))


def _decoded(text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"machine code is no base64: {error}") from None


def _plans(
    data: Mapping[str, Any], kernel: KernelSource, target: Target, cubins: Mapping[str, bytes]
) -> dict[str, list[LaunchPlan]]:
    definition = problem(kernel.problem_id)
    found: dict[str, list[LaunchPlan]] = {}
    for size in (*definition.sizes, definition.tiny):
        sent = data[size.name][: MOST_CONFIGS + 1]
        plans = [read_plan(plan, kernel, definition, size, target.nvrtc, cubins) for plan in sent]
        if not 1 <= len(plans) <= MOST_CONFIGS:
            raise DataError(f"workload {size.name!r} has {len(plans)} plans; it must have 1 to {MOST_CONFIGS}")
        found[size.name] = plans
    return found


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


def _described(
    identity: str, plans: Mapping[str, list[LaunchPlan]], cubins: Mapping[str, bytes], compile_ms: float
) -> Build:
    found: list[Resources] = [r for cubin in cubins.values() for r in read_resources(cubin).values()]
    most = largest(found)
    launches = [step for each in plans.values() for plan in each for step in plan.steps if step.kind is StepKind.LAUNCH]
    dynamic = max((step.shared_bytes or 0 for step in launches), default=0)
    used = tuple(sorted({step.code for step in launches if step.code is not None}))
    return Build(
        identity,
        compile_ms=compile_ms,
        registers=most.registers if most else None,
        shared_bytes=max(most.shared_bytes, dynamic) if most else None,
        spill_bytes=most.spill_bytes if most else None,
        cubin_sha=content_hash(*sorted(cubins.values())) if cubins else None,
        plans={name: [to_dict(plan) for plan in each] for name, each in plans.items()},
        code=used,
    )
