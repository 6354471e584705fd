"""Reference times: every problem's reference in eager PyTorch, through torch.compile and as the vendor's call."""

from __future__ import annotations

import dataclasses
import datetime
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

from kbench.benchmark.problems import ProblemDefinition, Size
from kbench.benchmark.problems.check import first_line
from kbench.benchmark.problems.compare import compare
from kbench.benchmark.problems.vendor import vendor_calls
from kbench.harness.bench.context import ProblemContext
from kbench.harness.device.device import CpuDevice, CudaDevice, Device
from kbench.harness.device.environment import NvmlReader, device_facts, software_facts
from kbench.harness.timing.batch import Sampler
from kbench.harness.timing.rounds import ramp
from kbench.loaders.storage.lines import LineWriter, parse_json, read_records
from kbench.schemas import KbenchError, ReferenceTime, UserError, require_package, to_dict

Call = Callable[..., Any]
Compiler = Callable[[Call], Call]
LAZY = "kbench.benchmark.problems"


def open_device(gpu: int | None) -> Device:
    """The device to time on, with torch set as the harness's workers set it; the CPU for None."""
    require_package("torch", "gpu", "timing references")
    import torch

    torch.set_grad_enabled(False)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    if gpu is None:
        return CpuDevice()
    if not torch.cuda.is_available():
        raise UserError("no CUDA device is visible; time references on a GPU, or give --cpu for a dry run")
    NvmlReader(gpu)  # opens NVML, which the facts about the GPU come from
    return CudaDevice(gpu)


def measure_references(
    chosen: Sequence[ProblemDefinition], out: Path, device: Device, deadline_s: float | None, compiler: Compiler
) -> Iterator[ReferenceTime | str]:
    """Time what the file lacks and append each row when it is there; a text says which workload failed and why."""
    stop = None if deadline_s is None else time.monotonic() + deadline_s
    done = {(row.problem_id, row.workload) for row in read_records(out, ReferenceTime)} if out.exists() else set()
    facts, sampler = device_facts(device) | software_facts(), Sampler(device)
    for one in chosen:
        for size in one.sizes if device.is_gpu else (one.tiny,):
            if (one.id, size.name) in done:
                continue
            if stop is not None and time.monotonic() > stop:
                return
            try:
                row = _timed(one, size, device, sampler, facts, compiler)
            except KbenchError:
                raise
            except Exception as error:  # noqa: BLE001 - one broken reference must not lose the others
                yield f"{one.id}/{size.name}: {type(error).__name__}: {first_line(error)}"
                continue
            finally:
                device.release()
            with LineWriter(out, parse_json) as lines:
                lines.append([json.dumps(to_dict(row))])
            yield row


def default_compiler(call: Call) -> Call:
    """`torch.compile` for the one shape at hand."""
    import torch

    torch._dynamo.reset()
    compiled: Call = torch.compile(call, dynamic=False)
    return compiled


def _timed(
    one: ProblemDefinition, size: Size, device: Device, sampler: Sampler, facts: dict[str, Any], compiler: Compiler
) -> ReferenceTime:
    context = ProblemContext(one, size, device, (0,))
    for buffers in context.sets:
        buffers.reset(context.references[0])
    eager = ramp(context, sampler)
    compiled = {"torch.compile": compiler(with_plain_torch(one.reference))}
    _, compiled_us, compiled_error = _best(context, compiled, sampler)
    vendor, vendor_us, vendor_error = _best(context, vendor_calls(one), sampler)
    return ReferenceTime(
        problem_id=one.id, workload=size.name, gpu=facts["gpu"], reference_us=eager, compiled_us=compiled_us,
        compiled_error=compiled_error, vendor_us=vendor_us, vendor=vendor, vendor_error=vendor_error,
        torch=facts["torch"], driver=facts["driver"],
        measured_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )  # fmt: skip


def _best(
    context: ProblemContext, calls: Mapping[str, Call], sampler: Sampler
) -> tuple[str | None, float | None, str | None]:
    """The fastest correct call: its name, its steady time, or what went wrong with the last one."""
    original, times, error = context.definition, [], None
    inputs = context.sets[0].inputs
    for name, call in calls.items():
        try:
            verdict = compare(call(*inputs), original.expected(inputs), original.tolerance, context.outputs)
            if not verdict.ok:
                error = f"{name}: {verdict.reason}"
                continue
            # A name of its own, because the sampler remembers by it how long the host needs for a call.
            context.definition = dataclasses.replace(original, id=f"{original.id} {name}", reference=call)
            times.append((ramp(context, sampler), name))
        except Exception as caught:  # noqa: BLE001 - whatever a library or compiler raises is the finding
            error = f"{name}: {type(caught).__name__}: {first_line(caught)}"
        finally:
            context.definition = original
    if not times:
        return None, None, error
    best_us, name = min(times)
    return name, best_us, None


def with_plain_torch(reference: Call, seen: dict[int, dict[str, Any]] | None = None) -> Call:
    """The reference with torch itself in place of its lazy stand-in, through which torch.compile cannot look."""
    import torch

    seen = {} if seen is None else seen
    if not isinstance(reference, FunctionType):
        return reference
    own = reference.__globals__
    if id(own) not in seen:
        plain = seen[id(own)] = {**own, "torch": torch, "F": torch.nn.functional}
        for name, value in own.items():
            if isinstance(value, FunctionType) and value.__module__.startswith(LAZY):
                plain[name] = with_plain_torch(value, seen)
    return FunctionType(
        reference.__code__, seen[id(own)], reference.__name__, reference.__defaults__, reference.__closure__
    )
