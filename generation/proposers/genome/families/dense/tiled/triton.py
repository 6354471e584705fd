"""Tiled Triton products: genes, constraints and families for every problem that is a Product."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.dense.tiled.genes import (
    finish_fault,
    finishes,
    persistent_blocks,
    splits,
)
from kbench.generation.proposers.genome.families.dense.tiled.product import GELU_TRITON, PRODUCTS, Product
from kbench.generation.proposers.genome.family import Family, Gene, Genome
from kbench.generation.proposers.genome.template import render as fill
from kbench.schemas import Backend

SHARED_LIMIT = 96 * 1024
"""Bytes of staged fp32 operands: three tf32 products keep converted copies beside them."""
WIDE_SHARED_LIMIT = 200 * 1024
"""Bytes of staged narrow operands; Hopper and later have 227 KiB."""
SMALLEST_PERSISTENT = 64 * 64
"""Outputs of a tile below which a persistent grid, one or two programs per processor, waits for memory all the time."""
SHALLOW = ("matmul_small_k", "matmul_tall_skinny")
"""Problems whose k is a single block."""


def tile_sides(problem_id: str, product: Product) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Choices of tile rows, columns and depth."""
    if problem_id in SHALLOW:
        return (32, 64, 128), (32, 64, 128, 256), (16, 32)
    if product.dtype == "float32":
        return (32, 64, 128), (32, 64, 128), (16, 32, 64)
    if product.item_bytes == 1:
        return (64, 128), (64, 128, 256), (64, 128)
    return (64, 128), (64, 128, 256), (32, 64, 128)


def _maths(product: Product) -> tuple[str, ...]:
    if product.dtype == "float32":
        return ("tf32x3", "ieee", "outer") if product.aligned else ("tf32x3", "ieee")
    return ("native", "decoded") if product.dtype == "float8_e4m3fn" else ("dot",)


def _orders(product: Product) -> tuple[str, ...]:
    if product.triangle:
        return ("row", "column", "reverse", "grouped8", "triangle")
    return ("row", "column", "snake", "grouped4", "grouped8")


def genes(problem_id: str) -> tuple[Gene, ...]:
    """Genes of a problem's tiled kernels."""
    product = PRODUCTS[problem_id]
    sides = tile_sides(problem_id, product)
    found = [
        Gene("math", _maths(product), structural=True),
        Gene("loop", ("tile", "persistent1", "persistent2"), structural=True),
        Gene("order", _orders(product), structural=True),
        Gene("split_k", splits(problem_id), structural=True),
        Gene("finish", finishes(product, problem_id), structural=True),
        Gene("pointers", ("advance", "recompute"), structural=True),
        Gene("k_tail", ("masked", "peeled"), structural=True),
        Gene("bounds", ("mask",) if product.grouped else ("mask", "wrap"), structural=True),
        Gene("swapped", (False, True), structural=True),
    ]
    if product.triangle:
        found.append(Gene("skip", (True, False), structural=True))
    if product.symmetric:
        found += [Gene("a_layout", ("mk", "km"), structural=True), Gene("b_layout", ("kn", "nk"), structural=True)]
    if "separate" in finishes(product, problem_id) and product.row:
        found.append(Gene("rows", ("whole", "loop"), structural=True))
    found += [Gene(f"block_{axis}", choices) for axis, choices in zip("mnk", sides, strict=True)]
    found += [Gene("warps", (4, 8)), Gene("stages", (2, 3, 4))]
    if finishes(product, problem_id) != ("fused",):
        found.append(Gene("finish_block", (512, 1024, 2048)))
    return tuple(found)


def invalid(problem_id: str, genome: Genome) -> str | None:
    """Why a combination cannot work, or repeats another one."""
    product = PRODUCTS[problem_id]
    finish, split_k = str(genome["finish"]), int(genome["split_k"])
    bm, bn, bk = (int(genome[f"block_{axis}"]) for axis in "mnk")
    fault = finish_fault(product, finish, split_k) or _math_fault(genome, bm * bn)
    if fault:
        return fault
    if finish == "fused" and "finish_block" in genome and genome["finish_block"] != 512:
        return "no second kernel to size"
    if finish != "separate" and genome.get("rows", "whole") != "whole":
        return "no second kernel over rows"
    if genome["loop"] != "tile" and (bm * bn < SMALLEST_PERSISTENT or genome["math"] == "outer"):
        return "too little work in flight for a persistent grid"
    if genome["order"] == "triangle" and (bm != bn or genome["loop"] != "tile" or not genome["skip"]):
        return "a packed triangle needs square tiles and one tile per program"
    operands = (bm + bn) * bk * product.item_bytes * int(genome["stages"])
    if operands > (SHARED_LIMIT if product.dtype == "float32" else WIDE_SHARED_LIMIT):
        return "too much shared memory"
    return None


def _math_fault(genome: Genome, outputs: int) -> str | None:
    per_thread = outputs // (32 * int(genome["warps"]))
    most = {"tf32x3": 64, "ieee": 64, "outer": 64}.get(str(genome["math"]), 128)
    if per_thread > most or per_thread < 4:
        return "too many or too few sums per thread"
    if genome["math"] == "ieee" and (per_thread > 32 or int(genome["block_k"]) > 32):
        # Without tensor cores the compiler unrolls the whole depth of a block and holds it in registers.
        return "too many registers for a block's depth"
    if genome["math"] == "outer" and (
        genome["k_tail"] != "masked"
        or genome["bounds"] != "mask"
        or genome["stages"] != 2
        or genome["pointers"] != "recompute"
    ):
        return "one column at a time has no tail, no wrapping and no stages"
    return None


def render(problem_id: str, genome: Genome) -> str:
    """The kernel's source."""
    product = PRODUCTS[problem_id]
    a_layout, b_layout = product.layouts(genome)
    values = {
        **genome,
        "product": product,
        "a_layout": a_layout,
        "b_layout": b_layout,
        "gelu": GELU_TRITON,
        "most_programs": persistent_blocks(genome),
    }
    return fill("dense/tiled.py", **values)


def family(name: str, problems: tuple[str, ...]) -> Family:
    """A family of tiled products over some problems."""
    return Family(name=name, backend=Backend.TRITON, problems=problems, genes=genes, render=render, invalid=invalid)
