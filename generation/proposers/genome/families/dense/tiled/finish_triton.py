"""What Triton kernels do with finished sums: inside the tile, from per-tile row statistics, or in a second kernel."""

from __future__ import annotations

import textwrap

from kbench.generation.proposers.genome.families.dense.tiled.product import GELU_TRITON, Product
from kbench.generation.proposers.genome.family import Genome

GROUP = 32
"""Features of one normalised group."""
FP8_SCALE = "65536.0"
"""Bit patterns of e4m3 moved into float16 are 2**-8 of their values, in both operands."""


def _values(product: Product, genome: Genome) -> list[str]:
    """Sums as fp32 values."""
    if product.dtype == "int8":
        return ["v = acc.to(tl.float32)"]
    if product.dtype == "float8_e4m3fn" and genome["math"] == "decoded":
        return [f"v = acc * {FP8_SCALE}"]
    return ["v = acc"]


def _vector_loads(product: Product, names: tuple[str, ...], m: str, n: str, rows: str, columns: str) -> list[str]:
    """Load vectors as tiles that broadcast against the sums."""
    lines = []
    for vector in product.vectors:
        if vector.name not in names:
            continue
        index, limit, shape = (m, "M", rows) if vector.axis == "m" else (n, "N", columns)
        load = f"tl.load({vector.name}_ptr + {index}, mask={index} < {limit}, other=0.0)"
        lines.append(f"{vector.name} = {load}.to(tl.float32){shape}")
    return lines


def _elementwise_names(product: Product) -> tuple[str, ...]:
    return tuple(v.name for v in product.vectors if v.name not in ("gamma", "beta"))


def fused_finish(product: Product, genome: Genome) -> list[str]:
    """Statements that end a tile."""
    inside = "(rm[:, None] < row_to) & (rn[None, :] < N)"
    at = "rm[:, None] * N + rn[None, :]"
    store = f"tl.store(c_ptr + {at}, v.to(c_ptr.dtype.element_ty), mask={inside})"
    if genome["finish"] == "separate":
        raw = ["v = acc"] if product.dtype == "int8" else _values(product, genome)
        if int(genome.get("split_k", 1)) > 1:
            size = "M * N" if not product.batched else "tl.num_programs(1) * M * N"
            at = f"part * {size} + {at}"
        return [*raw, f"tl.store(c_ptr + {at}, v, mask={inside})"]
    loads = _vector_loads(product, _elementwise_names(product), "rm", "rn", "[:, None]", "[None, :]")
    lines = [*_values(product, genome), *loads, *product.triton]
    if product.row == "group_norm":
        return [*lines, *_tile_group_norm(product), store]
    if product.row == "sum":
        return [
            *lines,
            "v = tl.where(rn[None, :] < N, v, 0.0)",
            "tl.store(part_ptr + pid_n * M + rm, tl.sum(v, 1), mask=rm < M)",
        ]
    if product.row:
        lines += [
            'w = tl.where(rn[None, :] < N, v, float("-inf"))',
            "peak = tl.max(w, 1)",
            "tl.store(peak_ptr + pid_n * M + rm, peak, mask=rm < M)",
            "tl.store(part_ptr + pid_n * M + rm, tl.sum(tl.exp(w - peak[:, None]), 1), mask=rm < M)",
        ]
        return [*lines, store] if product.row == "softmax" else lines
    return [*lines, store]


def _tile_group_norm(product: Product) -> list[str]:
    return [
        f"g = tl.reshape(v, (BM, BN // {GROUP}, {GROUP}))",
        f"mean = tl.sum(g, 2) / {GROUP}",
        "g = g - mean[:, :, None]",
        f"g = g * tl.rsqrt(tl.sum(g * g, 2) / {GROUP} + 1e-5)[:, :, None]",
        "v = tl.reshape(g, (BM, BN))",
        *_vector_loads(product, ("gamma", "beta"), "rm", "rn", "[:, None]", "[None, :]"),
        "v = v * gamma + beta",
    ]


def finish_kernel(product: Product, genome: Genome) -> str:
    """The second kernel, if the genome has one."""
    if genome["finish"] == "partial":
        lines = _combine(product, genome)
    elif genome["finish"] == "separate":
        lines = _finish_rows(product, genome) if product.row else _finish_elements(product, genome)
    else:
        return ""
    return "@triton.jit\n" + lines[0] + "\n" + textwrap.indent("\n".join(lines[1:]), "    ")


def _signature(product: Product, first: str) -> str:
    pointers = "".join(f"{vector.name}_ptr, " for vector in product.vectors)
    return f"def finish({first}, {pointers}M, N, BLOCK: tl.constexpr):"


def _summed(genome: Genome, at: str, mask: str) -> list[str]:
    splits = int(genome.get("split_k", 1))
    lines = [f"acc = tl.load(sums_ptr + {at}, mask={mask}, other=0)"]
    if splits > 1:
        lines += [
            f"for part in range(1, {splits}):",
            f"    acc += tl.load(sums_ptr + part * size + {at}, mask={mask}, other=0)",
        ]
    return lines


def _finish_elements(product: Product, genome: Genome) -> list[str]:
    batch = ["size = tl.num_programs(1) * M * N"] if product.batched else ["size = M * N"]
    shift = ["sums_ptr += tl.program_id(1) * M * N", "out_ptr += tl.program_id(1) * M * N"] if product.batched else []
    return [
        _signature(product, "sums_ptr, out_ptr"),
        *batch,
        *shift,
        "at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
        "inside = at < M * N",
        "m = at // N",
        "n = at % N",
        *_summed(genome, "at", "inside"),
        "v = acc.to(tl.float32)",
        *_vector_loads(product, _elementwise_names(product), "m", "n", "", ""),
        *product.triton,
        "tl.store(out_ptr + at, v.to(out_ptr.dtype.element_ty), mask=inside)",
    ]


def _row_values(product: Product, genome: Genome) -> list[str]:
    """Finished values v of the columns n of row m."""
    return [
        *_summed(genome, "m * N + n", "n < N"),
        "v = acc",
        *_vector_loads(product, _elementwise_names(product), "m", "n", "", ""),
        *product.triton,
    ]


def _finish_rows(product: Product, genome: Genome) -> list[str]:
    head = [_signature(product, "sums_ptr, out_ptr"), "size = M * N"]
    if product.row == "group_norm":
        return [*head, *_group_rows(product, genome)]
    head += ["m = tl.program_id(0)"]
    whole = genome["rows"] == "whole"
    if product.row == "sum":
        return [*head, *_sum_rows(product, genome, whole)]
    lines = ['peak = float("-inf")', "total = 0.0"] if not whole else []
    values = [*_row_values(product, genome), 'w = tl.where(n < N, v, float("-inf"))']
    if whole:
        lines += ["n = tl.arange(0, BLOCK)", *values, "peak = tl.max(w, 0)", "total = tl.sum(tl.exp(w - peak), 0)"]
    else:
        loop = [
            "n = start + tl.arange(0, BLOCK)",
            *values,
            "higher = tl.maximum(peak, tl.max(w, 0))",
            "total = total * tl.exp(peak - higher) + tl.sum(tl.exp(w - higher), 0)",
            "peak = higher",
        ]
        lines += ["for start in range(0, N, BLOCK):", *(f"    {line}" for line in loop)]
    if product.row == "logsumexp":
        return [*head, *lines, *_scalar_tail()]
    store = "tl.store(out_ptr + m * N + n, (tl.exp(w - peak) / total).to(out_ptr.dtype.element_ty), mask=n < N)"
    if whole:
        return [*head, *lines, store]
    again = ["n = start + tl.arange(0, BLOCK)", *values, store]
    return [*head, *lines, "for start in range(0, N, BLOCK):", *(f"    {line}" for line in again)]


def _sum_rows(product: Product, genome: Genome, whole: bool) -> list[str]:
    values = [*_row_values(product, genome), "v = tl.where(n < N, v, 0.0)"]
    if whole:
        lines = ["n = tl.arange(0, BLOCK)", *values, "total = tl.sum(v, 0)"]
    else:
        loop = ["n = start + tl.arange(0, BLOCK)", *values, "sums += v"]
        lines = ["sums = tl.zeros((BLOCK,), dtype=tl.float32)", "for start in range(0, N, BLOCK):"]
        lines += [*(f"    {line}" for line in loop), "total = tl.sum(sums, 0)"]
    return [*lines, "tl.store(out_ptr + m, total)"]


def _scalar_tail() -> list[str]:
    """From (peak, total) of a row to its output."""
    return [
        "v = peak + tl.log(total)",
        "v = tl.where(v > 0, v, 0.0001 * v)",
        GELU_TRITON,
        GELU_TRITON,
        "tl.store(out_ptr + m, v.to(out_ptr.dtype.element_ty))",
    ]


def _group_rows(product: Product, genome: Genome) -> list[str]:
    groups = f"BLOCK // {GROUP}"
    return [
        f"group = tl.program_id(0) * ({groups}) + tl.arange(0, {groups})",
        f"at = group[:, None] * {GROUP} + tl.arange(0, {GROUP})[None, :]",
        "m = at // N",
        "n = at % N",
        *_summed(genome, "at", "at < M * N"),
        "v = acc",
        *_vector_loads(product, _elementwise_names(product), "m", "n", "", ""),
        *product.triton,
        f"v = v - (tl.sum(v, 1) / {GROUP})[:, None]",
        f"v = v * tl.rsqrt(tl.sum(v * v, 1) / {GROUP} + 1e-5)[:, None]",
        *_vector_loads(product, ("gamma", "beta"), "m", "n", "", ""),
        "v = v * gamma + beta",
        "tl.store(out_ptr + at, v.to(out_ptr.dtype.element_ty), mask=at < M * N)",
    ]


def _combine(product: Product, genome: Genome) -> list[str]:
    """Join the row statistics of all column tiles."""
    if product.row == "sum":
        return [
            "def finish(part_ptr, out_ptr, M, TILES, BLOCK: tl.constexpr):",
            "m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
            "total = tl.zeros((BLOCK,), dtype=tl.float32)",
            "for tile in range(TILES):",
            "    total += tl.load(part_ptr + tile * M + m, mask=m < M, other=0.0)",
            "tl.store(out_ptr + m, total, mask=m < M)",
        ]
    first = "sums_ptr, " if product.row == "softmax" else ""
    size = "N, " if product.row == "softmax" else ""
    join = [
        'peak = float("-inf")',
        "total = 0.0",
        "for tile in range(TILES):",
        "    high = tl.load(peak_ptr + tile * M + m)",
        "    higher = tl.maximum(peak, high)",
        "    total = total * tl.exp(peak - higher) + tl.load(part_ptr + tile * M + m) * tl.exp(high - higher)",
        "    peak = higher",
    ]
    head = [
        f"def finish({first}peak_ptr, part_ptr, out_ptr, M, {size}TILES, BLOCK: tl.constexpr):",
        "m = tl.program_id(0)",
    ]
    if product.row == "logsumexp":
        return [*head, *join, *_scalar_tail()]
    return [
        *head,
        *join,
        "for start in range(0, N, BLOCK):",
        "    n = start + tl.arange(0, BLOCK)",
        "    v = tl.load(sums_ptr + m * N + n, mask=n < N, other=0.0)",
        "    v = tl.exp(v - peak) / total",
        "    tl.store(out_ptr + m * N + n, v.to(out_ptr.dtype.element_ty), mask=n < N)",
    ]


def finish_call(product: Product, genome: Genome) -> list[str]:
    """Lines of run that launch the second kernel."""
    if genome["finish"] == "fused":
        return []
    block, warps = int(genome["finish_block"]), 4
    if genome["finish"] == "partial":
        if product.row == "sum":
            return ["finish[(triton.cdiv(M, 32),)](part, out, M, tiles_n, BLOCK=32, num_warps=1)"]
        args = "sums, peak, part, out, M, N, tiles_n" if product.row == "softmax" else "peak, part, out, M, tiles_n"
        return [f"finish[(M,)]({args}, BLOCK={block}, num_warps={warps if product.row == 'softmax' else 1})"]
    vectors = "".join(f"{vector.name}, " for vector in product.vectors)
    if product.row and product.row != "group_norm":
        size = "triton.next_power_of_2(N)" if genome["rows"] == "whole" else str(block)
        return [f"finish[(M,)](sums, out, {vectors}M, N, BLOCK={size}, num_warps={warps})"]
    grid = f"(triton.cdiv(M * N, {block}), {'BATCH' if product.batched else 1})"
    return [f"finish[{grid}](sums, out, {vectors}M, N, BLOCK={block}, num_warps={warps})"]
