"""Tiled CUDA products: genes, constraints and families by arithmetic (plain threads, mma instructions, wmma)."""

from __future__ import annotations

from collections.abc import Callable

from kbench.generation.proposers.genome.families.dense.tiled.genes import (
    finish_fault,
    finishes,
    persistent_blocks,
    splits,
)
from kbench.generation.proposers.genome.families.dense.tiled.product import GELU_CUDA, PRODUCTS, Product
from kbench.generation.proposers.genome.families.dense.tiled.tile import Tile
from kbench.generation.proposers.genome.family import Family, Gene, Genome
from kbench.generation.proposers.genome.template import render as fill
from kbench.schemas import Backend

TYPES = {
    "float32": "float",
    "bfloat16": "__nv_bfloat16",
    "float16": "__half",
    "int8": "signed char",
    "float8_e4m3fn": "unsigned char",
}
"""C++ names of element types; float8 travels as bytes."""
SHARED_LIMIT = 128 * 1024
"""Dynamic shared memory a block may take; the data-centre GPUs since Ampere have 163 KiB and more."""
SMALLEST_PERSISTENT = 64 * 64
"""Outputs of a tile below which a persistent grid, one or two blocks per processor, waits for memory all the time."""
SHALLOW = ("matmul_small_k", "matmul_tall_skinny")
"""Problems whose k is a single block."""


def _common(problem_id: str, product: Product) -> list[Gene]:
    orders = ("row", "column", "reverse", "grouped8", "triangle") if product.triangle else (
        "row", "column", "snake", "grouped4", "grouped8")  # fmt: skip
    found = [
        Gene("loop", ("tile", "persistent1", "persistent2"), structural=True),
        Gene("order", orders, structural=True),
        Gene("split_k", splits(problem_id), structural=True),
        Gene("finish", finishes(product, problem_id), structural=True),
        Gene("pad", (0, 16), structural=True),
        Gene("vector", (16, 8, 4) if product.aligned else (4,)),
    ]
    if product.triangle:
        found.append(Gene("skip", (True, False), structural=True))
    if product.symmetric:
        found += [Gene("a_layout", ("mk", "km"), structural=True), Gene("b_layout", ("kn", "nk"), structural=True)]
    if finishes(product, problem_id) != ("fused",):
        found.append(Gene("finish_threads", (128, 256, 512)))
    if product.row and product.row != "group_norm":
        found.append(Gene("rows", ("block", "warp"), structural=True))
    return found


def simt_genes(problem_id: str) -> tuple[Gene, ...]:
    """Genes of kernels in which every thread owns a small square of the output."""
    product = PRODUCTS[problem_id]
    staging = (
        ("plain", "prefetch", "cp_async") if product.dtype == "int8" else ("global", "plain", "prefetch", "cp_async")
    )
    return (
        Gene("engine", ("dp4a",) if product.dtype == "int8" else ("simt",)),
        Gene("staging", staging, structural=True),
        Gene("flipped", (False,) if product.dtype == "int8" else (False, True), structural=True),
        Gene("columns", ("strided", "blocked"), structural=True),
        Gene("path", ("staged",) if product.row else ("direct", "staged"), structural=True),
        *_common(problem_id, product),
        Gene("thread_tile", ("2x2", "4x4", "8x4", "4x8", "8x8"), structural=True),
        Gene("unroll", (2, 4, 8)),
        Gene("stages", (2, 3)),
        Gene("block_m", (32, 64, 128)),
        Gene("block_n", (32, 64, 128)),
        Gene("block_k", (32, 64) if product.dtype == "int8" else (8, 16, 32)),
    )


def mma_genes(problem_id: str) -> tuple[Gene, ...]:
    """Genes of kernels that issue tensor-core instructions themselves."""
    product = PRODUCTS[problem_id]
    found = [
        Gene("engine", ("mma",)),
        Gene("staging", ("plain", "prefetch", "cp_async"), structural=True),
        Gene("path", ("staged",) if product.row else ("direct", "staged"), structural=True),
        *_common(problem_id, product),
    ]
    if product.dtype == "float8_e4m3fn":
        found.append(Gene("fp8", ("native", "half"), structural=True))
    if product.dtype != "float32":
        found.append(Gene("fragments", ("words", "ldmatrix"), structural=True))
    depth = {4: (16, 32), 2: (32, 64), 1: (64, 128)}[product.item_bytes]
    return (
        *found,
        Gene("warps", ("1x2", "2x1", "2x2", "1x4", "2x4", "4x2"), structural=True),
        Gene("stages", (2, 3, 4)),
        Gene("block_m", (32, 64, 128)),
        Gene("block_n", (32, 64, 128) if product.dtype == "float32" else (32, 64, 128, 256)),
        Gene("block_k", (16, 32) if problem_id in SHALLOW else depth),
    )


def wmma_genes(problem_id: str) -> tuple[Gene, ...]:
    """Genes of kernels that use the portable warp-matrix interface; outputs go through shared memory."""
    product = PRODUCTS[problem_id]
    return (
        Gene("engine", ("wmma",)),
        Gene("staging", ("plain", "prefetch", "cp_async"), structural=True),
        Gene("path", ("staged",)),
        *_common(problem_id, product),
        Gene("warps", ("1x2", "2x1", "2x2", "1x4", "2x4", "4x2"), structural=True),
        Gene("stages", (2, 3, 4)),
        Gene("block_m", (32, 64, 128)),
        Gene("block_n", (32, 64, 128)),
        Gene("block_k", (16, 32) if product.dtype == "float32" else (32, 64)),
    )


def invalid(problem_id: str, genome: Genome) -> str | None:
    """Why a combination cannot work, or repeats another one."""
    product = PRODUCTS[problem_id]
    finish, split_k = str(genome["finish"]), int(genome["split_k"])
    fault = finish_fault(product, finish, split_k)
    if fault:
        return fault
    tile = Tile.of(product, genome)
    checks: tuple[Callable[[Product, Genome, Tile], str | None], ...] = (_finish_fault, _staging_fault, _shape_fault)
    for check in checks:
        fault = check(product, genome, tile)
        if fault:
            return fault
    return None


def _finish_fault(product: Product, genome: Genome, tile: Tile) -> str | None:
    finish = genome["finish"]
    if finish == "fused" and genome.get("finish_threads", 128) != 128:
        return "no second kernel to size"
    if finish != "separate" and genome.get("rows", "block") != "block":
        return "no second kernel over rows"
    if product.dtype == "int8" and finish == "separate" and tile.staged:
        return "integer sums are not staged as floats"
    if genome["loop"] != "tile" and (tile.bm * tile.bn < SMALLEST_PERSISTENT or genome["staging"] == "global"):
        return "too little work in flight for a persistent grid"
    if genome["order"] == "triangle" and (tile.bm != tile.bn or genome["loop"] != "tile" or not genome["skip"]):
        return "a packed triangle needs square tiles and one tile per block"
    return None


def _staging_fault(product: Product, genome: Genome, tile: Tile) -> str | None:
    staging = genome["staging"]
    if staging != "cp_async" and genome["stages"] != 2:
        return "only asynchronous copies have stages"
    if staging == "cp_async" and genome.get("flipped") and genome["vector"] != product.item_bytes:
        return "asynchronous copies turn a tile only element by element"
    if staging == "global" and (genome["flipped"], genome["vector"], genome["pad"]) != (False, 4, 0):
        return "nothing is staged"
    if genome.get("flipped") and product.a_layout == "km" and product.b_layout == "kn":
        return "both tiles already have rows of one k"
    if product.row == "group_norm" and tile.bn % 32:
        return "groups of 32 must not straddle tiles"
    if tile.shared_bytes > SHARED_LIMIT:
        return "too much shared memory"
    return None


def _shape_fault(product: Product, genome: Genome, tile: Tile) -> str | None:
    if not 64 <= tile.threads <= 512:
        return "too few or too many threads"
    sums = tile.bm * tile.bn // tile.threads
    if not tile.warped:
        return None if sums <= 64 else "too many sums per thread"
    wide = 16 if genome["engine"] == "wmma" else 8
    if tile.bm // tile.down < 16 or tile.bn // tile.across < wide:
        return "a warp needs at least one fragment"
    most = 64 if product.dtype == "float32" else 128
    chunks = min(tile.bm, tile.bn) * tile.bk // tile.vector
    held = (tile.bm + tile.bn) * tile.bk * product.item_bytes // 4 // tile.threads
    if sums > most or chunks < tile.threads // 4:
        return "too many sums per thread or too little to copy"
    if genome["staging"] == "prefetch" and sums + held > 160:
        return "too many registers"
    return None


def render(problem_id: str, genome: Genome) -> str:
    """The kernel's source."""
    product = PRODUCTS[problem_id]
    a_layout, b_layout = product.layouts(genome)
    values = {
        **genome,
        "product": product,
        "tile": Tile.of(product, genome),
        "a_layout": a_layout,
        "b_layout": b_layout,
        "types": TYPES,
        "dtypes": {product.dtype, product.out_dtype, *(vector.dtype for vector in product.vectors)},
        "wmma_k": 8 if product.dtype == "float32" else 16,
        "gelu": GELU_CUDA,
        "most_blocks": persistent_blocks(genome),
    }
    return fill("dense/tiled.cu", **values)


def families(prefix: str, problems: tuple[str, ...]) -> tuple[Family, ...]:
    """Families of tiled products over some problems, by arithmetic."""
    plain = tuple(p for p in problems if PRODUCTS[p].dtype in ("float32", "int8"))
    warped = tuple(p for p in problems if PRODUCTS[p].dtype not in ("int8", "float8_e4m3fn"))
    parts = (("simt", plain, simt_genes), ("mma", problems, mma_genes), ("wmma", warped, wmma_genes))
    return tuple(
        Family(
            name=f"{prefix}_cuda_{kind}",
            backend=Backend.CUDA,
            problems=members,
            genes=genes,
            render=render,
            invalid=invalid,
        )
        for kind, members, genes in parts
        if members
    )
