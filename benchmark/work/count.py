"""The work of a launch plan: what its launches issue, load, store and multiply, counted without a GPU.

A few blocks and warps of every launch are executed abstractly and stand for the others: blocks differ by masks and
ragged ends, warps by their roles.
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from kbench.benchmark.work.execute import Place, TooLongError, Warp
from kbench.benchmark.work.flow import Flow, read_flow
from kbench.benchmark.work.lanes import WARP
from kbench.benchmark.work.loops import Trace
from kbench.benchmark.work.memory import SECTOR, Box, Footprint
from kbench.benchmark.work.pipes import Pipe, machine_instructions, pipe_of, tensor_flops
from kbench.benchmark.work.ptx import Function, Instruction, PtxError, read_functions
from kbench.schemas.records.launch_plan import ArgumentKind, LaunchPlan, PlanStep, StepKind

MOST_LAUNCHES = 64
"""Different launches of a plan that are executed."""
MOST_STEPS = 500_000
"""Instructions executed for a plan."""
BUFFER_SHIFT = 36
"""Buffers are taken to lie this many bits apart."""
ELEMENT_BYTES = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4)
"""Sizes of the driver's tensor-map element types, by number."""
FIRST = (0, 0, 0)
INTERIOR = ((1 / 2, 5 / 6, 1 / 6), (1 / 6, 1 / 2, 5 / 6), (5 / 6, 1 / 6, 1 / 2))
"""Where blocks between the first and the last are taken from, as shares of the grid's axes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Gpu:
    """What a multiprocessor holds, and how many there are."""

    multiprocessors: int
    registers: int = 65536
    shared_bytes: int = 228 * 1024
    threads: int = 2048
    blocks: int = 32


H200 = Gpu(132)


@dataclasses.dataclass(frozen=True, slots=True)
class Totals:
    """Work by class. Instructions are those of warps, estimated from PTX."""

    instructions: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Machine instructions issued, by pipe."""
    tensor_flops: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Operations of matrix products, by type of the factors."""
    ptx_instructions: float = 0.0
    load_requests: float = 0.0
    load_bytes: float = 0.0
    """Bytes that lanes asked global memory for."""
    load_sectors: float = 0.0
    """Sectors of 32 bytes that those requests touch."""
    fresh_load_sectors: float = 0.0
    """Those of them that no earlier request of the block touched: what L1 asks L2 for."""
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
    unknown_branches: float = 0.0
    unknown_addresses: float = 0.0
    uncertain: float = 0.0
    """PTX instructions on one side of a branch that depends on data."""

    @property
    def issued(self) -> float:
        """Machine instructions of all pipes."""
        return sum(self.instructions.values())

    @property
    def l2_bytes(self) -> float:
        """Bytes that multiprocessors ask L2 for or send there."""
        moved = self.bulk_load_bytes + self.bulk_store_bytes
        return SECTOR * (self.fresh_load_sectors + self.store_sectors) + moved

    def plus(self, other: Totals, times: float = 1.0) -> Totals:
        """The sum of both, the other counted so many times."""
        values: dict[str, object] = {}
        for field in dataclasses.fields(self):
            mine, more = getattr(self, field.name), getattr(other, field.name)
            if isinstance(mine, Mapping):
                values[field.name] = {k: mine.get(k, 0.0) + times * more.get(k, 0.0) for k in {**mine, **more}}
            else:
                values[field.name] = mine + times * more
        return Totals(**values)  # type: ignore[arg-type]


@dataclasses.dataclass(frozen=True, slots=True)
class LaunchWork:
    """What one launch does."""

    function: str
    blocks: int
    warps_per_block: int
    blocks_per_multiprocessor: int
    """How many fit at once; by threads and shared memory alone where registers are not known."""
    waves: int
    """Rounds in which the blocks run."""
    per_warp: Totals
    """The mean of the warps."""
    per_block: Totals
    fullest: Totals
    """Of the multiprocessor with the most blocks."""
    total: Totals
    error: str | None = None
    """Why nothing was counted."""


@dataclasses.dataclass(frozen=True, slots=True)
class Work:
    """What a plan does."""

    launches: tuple[LaunchWork, ...]
    total: Totals
    fill_bytes: int
    copy_bytes: int
    """Bytes that copies read; they write as many."""

    @property
    def errors(self) -> tuple[str, ...]:
        """Why launches could not be counted."""
        return tuple(launch.error for launch in self.launches if launch.error is not None)

    @property
    def uncertain_share(self) -> float:
        """Share of the instructions that rests on branches that depend on data."""
        return self.total.uncertain / self.total.ptx_instructions if self.total.ptx_instructions else 0.0


def count_plan(
    plan: LaunchPlan,
    ptx: Mapping[str, str],
    *,
    registers: Mapping[str, int] | None = None,
    contents: Mapping[int, bytes] | None = None,
    gpu: Gpu = H200,
) -> Work:
    """Count the work of a plan.

    Args:
        plan: the launches.
        ptx: texts by hash of the machine code they became.
        registers: registers per thread, by function.
        contents: what buffers hold, by their number, where that is known: indices decide what runs.
        gpu: whose multiprocessors run it.

    Returns:
        The work; launches that cannot be counted within the limits say why.
    """
    counter = _Counter(ptx, registers or {}, contents or {}, gpu)
    launches: list[LaunchWork] = []
    total = Totals()
    for step in plan.steps:
        if step.kind is StepKind.LAUNCH:
            launches.append(counter.launch(step))
            total = total.plus(launches[-1].total)
    sizes = {kind: sum(step.nbytes or 0 for step in plan.steps if step.kind is kind) for kind in StepKind}
    return Work(tuple(launches), total, sizes[StepKind.FILL], sizes[StepKind.COPY])


class _Counter:
    """Counts launches; equal launches once."""

    def __init__(
        self, ptx: Mapping[str, str], registers: Mapping[str, int], contents: Mapping[int, bytes], gpu: Gpu
    ) -> None:
        self.ptx, self.registers, self.contents, self.gpu = ptx, registers, contents, gpu
        self.functions: dict[str, dict[str, Function]] = {}
        self.flows: dict[int, Flow] = {}
        self.counted: dict[object, LaunchWork] = {}
        self.endless: set[int] = set()
        self.steps = 0

    def launch(self, step: PlanStep) -> LaunchWork:
        """What a launch does."""
        values = tuple((argument.kind, argument.data, argument.tensor_map) for argument in step.arguments or ())
        key = (step.code, step.function, step.grid, step.block, step.cluster, values)
        if key not in self.counted:
            if len(self.counted) >= MOST_LAUNCHES:
                return self._around(step, Totals(), Totals(), f"more than {MOST_LAUNCHES} different launches")
            try:
                self.counted[key] = self._count(step, self._function(step))
            except (PtxError, TooLongError) as error:
                self.counted[key] = self._around(step, Totals(), Totals(), str(error))
        return self.counted[key]

    def _function(self, step: PlanStep) -> Function:
        """The PTX function that a launch runs."""
        code, name = step.code or "", step.function or ""
        if code not in self.functions:
            self.functions[code] = read_functions(self.ptx.get(code, ""))
        if name not in self.functions[code]:
            raise PtxError(f"no PTX has a function {name!r}")
        return self.functions[code][name]

    def _count(self, step: PlanStep, function: Function) -> LaunchWork:
        grid, block = _triple(step.grid), _triple(step.block)
        blocks, warps = math.prod(grid), -(-math.prod(block) // WARP)
        if not blocks or not warps:
            raise PtxError(f"{function.name} is launched without threads")
        middle, *others = _sampled_blocks(grid)
        footprint, totals = Footprint(), {}
        for warp, count in _sampled_warps(warps).items():
            totals[warp] = (self._warp(step, function, middle, warp, footprint), count)
        per_block = Totals()
        for one, count in totals.values():
            per_block = per_block.plus(one, count)
        # Other blocks are represented by one warp: their work is the middle block's, larger or smaller.
        warp = max(totals, key=lambda number: totals[number][1])
        base = totals[warp][0].issued or 1.0
        ratios = {middle: 1.0}
        for other in others:
            ratios[other] = self._warp(step, function, other, warp, Footprint()).issued / base
            if len(ratios) == 3 and max(ratios.values()) - min(ratios.values()) < 1e-3:
                break
        interior = [ratio for place, ratio in ratios.items() if place not in (FIRST, _last(grid))]
        ends = [ratios[place] for place in {FIRST, _last(grid)} if place in ratios]
        mean = sum(interior) / len(interior) if interior else 1.0
        weight = (sum(ends) + mean * (blocks - len(ends))) / blocks
        return self._around(step, Totals().plus(per_block, weight / warps), Totals().plus(per_block, weight), None)

    def _around(self, step: PlanStep, per_warp: Totals, per_block: Totals, error: str | None) -> LaunchWork:
        """A launch's totals on one multiprocessor and on all."""
        blocks, threads = math.prod(_triple(step.grid)), math.prod(_triple(step.block))
        gpu, warps = self.gpu, -(-threads // WARP)
        registers = self.registers.get(step.function or "", 0)
        limits = [gpu.blocks, gpu.threads // max(1, warps * WARP)]
        limits.append(gpu.shared_bytes // ((step.shared_bytes or 0) + 1024))
        if registers:
            # Registers are handed out to warps in units of 256.
            limits.append(gpu.registers // max(1, warps * (-(-registers * WARP // 256) * 256)))
        resident = max(1, min(limits))
        waves = -(-blocks // (resident * gpu.multiprocessors))
        fullest = Totals().plus(per_block, -(-blocks // gpu.multiprocessors))
        total = Totals().plus(per_block, blocks)
        return LaunchWork(
            step.function or "", blocks, warps, resident, waves, per_warp, per_block, fullest, total, error
        )

    def _warp(
        self, step: PlanStep, function: Function, place: tuple[int, int, int], warp: int, footprint: Footprint
    ) -> Totals:
        if id(function) not in self.flows:
            self.flows[id(function)] = read_flow(function)
        if self.steps > MOST_STEPS:
            raise TooLongError(f"the plan takes more than {MOST_STEPS} steps")
        if id(function) in self.endless:
            raise TooLongError(f"{function.name} took too many steps in an earlier launch")
        where = Place(
            _triple(step.grid), _triple(step.block), place, warp, _arguments(step, function), _triple(step.cluster)
        )
        executed = Warp(function, self.flows[id(function)], where, footprint)
        try:
            return summed(function, executed.run())
        except TooLongError:
            self.endless.add(id(function))
            raise
        finally:
            self.steps += executed.trace.steps


def _triple(extents: Sequence[int] | None) -> tuple[int, int, int]:
    x, y, z = (*(extents or ()), 1, 1, 1)[:3]
    return x, y, z


def _last(grid: tuple[int, int, int]) -> tuple[int, int, int]:
    return grid[0] - 1, grid[1] - 1, grid[2] - 1


def _sampled_blocks(grid: tuple[int, int, int]) -> list[tuple[int, int, int]]:
    """A block in the middle, the first and the last, and two more of a large grid."""
    inner = [(int(grid[0] * x), int(grid[1] * y), int(grid[2] * z)) for x, y, z in INTERIOR]
    chosen = [inner[0], FIRST, _last(grid), *inner[1:]]
    return list(dict.fromkeys(chosen if math.prod(grid) > 16 else chosen[:3]))


def _sampled_warps(warps: int) -> dict[int, int]:
    """Warps of a block that are executed, and how many each stands for."""
    if warps <= 3:
        return dict.fromkeys(range(warps), 1)
    return {0: 1, warps // 2: warps - 2, warps - 1: 1}


def _arguments(step: PlanStep, function: Function) -> dict[str, bytes | int | Box]:
    """What each parameter holds, by name."""
    arguments: dict[str, bytes | int | Box] = {}
    for (name, _), argument in zip(function.parameters, step.arguments or (), strict=False):
        if argument.kind is ArgumentKind.VALUE:
            arguments[name] = bytes.fromhex(argument.data or "")
        elif argument.kind is ArgumentKind.TENSOR_MAP and argument.tensor_map is not None:
            number = argument.tensor_map.element_type
            size = ELEMENT_BYTES[number] if number < len(ELEMENT_BYTES) else 1
            arguments[name] = Box(argument.tensor_map.box, size)
        elif argument.buffer is not None:
            arguments[name] = (argument.buffer + 1 << BUFFER_SHIFT) + (argument.offset or 0)
        else:
            arguments[name] = 0
    return arguments


def summed(function: Function, trace: Trace) -> Totals:
    """A warp's trace as work by class."""
    instructions: defaultdict[str, float] = defaultdict(float)
    flops: defaultdict[str, float] = defaultdict(float)
    rest: defaultdict[str, float] = defaultdict(float)
    for at, visits in trace.visits.items():
        one = function.code[at]
        pipe = pipe_of(one)
        instructions[pipe.value] += visits * machine_instructions(one)
        if pipe is Pipe.TENSOR:
            factor, operations = tensor_flops(one)
            flops[factor] += visits * operations
        if one.name in ("bar", "barrier"):
            rest["barriers"] += visits
        elif one.name == "mbarrier" and {"try_wait", "test_wait"} & set(one.parts):
            rest["waits"] += visits
        _add_memory(rest, one, at, visits, trace)
    rest["waits"] += sum(trace.waits.values())
    for name in ("unknown_branches", "unknown_addresses"):
        rest[name] = sum(getattr(trace, name).values())
    return Totals(dict(instructions), dict(flops), trace.issued, **rest, uncertain=trace.uncertain)


def _add_memory(rest: defaultdict[str, float], one: Instruction, at: int, visits: float, trace: Trace) -> None:
    if at in trace.copied:
        spaces = [part.partition("::")[0] for part in one.parts]
        stores = "global" in spaces and "shared" in spaces and spaces.index("global") < spaces.index("shared")
        rest["bulk_store_bytes" if stores else "bulk_load_bytes"] += trace.copied[at]
    if at in trace.wavefronts:
        rest["shared_requests"] += visits
        rest["shared_wavefronts"] += trace.wavefronts[at]
    if at not in trace.sectors:
        return
    if one.name in ("atom", "red"):
        rest["atomics"] += visits
    kind = "store" if one.name in ("st", "atom", "red") else "load"
    rest[f"{kind}_requests"] += visits
    rest[f"{kind}_sectors"] += trace.sectors[at]
    rest[f"{kind}_bytes"] += visits * WARP * (16 if one.name == "cp" else one.nbytes)
    if kind == "load":
        rest["fresh_load_sectors"] += trace.fresh[at]
