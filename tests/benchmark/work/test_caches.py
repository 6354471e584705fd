"""What crosses L2 and memory, on launches whose answer follows from the caches' sizes."""

import dataclasses
import math

import pytest

from kbench.benchmark.work.caches import DIRTY, KEPT, crossings, dram_bytes
from kbench.benchmark.work.gpus import H200
from kbench.benchmark.work.memory import SECTOR
from kbench.benchmark.work.totals import LaunchWork, Totals, Traffic, Work

MB = 1e6
EACH_ITS_OWN = (1.0, 0.0, 0.0)


def stream(
    blocks: int,
    read: float = 0.0,
    written: float = 0.0,
    *,
    buffers: tuple[float, float] | None = None,
    passes: float = 1.0,
    threads: int = 256,
    stack_bytes: int = 0,
) -> LaunchWork:
    """Blocks that read one buffer and write another, each its own part."""
    loads, stores = read / blocks, written / blocks
    sizes = buffers or (read, written)
    traffic = [Traffic(sizes[0], loads, passes * loads, 0.0, EACH_ITS_OWN, 1.0)] if read else []
    traffic += [Traffic(sizes[1], 0.0, 0.0, stores, EACH_ITS_OWN, 1.0)] if written else []
    block = Totals(
        load_sectors=passes * loads / SECTOR, l1_miss_sectors=passes * loads / SECTOR, store_sectors=stores / SECTOR
    )
    return LaunchWork("f", (blocks, 1, 1), threads, 32, 0, stack_bytes, block, 1.0, tuple(traffic))


def product(grid: tuple[int, int, int], share: tuple[float, float, float], buffer: float, asked: float) -> LaunchWork:
    """Blocks that read a buffer several times over."""
    loads = asked / (grid[0] * grid[1])
    block = Totals(load_sectors=loads / SECTOR, l1_miss_sectors=loads / SECTOR)
    return LaunchWork("f", grid, 256, 32, 0, 0, block, 1.0, (Traffic(buffer, loads, loads, 0.0, share, 1.0),))


def test_a_stream_is_read_once_and_crosses_half_as_often_again_between_the_halves_of_l2() -> None:
    (one,) = crossings(Work((stream(10_000, 800 * MB, 800 * MB),)), H200)
    assert one.dram_read == pytest.approx(800 * MB)
    assert one.l2 == pytest.approx(1.5 * 1600 * MB)
    assert dram_bytes(stream(10_000, 800 * MB), H200) == pytest.approx(800 * MB)


def test_what_is_written_last_stays_in_l2_and_no_more_than_may_be_dirty() -> None:
    small, even, pure = (stream(10_000, *sizes) for sizes in ((MB, 8 * MB), (400 * MB, 400 * MB), (MB, 800 * MB)))
    written = [crossings(Work((launch,)), H200)[0].dram_written for launch in (small, even, pure)]
    assert written[0] == 0
    assert written[1] == pytest.approx(400 * MB - KEPT * H200.l2_bytes / 2)
    assert written[2] == pytest.approx(800 * MB - DIRTY * H200.l2_bytes)


def test_a_later_launch_writes_back_what_an_earlier_one_left() -> None:
    writes, reads = stream(1000, 0.0, 20 * MB), stream(1000, 900 * MB)
    first, second = crossings(Work((writes, reads)), H200)
    assert (first.dram_written, second.dram_written) == (0, pytest.approx(20 * MB))


@pytest.mark.parametrize(("size", "found"), [(20 * MB, True), (200 * MB, False)])
def test_a_later_launch_finds_in_l2_what_fits_there(size: float, found: bool) -> None:
    first, second = crossings(Work((stream(1000, MB, size), stream(1000, size, MB / 2))), H200)
    assert first.dram_read == pytest.approx(MB)
    assert second.dram_read == pytest.approx(0 if found else size)
    (repeated,) = crossings(Work((dataclasses.replace(stream(1000, size), times=3),)), H200)
    assert repeated.dram_read == pytest.approx(size if found else 3 * size)


def test_what_neighbours_share_is_read_once_and_what_a_sweep_lies_between_again() -> None:
    near = product((16, 4000, 1), (0.0, 1.0, 0.0), 200 * MB, 3200 * MB)
    far = product((4000, 16, 1), (1.0, 0.0, 0.0), 200 * MB, 3200 * MB)
    small = product((4000, 16, 1), (1.0, 0.0, 0.0), 20 * MB, 320 * MB)
    assert dram_bytes(near, H200) == pytest.approx(200 * MB)
    assert 2000 * MB < dram_bytes(far, H200) < 3200 * MB
    assert dram_bytes(small, H200) == pytest.approx(20 * MB)


def test_resident_blocks_that_walk_over_a_large_buffer_read_it_again() -> None:
    few, many = (product((blocks, 1, 1), EACH_ITS_OWN, 100 * MB, 800 * MB) for blocks in (132, 13_200))
    assert 400 * MB < dram_bytes(few, H200) < 800 * MB
    assert dram_bytes(many, H200) == pytest.approx(100 * MB)


def test_a_block_that_reads_its_own_part_twice_finds_it_only_where_all_parts_fit() -> None:
    assert dram_bytes(stream(64, 20 * MB, passes=2), H200) == pytest.approx(20 * MB)
    assert 1.8 * 400 * MB < dram_bytes(stream(64, 400 * MB, passes=2), H200) < 2 * 400 * MB


def test_a_launch_that_touches_much_of_a_buffer_touches_all_of_it_and_one_that_touches_little_does_not() -> None:
    part, corner = (stream(1000, read, buffers=(100 * MB, 0)) for read in (10 * MB, 0.1 * MB))
    assert dram_bytes(part, H200) == pytest.approx(100 * MB)
    assert dram_bytes(corner, H200) == pytest.approx(0.1 * MB)


def test_l1_keeps_a_small_buffer_between_blocks_but_bulk_copies_pass_it_by() -> None:
    alike = (0.0, 0.0, 0.0)
    table = Traffic(16_384, 16_384, 16_384, 0.0, alike, 0.0)
    lanes, copies = Totals(l1_miss_sectors=16_384 / SECTOR), Totals(bulk_load_bytes=16_384)
    crossing = {}
    for name, block in (("lanes", lanes), ("copies", copies)):
        launch = LaunchWork("f", (10_000, 1, 1), 256, 32, 0, 0, block, 1.0, (table,))
        (crossing[name],) = crossings(Work((launch,)), H200)
    assert crossing["lanes"].l2 == pytest.approx(132 * 16_384, rel=0.01)
    assert crossing["copies"].l2 == pytest.approx(10_000 * 16_384, rel=0.01)
    assert crossing["lanes"].dram_read == crossing["copies"].dram_read == pytest.approx(16_384)


def test_spilled_registers_cross_l2_and_stores_at_unknown_addresses_reach_memory() -> None:
    plain, spilling = (crossings(Work((stream(1000, MB, stack_bytes=n),)), H200)[0] for n in (0, 64))
    assert spilling.l2 - plain.l2 == pytest.approx(2.5 * 64 * 256 * 1000)
    lost = LaunchWork("f", (1000, 1, 1), 256, 32, 0, 0, Totals(store_sectors=1e6 / SECTOR))
    (one,) = crossings(Work((lost,)), H200)
    assert one.dram_written == pytest.approx(1000 * MB - DIRTY * H200.l2_bytes)


@pytest.mark.parametrize("blocks", [0, 1, 10**18])
@pytest.mark.parametrize("loads", [0.0, 1e-300, 1e18])
def test_counted_work_of_a_stranger_has_finite_traffic(blocks: int, loads: float) -> None:
    traffic = (Traffic(1e18, loads, 1e18, loads, EACH_ITS_OWN, 1.0), Traffic(0.0, loads, 0.0, 1e18, (0.0,) * 3, 0.0))
    for block in (Totals(), Totals(bulk_load_bytes=1e18), Totals(l1_miss_sectors=1e18)):
        launch = LaunchWork("f", (blocks, 1, 1), 0, 0, 10**18, 10**18, block, 1.0, traffic, times=10**18)
        (one,) = crossings(Work((launch,)), H200)
        assert all(math.isfinite(part) and part >= 0 for part in (one.l2, one.dram_read, one.dram_written))
