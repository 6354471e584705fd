"""Renders a Product as CUDA C++: a tiled kernel with a choice of arithmetic and staging, and a second kernel if any."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.dense.tiled.engine_cuda import accumulate, helpers, includes
from kbench.generation.proposers.genome.families.dense.tiled.finish_cuda import (
    finish_call,
    finish_kernel,
    tile_finish,
    value_function,
)
from kbench.generation.proposers.genome.families.dense.tiled.intrinsics_cuda import CONVERSIONS, INCLUDES, STORES, TYPES
from kbench.generation.proposers.genome.families.dense.tiled.kernel_triton import SMS, product_shapes
from kbench.generation.proposers.genome.families.dense.tiled.product import Product
from kbench.generation.proposers.genome.families.dense.tiled.tile_cuda import Tile
from kbench.generation.proposers.genome.family import Genome


def render_product(product: Product, genome: Genome) -> str:
    """The kernel's source text."""
    tile = Tile.of(product, genome)
    device = "\n".join(part.strip("\n") for part in _device(product, genome, tile) if part)
    return (
        "import torch\n\nfrom kbench.harness.cuda import CudaModule\n\n"
        f'module = CudaModule(r"""\n{device}\n""")\n\n\n{_run(product, genome, tile)}\n'
    )


def _device(product: Product, genome: Genome, tile: Tile) -> list[str]:
    names = sorted({product.dtype, product.out_dtype, *(vector.dtype for vector in product.vectors)})
    values = sorted({"float32", product.out_dtype, *(vector.dtype for vector in product.vectors)})
    return [
        "".join(INCLUDES.get(name, "") for name in names) + includes(product, genome),
        tile.constants(),
        "".join(CONVERSIONS[name].lstrip("\n") for name in values),
        "".join(STORES[name] for name in sorted({"float32", product.out_dtype})),
        helpers(product, genome),
        value_function(product),
        _kernel(product, genome, tile),
        finish_kernel(product, genome),
    ]


def parameters(product: Product, genome: Genome) -> str:
    """Parameters of the tiled kernel."""
    t, out = TYPES[product.dtype], TYPES[product.out_dtype]
    sums = "int" if product.dtype == "int8" else "float"
    target = f"{out}* out" if genome["finish"] == "fused" else f"{sums}* sums"
    found = [f"const {t}* a", f"const {t}* b", target]
    if genome["finish"] == "partial":
        found += ["float* part"] if product.row == "sum" else ["float* peak", "float* part"]
    if genome["finish"] != "separate":
        found += [f"const {TYPES[vector.dtype]}* {vector.name}_at" for vector in product.vectors]
    if product.grouped:
        found += ["const int* offsets", "int groups"]
    return ", ".join([*found, "int M", "int N", "int K", *(["int k_span"] if _split(genome) > 1 else [])])


def _split(genome: Genome) -> int:
    return int(genome["split_k"])


def _kernel(product: Product, genome: Genome, tile: Tile) -> str:
    lines = [
        f'extern "C" __global__ void __launch_bounds__({tile.threads}) product({parameters(product, genome)}) {{',
        *(["extern __shared__ __align__(16) unsigned char shared[];"] if tile.shared_bytes else []),
        "const int tid = threadIdx.x;",
    ]
    if product.batched:
        lines += ["a += (size_t)blockIdx.y * M * K;", "b += (size_t)blockIdx.y * K * N;"]
        if genome["finish"] == "fused":
            lines += ["out += (size_t)blockIdx.y * M * N;"]
    extra = " + groups" if product.grouped else ""
    lines += [f"const int tiles_m = (M + BM - 1) / BM{extra};", "const int tiles_n = (N + BN - 1) / BN;"]
    body = [
        *_order(product, genome),
        *_ranges(product, genome),
        *accumulate(product, genome, tile),
        *tile_finish(product, genome, tile),
    ]
    if genome["loop"] == "tile":
        lines += ["const int tile = blockIdx.x;", *body]
    else:
        lines += ["for (int tile = blockIdx.x; tile < tiles_m * tiles_n; tile += gridDim.x) {", *body]
        # The next tile's copies must not overtake threads that still read this tile's shared memory.
        lines += ["__syncthreads();", "}"]
    return "\n".join([*lines, "}"])


def _order(product: Product, genome: Genome) -> list[str]:
    order = genome["order"]
    if order == "triangle":
        first, second = ("r", "s") if product.triangle == "lower" else ("s", "r")
        return [
            "int r = (int)(sqrtf(8.0f * tile + 1.0f) * 0.5f - 0.5f);",
            "while (r * (r + 1) / 2 > tile) --r;",
            "while ((r + 1) * (r + 2) / 2 <= tile) ++r;",
            "const int s = tile - r * (r + 1) / 2;",
            f"const int pid_m = {first}, pid_n = {second};",
        ]
    if order == "row":
        return ["const int pid_m = tile / tiles_n, pid_n = tile % tiles_n;"]
    if order == "column":
        return ["const int pid_m = tile % tiles_m, pid_n = tile / tiles_m;"]
    if order == "snake":
        return [
            "const int pid_m = tile / tiles_n, across = tile % tiles_n;",
            "const int pid_n = pid_m & 1 ? tiles_n - 1 - across : across;",
        ]
    if order == "reverse":
        return [
            "const int back = tiles_m * tiles_n - 1 - tile;",
            "const int pid_m = back / tiles_n, pid_n = back % tiles_n;",
        ]
    group = int(str(order).removeprefix("grouped"))
    return [
        f"const int band = tile / ({group} * tiles_n), inside = tile % ({group} * tiles_n);",
        f"const int band_m = min(tiles_m - band * {group}, {group});",
        f"const int pid_m = band * {group} + inside % band_m, pid_n = inside / band_m;",
    ]


def _ranges(product: Product, genome: Genome) -> list[str]:
    lines = ["const int n0 = pid_n * BN;"]
    if product.grouped:
        # Every group has its own last, partly filled tile; walking the groups finds the one this tile belongs to.
        return [
            *lines,
            "int expert = 0, m0 = 0, m_to = 0, first = 0, end = 0;",
            "for (int g = 0; g < groups; ++g) {",
            "    const int start = end;",
            "    end = offsets[g];",
            "    const int tiles = (end - start + BM - 1) / BM;",
            "    if (pid_m >= first && pid_m < first + tiles) {",
            "        expert = g; m0 = start + (pid_m - first) * BM; m_to = end;",
            "    }",
            "    first += tiles;",
            "}",
            f"const {TYPES[product.dtype]}* bg = b + (size_t)expert * K * N;",
            "const int k_from = 0, k_to = m0 < m_to ? K : 0;",
        ]
    lines += ["const int m0 = pid_m * BM, m_to = M;"]
    if _split(genome) > 1:
        return [*lines, "const int k_from = blockIdx.z * k_span, k_to = min(K, k_from + k_span);"]
    if product.triangle and genome["skip"]:
        low, high = ("m0", "n0 + BN") if product.triangle == "upper" else ("n0", "m0 + BM")
        return [*lines, f"const int k_from = {low} / BK * BK, k_to = min(K, {high});"]
    return [*lines, "const int k_from = 0, k_to = K;"]


def _run(product: Product, genome: Genome, tile: Tile) -> str:
    a, b = product.args[:2]
    lines = [*product_shapes(product, a, b)]
    extra = " + offsets.numel()" if product.grouped else ""
    lines += [f"tiles_m = (M + {tile.bm - 1}) // {tile.bm}{extra}", f"tiles_n = (N + {tile.bn - 1}) // {tile.bn}"]
    tiles = "tiles_m * (tiles_m + 1) // 2" if genome["order"] == "triangle" else "tiles_m * tiles_n"
    if genome["loop"] != "tile":
        tiles = f"min({tiles}, {SMS * int(str(genome['loop']).removeprefix('persistent'))})"
    args = [a, b, "out" if genome["finish"] == "fused" else "sums"]
    lines += _allocations(product, genome)
    if genome["finish"] == "partial":
        args += ["part"] if product.row == "sum" else ["peak", "part"]
    if genome["finish"] != "separate":
        args += [vector.name for vector in product.vectors]
    if product.grouped:
        args += ["offsets", "offsets.numel()"]
    args += ["M", "N", "K"]
    if _split(genome) > 1:
        lines += [f"k_span = ((K + {_split(genome) - 1}) // {_split(genome)} + {tile.bk - 1}) // {tile.bk} * {tile.bk}"]
        args += ["k_span"]
    grid = f"({tiles}, {'BATCH' if product.batched else 1}, {_split(genome)})"
    shared = f", shared_bytes={tile.shared_bytes}" if tile.shared_bytes else ""
    lines += [
        "module.launch(",
        f'    "product", grid={grid}, block={tile.threads},',
        f"    args=({', '.join(args)}){shared},",
        ")",
        *finish_call(product, genome),
        "return out",
    ]
    return "\n".join([f"def run({', '.join(product.args)}):", *(f"    {line}" for line in lines)])


def _allocations(product: Product, genome: Genome) -> list[str]:
    a = product.args[0]
    place = f"device={a}.device"
    if product.column_output:
        shape = "(M, 1)"
    elif product.batched:
        shape = "(BATCH, M, N)"
    elif len(product.args) == 2 and product.a_layout == "mk":
        shape = f"(*{a}.shape[:-1], N)"
    else:
        shape = "(M, N)"
    # Tiles off the triangle are never visited in this order, so their zeros come from the allocation.
    maker = "torch.zeros" if genome["order"] == "triangle" else "torch.empty"
    lines = [f"out = {maker}({shape}, {place}, dtype=torch.{product.out_dtype})"]
    if genome["finish"] == "separate":
        batch = "BATCH, " if product.batched else ""
        kind = "int32" if product.dtype == "int8" else "float32"
        lines += [f"sums = torch.empty(({_split(genome)}, {batch}M, N), {place}, dtype=torch.{kind})"]
    if genome["finish"] == "partial":
        lines += [f"part = torch.empty((tiles_n, M), {place}, dtype=torch.float32)"]
        if product.row != "sum":
            lines += [f"peak = torch.empty((tiles_n, M), {place}, dtype=torch.float32)"]
        softmax = f"sums = torch.empty((M, N), {place}, dtype=torch.float32)"
        lines += [softmax if product.row == "softmax" else "sums = part"]
    return lines
