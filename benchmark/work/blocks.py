"""Which blocks of a grid and warps of a block are executed, and how many others each stands for."""

from __future__ import annotations

import math
from collections.abc import Mapping

from kbench.benchmark.work.ptx import Function
from kbench.benchmark.work.totals import BlockId, LaunchWork

FIRST = (0, 0, 0)
INTERIOR = ((1 / 6, 5 / 6, 1 / 2), (5 / 6, 1 / 6, 1 / 2))
"""Where blocks between the first and the last are taken from besides the middle, as shares of the grid's axes."""
GROUP = 4
"""Warps that multiply matrices together, from Hopper on."""


def mean_ratio(ratios: Mapping[BlockId, float], launch: LaunchWork) -> float:
    """The mean block's work, by the middle one's: first and last stand for themselves, others for all between."""
    ends = [ratios[place] for place in {FIRST, last_block(launch.grid)} if place in ratios]
    interior = [ratio for place, ratio in ratios.items() if place not in (FIRST, last_block(launch.grid))]
    between = sum(interior) / len(interior) if interior else 1.0
    return (sum(ends) + between * (launch.blocks - len(ends))) / launch.blocks


def last_block(grid: BlockId) -> BlockId:
    """The block at the far corner."""
    return grid[0] - 1, grid[1] - 1, grid[2] - 1


def middle_block(grid: BlockId) -> BlockId:
    """The block in the middle, never a last one along an axis: masks cut those short."""
    return (grid[0] - 1) // 2, (grid[1] - 1) // 2, (grid[2] - 1) // 2


def _interior(grid: BlockId) -> list[BlockId]:
    return [(int(grid[0] * x), int(grid[1] * y), int(grid[2] * z)) for x, y, z in INTERIOR]


def next_block(block: BlockId, grid: BlockId, axis: int) -> BlockId:
    """The neighbour along an axis; the one before at the end."""
    step = 1 if block[axis] + 1 < grid[axis] else -1
    x, y, z = (place + step * (number == axis) for number, place in enumerate(block))
    return x, y, z


def other_blocks(grid: BlockId, middle: BlockId) -> list[BlockId]:
    """The first and the last block, neighbours of the middle one, and two more of a large grid."""
    near = [next_block(middle, grid, axis) for axis in range(3) if grid[axis] > 1]
    chosen = [*near[:1], last_block(grid), FIRST, *near[1:2], *(_interior(grid) if math.prod(grid) > 16 else ())]
    return [block for block in dict.fromkeys(chosen) if block != middle]


def other_warps(warps: int, function: Function, *, every: bool) -> list[tuple[int, int]]:
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
