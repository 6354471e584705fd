"""Genes of tiled products that do not depend on the backend: how far k may be split, which finishes a problem has."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.dense.tiled.product import Product
from kbench.generation.proposers.genome.family import Genome

SPLITS: dict[str, tuple[int, ...]] = {
    "matmul_large_k": (16, 32, 64, 128),
    "linear_sigmoid_sum": (8, 16, 32, 64),
    "matmul_small_k": (1,),
    "matmul_tall_skinny": (1,),
    "matmul_batched": (1, 2),
    "matmul_symmetric": (1, 2),
    "matmul_tensor3d": (1, 2),
    "linear_swish_sum_group_norm": (1,),
    "grouped_gemm": (1,),
    "matmul_upper_triangular": (1,),
    "matmul_lower_triangular": (1,),
}
"""Parts of the sum over k worth trying; long sums for few outputs need many to fill a GPU."""

DEFAULT_SPLITS = (1, 2, 4, 8)
SMS = 132
"""Blocks of a persistent grid come in multiples of this."""


def splits(problem_id: str) -> tuple[int, ...]:
    """Choices of the number of parts."""
    return SPLITS.get(problem_id, DEFAULT_SPLITS)


def finishes(product: Product, problem_id: str) -> tuple[str, ...]:
    """Where the epilogue may run: in the tile, from per-tile statistics, or in a second kernel."""
    if product.row in ("sum", "logsumexp", "softmax"):
        return ("partial", "separate")
    if product.grouped or product.triangle or (splits(problem_id) == (1,) and not product.row):
        return ("fused",)
    return ("fused", "separate")


def finish_fault(product: Product, finish: str, split_k: int) -> str | None:
    """Why a finish does not go with a split."""
    if split_k > 1 and finish != "separate":
        return "parts of a sum are joined by a second kernel"
    if split_k == 1 and finish == "separate" and not product.vectors:
        return "without an epilogue or parts there is nothing for a second kernel"
    return None


def persistent_blocks(genome: Genome) -> int | None:
    """Blocks of a persistent grid; None where every tile has a block of its own."""
    return None if genome["loop"] == "tile" else SMS * int(str(genome["loop"]).removeprefix("persistent"))
