"""The work of a launch plan: what its launches issue, load, store and multiply, counted without a GPU.

A few blocks and warps of every launch are executed abstractly and stand for the others: blocks differ by masks and
ragged ends, warps by their roles. Nothing here depends on a GPU; what one makes of the work is in `gpus` and `times`.
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from kbench.benchmark.work.execute import BUFFER_SHIFT, Place, TooLongError, Warp
from kbench.benchmark.work.flow import Flow, read_flow
from kbench.benchmark.work.lanes import WARP
from kbench.benchmark.work.loops import Trace
from kbench.benchmark.work.memory import SECTOR, Box, Footprint
from kbench.benchmark.work.pipes import Pipe, machine_instructions, pipe_of, tensor_flops
from kbench.benchmark.work.ptx import Function, Instruction, PtxError, read_functions
from kbench.schemas.records.launch_plan import ArgumentKind, LaunchPlan, PlanStep, StepKind

MOST_LAUNCHES = 64
"""Different launches of a plan that are executed."""
MOST_STEPS = 200_000
"""Instructions executed for a plan."""
FEW_STEPS = 4000
"""Instructions for which all warps of a block are executed."""
ENOUGH_STEPS = 15_000
"""Instructions executed for a launch after which no further block is looked at."""
L1_SECTORS = 6144
"""Sectors that L1 keeps for a multiprocessor's blocks; shared memory takes the rest."""
ELEMENT_BYTES = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4)
"""Sizes of the driver's tensor-map element types, by number."""
FIRST = (0, 0, 0)
INTERIOR = ((1 / 6, 5 / 6, 1 / 2), (5 / 6, 1 / 6, 1 / 2))
"""Where blocks between the first and the last are taken from besides the middle, as shares of the grid's axes."""
GROUP = 4
"""Warps that multiply matrices together, from Hopper on."""
EVEN = 1e-3
"""Blocks whose work differs by no more than this share are taken to be alike."""
BlockId = tuple[int, int, int]
MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What executing a text of an unexpected form raises."""


@dataclasses.dataclass(frozen=True, slots=True)
class Totals:
    """Work by class. Instructions are those of warps, estimated from PTX."""

    alu: float = 0.0
    """Machine instructions by pipe: see `Pipe`."""
    fma: float = 0.0
    special: float = 0.0
    memory: float = 0.0
    tensor: float = 0.0
    control: float = 0.0
    double: float = 0.0
    flops_64: float = 0.0
    """Operations of matrix products, by bits of the factors; 32 is tf32."""
    flops_32: float = 0.0
    flops_16: float = 0.0
    flops_8: float = 0.0
    ptx_instructions: float = 0.0
    load_requests: float = 0.0
    load_bytes: float = 0.0
    """Bytes that lanes asked global memory for."""
    load_sectors: float = 0.0
    """Sectors of 32 bytes that those requests touch."""
    l1_miss_sectors: float = 0.0
    """Those of them that L1 does not hold."""
    store_requests: float = 0.0
    store_bytes: float = 0.0
    store_sectors: float = 0.0
    bulk_load_bytes: float = 0.0
    """Bytes of bulk and tensor-memory copies to shared memory."""
    bulk_store_bytes: float = 0.0
    atomics: float = 0.0
    """Atomic requests to global memory."""
    shared_requests: float = 0.0
    shared_wavefronts: float = 0.0
    """Turns of shared-memory requests, bank conflicts included."""
    barriers: float = 0.0
    waits: float = 0.0
    """Waits for a signal of another thread or of a copy."""
    load_rounds: float = 0.0
    """Times that code between two branches loads from global memory: one wait each, however many loads there are."""
    unknown_branches: float = 0.0
    unknown_addresses: float = 0.0
    uncertain: float = 0.0
    """PTX instructions on one side of a branch that depends on data."""

    @property
    def issued(self) -> float:
        """Machine instructions of all pipes."""
        return self.alu + self.fma + self.special + self.memory + self.tensor + self.control + self.double

    @property
    def l2_bytes(self) -> float:
        """Bytes that multiprocessors ask L2 for or send there."""
        moved = self.bulk_load_bytes + self.bulk_store_bytes
        return SECTOR * (self.l1_miss_sectors + self.store_sectors) + moved

    def plus(self, other: Totals, times: float = 1.0) -> Totals:
        """The sum of both, the other counted so many times."""
        return Totals(*(mine + times * more for mine, more in zip(values(self), values(other), strict=True)))


NAMES = tuple(field.name for field in dataclasses.fields(Totals))


def values(totals: Totals) -> list[float]:
    """The figures in the order of NAMES."""
    return [getattr(totals, name) for name in NAMES]


@dataclasses.dataclass(frozen=True, slots=True)
class Traffic:
    """What a launch's blocks do to one buffer."""

    nbytes: float
    """The buffer's size."""
    loads: float
    """Bytes that one block loads, each counted once."""
    fetches: float
    """Bytes that it asks L2 for: again where L1 could not keep them."""
    stores: float
    new_share: tuple[float, float, float]
    """Share of those bytes that the next block along an axis of the grid does not touch."""
    far_share: float
    """Share that a block far away does not touch."""


@dataclasses.dataclass(frozen=True, slots=True)
class LaunchWork:
    """What one launch does."""

    function: str
    grid: BlockId
    threads: int
    """Of a block."""
    registers: int
    """Per thread; 0 where it is not known."""
    shared_bytes: int
    """Of a block."""
    stack_bytes: int
    """Of a thread: spilled registers and arrays."""
    per_block: Totals
    """The mean of the blocks."""
    largest: float = 1.0
    """Instructions of the largest block that was looked at, by those of the mean."""
    traffic: tuple[Traffic, ...] = ()
    times: int = 1
    """How often a plan has it."""
    error: str | None = None
    """Why nothing was counted."""

    @property
    def blocks(self) -> int:
        """Of the grid."""
        return math.prod(self.grid)

    @property
    def warps(self) -> int:
        """Of a block."""
        return -(-self.threads // WARP)


@dataclasses.dataclass(frozen=True, slots=True)
class Work:
    """What a plan does."""

    launches: tuple[LaunchWork, ...]
    """Equal launches once, with how often they come."""
    fills: int = 0
    copies: int = 0
    fill_bytes: int = 0
    copy_bytes: int = 0
    """Bytes that copies read; they write as many."""

    @property
    def total(self) -> Totals:
        """The work of all launches."""
        total = Totals()
        for launch in self.launches:
            total = total.plus(launch.per_block, launch.times * launch.blocks)
        return total

    @property
    def errors(self) -> tuple[str, ...]:
        """Why launches could not be counted."""
        return tuple(launch.error for launch in self.launches if launch.error is not None)


def count_plan(
    plan: LaunchPlan,
    ptx: Mapping[str, str],
    *,
    resources: Mapping[tuple[str, str], tuple[int, int, int]] | None = None,
    contents: Mapping[int, bytes] | None = None,
) -> Work:
    """Count the work of a plan.

    Args:
        plan: the launches.
        ptx: texts by hash of the machine code they became.
        resources: registers per thread, bytes of static shared memory and of a thread's stack, by code and function.
        contents: what inputs hold, by their position, where that is known: indices decide what runs.

    Returns:
        The work; launches that cannot be counted within the limits say why.
    """
    counter = _Counter(plan, ptx, resources or {}, contents or {})
    launches: dict[object, LaunchWork] = {}
    for step in plan.steps:
        if step.kind is StepKind.LAUNCH:
            key = _key(step)
            if key in launches:
                launches[key] = dataclasses.replace(launches[key], times=launches[key].times + 1)
            elif len(launches) < MOST_LAUNCHES:
                launches[key] = counter.launch(step)
            else:
                launches[key] = counter.uncounted(step, f"more than {MOST_LAUNCHES} different launches")
    kinds = [step.kind for step in plan.steps]
    sizes = {kind: sum(step.nbytes or 0 for step in plan.steps if step.kind is kind) for kind in StepKind}
    return Work(
        tuple(launches.values()),
        kinds.count(StepKind.FILL),
        kinds.count(StepKind.COPY),
        sizes[StepKind.FILL],
        sizes[StepKind.COPY],
    )


def _key(step: PlanStep) -> object:
    arguments = tuple((argument.kind, argument.data, argument.tensor_map) for argument in step.arguments or ())
    return step.code, step.function, step.grid, step.block, step.cluster, arguments


class _Counter:
    """Counts the launches of a plan."""

    def __init__(
        self,
        plan: LaunchPlan,
        ptx: Mapping[str, str],
        resources: Mapping[tuple[str, str], tuple[int, int, int]],
        contents: Mapping[int, bytes],
    ) -> None:
        self.ptx, self.resources = ptx, resources
        self.sizes = [buffer.nbytes for buffer in plan.buffers]
        inputs = {at: buffer.input for at, buffer in enumerate(plan.buffers) if buffer.input is not None}
        self.contents = {at: contents[position] for at, position in inputs.items() if position in contents}
        self.functions: dict[str, dict[str, Function]] = {}
        self.flows: dict[int, Flow] = {}
        self.endless: set[int] = set()
        self.steps = 0

    def launch(self, step: PlanStep) -> LaunchWork:
        """What a launch does."""
        try:
            return self._count(step, self._function(step))
        except (PtxError, TooLongError) as error:
            return self.uncounted(step, str(error))
        except MALFORMED as error:
            # The text is anyone's. That it cannot be followed is no verdict on the kernel, which compiled.
            return self.uncounted(step, f"the PTX cannot be followed: {type(error).__name__}: {error}")

    def uncounted(self, step: PlanStep, error: str) -> LaunchWork:
        """A launch of which only the geometry is known."""
        return dataclasses.replace(self._geometry(step), error=error)

    def _geometry(self, step: PlanStep) -> LaunchWork:
        name, threads = step.function or "", math.prod(_triple(step.block))
        registers, static, stack = self.resources.get((step.code or "", name), (0, 0, 0))
        shared = static + (step.shared_bytes or 0)
        return LaunchWork(name, _triple(step.grid), threads, registers, shared, stack, Totals())

    def _function(self, step: PlanStep) -> Function:
        """The PTX function that a launch runs."""
        code, name = step.code or "", step.function or ""
        if code not in self.functions:
            self.functions[code] = read_functions(self.ptx.get(code, ""))
        if name not in self.functions[code]:
            raise PtxError(f"no PTX has a function {name!r}")
        return self.functions[code][name]

    def _count(self, step: PlanStep, function: Function) -> LaunchWork:
        launch = self._geometry(step)
        if not launch.blocks or not launch.warps:
            raise PtxError(f"{function.name} is launched without threads")
        begun, middle = self.steps, _middle(launch.grid)
        footprint, counted, touched, buffers = Footprint(_l1_share(launch)), {}, {}, _Buffers()
        waiting = [(0, 1)]
        while waiting:
            warp, count = waiting.pop(0)
            footprint.begin_warp()
            trace = self._warp(step, function, middle, warp, footprint)
            counted[warp], touched[warp] = (summed(function, trace), count), footprint.own
            buffers.add(function, trace, count)
            if warp == 0:
                cheap = trace.steps * launch.warps < FEW_STEPS
                waiting = _other_warps(launch.warps, function, every=cheap)
        per_block = Totals()
        for totals, count in counted.values():
            per_block = per_block.plus(totals, count)
        # Other blocks are represented by one warp: their work is the middle block's, larger or smaller. Where another
        # warp makes the copies, that one is run for what it touches.
        warp = max(counted, key=lambda number: counted[number][1])
        copier = max(counted, key=lambda number: counted[number][0].bulk_load_bytes)
        copies = counted[copier][0].bulk_load_bytes > 0 and copier != warp
        ratios, footprints = {middle: 1.0}, {middle: touched[warp] | (touched[copier] if copies else {})}
        for other in _other_blocks(launch.grid, middle):
            alone = Footprint(_l1_share(launch), footprint.numbers)
            ratio = summed(function, self._warp(step, function, other, warp, alone)).issued
            if copies:
                self._warp(step, function, other, copier, alone)
            ratios[other], footprints[other] = ratio / (counted[warp][0].issued or 1.0), alone.own
            alike = max(ratios.values()) - min(ratios.values()) < EVEN
            if (alike and {FIRST, _last(launch.grid)} <= ratios.keys()) or self.steps - begun > ENOUGH_STEPS:
                break
        mean = _mean(ratios, launch)
        traffic = buffers.traffic(self.sizes, footprints, middle, launch.grid)
        return dataclasses.replace(
            launch,
            per_block=Totals().plus(per_block, mean),
            largest=max(ratios.values()) / mean if mean else 1.0,
            traffic=tuple(traffic),
        )

    def _warp(self, step: PlanStep, function: Function, place: BlockId, warp: int, footprint: Footprint) -> Trace:
        if id(function) not in self.flows:
            self.flows[id(function)] = read_flow(function)
        if self.steps > MOST_STEPS:
            raise TooLongError(f"the plan takes more than {MOST_STEPS} steps")
        if id(function) in self.endless:
            raise TooLongError(f"{function.name} took too many steps in an earlier launch")
        grid, block, cluster = _triple(step.grid), _triple(step.block), _triple(step.cluster)
        where = Place(grid, block, place, warp, _arguments(step, function), cluster)
        executed = Warp(function, self.flows[id(function)], where, footprint, self.contents)
        try:
            return executed.run()
        except TooLongError:
            self.endless.add(id(function))
            raise
        finally:
            self.steps += executed.trace.steps


class _Buffers:
    """Bytes of each buffer that a block loads and stores."""

    def __init__(self) -> None:
        self.loads: defaultdict[int, float] = defaultdict(float)
        self.fetches: defaultdict[int, float] = defaultdict(float)
        self.stores: defaultdict[int, float] = defaultdict(float)

    def add(self, function: Function, trace: Trace, times: float) -> None:
        """Add what a warp does, so many times."""
        for at, buffer in trace.buffers.items():
            one = function.code[at]
            if one.name in ("st", "atom", "red") or _stores_in_bulk(one):
                self.stores[buffer] += times * SECTOR * trace.unique[at]
            else:
                self.loads[buffer] += times * SECTOR * trace.unique[at]
                self.fetches[buffer] += times * (trace.copied.get(at) or SECTOR * trace.fresh[at])

    def traffic(
        self,
        sizes: Sequence[int],
        footprints: Mapping[BlockId, Mapping[int, set[int]]],
        middle: BlockId,
        grid: BlockId,
    ) -> Iterator[Traffic]:
        """What becomes of it over the grid, from the footprints of one warp in several blocks."""
        for buffer in sorted(self.loads.keys() | self.stores.keys()):
            own = footprints[middle].get(buffer, set())
            other = {
                place: 1 - len(own & touched.get(buffer, set())) / max(1, len(own))
                for place, touched in footprints.items()
                if place != middle
            }
            nearest = [other.get(_next(middle, grid, axis), 1.0) for axis in range(3)]
            near = [share if extent > 1 else 0.0 for share, extent in zip(nearest, grid, strict=True)]
            size = sizes[buffer - 1] if 0 < buffer <= len(sizes) else 0
            far = max(other.values(), default=0.0)
            loads, fetches, stores = (side[buffer] for side in (self.loads, self.fetches, self.stores))
            yield Traffic(float(size), loads, fetches, stores, (near[0], near[1], near[2]), far)


def _mean(ratios: Mapping[BlockId, float], launch: LaunchWork) -> float:
    """The mean block's work, by the middle one's: first and last stand for themselves, others for all between."""
    ends = [ratios[place] for place in {FIRST, _last(launch.grid)} if place in ratios]
    interior = [ratio for place, ratio in ratios.items() if place not in (FIRST, _last(launch.grid))]
    between = sum(interior) / len(interior) if interior else 1.0
    return (sum(ends) + between * (launch.blocks - len(ends))) / launch.blocks


def _l1_share(launch: LaunchWork) -> int:
    """Sectors of L1 for the two or three warps of a block that are executed, when about 16 warps share it."""
    return max(256, L1_SECTORS * min(3, launch.warps) // max(16, launch.warps))


def _triple(extents: Sequence[int] | None) -> BlockId:
    x, y, z = (*(extents or ()), 1, 1, 1)[:3]
    return x, y, z


def _last(grid: BlockId) -> BlockId:
    return grid[0] - 1, grid[1] - 1, grid[2] - 1


def _middle(grid: BlockId) -> BlockId:
    """The block in the middle, never a last one along an axis: masks cut those short."""
    return (grid[0] - 1) // 2, (grid[1] - 1) // 2, (grid[2] - 1) // 2


def _interior(grid: BlockId) -> list[BlockId]:
    return [(int(grid[0] * x), int(grid[1] * y), int(grid[2] * z)) for x, y, z in INTERIOR]


def _next(block: BlockId, grid: BlockId, axis: int) -> BlockId:
    """The neighbour along an axis; the one before at the end."""
    step = 1 if block[axis] + 1 < grid[axis] else -1
    x, y, z = (place + step * (number == axis) for number, place in enumerate(block))
    return x, y, z


def _other_blocks(grid: BlockId, middle: BlockId) -> list[BlockId]:
    """The first and the last block, neighbours of the middle one, and two more of a large grid."""
    near = [_next(middle, grid, axis) for axis in range(3) if grid[axis] > 1]
    chosen = [*near[:1], _last(grid), FIRST, *near[1:2], *(_interior(grid) if math.prod(grid) > 16 else ())]
    return [block for block in dict.fromkeys(chosen) if block != middle]


def _other_warps(warps: int, function: Function, *, every: bool) -> list[tuple[int, int]]:
    """Warps of a block that are executed besides the first, and how many each stands for.

    Where warps wait for each other's copies, groups of four have roles, the first of a group may have its own, and the
    first two of a block share the copies that Triton makes.
    Otherwise two stand for a half each: Triton gives the upper warps the lower ones' data where there is not enough.
    """
    if every or warps <= GROUP:
        return [(warp, 1) for warp in range(1, warps)]
    if warps >= 2 * GROUP and any(one.name == "mbarrier" for one in function.code):
        chosen = [(1, 1), (2, GROUP - 2)]
        chosen += [(first + own, 1 + own * (GROUP - 2)) for first in range(GROUP, warps, GROUP) for own in (0, 1)]
        return [(warp, min(count, warps - warp)) for warp, count in chosen if warp < warps]
    half = warps // 2
    return [(1, half - 1), (half + 1, warps - half - 1), (warps - 1, 1)]


def _arguments(step: PlanStep, function: Function) -> dict[str, bytes | int | Box]:
    """What each parameter holds, by name."""
    arguments: dict[str, bytes | int | Box] = {}
    for (name, _), argument in zip(function.parameters, step.arguments or (), strict=False):
        if argument.kind is ArgumentKind.VALUE:
            arguments[name] = bytes.fromhex(argument.data or "")
        elif argument.kind is ArgumentKind.TENSOR_MAP and argument.tensor_map is not None:
            number = argument.tensor_map.element_type
            size = ELEMENT_BYTES[number] if number < len(ELEMENT_BYTES) else 1
            arguments[name] = Box(argument.tensor_map.box, size, (argument.buffer or 0) + 1)
        elif argument.buffer is not None:
            arguments[name] = (argument.buffer + 1 << BUFFER_SHIFT) + (argument.offset or 0)
        else:
            arguments[name] = 0
    return arguments


def summed(function: Function, trace: Trace) -> Totals:
    """A warp's trace as work by class."""
    found: defaultdict[str, float] = defaultdict(float)
    for at, visits in trace.visits.items():
        one = function.code[at]
        pipe = pipe_of(one)
        found[pipe.value] += visits * machine_instructions(one)
        if pipe is Pipe.TENSOR:
            bits, operations = tensor_flops(one)
            found[f"flops_{bits}"] += visits * operations
        if one.name in ("bar", "barrier"):
            found["barriers"] += visits
        elif one.name == "mbarrier" and {"try_wait", "test_wait"} & set(one.parts):
            found["waits"] += visits
        _add_memory(found, one, at, visits, trace)
    found["waits"] += sum(trace.waits.values())
    found["load_rounds"] = sum(trace.rounds.values())
    for name in ("unknown_branches", "unknown_addresses"):
        found[name] = sum(getattr(trace, name).values())
    return Totals(**found, ptx_instructions=trace.issued, uncertain=trace.uncertain)


def _stores_in_bulk(one: Instruction) -> bool:
    spaces = [part.partition("::")[0] for part in one.parts]
    return "global" in spaces and "shared" in spaces and spaces.index("global") < spaces.index("shared")


def _add_memory(found: defaultdict[str, float], one: Instruction, at: int, visits: float, trace: Trace) -> None:
    if at in trace.copied:
        found["bulk_store_bytes" if _stores_in_bulk(one) else "bulk_load_bytes"] += trace.copied[at]
    if at in trace.wavefronts:
        found["shared_requests"] += visits
        found["shared_wavefronts"] += trace.wavefronts[at]
    if at not in trace.sectors:
        return
    if one.name in ("atom", "red"):
        found["atomics"] += visits
    kind = "store" if one.name in ("st", "atom", "red") else "load"
    found[f"{kind}_requests"] += visits
    found[f"{kind}_sectors"] += trace.sectors[at]
    found[f"{kind}_bytes"] += visits * WARP * (16 if one.name == "cp" else one.nbytes)
    if kind == "load":
        found["l1_miss_sectors"] += trace.fresh[at]
