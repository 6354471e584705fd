"""LaunchPlan: what a kernel's host code does on one workload, as data: memory, fills, copies and launches."""

from __future__ import annotations

import dataclasses
import enum
from typing import Annotated, ClassVar

from kbench.schemas.record import Count, Limit, Name, Record, Sha

Hex = Annotated[str, Limit(pattern="^([0-9a-f]{2})*$")]


class StepKind(enum.StrEnum):
    """What a step of a plan does."""

    FILL = "fill"
    COPY = "copy"
    LAUNCH = "launch"


class ArgumentKind(enum.StrEnum):
    """What a launch argument is."""

    POINTER = "pointer"
    VALUE = "value"
    TENSOR_MAP = "tensor_map"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlanBuffer(Record):
    """One block of device memory: an input, or memory the host code allocates."""

    TYPE: ClassVar[str] = "plan_buffer"
    VERSION: ClassVar[str] = "1.0.0"

    nbytes: Count
    """Size."""
    input: Count | None = None
    """Position among the problem's inputs; null for memory that the host code allocates."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlanOutput(Record):
    """One returned tensor, contiguous at a place in a buffer."""

    TYPE: ClassVar[str] = "plan_output"
    VERSION: ClassVar[str] = "1.0.0"

    buffer: Count
    """The buffer it lies in."""
    offset: Count
    """First byte within the buffer."""
    dtype: str
    """Element type as torch names it."""
    shape: tuple[Count, ...]
    """Extents, outermost first."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TensorMapSpec(Record):
    """A tensor-map descriptor (TMA) by its parameters, innermost dimension first as the driver takes them."""

    TYPE: ClassVar[str] = "tensor_map"
    VERSION: ClassVar[str] = "1.0.0"

    element_type: Count
    """The driver's number of the element type."""
    extents: tuple[Count, ...]
    """Elements along each dimension."""
    strides: tuple[Count, ...]
    """Bytes from one element to the next along every dimension but the innermost."""
    box: tuple[Count, ...]
    """Elements of one transfer along each dimension."""
    swizzle: Count
    """The driver's number of the swizzle mode."""
    nan_fill: bool
    """Whether elements outside the tensor read as NaN instead of zero."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlanArgument(Record):
    """One parameter of a launched function."""

    TYPE: ClassVar[str] = "plan_argument"
    VERSION: ClassVar[str] = "1.0.0"

    kind: ArgumentKind
    """Pointer, value or tensor map."""
    buffer: Count | None = None
    """For pointers and tensor maps: the buffer; null for a null pointer."""
    offset: Count | None = None
    """First byte within the buffer."""
    data: Hex | None = None
    """For values: the bytes, little endian."""
    tensor_map: TensorMapSpec | None = None
    """For tensor maps: their parameters."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlanStep(Record):
    """One operation on the stream."""

    TYPE: ClassVar[str] = "plan_step"
    VERSION: ClassVar[str] = "1.1.0"

    kind: StepKind
    """Fill, copy or launch."""
    buffer: Count | None = None
    """Fills and copies: the buffer written."""
    offset: Count | None = None
    """Fills and copies: first byte written."""
    nbytes: Count | None = None
    """Fills and copies: bytes written."""
    pattern: Hex | None = None
    """Fills: the element's bytes, repeated."""
    source: Count | None = None
    """Copies: the buffer read."""
    source_offset: Count | None = None
    """Copies: first byte read."""
    code: Sha | None = None
    """Launches: hash of the machine code."""
    function: str | None = None
    """Launches: symbol of the function."""
    grid: tuple[Count, ...] | None = None
    """Launches: blocks along x, y and z."""
    block: tuple[Count, ...] | None = None
    """Launches: threads per block along x, y and z."""
    cluster: tuple[Count, ...] | None = None
    """Launches: blocks per cluster along x, y and z; null without clusters."""
    cooperative: bool | None = None
    """Launches: whether all blocks are resident at once."""
    dependent: bool | None = None
    """Launches: whether it may begin before its predecessor has ended (programmatic dependent launch)."""
    shared_bytes: Count | None = None
    """Launches: dynamic shared memory per block."""
    prefer_shared: bool | None = None
    """Launches: whether as much as possible of the memory that the L1 cache and shared memory divide is shared."""
    arguments: tuple[PlanArgument, ...] | None = None
    """Launches: parameters in order."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPlan(Record):
    """A kernel on one workload and target: memory, steps and outputs. Data only, never code."""

    TYPE: ClassVar[str] = "launch_plan"
    VERSION: ClassVar[str] = "1.2.0"

    plan_id: Sha
    """Hash of everything else in the plan."""
    kernel_id: Sha
    """The kernel."""
    problem_id: Name
    """The kernel's problem."""
    workload: Name
    """The workload."""
    target: str
    """Architecture of the machine code, such as sm_90a."""
    choice: str | None
    """What tells it from a workload's other plans, as its launches and machine code show; null where it is the only
    one."""
    buffers: tuple[PlanBuffer, ...]
    """All memory, inputs first."""
    steps: tuple[PlanStep, ...]
    """Operations in stream order."""
    outputs: tuple[PlanOutput, ...]
    """Returned tensors."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLaunch(Record):
    """One launch of a plan, without its machine code and arguments."""

    TYPE: ClassVar[str] = "planned_launch"
    VERSION: ClassVar[str] = "1.0.0"

    function: str
    """Symbol of the function."""
    grid: tuple[Count, ...]
    """Blocks along x, y and z."""
    block: tuple[Count, ...]
    """Threads per block along x, y and z."""
    cluster: tuple[Count, ...] | None
    """Blocks per cluster along x, y and z; null without clusters."""
    cooperative: bool
    """Whether all blocks are resident at once."""
    shared_bytes: Count
    """Dynamic shared memory per block."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlanSummary(Record):
    """What a kernel launches on one workload, and the memory it uses."""

    TYPE: ClassVar[str] = "plan_summary"
    VERSION: ClassVar[str] = "1.1.0"

    kernel_id: Sha
    """The kernel."""
    problem_id: Name
    """The kernel's problem."""
    gpu: str
    """The GPU it was planned for, as the driver reports it."""
    workload: Name
    """The workload's name, as in measurements."""
    configurations: Count
    """Plans of this workload: one per configuration of an autotuner. The row describes the first."""
    allocated_bytes: Count
    """Memory the host code allocates, outputs included."""
    buffers: Count
    """How many blocks of memory that is."""
    fills: Count
    """Fills before and between launches."""
    copies: Count
    """Copies between buffers."""
    registers: Count | None
    """Registers per thread, the largest over device functions."""
    spill_bytes: Count | None
    """Local memory per thread used by spills, the largest over device functions."""
    launches: tuple[PlannedLaunch, ...]
    """Launches in stream order."""
    work_json: str | None = None
    """Work of each configuration as JSON, the row's first: for each launch the instructions by pipe, matrix operations,
    sectors and bytes of a mean block, counted in PTX without a GPU. Null where nobody counted."""
