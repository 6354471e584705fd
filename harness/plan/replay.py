"""Replay: a plan carried out on memory that this process owns, as often as wanted, without a line of foreign Python.

Before every call, timed or not, everything a kernel could have kept from the last one is taken away: its outputs and
scratch memory are overwritten, its variables get their first values again, shared and local memory are overwritten, and
its memory lies elsewhere.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kbench.benchmark.problems.inputs import ITEM_BYTES
from kbench.harness.device.driver import DriverError, Function, Launch, LaunchShape, Parameters, call, tensor_map
from kbench.harness.device.scrub import LOCAL_BYTES
from kbench.harness.plan.resources import read_variables
from kbench.harness.verify.context import Guarded, intact
from kbench.schemas.records.launch_plan import ArgumentKind, LaunchPlan, PlanArgument, PlanStep, StepKind

if TYPE_CHECKING:
    from torch import Tensor

    from kbench.harness.device.device import CudaDevice
    from kbench.harness.verify.context import Stage

POISON_BYTE = 0xFF
"""Fills memory before a kernel gets it: a NaN in every floating type, and -1 in the integers."""
PLACES, PLACES_BYTES = 16, 512 << 20
"""Sets of output and scratch memory a kernel is called on in turn, as far as these bytes go; at least two. Where a few
lines of output lie decides how long a short kernel waits for them."""
POINTER = struct.Struct("<Q")
Queue = Callable[[], None]
"""Queues one operation on the stream."""


class LoadedCode:
    """Machine code in the device's memory, with its variables as they were when it was loaded."""

    def __init__(self, cubins: Mapping[str, bytes]) -> None:
        """Load machine code by hash."""
        self._modules = {sha: call("cuModuleLoadData", cubin) for sha, cubin in cubins.items()}
        self._functions: dict[tuple[str, str], Function] = {}
        self._variables: list[tuple[int, Tensor]] = []
        self.lost_variables: list[str] = []
        """Variables whose memory the driver does not tell: they keep what is written to them."""
        for sha, cubin in cubins.items():
            for variable in read_variables(cubin):
                self._snapshot(self._modules[sha], variable.name)

    def _snapshot(self, module: Any, name: str) -> None:
        import torch

        try:
            address, nbytes = call("cuModuleGetGlobal", module, name.encode())
        except DriverError:
            self.lost_variables.append(name)
            return
        copy = torch.empty(int(nbytes), dtype=torch.uint8, device="cuda")
        call("cuMemcpyDtoD", copy.data_ptr(), int(address), int(nbytes))
        self._variables.append((int(address), copy))

    def function(self, sha: str, name: str) -> Function:
        """A function by its symbol.

        Raises:
            DriverError: there is no such function.
        """
        if (sha, name) not in self._functions:
            self._functions[sha, name] = Function(self._modules[sha], name)
        return self._functions[sha, name]

    def restore(self, stream: int) -> None:
        """Queue giving every variable its first value."""
        for address, copy in self._variables:
            call("cuMemcpyDtoDAsync", address, copy.data_ptr(), copy.numel(), stream)

    @property
    def local_bytes(self) -> int:
        """Local memory per thread, the largest over the functions used."""
        return max((f.attribute("LOCAL_SIZE_BYTES") for f in self._functions.values()), default=0)

    def unload(self) -> None:
        """Free it."""
        for module in self._modules.values():
            call("cuModuleUnload", module)
        self._modules = {}


class Place:
    """One set of the memory that a plan allocates."""

    def __init__(self, plan: LaunchPlan, device: str) -> None:
        """Allocate it, with a pattern around every buffer."""
        import torch

        self.blocks: dict[int, Guarded] = {}
        for at, buffer in enumerate(plan.buffers):
            if buffer.input is None:
                self.blocks[at] = Guarded(torch.empty(buffer.nbytes, dtype=torch.uint8, device=device))
        self.outputs = tuple(self._output(plan, at) for at in range(len(plan.outputs)))

    def _output(self, plan: LaunchPlan, at: int) -> Tensor:
        import torch

        output = plan.outputs[at]
        count = 1
        for extent in output.shape:
            count *= extent
        end = output.offset + count * ITEM_BYTES[output.dtype]
        part = self.blocks[output.buffer].tensor[output.offset : end]
        return part.view(getattr(torch, output.dtype)).view(output.shape)

    def poison(self, stream: int) -> None:
        """Queue overwriting all of it."""
        for block in self.blocks.values():
            tensor = block.tensor
            if tensor.numel():
                call("cuMemsetD8Async", tensor.data_ptr(), POISON_BYTE, tensor.numel(), stream)

    def repair(self) -> None:
        """Queue writing the patterns around its buffers again."""
        for block in self.blocks.values():
            block.restore()


class Replay:
    """One plan on one problem's input buffers: a subject whose every byte the harness owns."""

    owned = True

    def __init__(self, plan: LaunchPlan, code: LoadedCode, stages: Sequence[Stage], device: CudaDevice) -> None:
        """Make ready.

        Args:
            plan: a plan that was checked.
            code: its machine code.
            stages: sets of input buffers.
            device: the GPU.

        Raises:
            DriverError: a function is missing, or its parameters do not fit the arguments.
        """
        self.plan, self._code, self._stream, self._scrubber = plan, code, device.stream, device.scrubber
        allocated = sum(buffer.nbytes for buffer in plan.buffers if buffer.input is None)
        count = min(PLACES, max(2, PLACES_BYTES // max(allocated, 1)))
        self.places = [Place(plan, device.torch_name) for _ in range(count)]
        self._turn = itertools.cycle(range(count))
        self._next = next(self._turn)
        self._touched: set[int] = set()
        """Places called on since damage was last looked for."""
        self._calls: dict[tuple[int, int], list[Queue]] = {}
        self._pointers = [self._addresses(stage) for stage in stages]
        # Functions and parameters are looked up now, so that what is wrong with them is found before any timing.
        self._prepared(0, 0)
        self._local_bytes = code.local_bytes

    @property
    def not_restored(self) -> list[str]:
        """What calls may find as the last one left it."""
        stack = ["local memory"] if self._local_bytes > LOCAL_BYTES[-1] else []
        return [f"variable {name}" for name in self._code.lost_variables] + stack

    def prepare(self) -> None:
        """Queue taking away all that the last calls left; the next call uses memory prepared by this."""
        self._next = next(self._turn)
        self.places[self._next].poison(self._stream)
        self._code.restore(self._stream)
        self._scrubber.queue(self._local_bytes)

    def call(self, stage: int) -> tuple[Tensor, ...]:
        """Queue the plan's operations on a set of input buffers; the outputs, once the stream has done them."""
        self._touched.add(self._next)
        for queue in self._prepared(stage, self._next):
            queue()
        return self.places[self._next].outputs

    def damage(self) -> str | None:
        """What wrote next to the plan's memory since this was asked last; the patterns are whole again afterwards."""
        touched = [self.places[at] for at in sorted(self._touched)]
        self._touched.clear()
        if intact([block for place in touched for block in place.blocks.values()]):
            return None
        for place in touched:
            place.repair()
        return "memory next to a buffer was overwritten"

    def _addresses(self, stage: Stage) -> dict[int, int]:
        given = stage.tensors
        return {
            at: given[buffer.input].data_ptr()
            for at, buffer in enumerate(self.plan.buffers)
            if buffer.input is not None
        }

    def _prepared(self, stage: int, place: int) -> list[Queue]:
        key = (stage, place)
        if key not in self._calls:
            owned = {at: block.tensor.data_ptr() for at, block in self.places[place].blocks.items()}
            addresses = self._pointers[stage] | owned
            self._calls[key] = [self._operation(step, addresses) for step in self.plan.steps]
        return self._calls[key]

    def _operation(self, step: PlanStep, addresses: Mapping[int, int]) -> Queue:
        if step.kind is StepKind.LAUNCH:
            return self._launch(step, addresses).queue
        assert step.buffer is not None
        assert step.offset is not None
        assert step.nbytes is not None
        target = addresses[step.buffer] + step.offset
        if step.kind is StepKind.COPY:
            assert step.source is not None
            assert step.source_offset is not None
            source = addresses[step.source] + step.source_offset
            return lambda: call("cuMemcpyDtoDAsync", target, source, step.nbytes, self._stream)
        return fill(target, step.nbytes, bytes.fromhex(step.pattern or "00"), self._stream)

    def _launch(self, step: PlanStep, addresses: Mapping[int, int]) -> Launch:
        assert step.code is not None
        assert step.function is not None
        function = self._code.function(step.code, step.function)
        arguments = [argument_bytes(argument, addresses) for argument in step.arguments or ()]
        shape = LaunchShape(
            step.grid,  # type: ignore[arg-type]
            step.block,  # type: ignore[arg-type]
            step.shared_bytes or 0,
            step.cluster,  # type: ignore[arg-type]
            bool(step.cooperative),
            bool(step.dependent),
        )
        return Launch(function, shape, Parameters(function, arguments), self._stream)


def argument_bytes(argument: PlanArgument, addresses: Mapping[int, int]) -> bytes:
    """An argument's bytes where the plan's memory lies at these addresses."""
    if argument.kind is ArgumentKind.VALUE:
        return bytes.fromhex(argument.data or "")
    address = 0 if argument.buffer is None else addresses[argument.buffer] + (argument.offset or 0)
    if argument.kind is ArgumentKind.POINTER:
        return POINTER.pack(address)
    assert argument.tensor_map is not None
    return tensor_map(argument.tensor_map, address)


def fill(address: int, nbytes: int, pattern: bytes, stream: int) -> Queue:
    """A fill with a repeated pattern of 1, 2, 4 or 8 bytes."""
    width, value = len(pattern), int.from_bytes(pattern, "little")
    if width < 8:
        name = f"cuMemsetD{8 * width}Async"
        return lambda: call(name, address, value, nbytes // width, stream)
    low, high = value & 0xFFFFFFFF, value >> 32

    def both() -> None:
        # Two columns of words, eight bytes from one row to the next.
        for offset, word in ((0, low), (4, high)):
            call("cuMemsetD2D32Async", address + offset, 8, word, 1, nbytes // 8, stream)

    return both
