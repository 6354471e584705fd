"""A fence's memory ends where its mapping ends; on a GPU, kernels that go past a tensor fail their check."""

import dataclasses
from pathlib import Path

import pytest
import torch
from honest_kernels import CUDA, TRITON, gelu

from kbench.benchmark.problems import problem
from kbench.harness.bench.context import GUARD_BYTE, Guarded
from kbench.harness.device.fence import ALIGNMENT, Fence
from kbench.harness.harness import Harness
from kbench.schemas import Backend, KernelSource, Status, UserError

BASE = 1 << 40


@dataclasses.dataclass
class FewPages:
    """Pages in a made-up address space, so many of them."""

    total: int
    page_bytes: int = 4096
    mapped: dict[int, int] = dataclasses.field(default_factory=dict)
    made: int = 0

    def map(self, count: int) -> int:
        if sum(self.mapped.values()) + count > self.total:
            raise MemoryError
        address = BASE + self.made * (1 << 30)
        self.made += 1
        self.mapped[address] = count
        return address

    def unmap(self, address: int, count: int) -> None:
        assert self.mapped.pop(address) == count


@pytest.mark.parametrize("nbytes", [1, 15, 16, 924, 4095, 4096, 4097, 100_000])
def test_memory_ends_with_its_mapping_but_for_the_alignment(nbytes: int) -> None:
    pages = FewPages(total=100)
    address = Fence(pages).allocate(nbytes)
    ((start, count),) = pages.mapped.items()
    end = start + count * pages.page_bytes
    assert address >= start
    assert address % ALIGNMENT == 0
    assert 0 <= end - (address + nbytes) < ALIGNMENT


def test_memory_in_use_is_never_handed_out_again_and_memory_given_back_is() -> None:
    pages = FewPages(total=100)
    fence = Fence(pages)
    first, second = fence.allocate(100), fence.allocate(100)
    assert first != second
    fence.release(first)
    assert fence.allocate(100) == first
    assert pages.made == 2


def test_unused_mappings_are_given_up_before_memory_is_exhausted() -> None:
    pages = FewPages(total=4)
    fence = Fence(pages)
    for one in [fence.allocate(100) for _ in range(4)]:
        fence.release(one)
    assert fence.allocate(3 * 4096) != 0
    assert not fence.exhausted
    assert fence.allocate(3 * 4096) == 0
    assert fence.exhausted


def test_no_memory_at_all_is_still_a_place_of_its_own() -> None:
    fence = Fence(FewPages(total=4))
    assert fence.allocate(0) not in (0, fence.allocate(0))


def test_an_input_without_a_guard_after_it_ends_with_its_block() -> None:
    guarded = Guarded(torch.zeros(10), after=False)
    assert guarded._block.data_ptr() + guarded._block.numel() == guarded.tensor.data_ptr() + 40
    assert bool((guarded.guards[0] == GUARD_BYTE).all())
    guarded._block[0] = 0
    assert not bool((guarded.guards[0] == GUARD_BYTE).all())
    guarded.restore()
    assert bool((guarded.guards[0] == GUARD_BYTE).all())


def test_a_fence_needs_a_gpu_and_tells_no_time() -> None:
    with pytest.raises(UserError, match="a fence needs a GPU"):
        Harness(gpu=None, fenced=True)
    with pytest.raises(UserError, match="can only check"):
        list(Harness(gpu=0, fenced=True).measure([]))


GRID_OF_SMALLER_BLOCKS = '''
import torch
import triton
import triton.language as tl


@triton.jit
def scale(x_ptr, y_ptr, rows, columns, BLOCK: tl.constexpr):
    """Columns are masked, rows are not: too many programs go past the last row."""
    blocks = tl.cdiv(columns, BLOCK)
    row = tl.program_id(0) // blocks
    at = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    ok = at < columns
    v = tl.load(x_ptr + row * columns + at, mask=ok, other=0.0)
    tl.store(y_ptr + row * columns + at, tl.maximum(v, 0.0), mask=ok)


def run(x):
    y = torch.empty_like(x)
    columns = x.shape[-1]
    rows = x.numel() // columns
    scale[(rows * triton.cdiv(columns, BLOCK_OF_GRID),)](x, y, rows, columns, BLOCK=64, num_warps=2)
    return y
'''


@pytest.mark.gpu
def test_on_a_gpu_kernels_that_go_past_a_tensor_fail_their_check_and_others_pass(tmp_path: Path) -> None:
    honest = [gelu(TRITON), gelu(CUDA)]
    grid_of_4, grid_of_64 = (
        KernelSource("relu", Backend.TRITON, GRID_OF_SMALLER_BLOCKS.replace("BLOCK_OF_GRID", size))
        for size in ("4", "64")
    )
    reads_on = gelu(CUDA, "y[i] =", "y[i] = 1e-30f * x[i + 64] +")
    with Harness(gpu=0, cache=tmp_path, fenced=True) as harness:
        rows = list(harness.measure([*honest, grid_of_4, reads_on, grid_of_64], check_only=True))
    for row in rows:
        print(row.kernel_id, row.problem_id, row.workload, row.status.value, row.error)  # noqa: T201 - evidence
    passed = {kernel.kernel_id for kernel in (*honest, grid_of_64)}
    assert {row.kernel_id for row in rows if row.status is Status.OK} == passed
    assert {row.status for row in rows if row.kernel_id not in passed} == {Status.LAUNCH_ERROR}
    sizes = [size.name for size in problem("gelu_tanh").sizes]
    assert [row.workload for row in rows if row.kernel_id == honest[0].kernel_id] == ["tiny", *sizes]
    assert {row.runtime_us for row in rows} == {None}
