"""How operands get from device memory into a CUDA block's shared memory, around the arithmetic on each tile."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.dense.tiled.intrinsics_cuda import TYPES
from kbench.generation.proposers.genome.families.dense.tiled.product import Product
from kbench.generation.proposers.genome.families.dense.tiled.tile_cuda import Tile, operand_layouts
from kbench.generation.proposers.genome.family import Genome

CHUNK = {16: "uint4", 8: "uint2", 4: "unsigned int"}
ZERO = {16: "make_uint4(0, 0, 0, 0)", 8: "make_uint2(0, 0)", 4: "0u"}


def _loop_plain(product: Product, genome: Genome, tile: Tile, compute: list[str]) -> list[str]:
    return [
        "for (int k0 = k_from; k0 < k_to; k0 += BK) {",
        *_copy(product, genome, tile, "a", "k0", "sa", "direct"),
        *_copy(product, genome, tile, "b", "k0", "sb", "direct"),
        "__syncthreads();",
        "{ const auto* as = sa; const auto* bs = sb;",
        *compute,
        "}",
        "__syncthreads();",
        "}",
    ]


def _loop_prefetch(product: Product, genome: Genome, tile: Tile, compute: list[str]) -> list[str]:
    """Fetch the next tiles into registers while this one is used, in two shared buffers."""
    chunk = CHUNK[int(genome["vector"])]
    count_a = -(-tile.bm * tile.bk // tile.vector // tile.threads)
    count_b = -(-tile.bn * tile.bk // tile.vector // tile.threads)
    fetch = [
        *_copy(product, genome, tile, "a", "at_k", "", "fetch"),
        *_copy(product, genome, tile, "b", "at_k", "", "fetch"),
    ]
    stash_a = _copy(product, genome, tile, "a", "at_k", "sa + to * A_STAGE", "stash")
    stash_b = _copy(product, genome, tile, "b", "at_k", "sb + to * B_STAGE", "stash")
    return [
        f"{chunk} ra[{count_a}], rb[{count_b}];",
        "{ const int at_k = k_from, to = 0;",
        *fetch, *stash_a, *stash_b,
        "}",
        "__syncthreads();",
        "int buffer = 0;",
        "for (int k0 = k_from; k0 < k_to; k0 += BK) {",
        "const int at_k = k0 + BK, to = buffer ^ 1;",
        "if (at_k < k_to) {", *fetch, "}",
        "{ const auto* as = sa + buffer * A_STAGE; const auto* bs = sb + buffer * B_STAGE;",
        *compute,
        "}",
        "if (at_k < k_to) {", *stash_a, *stash_b, "}",
        "__syncthreads();",
        "buffer ^= 1;",
        "}",
    ]  # fmt: skip


def _loop_cp_async(product: Product, genome: Genome, tile: Tile, compute: list[str]) -> list[str]:
    """A ring of shared buffers filled by asynchronous copies that run ahead."""
    copy = [
        *_copy(product, genome, tile, "a", "at_k", "sa + to * A_STAGE", "async"),
        *_copy(product, genome, tile, "b", "at_k", "sb + to * B_STAGE", "async"),
    ]
    return [
        "const int steps = k_to > k_from ? (k_to - k_from + BK - 1) / BK : 0;",
        "for (int ahead = 0; ahead < BUFFERS - 1; ++ahead) {",
        "if (ahead < steps) { const int at_k = k_from + ahead * BK, to = ahead;", *copy, "}",
        "copy_commit();",
        "}",
        "for (int step = 0; step < steps; ++step) {",
        "copy_wait<BUFFERS - 2>();",
        "__syncthreads();",
        "const int ahead = step + BUFFERS - 1;",
        "if (ahead < steps) { const int at_k = k_from + ahead * BK, to = ahead % BUFFERS;", *copy, "}",
        "copy_commit();",
        "{ const int buffer = step % BUFFERS;",
        "const auto* as = sa + buffer * A_STAGE; const auto* bs = sb + buffer * B_STAGE;",
        *compute,
        "}",
        "}",
        "copy_wait<0>();",
        "__syncthreads();",
    ]  # fmt: skip


LOOPS = {"plain": _loop_plain, "prefetch": _loop_prefetch, "cp_async": _loop_cp_async}


def _copy(product: Product, genome: Genome, tile: Tile, operand: str, k: str, to: str, mode: str) -> list[str]:
    """Copy one operand's tile at k: straight to shared memory, into registers, out of them, or asynchronously."""
    layouts = operand_layouts(product, genome)
    width = int(genome["vector"])
    if operand == "a":
        along_k = layouts[0] == "mk"
        side, base, rows_k, start, limit, ld, stride = "BM", "a", tile.a_rows_k, "m0", "m_to", "LDA", "M"
    else:
        along_k = layouts[1] == "nk"
        base = "bg" if product.grouped else "b"
        side, rows_k, start, limit, ld, stride = "BN", tile.b_rows_k, "n0", "N", "LDB", "N"
    columns = "BK" if along_k else side
    held = mode in ("fetch", "stash")
    lines = [
        "#pragma unroll" if held else "",
        f"for (int u = 0; u < ({side} * BK / VEC + THREADS - 1) / THREADS; ++u) {{"
        if held
        else f"for (int i = tid; i < {side} * BK / VEC; i += THREADS) {{",
        "const int i = tid + u * THREADS;" if held else "",
        f"const int r = i / ({columns} / VEC), c = i % ({columns} / VEC) * VEC;",
    ]
    lines += ["const int s = r, kk = c;" if along_k else "const int s = c, kk = r;"]
    bound = f" && i < {side} * BK / VEC" if held else ""
    inside = f"const bool inside = {start} + s < {limit} && {k} + kk < k_to{bound};"
    address = f"(size_t)({start} + s) * K + {k} + kk" if along_k else f"(size_t)({k} + kk) * {stride} + {start} + s"
    place = f"kk * {ld} + s" if rows_k else f"s * {ld} + kk"
    source = f"{base} + (inside ? {address} : 0)"
    chunk, zero = CHUNK[width], ZERO[width]
    register = "ra[u]" if operand == "a" else "rb[u]"
    turned = rows_k == along_k
    if mode == "async":
        lines += [inside, f"copy_async({to} + {place}, {source}, inside);"]
    elif mode == "fetch":
        lines += [inside, f"{register} = inside ? *(const {chunk}*)({source}) : {zero};"]
    elif mode == "stash":
        lines += [
            f"if (i < {side} * BK / VEC) {{",
            *_put(product, f"{register}", to, place, width, turned, ld, rows_k),
            "}",
        ]
    else:
        lines += [inside, f"{chunk} w = inside ? *(const {chunk}*)({source}) : {zero};"]
        lines += _put(product, "w", to, place, width, turned, ld, rows_k)
    return [line for line in lines if line] + ["}"]


def _put(
    product: Product, value: str, to: str, place: str, width: int, turned: bool, ld: str, rows_k: bool
) -> list[str]:
    """Store a chunk into shared memory, element by element where the tile is turned on the way."""
    if not turned:
        return [f"*({CHUNK[width]}*)({to} + {place}) = {value};"]
    t = TYPES[product.dtype]
    # A chunk runs along k when shared rows are single k, and along m or n otherwise.
    step = f"(kk + e) * {ld} + s" if rows_k else f"(s + e) * {ld} + kk"
    return [f"for (int e = 0; e < VEC; ++e) ({to})[{step}] = ((const {t}*)&{value})[e];"]
