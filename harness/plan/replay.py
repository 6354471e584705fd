"""Replay: a plan carried out on memory that this process owns, any number of times, without any foreign Python.

Before a call, timed or not, everything a kernel could have kept from an earlier one is erased: all output and
scratch memory is overwritten, its variables are reset to their initial values, shared and local memory are overwritten,
and its buffers move. None of that may serve a kernel instead of work of its own: what memory holds changes from call
to call, and one judged call finds the variables as the call before it left them.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import random
import secrets
import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from kbench.benchmark.problems.inputs import ITEM_BYTES
from kbench.harness.bench.subject import Subject
from kbench.harness.device.device import POISON_BYTE
from kbench.harness.device.driver import (
    Launch,
    LaunchShape,
    Parameters,
    Queue,
    bound,
    pointer,
    stream_handle,
    tensor_map,
)
from kbench.harness.device.kernels import keyed
from kbench.harness.device.kernels.same_bytes import Claim
from kbench.harness.device.kernels.scrub import LOCAL_BYTES, NOT_WATCHED, PARTS, Region
from kbench.harness.plan.loaded_code import LoadedCode
from kbench.schemas.records.launch_plan import ArgumentKind, LaunchPlan, PlanArgument, PlanStep, StepKind

if TYPE_CHECKING:
    from torch import Tensor

    from kbench.harness.bench.context import Buffers
    from kbench.harness.bench.reference_inputs import Drawing
    from kbench.harness.device.device import CudaDevice

PLACES, PLACES_BYTES = 16, 64 << 20
"""Sets of output and scratch memory that calls are spread over, as far as these bytes go; at least two. Where a few
lines of output lie decides how long a short kernel waits for them. All are overwritten before every call, which must
not take much longer than the call."""
POINTER = struct.Struct("<Q")
LOUD_BYTES, LOUD_SHARE = (*range(0x60, 0x80), *range(0xE0, 0x100)), 0.75
"""What memory is mostly overwritten with: large numbers, or none, in floating-point types from 16 bits on, so that what
a kernel does not write is wrong."""
GUARD_BYTES, ALIGNMENT = 4096, 512
"""Guard bytes around a buffer, and the alignment of its address."""


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """Where buffers lie in a block of memory."""

    starts: Mapping[int, int]
    """Where each begins, by its number."""
    guards: Sequence[tuple[int, int]]
    """The stretches before, between and after them."""
    nbytes: int


def lay_out(sizes: Mapping[int, int]) -> Layout:
    """One block for all buffers, with guard bytes around each, so that it can be overwritten as one."""
    starts: dict[int, int] = {}
    guards, end = [], 0
    for at, nbytes in sizes.items():
        starts[at] = aligned(end + GUARD_BYTES)
        guards.append((end, starts[at]))
        end = starts[at] + nbytes
    whole = aligned(end + GUARD_BYTES)
    return Layout(starts, [*guards, (end, whole)], whole)


def aligned(nbytes: int) -> int:
    """The next multiple of the alignment."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


class Place:
    """One set of the memory that a plan allocates."""

    def __init__(self, plan: LaunchPlan, blocks: Sequence[tuple[Tensor, Layout]]) -> None:
        """Take memory: blocks of bytes, and which of the plan's buffers lie where in each."""
        self._plan, self._blocks = plan, blocks
        self.addresses = {
            at: block.data_ptr() + start for block, layout in blocks for at, start in layout.starts.items()
        }

    @functools.cached_property
    def memory(self) -> dict[int, Tensor]:
        """Each buffer's bytes."""
        sizes = [buffer.nbytes for buffer in self._plan.buffers]
        return {
            at: block[start : start + sizes[at]]
            for block, layout in self._blocks
            for at, start in layout.starts.items()
        }

    @functools.cached_property
    def outputs(self) -> tuple[Tensor, ...]:
        """The plan's outputs."""
        import torch

        outputs: list[Tensor] = []
        for output in self._plan.outputs:
            end = output.offset + math.prod(output.shape) * ITEM_BYTES[output.dtype]
            part = self.memory[output.buffer][output.offset : end]
            outputs.append(part.view(getattr(torch, output.dtype)).view(output.shape))
        return tuple(outputs)

    @functools.cached_property
    def guards(self) -> list[Tensor]:
        """The memory around the buffers; none where nothing is mapped there."""
        return [block[start:stop] for block, layout in self._blocks for start, stop in layout.guards]


def make_places(plan: LaunchPlan, device: CudaDevice, count: int) -> tuple[list[Place], list[Region]]:
    """Several sets of the memory that a plan allocates; and where all of it lies, guard bytes included."""
    import torch

    allocate = functools.partial(torch.empty, dtype=torch.uint8, device=device.torch_name)
    sizes = {at: buffer.nbytes for at, buffer in enumerate(plan.buffers) if buffer.input is None}
    if device.fenced:
        # Each buffer ends where its mapping ends.
        alone = [(Layout({at: 0}, (), size), size) for at, size in sizes.items()]
        blocks = [[(allocate(size), layout) for layout, size in alone] for _ in range(count)]
        whole = [block for pieces in blocks for block, _ in pieces]
    else:
        layout = lay_out(sizes)
        whole = [allocate((count, layout.nbytes))]
        blocks = [[(block, layout)] for block in whole[0]]
    return [Place(plan, pieces) for pieces in blocks], [(block.data_ptr(), block.numel()) for block in whole]


def some_byte() -> int:
    """A byte to overwrite memory with: mostly a loud one, and sometimes any, so that a kernel can rely on none.

    The same in verification as in timing: what its outputs hold must not tell a kernel which it is.
    """
    return random.choice(LOUD_BYTES) if random.random() < LOUD_SHARE else random.randrange(256)


class Replay(Subject):
    """One plan on one problem's input buffers: a subject whose every byte the harness owns."""

    owned = True

    def __init__(self, plan: LaunchPlan, code: LoadedCode, sets: Sequence[Buffers], device: CudaDevice) -> None:
        """Make ready.

        Args:
            plan: a plan that was checked.
            code: its machine code.
            sets: sets of input buffers.
            device: the GPU.

        Raises:
            DriverError: a function is missing, or its parameters do not fit the arguments.
        """
        self.plan, self._code, self._device, self._stream = plan, code, device, device.stream
        self.plan_id = plan.plan_id
        allocated = sum(buffer.nbytes for buffer in plan.buffers if buffer.input is None)
        count = min(PLACES, max(2, PLACES_BYTES // max(allocated, 1)))
        self.places, memory = make_places(plan, device, count)
        each = max(2, count // len(sets))
        # Few for each set of inputs: making calls ready for a pair of both takes as long as queueing them.
        self._places_of = [[(at * each + n) % count for n in range(each)] for at in range(len(sets))]
        self._next = 0
        self._launches: dict[int, Launch] = {}
        """By step."""
        self._calls: dict[tuple[int, int], list[Queue]] = {}
        """The operations of a call, by set of inputs and place."""
        inputs = [(at, buffer.input) for at, buffer in enumerate(plan.buffers) if buffer.input is not None]
        self._pointers = [{at: buffers.tensors[place].data_ptr() for at, place in inputs} for buffers in sets]
        self._buffers, self.sets = sets, len(sets)
        self._fingerprints = Fingerprints(device)
        self._watching = [device.scrubber.watching(self._output_parts(place)) for place in self.places]
        self._unread: tuple[Drawing | None, int] | None = None
        """Inputs and place of the last call, as long as its outputs are there."""
        self._byte = POISON_BYTE
        """The byte that memory was last overwritten with."""
        # Functions and parameters are looked up now, so that what is wrong with them is found before any timing.
        self._prepared(0, 0)
        self._restore = code.restore(device)
        launches = [step for step in plan.steps if step.kind is StepKind.LAUNCH]
        functions = [code.function(str(step.code), str(step.function)) for step in launches]
        self._local_bytes = max((function.attribute("LOCAL_SIZE_BYTES") for function in functions), default=0)
        """Local memory per thread, the largest over the functions launched."""
        code.seal(device)
        self._scrub = device.scrubber.overwriting(memory, self._local_bytes)
        watched = [nbytes for _, nbytes in self._output_parts(self.places[0])]
        self.form = (sum(nbytes for _, nbytes in memory), *watched, self._local_bytes, *code.restored_bytes)

    @property
    def warps(self) -> float:
        """Warps that a call starts on each multiprocessor, in the mean."""
        launches = [step for step in self.plan.steps if step.kind is StepKind.LAUNCH]
        warps = (math.prod(step.grid or ()) * -(-math.prod(step.block or ()) // 32) for step in launches)
        return sum(warps) / self._device.sm_count

    @property
    def not_restored(self) -> list[str]:
        """Memory that a call may find as the previous one left it."""
        stack = ["local memory"] if self._local_bytes > LOCAL_BYTES[-1] else []
        return [*self._code.not_restored, *stack]

    def prepare(self, set_number: int, *, poison: bool = False, restore: bool = True) -> None:
        """Queue erasing everything that earlier calls left; the next call uses memory prepared by this."""
        self._byte = POISON_BYTE if poison else some_byte()
        self.erase()
        # At random: by a rotation a kernel could tell how many calls there were before it.
        self._next = random.choice([place for place in self._places_of[set_number] if place != self._next])
        for queue in self._restore if restore else ():
            queue()

    def erase(self) -> None:
        """Queue overwriting all memory: what earlier calls wrote lies within reach of one that guesses where."""
        watched = NOT_WATCHED
        if self._unread is not None and not self._device.fenced:
            inputs, place = self._unread
            watched = self._watching[place] + self._fingerprints.expect(inputs)
        self._unread = None
        self._scrub(watched, self._byte)

    def _output_parts(self, place: Place) -> list[Region]:
        sizes = [math.prod(output.shape) * ITEM_BYTES[output.dtype] for output in self.plan.outputs]
        starts = [place.addresses[output.buffer] + output.offset for output in self.plan.outputs]
        assert len(sizes) <= PARTS
        return list(zip(starts, sizes, strict=True))

    def fingerprints(self) -> list[tuple[Drawing, int]]:
        """A number for the outputs of each call since the last time, and its inputs; equal for equal bytes."""
        if self._unread is not None:
            self.erase()
        return self._fingerprints.take()

    def damaged(self) -> str | None:
        return self._code.damaged(self._device)

    def call(self, set_number: int) -> tuple[Tensor, ...]:
        """Queue the plan's operations on a set of input buffers; the outputs, once the stream has done them."""
        for queue in self._prepared(set_number, self._next):
            queue()
        held = self._buffers[set_number].holds
        self._unread = None if held is None else (held.drawing, self._next)
        return self.places[self._next].outputs

    def idle(self, set_number: int) -> None:
        """Queue an empty kernel in place of a call; a fingerprint is taken of what it leaves, and dropped."""
        self._device.nothing()
        self._unread = (None, self._next)

    def claims(self) -> list[tuple[str, Claim]]:
        """Claims that hold if the last call wrote nothing around the plan's buffers."""
        return [("memory next to a buffer was overwritten", (g, self._byte)) for g in self.places[self._next].guards]

    def _prepared(self, set_number: int, place: int) -> list[Queue]:
        key = (set_number, place)
        if key not in self._calls:
            addresses = self._pointers[set_number] | self.places[place].addresses
            self._calls[key] = [self._operation(at, addresses) for at in range(len(self.plan.steps))]
        return self._calls[key]

    def _operation(self, number: int, addresses: Mapping[int, int]) -> Queue:
        step = self.plan.steps[number]
        if step.kind is StepKind.LAUNCH:
            arguments = [argument_bytes(argument, addresses) for argument in step.arguments or ()]
            if number not in self._launches:
                # What precedes the first is the harness's, and lies before the start mark. A copy may be of no bytes.
                follows = number > 0 and self.plan.steps[number - 1].kind is StepKind.LAUNCH
                self._launches[number] = self._launch(step, arguments, follows=follows)
            return self._launches[number].on(arguments)
        assert step.buffer is not None
        assert step.offset is not None
        assert step.nbytes is not None
        target = addresses[step.buffer] + step.offset
        if step.kind is StepKind.COPY:
            assert step.source is not None
            assert step.source_offset is not None
            source = addresses[step.source] + step.source_offset
            handle = stream_handle(self._stream)
            return bound("cuMemcpyDtoDAsync", pointer(target), pointer(source), step.nbytes, handle)
        return self._device.scrubber.filling(target, step.nbytes, bytes.fromhex(step.pattern or "00"))

    def _launch(self, step: PlanStep, arguments: Sequence[bytes], *, follows: bool) -> Launch:
        assert step.code is not None
        assert step.function is not None
        function = self._code.function(step.code, step.function)
        shape = LaunchShape(
            step.grid,  # type: ignore[arg-type]
            step.block,  # type: ignore[arg-type]
            step.shared_bytes or 0,
            step.cluster,  # type: ignore[arg-type]
            bool(step.cooperative),
            bool(step.dependent) and follows,
            bool(step.prefer_shared),
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


MOST_CALLS = 8192
"""Calls whose fingerprints are kept until they are asked for."""
WHERE = struct.Struct("<2Q")
"""A random number, which the pad of a fingerprint depends on, and where the fingerprint goes."""


class Fingerprints:
    """A number for the outputs of each call, taken when they are overwritten, and the inputs they belong to."""

    def __init__(self, device: CudaDevice) -> None:
        """Make room."""
        self._base = keyed.random_words(MOST_CALLS)
        """Numbers that fingerprints are added to: zeros would show a kernel how many calls there were before it."""
        self._values = self._base.to(device.torch_name, copy=True)
        self._inputs: list[Drawing | None] = []
        self._nonces: list[int] = []
        """What else is added, as a pad: a kernel that sees the numbers of before and after could learn what its own
        outputs add."""

    def expect(self, inputs: Drawing | None) -> bytes:
        """The place for the fingerprint of a call on some inputs, packed; for None, of one that nobody asks for."""
        at = len(self._inputs)
        assert at < MOST_CALLS, "the fingerprints of calls must be taken now and then"
        self._inputs.append(inputs)
        self._nonces.append(secrets.randbits(64))
        return WHERE.pack(self._nonces[-1], int(self._values.data_ptr()) + 8 * at)

    def take(self) -> list[tuple[Drawing, int]]:
        """Fingerprints of the calls since the last time, in order; waits for the device."""
        used = len(self._inputs)
        places = np.arange(used, dtype=np.uint64) * 8 + self._values.data_ptr()
        pads = keyed.pad(np.array(self._nonces, dtype=np.uint64), places, keyed.WORD)
        values = (self._values[:used].cpu() - self._base[:used]).numpy().view(np.uint64) - pads
        taken = zip(self._inputs, values.tolist(), strict=True)
        fingerprints = [(inputs, value) for inputs, value in taken if inputs is not None]
        self._base[:used] = keyed.random_words(used)
        # All of them: a kernel may have left a note where none was expected.
        self._values.copy_(self._base)
        self._inputs.clear()
        self._nonces.clear()
        return fingerprints
