"""Strategy: the direction a request suggests. They rotate, so that the searches of a cell do not all try one thing."""

from __future__ import annotations

from kbench.benchmark.problems.definition import ProblemDefinition
from kbench.schemas import Backend

MATRIX_FAMILIES = frozenset(
    {"matmul", "fused_matmul", "quantized_matmul", "convolution", "transposed_convolution", "fused_convolution",
     "gpu_mode", "attention", "scientific"}
)  # fmt: skip
"""Families whose problems are matrix products, or can be written as such."""
COMPUTE_BOUND = 8.0
"""Operations per byte from which a problem of these families is worth tensor cores."""
PRODUCTS = {
    Backend.TRITON: (
        "Tensor cores with a software pipeline: tl.dot over a K loop with num_stages 3 to 5, tiles and warps "
        "chosen for these shapes, and a grouped program order that reuses L2.",
        "Tensor descriptors (TMA) for all operand loads and for the output, with a deep pipeline.",
        "A persistent grid: one program per multiprocessor loops over tiles, so that the epilogue of one tile overlaps "
        "the loads of the next.",
        "Warp specialisation: a persistent loop over tensor descriptors with tl.range(..., warp_specialize=True).",
        "More parallelism where the grid is small: split K (or the sequence) over programs, with a second pass or "
        "atomics that merge the parts.",
        "Another algorithm: change what is computed, such as implicit GEMM, a better data layout in a first launch, "
        "skipped zero blocks, or several small products batched into one.",
        "Fuse everything into one launch, so that no intermediate result reaches device memory.",
    ),
    Backend.CUDA: (
        "wgmma with TMA: swizzled tensor maps fill a ring of shared-memory stages guarded by mbarriers.",
        "mma.sync with ldmatrix and a cp.async pipeline of three or four stages; swizzle shared memory against bank "
        "conflicts.",
        "Warp specialisation: one producer warp issues TMA, two consumer warpgroups compute with wgmma; move registers "
        "with setmaxnreg.",
        "A persistent grid: one block per multiprocessor loops over tiles, in an order that reuses L2.",
        "More parallelism where the grid is small: split K (or the sequence) over blocks or a cluster, and merge "
        "through distributed shared memory, atomics or a second launch.",
        "Another algorithm: change what is computed, such as implicit GEMM, a better data layout in a first launch, "
        "skipped zero blocks, or several small products batched into one.",
        "Register tiling: each thread or warp computes a larger tile, operands are read with 16-byte loads, and the "
        "epilogue is fused.",
    ),
}
STREAMING = {
    Backend.TRITON: (
        "Wide, coalesced access: several 16-byte vectors in flight per thread; choose block size and warps for it.",
        "One pass: read every input once, keep it in registers between reduction and output, write once.",
        "A persistent grid: as many programs as the multiprocessors hold, each with a pipelined loop (tl.range with "
        "num_stages).",
        "More parallelism: split long rows or reductions over programs, and merge in a second launch or by atomics, so "
        "that small workloads fill the GPU too.",
        "Tensor descriptors (TMA) move tiles, while the threads only compute.",
        "Another algorithm: fewer passes, an online or tree form of the recurrence, or a layout that makes access "
        "contiguous.",
    ),
    Backend.CUDA: (
        "Vector width: 16-byte loads and stores, several in flight per thread, with a streaming cache policy.",
        "One pass: read every input once, keep it in registers or shared memory between reduction and output, write "
        "once.",
        "Asynchronous bulk copies: cp.async.bulk or TMA fill a ring of shared-memory stages guarded by mbarriers, "
        "while the threads compute.",
        "A persistent grid: as many blocks as are resident, each looping over its share, with loads issued ahead.",
        "More parallelism: several blocks (a cluster with distributed shared memory, or atomics) share one row or "
        "reduction, so that small workloads fill the GPU too.",
        "Another algorithm: fewer passes, an online or tree form of the recurrence, a single-pass scan with look-back, "
        "or warp shuffles instead of shared memory.",
    ),
}
ELEMENTWISE = frozenset({"activation", "fused_elementwise", "indexing"})
REDUCING = ("More parallelism", "Another algorithm")
"""How the strategies begin that make no sense where every output depends on its own inputs alone."""


def strategies(problem: ProblemDefinition, backend: Backend) -> tuple[str, ...]:
    """What may be tried on a problem, in the order of rotation."""
    if problem.family in MATRIX_FAMILIES and intensity(problem) >= COMPUTE_BOUND:
        return PRODUCTS[backend]
    if problem.family in ELEMENTWISE:
        return tuple(text for text in STREAMING[backend] if not text.startswith(REDUCING))
    return STREAMING[backend]


def intensity(problem: ProblemDefinition) -> float:
    """Operations per byte of the most compute-bound workload."""
    works = [problem.workload(size) for size in problem.sizes]
    return max(work.flops / work.min_bytes for work in works)


def strategy(problem: ProblemDefinition, backend: Backend, turn: int) -> str:
    """The strategy whose turn it is."""
    texts = strategies(problem, backend)
    return texts[turn % len(texts)]
