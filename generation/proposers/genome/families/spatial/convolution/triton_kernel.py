"""Triton convolutions as text: the function of a tile, gathered columns, and `run`."""

from __future__ import annotations

from collections.abc import Callable

from kbench.generation.proposers.genome.families.spatial.convolution import triton_parts as parts
from kbench.generation.proposers.genome.families.spatial.convolution.form import (
    FORMS,
    ConvolutionForm,
    flag,
    inner_form,
    shapes,
)
from kbench.generation.proposers.genome.families.spatial.convolution.triton_parts import subscript
from kbench.generation.proposers.genome.families.spatial.parts.lines import extents, indent, product
from kbench.generation.proposers.genome.families.spatial.parts.triton import HEADER, jit, nested
from kbench.generation.proposers.genome.family import Genome

Loop = Callable[[ConvolutionForm, Genome], list[str]]


def accumulate(form: ConvolutionForm, genome: Genome, loop: Loop, swapped: bool) -> list[str]:
    """One tile of convolution outputs in `v`, elementwise steps applied."""
    tile = "(BLOCK_P, BLOCK_C)" if swapped else "(BLOCK_C, BLOCK_P)"
    lines = [f"acc = tl.zeros({tile}, tl.float32)", *loop(form, genome), "v = acc"]
    return [*lines, *([f"v = {form.before}"] if form.before != "v" else [])]


def tile_body(form: ConvolutionForm, genome: Genome, loop: Loop) -> list[str]:
    """All a program does for one tile, from `tile_id` to the store."""
    swapped, phased = flag(genome, "swapped"), flag(genome, "phased")
    c_side, p_side = subscript("c", swapped), subscript("p", swapped)
    lines = tile_numbers(form, genome)
    lines += [*parts.decode_pixels(form, genome["tile"]), *parts.place_pixels(form, phased)]
    channel_values = parts.load_channel_inputs(form, "c_ok", "{}" + c_side)
    if form.over_channels:
        inner = [*parts.channel_lines(form), *channel_values, *accumulate(form, genome, loop, swapped)]
        inner.append(f"v = tl.where(c_ok{c_side}, v, float('inf'))")
        inner.append(f"best = tl.minimum(best, tl.min(v, {1 if swapped else 0}))")
        loop_lines = nested(["for c_block in range(tl.cdiv(c_out, BLOCK_C)):"], inner)
        plane = product(extents(form, "px"))
        return [*lines, "best = tl.full((BLOCK_P,), float('inf'), tl.float32)", *loop_lines,
                f"tl.store(y_ptr + n * {plane} + pixel, best, mask=p_ok)"]  # fmt: skip
    lines += [*parts.channel_lines(form), *channel_values]
    if form.window == 1:
        lines += accumulate(form, genome, loop, swapped)
    else:
        lines += window_lines(form, genome, loop, swapped)
    if form.total:
        return [*lines, f"v = tl.where(c_ok{c_side} & p_ok{p_side}, v, 0.0)",
                "tl.store(y_ptr + tile_id, tl.sum(tl.sum(v, 1), 0))"]  # fmt: skip
    plane = product(extents(form, "out" if phased else "px"))
    split = f"split * (images * c_out * {plane}) + " if int(genome.get("splits", 1)) > 1 else ""
    return [
        *lines,
        f"y_at = {split}(n * c_out + c{c_side}) * ({plane}) + pixel{p_side}",
        f"tl.store(y_ptr + y_at, v.to(y_ptr.dtype.element_ty), mask=c_ok{c_side} & p_ok{p_side})",
    ]


def tile_numbers(form: ConvolutionForm, genome: Genome) -> list[str]:
    """From `tile_id`: the pixel block, the channel block, and the input channels to sum."""
    lines = []
    count = "group_in" if form.groups > 1 else "c_in"
    if int(genome.get("splits", 1)) > 1:
        lines += [
            "split = tile_id // tiles",
            "tile_id = tile_id % tiles",
            f"chunk = tl.cdiv({count}, {genome['splits']})",
        ]
        lines += ["ci_first = split * chunk", f"ci_last = tl.minimum(ci_first + chunk, {count})"]
    else:
        lines += ["ci_first = 0", f"ci_last = {count}"]
    lines.append("in_plane = " + product(extents(form, "in")))
    if form.over_channels:
        return [*lines, "p_block = tile_id"]
    if form.total or genome["grid"] == "channels_fast":
        return [*lines, "p_block = tile_id // c_blocks", "c_block = tile_id % c_blocks"]
    return [*lines, "p_block = tile_id % p_blocks", "c_block = tile_id // p_blocks"]


def window_lines(form: ConvolutionForm, genome: Genome, loop: Loop, swapped: bool) -> list[str]:
    """Convolution outputs of a window one after another, combined into `v`."""
    tile = "(BLOCK_P, BLOCK_C)" if swapped else "(BLOCK_C, BLOCK_P)"
    start = "float('-inf')" if form.combine == "max" else "0.0"
    join = "tl.maximum(best, v)" if form.combine == "max" else "best + v"
    inner = [f"corner = first + sub // {form.window} * in_w + sub % {form.window}"]
    inner += [*accumulate(form, genome, loop, swapped), f"best = {join}"]
    lines = ["first = corner", f"best = tl.full({tile}, {start}, tl.float32)"]
    lines += [*nested([f"for sub in range({form.window**2}):"], inner), "v = best"]
    return [*lines, *([f"v = {form.after}"] if form.after != "v" else [])]


def kernel_source(form: ConvolutionForm, genome: Genome, loop: Loop) -> list[str]:
    """The convolution function."""
    sizes = [*parts.parameters(form), "p_blocks", "c_blocks", "tiles", "images"]
    constants = ["BLOCK_C", "BLOCK_P"]
    unspecialized: list[str] = []
    if flag(genome, "phased"):
        sizes += extents(form, "out")
        phases = [f"{kind}_{axis.upper()}" for kind in ("PHASE", "FIRST", "COUNT") for axis in form.axes]
        # Unrolled taps need their number at compile time; otherwise one compilation serves all phases.
        unspecialized = [] if genome.get("taps") == "unrolled" else phases
        constants += [] if unspecialized else phases
        sizes += unspecialized
    if genome.get("columns") == "stored":
        sizes += ["products", "plane"]
    if "block_k" in genome:
        constants += ["BLOCK_K", "PRECISION"]
    pointers = ["x_ptr", "w_ptr", *(f"{name}_ptr" for name in form.channel_inputs), "y_ptr"]
    signature = ", ".join([*pointers, *sizes, *(f"{name}: tl.constexpr" for name in constants)])
    body = tile_body(form, genome, loop)
    if flag(genome, "persistent"):
        head = f"for number in range(tl.program_id(0), tiles * {genome.get('splits', 1)}, tl.num_programs(0)):"
        body = [head, *indent(["tile_id = number", *body])]
    else:
        body = ["tile_id = tl.program_id(0)", *body]
    return jit(f"convolve({signature})", body, unspecialized)


def columns_source(form: ConvolutionForm) -> list[str]:
    """The pass that writes out the gathered columns [image, product, pixel]."""
    numbers = ["k = tl.program_id(0) % products", "p_block = tl.program_id(0) // products"]
    numbers.append("in_plane = " + product(extents(form, "in")))
    numbers.append(f"ci = k // {form.tap_count}")
    below = form.tap_count
    for axis, taps in zip(form.axes, form.taps, strict=True):
        below //= taps
        numbers.append(f"k{axis} = k // {below} % {taps}")
    body = [
        *numbers,
        *parts.decode_pixels(form, "flat"),
        *parts.place_pixels(form, False),
        f"value = tl.load(x_ptr + corner + ci * in_plane + {parts.input_offset(form)}, mask=p_ok)",
        f"plane = {product(extents(form, 'px'))}",
        "tl.store(columns_ptr + (n * products + k) * plane + pixel, value, mask=p_ok)",
    ]
    names = ["x_ptr", "columns_ptr", "c_in", *extents(form, "in"), *extents(form, "px"), "products"]
    return jit(f"columns({', '.join(names)}, BLOCK_P: tl.constexpr)", body)


def run_source(problem: str, form: ConvolutionForm, finishing: bool, genome: Genome) -> list[str]:
    """The `run` function."""
    full = FORMS[problem]
    splits = int(genome.get("splits", 1))
    lines = shapes(full)
    outs = ", ".join(extents(form, "out"))
    if finishing:
        shape = f"({splits}, n, c_out, {outs})"
        lines.append(f"buffer = torch.empty({shape}, device=x.device, dtype=torch.float32)")
    elif not form.total:
        channels = "1" if form.over_channels else "c_out"
        sizes = [f"out_{axis} // {form.window}" if form.window > 1 else f"out_{axis}" for axis in form.axes]
        lines.append(f"y = torch.empty((n, {channels}, {', '.join(sizes)}), device=x.device, dtype=x.dtype)")
    if flag(genome, "phased"):
        loops = [f"for phase_{axis} in range({form.stride}):" for axis in form.axes]
        inner = [f"px_{axis} = (out_{axis} - phase_{axis} + {form.stride - 1}) // {form.stride}" for axis in form.axes]
        lines += nested(loops, [*inner, *launch_lines(form, finishing, genome)])
    else:
        for axis in form.axes:
            lines.append(f"px_{axis} = out_{axis}" + (f" // {form.window}" if form.window > 1 else ""))
        lines += launch_lines(form, finishing, genome)
    if finishing:
        lines += parts.finish_launch(full, splits, 512)
    elif form.total:
        lines += ["y = torch.empty((n,), device=x.device, dtype=x.dtype)"]
        lines += ["total[(n,)](partial, y, tiles // n, BLOCK=256)", "return y"]
    else:
        lines.append("return y")
    arguments = ", ".join(["x", "weight", *full.channel_inputs])
    return [f"def run({arguments}):", *indent(lines)]


def launch_lines(form: ConvolutionForm, finishing: bool, genome: Genome) -> list[str]:
    """Lines of `run` that launch the convolution over `px` extents."""
    px = extents(form, "px")
    block_p, block_c, splits = genome["block_p"], genome["block_c"], int(genome.get("splits", 1))
    if genome["tile"] == "row" and len(px) > 1:
        lines = [f"p_blocks = n * {product(px[:-1])} * triton.cdiv(px_w, {block_p})"]
    else:
        lines = [f"p_blocks = n * triton.cdiv({product(px)}, {block_p})"]
    per_group = f"triton.cdiv({'group_out' if form.groups > 1 else 'c_out'}, {block_c})"
    lines.append(f"c_blocks = {form.groups} * {per_group}" if form.groups > 1 else f"c_blocks = {per_group}")
    lines.append("tiles = p_blocks" if form.over_channels else "tiles = p_blocks * c_blocks")
    target = "buffer" if finishing else "partial" if form.total else "y"
    if form.total:
        lines.append("partial = torch.empty((tiles,), device=x.device, dtype=torch.float32)")
    source = "x"
    extra = []
    if genome.get("columns") == "stored":
        lines += [
            f"products, plane = c_in * {form.tap_count}, {product(px)}",
            "gathered = torch.empty((n, products, plane), device=x.device, dtype=x.dtype)",
            "columns[(n * triton.cdiv(plane, 512) * products,)](",
            f"    x, gathered, c_in, {', '.join([*extents(form, 'in'), *px])}, products, BLOCK_P=512",
            ")",
        ]
        source, extra = "gathered", ["products", "plane"]
    constants = [f"BLOCK_C={block_c}", f"BLOCK_P={block_p}"]
    if flag(genome, "phased"):
        extra = extents(form, "out")
        for axis, taps in zip(form.axes, form.taps, strict=True):
            first = f"(phase_{axis} + {form.padding}) % {form.stride}"
            constants += [f"PHASE_{axis.upper()}=phase_{axis}", f"FIRST_{axis.upper()}={first}"]
            constants.append(f"COUNT_{axis.upper()}=({taps + form.stride - 1} - {first}) // {form.stride}")
    if "block_k" in genome:
        constants += [f"BLOCK_K={genome['block_k']}", f'PRECISION="{genome.get("precision", "ieee")}"']
    total = "tiles" if splits == 1 else f"tiles * {splits}"
    grid = f"min({total}, {genome['programs']})" if flag(genome, "persistent") else total
    arguments = [source, "weight", *form.channel_inputs, target, *parts.parameters(form)]
    arguments += ["p_blocks", "c_blocks", "tiles", "n", *extra, *constants, f"num_warps={genome['warps']}"]
    if "stages" in genome:
        arguments.append(f"num_stages={genome['stages']}")
    return [*lines, f"convolve[({grid},)](", f"    {', '.join(arguments)}", ")"]


def render_with(loop: Loop) -> Callable[[str, Genome], str]:
    """A family's render function around one way of accumulating."""

    def render(problem: str, genome: Genome) -> str:
        form, finishing = inner_form(problem, genome)
        full = FORMS[problem]
        lines = [*HEADER, *parts.functions(full)]
        if genome.get("columns") == "stored":
            lines += columns_source(form)
        lines += kernel_source(form, genome, loop)
        if finishing:
            lines += parts.finish_source(full)
        if full.total:
            lines += parts.total_source()
        return "\n".join([*lines, *run_source(problem, form, finishing, genome)]) + "\n"

    return render
