"""Pooling and depthwise windows in Triton: one pass over all taps, or one pass per axis."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.spatial.parts.lines import extents, indent, nest, product
from kbench.generation.proposers.genome.families.spatial.parts.triton import HEADER, jit
from kbench.generation.proposers.genome.families.spatial.window.form import FORMS, SEPARABLE, WindowForm
from kbench.generation.proposers.genome.family import Family, Gene, Genome
from kbench.schemas import Backend


def neutral(form: WindowForm) -> str:
    """What a tap outside contributes."""
    return "float('-inf')" if form.op == "max" else "0.0"


def locate(form: WindowForm, genome: Genome) -> list[str]:
    """From `number`: the outputs of a tile, which of them exist, and their coordinates."""
    space, axes = genome["space"], form.axes
    if space == "flat":
        lines = ["i = number * BLOCK + tl.arange(0, BLOCK)", "ok = i < count", "w = i % out_w"]
        below = "out_w"
        for axis in reversed(axes[:-1]):
            lines.append(f"{axis} = i // ({below}) % out_{axis}")
            below = f"{below} * out_{axis}"
        return [*lines, f"plane = i // ({below})"]
    lines = ["blocks = tl.cdiv(out_w, BLOCK)"]
    if space == "row":
        lines += ["w = number % blocks * BLOCK + tl.arange(0, BLOCK)", "ok = w < out_w", "row = number // blocks"]
        if len(axes) > 1:
            lines += ["h = row % out_h + tl.zeros_like(w)", "row = row // out_h"]
    else:
        lines += [
            "w = (number % blocks * BLOCK + tl.arange(0, BLOCK))[None, :]",
            "row = number // blocks",
            "tall = tl.cdiv(out_h, ROWS)",
            "h = (row % tall * ROWS + tl.arange(0, ROWS))[:, None]",
            "row = row // tall",
            "ok = (w < out_w) & (h < out_h)",
        ]
    if len(axes) == 3:
        lines += ["d = row % out_d + tl.zeros_like(w)", "row = row // out_d"]
    return [*lines, "plane = row"]


def tap_lines(form: WindowForm, pixel: str, tap: str) -> tuple[list[str], str, str]:
    """Input coordinates of a tap, its offset, and the condition that it lies inside."""
    lines, conditions = [], []
    for axis in form.axes:
        lines.append(f"i{axis} = {form.input_place(axis, axis + pixel, f'k{axis}{tap}')}")
        if form.padding:
            conditions.append(f"(i{axis} >= 0)")
            if not form.causal:
                conditions.append(f"(i{axis} < in_{axis})")
    at = nest([f"i{axis}" for axis in form.axes], extents(form, "in"))
    return lines, at, " & ".join(conditions)


def reduce_taps(form: WindowForm, genome: Genome) -> list[str]:
    """Reduces every window of the tile into `acc`."""
    if genome["taps"] == "axis":
        return reduce_axis(form, genome)
    lines, at, inside = tap_lines(form, "", "")
    mask = f"ok & {inside}" if inside else "ok"
    body = [*lines, f"value = tl.load(source + {at}, mask={mask}, other={neutral(form)}).to(tl.float32)"]
    tap = nest([f"k{axis}" for axis in form.axes], [str(t) for t in form.taps])
    if form.weighted:
        guard = ", mask=ok, other=0.0" if genome["space"] == "flat" else ""
        body.append(f"weight = tl.load(w_ptr + channel * {form.tap_count} + {tap}{guard}).to(tl.float32)")
    join = {"max": "acc = tl.maximum(acc, value)", "mean": "acc += value", "weighted": "acc += weight * value"}
    body.append(join[form.op])
    kind = "tl.static_range" if genome["taps"] == "unrolled" else "range"
    for axis, count in reversed(list(zip(form.axes, form.taps, strict=True))):
        body = [f"for k{axis} in {kind}({count}):", *indent(body)]
    shape = "(ROWS, BLOCK)" if genome["space"] == "tile" else "(BLOCK,)"
    return [f"acc = tl.full({shape}, {neutral(form)}, tl.float32)", *body]


def reduce_axis(form: WindowForm, genome: Genome) -> list[str]:
    """Loads all taps as a second tensor axis and reduces it at once."""
    width = 1 << (form.tap_count - 1).bit_length()
    lines = [f"k = tl.arange(0, {width})", f"k_ok = k < {form.tap_count}"]
    below = form.tap_count
    for axis, taps in zip(form.axes, form.taps, strict=True):
        below //= taps
        lines.append(f"k{axis} = k // {below} % {taps}" if below > 1 else f"k{axis} = k % {taps}")
    places, at, inside = tap_lines(form, "[:, None]", "[None, :]")
    mask = "ok[:, None] & k_ok[None, :]" + (f" & {inside}" if inside else "")
    start = "source[:, None]" if genome["space"] == "flat" else "source"
    lines += [*places, f"value = tl.load({start} + {at}, mask={mask}, other={neutral(form)}).to(tl.float32)"]
    if form.weighted:
        channel = "channel[:, None]" if genome["space"] == "flat" else "channel"
        guard = "ok[:, None] & k_ok[None, :]" if genome["space"] == "flat" else "k_ok[None, :]"
        weight = f"tl.load(w_ptr + {channel} * {form.tap_count} + k[None, :], mask={guard}, other=0.0)"
        lines.append(f"value = value * {weight}.to(tl.float32)")
    return [*lines, "acc = tl.max(value, 1)" if form.op == "max" else "acc = tl.sum(value, 1)"]


def finish(form: WindowForm, genome: Genome) -> list[str]:
    """What follows the reduction, and the store."""
    lines = []
    if form.op == "mean":
        lines.append(f"acc = acc * {1 / form.tap_count!r}")
    if form.silu:
        guard = ", mask=ok, other=0.0" if genome["space"] == "flat" else ""
        lines += [f"acc = acc + tl.load(bias_ptr + channel{guard}).to(tl.float32)", "acc = acc * tl.sigmoid(acc)"]
    at = "i" if genome["space"] == "flat" else f"plane * out_plane + {nest(form.axes, extents(form, 'out'))}"
    return [*lines, f"tl.store(y_ptr + {at}, acc.to(y_ptr.dtype.element_ty), mask=ok)"]


def render_direct(problem: str, genome: Genome) -> str:
    """Source of the one-pass form."""
    form = FORMS[problem]
    pointers = ["x_ptr", *(["w_ptr"] if form.weighted else []), *(["bias_ptr"] if form.silu else []), "y_ptr"]
    sizes = ["count", "channels", "tiles", *extents(form, "in"), *extents(form, "out")]
    body = [
        *locate(form, genome),
        *(["ok = ok & (number < tiles)"] if genome["grid"] == "chunked" else []),
        f"source = x_ptr + plane * ({product(extents(form, 'in'))})",
        f"out_plane = {product(extents(form, 'out'))}",
        *(["channel = plane % channels"] if form.weighted else []),
        *reduce_taps(form, genome),
        *finish(form, genome),
    ]
    if genome["grid"] == "persistent":
        body = ["for number in range(tl.program_id(0), tiles, tl.num_programs(0)):", *indent(body)]
    elif genome["grid"] == "chunked":
        body = ["for step in range(4):", *indent(["number = tl.program_id(0) * 4 + step", *body])]
    else:
        body = ["number = tl.program_id(0)", *body]
    constants = ["BLOCK: tl.constexpr", *(["ROWS: tl.constexpr"] if genome["space"] == "tile" else [])]
    code = jit(f"slide({', '.join([*pointers, *sizes, *constants])})", body)
    return "\n".join([*HEADER, *code, *run_direct(form, genome)]) + "\n"


def run_direct(form: WindowForm, genome: Genome) -> list[str]:
    """The `run` function of the one-pass form."""
    outs = extents(form, "out")
    block = genome["block"]
    lines = [f"n, channels, {', '.join(extents(form, 'in'))} = x.shape"]
    lines += [f"out_{axis} = {form.output_extent(axis)}" for axis in form.axes]
    lines.append(f"y = torch.empty((n, channels, {', '.join(outs)}), device=x.device, dtype=x.dtype)")
    if genome["space"] == "flat":
        tiles = f"triton.cdiv(y.numel(), {block})"
    elif genome["space"] == "row":
        tiles = " * ".join(["n * channels", *outs[:-1], f"triton.cdiv(out_w, {block})"])
    else:
        rows = f"triton.cdiv(out_h, {genome['rows']})"
        tiles = " * ".join(["n * channels", *outs[:-2], rows, f"triton.cdiv(out_w, {block})"])
    lines.append(f"tiles = {tiles}")
    grid = {"plain": "tiles", "persistent": "min(tiles, 1056)", "chunked": "triton.cdiv(tiles, 4)"}[str(genome["grid"])]
    constants = [f"BLOCK={block}", *([f"ROWS={genome['rows']}"] if genome["space"] == "tile" else [])]
    arguments = [*form.inputs, "y", "y.numel()", "channels", "tiles", *extents(form, "in"), *outs, *constants]
    lines += [f"slide[({grid},)](", f"    {', '.join(arguments)}, num_warps={genome['warps']}", ")", "return y"]
    return [f"def run({', '.join(form.inputs)}):", *indent(lines)]


def render_separable(problem: str, genome: Genome) -> str:
    """Source of the form that reduces one axis after another through intermediate tensors."""
    form = FORMS[problem]
    taps = form.taps[-1]
    kind = "tl.static_range" if genome["taps"] == "unrolled" else "range"
    body = [
        "i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
        "ok = i < count",
        "place = i // inner % out_extent",
        "source = x_ptr + (i // (inner * out_extent)) * in_extent * inner + i % inner",
        f"acc = tl.full((BLOCK,), {neutral(form)}, tl.float32)",
        f"for k in {kind}({taps}):",
        f"    at = {form.input_place('w', 'place', 'k')}",
        f"    value = tl.load(source + at * inner, mask=ok & (at >= 0) & (at < in_extent), other={neutral(form)})",
        "    acc = tl.maximum(acc, value)" if form.op == "max" else "    acc += value",
        *([f"acc = acc * {1 / taps!r}"] if form.op == "mean" else []),
        "tl.store(y_ptr + i, acc, mask=ok)",
    ]
    signature = "reduce(x_ptr, y_ptr, count, inner, in_extent, out_extent, BLOCK: tl.constexpr)"
    lines = [f"n, channels, {', '.join(extents(form, 'in'))} = x.shape"]
    lines += [f"out_{axis} = {form.output_extent(axis)}" for axis in form.axes]
    current = {axis: f"in_{axis}" for axis in form.axes}
    order = list(form.axes) if genome["order"] == "outer_first" else list(reversed(form.axes))
    for axis in order:
        inner = [current[other] for other in form.axes[form.axes.index(axis) + 1 :]]
        current[axis] = f"out_{axis}"
        lines += [
            f"y = torch.empty((n, channels, {', '.join(current.values())}), device=x.device, dtype=x.dtype)",
            f"reduce[(triton.cdiv(y.numel(), {genome['block']}),)](",
            f"    x, y, y.numel(), {product(inner) or '1'}, in_{axis}, out_{axis}, "
            f"BLOCK={genome['block']}, num_warps={genome['warps']}",
            ")",
            *(["x = y"] if axis != order[-1] else []),
        ]
    return "\n".join([*HEADER, *jit(signature, body), "def run(x):", *indent([*lines, "return y"])]) + "\n"


def direct_genes(problem: str) -> tuple[Gene, ...]:
    """Genes of the one-pass form."""
    spaces = ("flat", "row", "tile") if len(FORMS[problem].taps) > 1 else ("flat", "row")
    return (
        Gene("space", spaces, structural=True),
        Gene("taps", ("unrolled", "looped", "axis"), structural=True),
        Gene("grid", ("plain", "persistent", "chunked"), structural=True),
        Gene("block", (32, 64, 128, 256, 512, 1024)),
        Gene("rows", (2, 4, 8, 16)),
        Gene("warps", (1, 2, 4, 8)),
    )


def direct_invalid(problem: str, genome: Genome) -> str | None:
    """Tiles that are too large, too small, or repeat another."""
    form = FORMS[problem]
    if genome["space"] != "tile" and genome["rows"] != 2:
        return "only tiles have rows"
    if genome["space"] == "tile" and genome["taps"] == "axis":
        return "a tile has no third axis for the taps"
    each = int(genome["block"]) * (int(genome["rows"]) if genome["space"] == "tile" else 1)
    if genome["taps"] == "axis":
        each *= 1 << (form.tap_count - 1).bit_length()
    each //= 32 * int(genome["warps"])
    if genome["taps"] != "axis" and not 1 <= each <= 16:
        return f"{each} outputs per thread"
    if genome["taps"] == "axis" and not 1 <= each <= 64:
        return f"{each} values per thread"
    narrow = 64 if len(form.taps) == 3 else 128 if len(form.taps) == 2 else 1024
    if genome["space"] != "flat" and int(genome["block"]) > narrow:
        return "a row is shorter than the block"
    return None


def separable_genes(problem: str) -> tuple[Gene, ...]:
    """Genes of the pass-per-axis form."""
    return (
        Gene("order", ("inner_first", "outer_first"), structural=True),
        Gene("taps", ("unrolled", "looped"), structural=True),
        Gene("block", (128, 256, 512, 1024, 2048)),
        Gene("warps", (2, 4, 8)),
    )


FAMILIES: tuple[Family, ...] = (
    Family(
        name="window_direct_triton",
        backend=Backend.TRITON,
        problems=tuple(FORMS),
        genes=direct_genes,
        render=render_direct,
        invalid=direct_invalid,
    ),
    Family(
        name="window_separable_triton",
        backend=Backend.TRITON,
        problems=SEPARABLE,
        genes=separable_genes,
        render=render_separable,
    ),
)
