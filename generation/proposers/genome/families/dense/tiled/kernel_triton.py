"""Renders a Product as Triton: one tiled kernel, and a second one where a row or a split sum is finished separately."""

from __future__ import annotations

import textwrap

from kbench.generation.proposers.genome.families.dense.tiled.finish_triton import (
    finish_call,
    finish_kernel,
    fused_finish,
)
from kbench.generation.proposers.genome.families.dense.tiled.product import Product
from kbench.generation.proposers.genome.family import Genome

HEADER = "import torch\nimport triton\nimport triton.language as tl\n\n\n"
SMS = 132
"""Programs of a persistent grid come in multiples of this."""


def render_product(product: Product, genome: Genome) -> str:
    """The kernel's source text."""
    parts = [HEADER, _kernel(product, genome), finish_kernel(product, genome), _run(product, genome)]
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def _pointers(product: Product, genome: Genome) -> str:
    """Parameters of the tiled kernel for the vectors its own finish needs."""
    if genome["finish"] == "separate":
        return ""
    return "".join(f"{vector.name}_ptr, " for vector in product.vectors)


def _stats(product: Product, genome: Genome) -> str:
    """Names of per-tile row statistics."""
    if genome["finish"] != "partial":
        return ""
    return "part_ptr, " if product.row == "sum" else "peak_ptr, part_ptr, "


def _kernel(product: Product, genome: Genome) -> str:
    grouped = "offsets_ptr, GROUPS, " if product.grouped else ""
    span = "k_span, " if split(genome) > 1 else ""
    head = (
        "@triton.jit\n"
        f"def product(a_ptr, b_ptr, c_ptr, {_stats(product, genome)}{_pointers(product, genome)}{grouped}"
        f"M, N, K, {span}BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):\n"
    )
    before: list[str] = []
    if product.batched:
        before += ["batch = tl.program_id(1)", "a_ptr += batch * M * K", "b_ptr += batch * K * N"]
        before += ["c_ptr += batch * M * N"]
    before += ["tiles_m = tl.cdiv(M, BM) + GROUPS" if product.grouped else "tiles_m = tl.cdiv(M, BM)"]
    before += ["tiles_n = tl.cdiv(N, BN)"]
    body = [*_tile(product, genome), *_ranges(product, genome), *_accumulate(product, genome)]
    body += fused_finish(product, genome)
    if genome["loop"] == "tile":
        lines = [*before, "tile = tl.program_id(0)", *body]
    else:
        loop = "for tile in range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0)):"
        lines = [*before, loop, *(f"    {line}" for line in body)]
    return head + textwrap.indent("\n".join(lines), "    ")


def split(genome: Genome) -> int:
    """Into how many parts the sum over k is cut."""
    return int(genome.get("split_k", 1))


def _tile(product: Product, genome: Genome) -> list[str]:
    """Which output tile this step computes."""
    order = genome["order"]
    if order == "triangle":
        # Tiles of a triangle in rows: row r starts at r (r + 1) / 2. The square root is exact enough for its floor
        # once corrected by one either way.
        lines = [
            "r = (tl.sqrt(8.0 * tile.to(tl.float32) + 1.0) * 0.5 - 0.5).to(tl.int32)",
            "r = tl.where(r * (r + 1) // 2 > tile, r - 1, r)",
            "r = tl.where((r + 1) * (r + 2) // 2 <= tile, r + 1, r)",
            "s = tile - r * (r + 1) // 2",
        ]
        first, second = ("r", "s") if product.triangle == "lower" else ("s", "r")
        return [*lines, f"pid_m = {first}", f"pid_n = {second}"]
    if order == "row":
        return ["pid_m = tile // tiles_n", "pid_n = tile % tiles_n"]
    if order == "column":
        return ["pid_m = tile % tiles_m", "pid_n = tile // tiles_m"]
    if order == "snake":
        return [
            "pid_m = tile // tiles_n",
            "pid_n = tile % tiles_n",
            "pid_n = tl.where(pid_m % 2 == 1, tiles_n - 1 - pid_n, pid_n)",
        ]
    if order == "reverse":
        return ["back = tiles_m * tiles_n - 1 - tile", "pid_m = back // tiles_n", "pid_n = back % tiles_n"]
    group = int(str(order).removeprefix("grouped"))
    return [
        f"band = tile // ({group} * tiles_n)",
        f"band_m = tl.minimum(tiles_m - band * {group}, {group})",
        f"inside = tile % ({group} * tiles_n)",
        f"pid_m = band * {group} + inside % band_m",
        "pid_n = inside // band_m",
    ]


def _ranges(product: Product, genome: Genome) -> list[str]:
    """Rows, columns and the part of k this tile sums over."""
    lines: list[str] = []
    if product.grouped:
        # Every group has its own last, partly filled tile; walking the groups finds the one this tile belongs to.
        lines += [
            "expert = 0",
            "row_from = 0",
            "row_to = 0",
            "first = 0",
            "end = 0",
            "for g in range(GROUPS):",
            "    start = end",
            "    end = tl.load(offsets_ptr + g)",
            "    tiles = tl.cdiv(end - start, BM)",
            "    mine = (pid_m >= first) & (pid_m < first + tiles)",
            "    expert = tl.where(mine, g, expert)",
            "    row_from = tl.where(mine, start + (pid_m - first) * BM, row_from)",
            "    row_to = tl.where(mine, end, row_to)",
            "    first += tiles",
            "rm = row_from + tl.arange(0, BM)",
        ]
    else:
        lines += ["row_to = M", "rm = pid_m * BM + tl.arange(0, BM)"]
    lines += ["rn = pid_n * BN + tl.arange(0, BN)"]
    if product.grouped:
        lines += ["b_group = b_ptr + expert * K * N", "k_from = 0", "k_to = tl.where(row_from < row_to, K, 0)"]
    elif split(genome) > 1:
        lines += ["part = tl.program_id(2)", "k_from = part * k_span", "k_to = tl.minimum(K, k_from + k_span)"]
    elif product.triangle and genome["skip"]:
        low, high = (
            ("pid_m * BM", "pid_n * BN + BN") if product.triangle == "upper" else ("pid_n * BN", "pid_m * BM + BM")
        )
        lines += [f"k_from = {low} // BK * BK", f"k_to = tl.minimum(K, {high})"]
    else:
        lines += ["k_from = 0", "k_to = K"]
    return lines


def _accumulate(product: Product, genome: Genome) -> list[str]:
    """Sums of the tile, as fp32 (int32 for integers) in `acc`."""
    swapped = bool(genome["swapped"])
    shape = "BN, BM" if swapped else "BM, BN"
    kind = "tl.int32" if product.dtype == "int8" else "tl.float32"
    lines = [f"acc = tl.zeros(({shape}), dtype={kind})"]
    lines += _outer(product, genome) if genome["math"] == "outer" else _blocked(product, genome)
    if swapped:
        lines += ["acc = tl.trans(acc)"]
    return lines


def _layouts(product: Product, genome: Genome) -> tuple[str, str]:
    """A symmetric operand may be read in either order."""
    if product.symmetric:
        return str(genome["a_layout"]), str(genome["b_layout"])
    return product.a_layout, product.b_layout


def _outer(product: Product, genome: Genome) -> list[str]:
    """One column of A times one row of B at a time, without tensor cores or shared memory."""
    a_layout, b_layout = _layouts(product, genome)
    a_at = "rm * K + k" if a_layout == "mk" else "k * M + rm"
    b_at = "k * N + rn" if b_layout == "kn" else "rn * K + k"
    step = "b[:, None] * a[None, :]" if genome["swapped"] else "a[:, None] * b[None, :]"
    unroll = int(genome["block_k"]) // 16
    return [
        f"for k in tl.range(k_from, k_to, loop_unroll_factor={unroll}):"
        if unroll > 1
        else "for k in range(k_from, k_to):",
        f"    a = tl.load(a_ptr + {a_at}, mask=rm < row_to, other=0.0)",
        f"    b = tl.load(b_ptr + {b_at}, mask=rn < N, other=0.0)",
        f"    acc += {step}",
    ]


def _blocked(product: Product, genome: Genome) -> list[str]:
    """Blocks of A and B through tl.dot."""
    a_layout, b_layout = _layouts(product, genome)
    swapped = bool(genome["swapped"])
    am, ak, bk, bn = ("[None, :]", "[:, None]", "[None, :]", "[:, None]") if swapped else (
        "[:, None]", "[None, :]", "[:, None]", "[None, :]")  # fmt: skip
    wrap = genome["bounds"] == "wrap"
    lines = ["rk = tl.arange(0, BK)"]
    lines += [f"am = (rm % M){am}" if wrap else f"am = rm{am}", f"bn = (rn % N){bn}" if wrap else f"bn = rn{bn}"]
    base = "b_group" if product.grouped else "b_ptr"
    a_at = "am * K + {k}" if a_layout == "mk" else "{k} * M + am"
    b_at = "{k} * N + bn" if b_layout == "kn" else "bn * K + {k}"
    a_step, b_step = ("BK" if a_layout == "mk" else "BK * M"), ("BK * N" if b_layout == "kn" else "BK")
    advance = genome["pointers"] == "advance"
    if advance:
        lines += [f"a_at = a_ptr + {a_at.format(k=f'(k_from + rk){ak}')}"]
        lines += [f"b_at = {base} + {b_at.format(k=f'(k_from + rk){bk}')}"]

    def step(masked: bool) -> list[str]:
        a_mask = [] if wrap else ["(am < row_to)"]
        b_mask = [] if wrap else ["(bn < N)"]
        if masked:
            a_mask.append(f"((k + rk){ak} < k_to)")
            b_mask.append(f"((k + rk){bk} < k_to)")
        a_from = "a_at" if advance else "a_ptr + " + a_at.format(k=f"(k + rk){ak}")
        b_from = "b_at" if advance else f"{base} + " + b_at.format(k=f"(k + rk){bk}")
        inner = [
            f"a = tl.load({a_from}{_masked(product, a_mask)})",
            f"b = tl.load({b_from}{_masked(product, b_mask)})",
            *_dot(product, genome),
        ]
        return [*inner, f"a_at += {a_step}", f"b_at += {b_step}"] if advance else inner

    if genome["k_tail"] == "masked":
        return [*lines, "for k in range(k_from, k_to, BK):", *(f"    {line}" for line in step(True))]
    return [
        *lines,
        "k_main = k_from + (k_to - k_from) // BK * BK",
        "for k in range(k_from, k_main, BK):",
        *(f"    {line}" for line in step(False)),
        "if k_main < k_to:",
        "    k = k_main",
        *(f"    {line}" for line in step(True)),
    ]


def _masked(product: Product, conditions: list[str]) -> str:
    if not conditions:
        return ""
    return f", mask={' & '.join(conditions)}, other={'0.0' if product.dtype == 'float32' or product.half else '0'}"


def _dot(product: Product, genome: Genome) -> list[str]:
    left, right = ("b", "a") if genome["swapped"] else ("a", "b")
    if product.dtype == "float32":
        return [f'acc = tl.dot({left}, {right}, acc, input_precision="{genome["math"]}")']
    if product.dtype == "int8":
        return [f"acc = tl.dot({left}, {right}, acc, out_dtype=tl.int32)"]
    if product.dtype == "float8_e4m3fn":
        decoded = [
            line
            for name in ("a", "b")
            for line in (
                f"{name} = {name}.to(tl.int16)",
                f"{name} = ((({name} & 128) << 8) | (({name} & 127) << 7)).to(tl.float16, bitcast=True)",
            )
        ]
        if genome["math"] == "decoded":
            return [*decoded, f"acc = tl.dot({left}, {right}, acc)"]
        native = [f"{name} = {name}.to(tl.float8e4nv, bitcast=True)" for name in ("a", "b")]
        # The bit pattern moved into float16 is 2**-8 of the value, in both operands.
        return [
            "if tl.target_info.cuda_capability_geq(8, 9):",
            *(f"    {line}" for line in native),
            f"    acc = tl.dot({left}, {right}, acc)",
            "else:",
            *(f"    {line}" for line in decoded),
            f"    acc += tl.dot({left}, {right}) * 65536.0",
        ]
    return [f"acc = tl.dot({left}, {right}, acc)"]


def _run(product: Product, genome: Genome) -> str:
    a, b = product.args[:2]
    lines = [f"def run({', '.join(product.args)}):"]
    lines += [f"    {line}" for line in product_shapes(product, a, b)]
    bm, bn, bk = (int(genome[f"block_{axis}"]) for axis in "mnk")
    tiles_m = f"triton.cdiv(M, {bm}) + offsets.numel()" if product.grouped else f"triton.cdiv(M, {bm})"
    tiles = "tiles_m * (tiles_m + 1) // 2" if genome["order"] == "triangle" else "tiles_m * tiles_n"
    lines += [f"    tiles_m = {tiles_m}", f"    tiles_n = triton.cdiv(N, {bn})"]
    if split(genome) > 1:
        lines += [f"    k_span = triton.cdiv(triton.cdiv(K, {split(genome)}), {bk}) * {bk}"]
    lines += [f"    {line}" for line in _allocations(product, genome)]
    if genome["loop"] == "tile":
        first = tiles
    else:
        first = f"min({tiles}, {SMS * int(str(genome['loop']).removeprefix('persistent'))})"
    extra = ", BATCH" if product.batched else ", 1"
    args = [a, b, target(product, genome), *_stat_args(product, genome)]
    if product.dtype == "float8_e4m3fn":
        args[:2] = [f"{a}.view(torch.uint8)", f"{b}.view(torch.uint8)"]
    if genome["finish"] != "separate":
        args += [vector.name for vector in product.vectors]
    args += ["offsets", "offsets.numel()"] if product.grouped else []
    args += ["M", "N", "K", *(["k_span"] if split(genome) > 1 else [])]
    lines += [
        f"    product[({first}{extra}, {split(genome)})](",
        f"        {', '.join(args)},",
        f"        BM={bm}, BN={bn}, BK={bk}, num_warps={genome['warps']}, num_stages={genome['stages']},",
        "    )",
        *(f"    {line}" for line in finish_call(product, genome)),
        "    return out",
    ]
    return "\n".join(lines)


def product_shapes(product: Product, a: str, b: str) -> list[str]:
    if product.batched:
        return [f"BATCH, M, K = {a}.shape", f"N = {b}.shape[2]"]
    if product.grouped:
        return [f"M, K = {a}.shape", f"N = {b}.shape[2]"]
    k = f"{a}.shape[-1]" if product.a_layout == "mk" else f"{a}.shape[0]"
    n = f"{b}.shape[1]" if product.b_layout == "kn" else f"{b}.shape[0]"
    return [f"K = {k}", f"M = {a}.numel() // K", f"N = {n}"]


def target(product: Product, genome: Genome) -> str:
    """What the tiled kernel writes: the output, or sums for the second kernel."""
    return "out" if genome["finish"] == "fused" else "sums"


def _stat_args(product: Product, genome: Genome) -> list[str]:
    if genome["finish"] != "partial":
        return []
    return ["part"] if product.row == "sum" else ["peak", "part"]


def _allocations(product: Product, genome: Genome) -> list[str]:
    a = product.args[0]
    dtype = f"torch.{product.out_dtype}"
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
    lines = [f"out = {maker}({shape}, device={a}.device, dtype={dtype})"]
    if genome["finish"] == "separate":
        batch = "BATCH, " if product.batched else ""
        kind = "torch.int32" if product.dtype == "int8" else "torch.float32"
        lines += [f"sums = torch.empty(({split(genome)}, {batch}M, N), device={a}.device, dtype={kind})"]
    if genome["finish"] == "partial":
        count = "tiles_n, M"
        lines += [f"part = torch.empty(({count}), device={a}.device, dtype=torch.float32)"]
        if product.row != "sum":
            lines += [f"peak = torch.empty(({count}), device={a}.device, dtype=torch.float32)"]
        if product.row == "softmax":
            lines += [f"sums = torch.empty((M, N), device={a}.device, dtype=torch.float32)"]
        else:
            lines += ["sums = part"]
    return lines
