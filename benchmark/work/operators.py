"""The work of PyTorch's own operators, where a kernel's host code calls them: launches made up from shapes.

Nobody has the text of these kernels, so a launch stands for what a good library does: matrix products in tiles, all
else at one pass over what it reads and writes.
"""

from __future__ import annotations

import dataclasses
import math

from kbench.benchmark.work.lanes import WARP
from kbench.benchmark.work.memory import SECTOR
from kbench.benchmark.work.totals import LaunchWork, Totals, Traffic

THREADS, PER_THREAD = 256, 8
"""Threads of a block that maps elements, and the elements of each."""
VECTOR = 16
"""Bytes that a lane moves at once."""
TILES = ((256, 128), (128, 128), (128, 64), (64, 64), (32, 32))
"""Sides of the tiles of matrix products, the most efficient first."""
ENOUGH_BLOCKS = 128
"""A library takes smaller tiles, and then splits sums, until there are so many blocks."""
MOST_SPLITS, LEAST_SUM = 16, 256
TILE_THREADS, TILE_REGISTERS = 256, 128
MMA_FLOPS = {64: 512, 32: 2048, 16: 4096, 8: 8192}
"""Operations of one matrix instruction of a warp, by bits of the factors."""
MAP_INSTRUCTIONS = 3.0
"""Of a warp on a word of every lane, by element that is read or written."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One call of an operator."""

    name: str
    reads: tuple[float, ...] = ()
    """Bytes of each tensor that is read."""
    writes: float = 0.0
    elements: float = 0.0
    """The most that it reads or writes."""
    passes: float = 1.0
    """Times that the bytes are moved."""
    product: tuple[int, int, int, int] | None = None
    """Batch, rows, columns and length of sums, where it multiplies matrices."""
    bits: int = 32
    """Of the factors."""
    exact: bool = False
    """Whether 32-bit factors keep all of their bits, outside matrix units."""
    flops: float | None = None
    """Operations, where they are not those of one product."""


def operator_work(operator: Operator) -> LaunchWork:
    """The launch that stands for a call."""
    return _product(operator) if operator.product is not None else _map(operator)


def _map(operator: Operator) -> LaunchWork:
    blocks = max(1, math.ceil(operator.elements / (THREADS * PER_THREAD)))
    read, written = operator.passes * sum(operator.reads) / blocks, operator.passes * operator.writes / blocks
    words = (read + written) / (4 * WARP)
    lanes = THREADS / WARP
    per_block = Totals(
        alu=MAP_INSTRUCTIONS * words / 2, fma=MAP_INSTRUCTIONS * words / 2, control=lanes,
        memory=(read + written) / (VECTOR * WARP), load_requests=read / (VECTOR * WARP), load_bytes=read,
        load_sectors=read / SECTOR, l1_miss_sectors=read / SECTOR, store_requests=written / (VECTOR * WARP),
        store_bytes=written, store_sectors=written / SECTOR, load_rounds=lanes * operator.passes,
        ptx_instructions=MAP_INSTRUCTIONS * words,
    )  # fmt: skip
    traffic = tuple(_alone(nbytes, nbytes / blocks, 0.0) for nbytes in operator.reads if nbytes)
    traffic += (_alone(operator.writes, 0.0, operator.writes / blocks),) if operator.writes else ()
    return LaunchWork(operator.name, (blocks, 1, 1), THREADS, 32, 0, 0, per_block, 1.0, traffic)


def _alone(nbytes: float, loads: float, stores: float) -> Traffic:
    return Traffic(nbytes, loads, loads, stores, (1.0, 1.0, 1.0), 1.0)


def _product(operator: Operator) -> LaunchWork:
    assert operator.product is not None
    batch, rows, columns, length = (max(1, size) for size in operator.product)
    fitting = [tile for tile in TILES if tile[0] <= 2 * rows and tile[1] <= 2 * columns] or [TILES[-1]]
    tile = next((one for one in fitting if _blocks(batch, rows, columns, one) >= ENOUGH_BLOCKS), fitting[-1])
    across, down = math.ceil(columns / tile[1]), math.ceil(rows / tile[0])
    splits = min(MOST_SPLITS, max(1, length // LEAST_SUM), math.ceil(ENOUGH_BLOCKS / (batch * across * down)))
    blocks = batch * across * down * splits
    size, part = operator.bits / 8, length / splits
    flops = operator.flops if operator.flops is not None else 2.0 * batch * rows * columns * length
    # A ragged tile costs as much as a whole one.
    padded = flops / blocks * (across * tile[1] / columns) * (down * tile[0] / rows)
    loads = (tile[0] * part * size, part * tile[1] * size)
    stores = operator.writes / blocks * (2 if splits > 1 else 1)
    warps, units = TILE_THREADS / WARP, not (operator.exact and operator.bits == 32)
    per_block = Totals(
        **({f"flops_{operator.bits}": padded, "tensor": padded / MMA_FLOPS[operator.bits]} if units else {}),
        fma=0.0 if units else padded / 2 / WARP,
        alu=sum(loads) / (VECTOR * WARP), memory=(sum(loads) + stores) / (VECTOR * WARP),
        control=warps * part / 64, barriers=warps * part / 64, load_rounds=2 * warps, bulk_load_bytes=sum(loads),
        shared_requests=2 * sum(loads) / (4 * WARP), shared_wavefronts=2 * sum(loads) / (4 * WARP),
        store_requests=stores / (VECTOR * WARP), store_bytes=stores, store_sectors=stores / SECTOR,
        ptx_instructions=padded / 2 / WARP,
    )  # fmt: skip
    factors = operator.reads if len(operator.reads) >= 2 else (rows * length * size, length * columns * size)
    traffic = (
        Traffic(factors[0], loads[0], loads[0], 0.0, (0.0, 1.0, 1.0), 1.0),
        Traffic(factors[1], loads[1], loads[1], 0.0, (1.0, 0.0, 1.0), 1.0),
        _alone(operator.writes, 0.0, stores),
    )
    shared = int(2 * sum(tile) * 64 * size)
    grid = (across, down, batch * splits)
    return LaunchWork(operator.name, grid, TILE_THREADS, TILE_REGISTERS, shared, 0, per_block, 1.0, traffic)


def _blocks(batch: int, rows: int, columns: int, tile: tuple[int, int]) -> int:
    return batch * math.ceil(columns / tile[1]) * math.ceil(rows / tile[0])
