"""Recorder: records what host code allocates, fills, copies and launches while it runs on tensors without memory.

This runs in the planning process, beside foreign code, so nothing it writes is believed: the trusted side checks every
plan as data from outside (see `plan.check`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from kbench.harness.cuda import scalar_bytes
from kbench.harness.device.driver import LaunchShape
from kbench.harness.kernel.loading import MODULE_PREFIX
from kbench.schemas.records.launch_plan import (
    ArgumentKind,
    PlanArgument,
    PlanBuffer,
    PlanOutput,
    PlanStep,
    StepKind,
    TensorMapSpec,
)

if TYPE_CHECKING:
    import torch
    from torch import Tensor

MOST_STEPS, MOST_BUFFERS = 4096, 8192
"""Steps and blocks of memory of one call; host code that needs more is taken for an endless loop."""


class UnplannableError(Exception):
    """Host code does something that cannot be recorded as a plan; the message says what."""

    first: ClassVar[str | None] = None
    """The reason of the first one since this was reset, whoever caught it."""

    def __init__(self, reason: str) -> None:
        """Remember the first reason."""
        super().__init__(reason)
        UnplannableError.first = UnplannableError.first or reason


@contextlib.contextmanager
def replaced(owner: Any, **stand_ins: Any) -> Iterator[None]:
    """Inside, these attributes of a module or class have other values."""
    real = {name: getattr(owner, name) for name in stand_ins}
    for name, stand_in in stand_ins.items():
        setattr(owner, name, stand_in)
    try:
        yield
    finally:
        for name, value in real.items():
            setattr(owner, name, value)


@dataclasses.dataclass(frozen=True, slots=True)
class Code:
    """A loadable function: which machine code it is in, and under which symbol."""

    sha: str
    function: str


class Recorder:
    """The memory and the steps of one call of `run`."""

    def __init__(self, inputs: Sequence[Any]) -> None:
        """Start with the inputs' memory.

        Args:
            inputs: what `run` is called with; tensors are on the meta device, each with a storage of its own.
        """
        self.buffers: list[PlanBuffer] = []
        self.steps: list[PlanStep] = []
        self._places: dict[int, int] = {}
        self._storages: dict[int, Any] = {}
        """All memory of the call; kept alive, because a freed storage's identity is reused for the next."""
        for at, value in enumerate(inputs):
            if hasattr(value, "untyped_storage"):
                self._add(value, at)

    def _add(self, tensor: Tensor, position: int | None) -> int:
        storage = self.allocated(tensor)
        self._places[storage._cdata] = len(self.buffers)
        return self.allocate(storage.nbytes(), position)

    def allocated(self, tensor: Tensor) -> Any:
        """Take note of memory that the call allocates; it becomes a buffer once it is used."""
        storage = tensor.untyped_storage()
        if len(self._storages) >= MOST_BUFFERS:
            raise UnplannableError(f"allocates more than {MOST_BUFFERS} blocks of memory in one call")
        self._storages[storage._cdata] = storage
        return storage

    def place(self, tensor: Tensor) -> tuple[int, int]:
        """The buffer a tensor lies in, and its first byte there.

        Raises:
            UnplannableError: it lies on the host, or the call did not allocate it.
        """
        if in_host_memory(tensor):
            raise UnplannableError(
                f"uses host memory{kernel_line()}: a tensor lies on the CPU; make it with"
                " `device=x.device`, where x is an input"
            )
        identity = tensor.untyped_storage()._cdata
        buffer = self._places.get(identity)
        if buffer is None:
            if identity not in self._storages:
                raise UnplannableError("uses memory that the call did not allocate: what it holds is not known")
            buffer = self._add(tensor, None)
        return buffer, int(tensor.storage_offset()) * tensor.element_size()

    def allocate(self, nbytes: int, position: int | None = None) -> int:
        """A buffer: an input's, or one that only the launch sees, such as a compiler's scratch memory."""
        self.buffers.append(PlanBuffer(nbytes=nbytes, input=position))
        return len(self.buffers) - 1

    def _append(self, step: PlanStep) -> None:
        if len(self.steps) >= MOST_STEPS:
            raise UnplannableError(f"queues more than {MOST_STEPS} operations in one call")
        self.steps.append(step)

    def fill(self, tensor: Tensor, value: float) -> None:
        """Record that every element of a tensor is set."""
        if tensor.numel() == 0:
            return
        require_contiguous(tensor, "fills")
        buffer, offset = self.place(tensor)
        nbytes = tensor.numel() * tensor.element_size()
        pattern = element_bytes(value, tensor.dtype)
        self._append(PlanStep(kind=StepKind.FILL, buffer=buffer, offset=offset, nbytes=nbytes, pattern=pattern.hex()))

    def copy(self, target: Tensor, source: Tensor) -> None:
        """Record that one tensor is copied over another of the same type and size."""
        if target.numel() == 0:
            return
        if target.dtype != source.dtype or target.shape != source.shape:
            raise UnplannableError("copies between tensors of different types or shapes: torch would compute")
        require_contiguous(target, "copies to")
        require_contiguous(source, "copies")
        (buffer, offset), (read, read_at) = self.place(target), self.place(source)
        nbytes = target.numel() * target.element_size()
        step = PlanStep(
            kind=StepKind.COPY, buffer=buffer, offset=offset, nbytes=nbytes, source=read, source_offset=read_at
        )
        self._append(step)

    def launch(self, code: Code, shape: LaunchShape, arguments: Sequence[PlanArgument]) -> None:
        """Record a launch."""
        step = PlanStep(
            kind=StepKind.LAUNCH,
            code=code.sha,
            function=code.function,
            grid=shape.grid,
            block=shape.block,
            cluster=shape.cluster,
            cooperative=shape.cooperative,
            dependent=shape.dependent,
            shared_bytes=shape.shared_bytes,
            prefer_shared=shape.prefer_shared,
            arguments=tuple(arguments),
        )
        self._append(step)

    def pointer(self, tensor: Tensor | None) -> PlanArgument:
        """A tensor as an argument."""
        if tensor is None:
            return PlanArgument(kind=ArgumentKind.POINTER)
        buffer, offset = self.place(tensor)
        return PlanArgument(kind=ArgumentKind.POINTER, buffer=buffer, offset=offset)

    def tensor_map(self, tensor: Tensor, spec: TensorMapSpec) -> PlanArgument:
        """A tensor-map descriptor of a tensor as an argument."""
        buffer, offset = self.place(tensor)
        return PlanArgument(kind=ArgumentKind.TENSOR_MAP, buffer=buffer, offset=offset, tensor_map=spec)

    def output(self, tensor: Tensor) -> PlanOutput:
        """A returned tensor."""
        buffer, offset = self.place(tensor)
        name = str(tensor.dtype).removeprefix("torch.")
        return PlanOutput(buffer=buffer, offset=offset, dtype=name, shape=tuple(tensor.shape))


def kernel_line() -> str:
    """The line of the kernel's file that is being carried out, in words; empty where there is none."""
    frame = sys._getframe()
    while frame is not None and not frame.f_code.co_filename.startswith(MODULE_PREFIX):
        frame = frame.f_back  # type: ignore[assignment]
    return "" if frame is None else f" at line {frame.f_lineno}"


def real_device(tensor: Tensor) -> torch.device:
    """The device a tensor is on, whatever it says of itself: `meta` for one that stands for memory of the GPU."""
    import torch

    # Neither planning, which answers `tensor.device`, nor a subclass of foreign code has a say in this.
    with torch._C.DisableTorchFunction():
        device: torch.device = torch._C.TensorBase.device.__get__(tensor)
    return device


def in_host_memory(tensor: Tensor) -> bool:
    """Whether a tensor really has memory, on the host."""
    return real_device(tensor).type != "meta"


def require_contiguous(tensor: Tensor, verb: str) -> None:
    """Refuse what a fill or copy of one range cannot do."""
    if not tensor.is_contiguous():
        raise UnplannableError(f"{verb} a tensor that is not contiguous: torch would launch a kernel of its own")


def element_bytes(value: float, dtype: Any) -> bytes:
    """One element's bytes."""
    import torch

    return bytes(torch.full((1,), value, dtype=dtype, device="cpu").view(torch.uint8).tolist())


SCALARS: Mapping[str, str] = {
    "i1": "<b", "i8": "<b", "i16": "<h", "i32": "<i", "i64": "<q",
    "u1": "<B", "u8": "<B", "u16": "<H", "u32": "<I", "u64": "<Q",
    "fp16": "<e", "fp32": "<f", "f32": "<f", "fp64": "<d",
}  # fmt: skip
"""How values of Triton's scalar types are packed; bf16 is made from fp32."""


def typed_value(value: Any, kind: str) -> PlanArgument:
    """A Python number as an argument of one of Triton's scalar types."""
    data = struct.pack("<f", value)[2:] if kind == "bf16" else struct.pack(SCALARS[kind], value)
    return PlanArgument(kind=ArgumentKind.VALUE, data=data.hex())


def plain_value(value: Any) -> PlanArgument:
    """A Python number or ctypes value as an argument of a CUDA function."""
    try:
        return PlanArgument(kind=ArgumentKind.VALUE, data=scalar_bytes(value).hex())
    except TypeError:
        raise UnplannableError(f"passes a {type(value).__name__} to a CUDA function") from None
