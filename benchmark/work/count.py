"""The work of a launch plan: what its launches issue, load, store and multiply, counted without a GPU.

A few blocks and warps of every launch are executed abstractly and stand for the others: blocks differ by masks and
ragged ends, warps by their roles. Nothing here depends on a GPU; what one makes of the work is in `gpus` and `times`.
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from kbench.benchmark.work.accesses import BUFFER_SHIFT
from kbench.benchmark.work.execute import TooLongError, Warp
from kbench.benchmark.work.flow import Flow, read_flow
from kbench.benchmark.work.loops import Trace
from kbench.benchmark.work.memory import SECTOR, Box, Footprint, Numbers
from kbench.benchmark.work.ptx import Function, PtxError, read_functions
from kbench.benchmark.work.totals import (
    BlockId,
    LaunchWork,
    Totals,
    Traffic,
    Work,
    by_line,
    in_all,
    is_store,
    largest_lines,
)
from kbench.benchmark.work.values import Place
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
IN_A_ROW = 8
"""Blocks one after another that are looked at, where the last one is cut short and the grid has one axis."""
EVEN = 1e-3
"""Blocks whose work differs by no more than this share are taken to be alike."""
MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What executing a text of an unexpected form raises."""
FIRST = (0, 0, 0)
INTERIOR = ((1 / 6, 5 / 6, 1 / 2), (5 / 6, 1 / 6, 1 / 2))
"""Where blocks between the first and the last are taken from besides the middle, as shares of the grid's axes."""
GROUP = 4
"""Warps that multiply matrices together, from Hopper on."""


def count_plan(
    plan: LaunchPlan,
    ptx: Mapping[str, str],
    *,
    resources: Mapping[tuple[str, str], tuple[int, int, int]] | None = None,
    contents: Mapping[int, bytes] | None = None,
    first_lines: Mapping[str, int] | None = None,
) -> Work:
    """Count the work of a plan.

    Args:
        plan: the launches.
        ptx: texts by hash of the machine code they became.
        resources: registers per thread, bytes of static shared memory and of a thread's stack, by code and function.
        contents: what inputs hold, by their position, where that is known: indices decide what runs.
        first_lines: where the text that became a machine code begins in the kernel's file, by hash of the code.

    Returns:
        The work; launches that cannot be counted within the limits say why.
    """
    counter = _Counter(plan, ptx, resources or {}, contents or {}, first_lines or {})
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
        first_lines: Mapping[str, int],
    ) -> None:
        self.ptx, self.resources, self.first_lines = ptx, resources, first_lines
        self.sizes = [buffer.nbytes for buffer in plan.buffers]
        inputs = {at: buffer.input for at, buffer in enumerate(plan.buffers) if buffer.input is not None}
        self.filled = set(inputs)
        """Buffers that hold something to load."""
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
        begun, middle = self.steps, middle_block(launch.grid)
        footprint, counted, touched, buffers = Footprint(_l1_share(launch)), {}, {}, _Buffers()
        lines: dict[int | None, Totals] = {}
        fetched: defaultdict[tuple[int | None, int], float] = defaultdict(float)
        waiting = [(0, 1)]
        while waiting:
            warp, count = waiting.pop(0)
            footprint.begin_warp()
            trace = self._warp(step, function, middle, warp, footprint)
            own_lines = by_line(function, trace)
            counted[warp], touched[warp] = (in_all(trace, own_lines), count), footprint.own
            for line, totals in own_lines.items():
                lines[line] = lines.get(line, Totals()).plus(totals, count)
            for (at, buffer), nbytes in trace.fetched.items():
                fetched[function.code[at].line, buffer] += count * nbytes
            buffers.add(function, self.flows[id(function)], trace, count)
            if warp == 0:
                cheap = trace.steps * launch.warps < FEW_STEPS
                waiting = other_warps(launch.warps, function, every=cheap)
        blocks, footprints = self._blocks(step, function, launch, counted, touched, footprint.numbers, begun)
        mean = Totals()
        for place, weight in block_weights(blocks, launch.grid).items():
            mean = mean.plus(blocks[place], weight)
        given = {one.buffer for one in step.arguments or () if one.buffer is not None}
        buffers.place_unknown(self.sizes, given & self.filled)
        self.filled |= given
        indices = [self.contents[buffer] for buffer in given & self.contents.keys()] if buffers.looked_up else []
        differing = max(map(_differing, indices), default=1.0)
        traffic = dict(buffers.traffic(self.sizes, footprints, middle, launch.grid, differing))
        common: dict[int | None, float] = {}
        for (line, buffer), nbytes in fetched.items() if launch.blocks > 1 else ():
            if buffer in traffic and traffic[buffer].common:
                common[line] = common.get(line, 0.0) + nbytes
        first = self.first_lines.get(step.code or "")
        return dataclasses.replace(
            launch,
            per_block=mean,
            largest=max(one.issued for one in blocks.values()) / mean.issued if mean.issued else 1.0,
            traffic=tuple(traffic.values()),
            lines=()
            if first is None
            else largest_lines(lines, common, first, mean.issued / (blocks[middle].issued or 1.0)),
        )

    def _blocks(
        self,
        step: PlanStep,
        function: Function,
        launch: LaunchWork,
        counted: Mapping[int, tuple[Totals, int]],
        touched: Mapping[int, Mapping[int, set[int]]],
        numbers: Numbers,
        begun: int,
    ) -> tuple[dict[BlockId, Totals], dict[BlockId, dict[int, set[int]]]]:
        """What the middle block and others do, and what one warp of each touches.

        Others are represented by one warp: their work is the middle block's, larger or smaller. Where another warp
        makes the copies, that one is run for what it touches. Where the ends differ from the middle, masks cut off some
        warps and their bytes but not their instructions, so all warps are run if that is cheap.
        """
        middle, ends = middle_block(launch.grid), (FIRST, last_block(launch.grid))
        warp = max(counted, key=lambda number: counted[number][1])
        copier = max(counted, key=lambda number: counted[number][0].bulk_load_bytes)
        copiers = [copier] if counted[copier][0].bulk_load_bytes and copier != warp else []
        blocks, footprints = {middle: Totals()}, {middle: dict(touched[warp])}
        for totals, count in counted.values():
            blocks[middle] = blocks[middle].plus(totals, count)
        footprints[middle].update(touched[copier] if copiers else {})
        cheap, uneven, others = self.steps - begun < FEW_STEPS, False, other_blocks(launch.grid, middle)
        if cheap:
            others.sort(key=lambda place: place not in ends)
        while others:
            other = others.pop(0)
            whole = cheap and (uneven or other in ends)
            alone, found = Footprint(_l1_share(launch), None if whole else numbers), dict[int, Totals]()
            footprints[other] = {}
            for number in counted if whole else (warp, *copiers):
                alone.begin_warp()
                trace = self._warp(step, function, other, number, alone)
                found[number] = in_all(trace, by_line(function, trace))
                footprints[other].update(alone.own if number in (warp, *copiers) else {})
            share = found[warp].issued / (counted[warp][0].issued or 1.0)
            blocks[other] = Totals().plus(blocks[middle], 0.0 if whole else share)
            for number, totals in found.items() if whole else ():
                blocks[other] = blocks[other].plus(totals, counted[number][1])
            if whole and not uneven and not _alike(blocks[middle], blocks[other]):
                uneven = True
                others += [place for place in edge_blocks(launch.grid, middle) if place not in (*blocks, *others)]
            alike = len(blocks) > 3 and all(_alike(blocks[middle], one) for one in blocks.values())
            if alike or self.steps - begun > ENOUGH_STEPS:
                break
        return blocks, footprints

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
        self.looked_up: set[int] = set()

    def add(self, function: Function, flow: Flow, trace: Trace, times: float) -> None:
        """Add what a warp does, so many times."""
        for (at, buffer), unique in trace.unique.items():
            if is_store(function.code[at]):
                self.stores[buffer] += times * SECTOR * unique
            else:
                self.loads[buffer] += times * SECTOR * unique
                self.fetches[buffer] += times * trace.fetched[at, buffer]
                if at in flow.looked_up:
                    self.looked_up.add(buffer)

    def place_unknown(self, sizes: Sequence[int], arguments: Collection[int]) -> None:
        """Share out loads at unknown addresses among filled buffers that the launch gets and does nothing else with."""
        untouched = {at + 1: sizes[at] for at in arguments if at + 1 not in self.loads and at + 1 not in self.stores}
        whole = sum(untouched.values())
        for side in (self.loads, self.fetches):
            unknown = side.pop(0, 0.0)
            for buffer, nbytes in untouched.items() if unknown else ():
                side[buffer] = unknown * nbytes / max(1, whole)
                self.looked_up.add(buffer)
        self.stores.pop(0, None)

    def traffic(
        self,
        sizes: Sequence[int],
        footprints: Mapping[BlockId, Mapping[int, set[int]]],
        middle: BlockId,
        grid: BlockId,
        differing: float,
    ) -> Iterator[tuple[int, Traffic]]:
        """What becomes of each buffer over the grid, from the footprints of one warp in several blocks.

        Of what is loaded at addresses that follow from values in memory, a share is taken to differ.
        """
        for buffer in sorted(self.loads.keys() | self.stores.keys()):
            own = footprints[middle].get(buffer, set())
            other = {
                place: 1 - len(own & touched.get(buffer, set())) / max(1, len(own))
                for place, touched in footprints.items()
                if place != middle
            }
            nearest = [other.get(next_block(middle, grid, axis), 1.0) for axis in range(3)]
            near = [share if extent > 1 else 0.0 for share, extent in zip(nearest, grid, strict=True)]
            size = sizes[buffer - 1] if 0 < buffer <= len(sizes) else 0
            far = max(other.values(), default=0.0)
            loads, fetches, stores = (side[buffer] for side in (self.loads, self.fetches, self.stores))
            looked_up = differing if buffer in self.looked_up else 0.0
            yield buffer, Traffic(float(size), loads, fetches, stores, (near[0], near[1], near[2]), far, looked_up)


def _l1_share(launch: LaunchWork) -> int:
    """Sectors of L1 for the two or three warps of a block that are executed, when about 16 warps share it."""
    return max(256, L1_SECTORS * min(3, launch.warps) // max(16, launch.warps))


def _triple(extents: Sequence[int] | None) -> BlockId:
    x, y, z = (*(extents or ()), 1, 1, 1)[:3]
    return x, y, z


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


def _differing(held: bytes) -> float:
    """Share of the numbers in a buffer of indices that differ; those of 64 bits have upper halves of zeros."""
    words = np.frombuffer(held, dtype=np.int32, count=len(held) // 4)
    values = words if words[1::2].any() else words[::2]
    return len(np.unique(values)) / max(1, len(values))


def _alike(one: Totals, other: Totals) -> bool:
    names = ("issued", "load_sectors", "store_sectors")
    return all(math.isclose(getattr(one, name), getattr(other, name), rel_tol=EVEN) for name in names)


def block_weights(places: Collection[BlockId], grid: BlockId) -> dict[BlockId, float]:
    """What share of a launch's blocks each one stands for.

    The first and the last stand for themselves, one at an edge for that edge, the others for all between.
    """
    axes = [axis for axis in range(3) if grid[axis] > 1]
    edges = zip(edge_blocks(grid, middle_block(grid)), axes, strict=True) if len(axes) > 1 else ()
    # A block at several ends counts at the first of them; the far corner stands for itself.
    sizes = [math.prod(max(1, size - 1) for size in grid[:axis]) * math.prod(grid[axis + 1 :]) for axis in range(3)]
    alone = {place: float(sizes[axis] - (axis == axes[0])) for place, axis in edges if place in places}
    alone |= {place: 1.0 for place in (FIRST, last_block(grid)) if place in places}
    between = [place for place in places if place not in alone]
    rest = max(0.0, math.prod(grid) - sum(alone.values())) if between else 0.0
    weights = alone | dict.fromkeys(between, rest / max(1, len(between)))
    return {place: weight / sum(weights.values()) for place, weight in weights.items()}


def last_block(grid: BlockId) -> BlockId:
    """The block at the far corner."""
    return grid[0] - 1, grid[1] - 1, grid[2] - 1


def middle_block(grid: BlockId) -> BlockId:
    """The block in the middle, never a last one along an axis: masks cut those short."""
    return (grid[0] - 1) // 2, (grid[1] - 1) // 2, (grid[2] - 1) // 2


def _interior(grid: BlockId) -> list[BlockId]:
    last = last_block(grid)
    return [(int(last[0] * x), int(last[1] * y), int(last[2] * z)) for x, y, z in INTERIOR]


def next_block(block: BlockId, grid: BlockId, axis: int) -> BlockId:
    """The neighbour along an axis; the one before at the end."""
    step = 1 if block[axis] + 1 < grid[axis] else -1
    x, y, z = (place + step * (number == axis) for number, place in enumerate(block))
    return x, y, z


def edge_blocks(grid: BlockId, middle: BlockId) -> list[BlockId]:
    """The last block along each axis of a grid of several; of one axis the next few, where rows of tiles may end."""
    axes, (x, y, z), end = [axis for axis in range(3) if grid[axis] > 1], middle, last_block(grid)
    if axes in ([0], []):
        return [(x + n, y, z) for n in range(1, min(IN_A_ROW, grid[0] - x - 1))]
    return [[(end[0], y, z), (x, end[1], z), (x, y, end[2])][axis] for axis in axes]


def other_blocks(grid: BlockId, middle: BlockId) -> list[BlockId]:
    """The first and the last block, neighbours of the middle one, and two more of a large grid."""
    near = [next_block(middle, grid, axis) for axis in range(3) if grid[axis] > 1]
    blocks = [*near[:1], last_block(grid), FIRST, *near[1:2], *(_interior(grid) if math.prod(grid) > 16 else ())]
    return [block for block in dict.fromkeys(blocks) if block != middle]


def other_warps(warps: int, function: Function, *, every: bool) -> list[tuple[int, int]]:
    """Warps of a block that are executed besides the first, and how many each stands for.

    Where warps wait for each other's copies, groups of four have roles, the first of a group may have its own, and the
    first two of a block share the copies that Triton makes.
    Otherwise two stand for a half each: Triton gives the upper warps the lower ones' data where there is not enough.
    """
    if every or warps <= GROUP:
        return [(warp, 1) for warp in range(1, warps)]
    if warps >= 2 * GROUP and any(one.name == "mbarrier" for one in function.code):
        warps_run = [(1, 1), (2, GROUP - 2)]
        warps_run += [(first + own, 1 + own * (GROUP - 2)) for first in range(GROUP, warps, GROUP) for own in (0, 1)]
        return [(warp, min(count, warps - warp)) for warp, count in warps_run if warp < warps]
    half = warps // 2
    return [(1, half - 1), (half + 1, warps - half - 1), (warps - 1, 1)]
