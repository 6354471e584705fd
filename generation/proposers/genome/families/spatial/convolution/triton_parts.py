"""Pieces of Triton convolutions that every algorithm shares: index decoding, epilogues, finishing passes, launches."""

from __future__ import annotations

from collections.abc import Sequence

from kbench.generation.proposers.genome.families.spatial.convolution.form import ConvolutionForm
from kbench.generation.proposers.genome.families.spatial.parts.lines import extents, indent, nest, product
from kbench.generation.proposers.genome.families.spatial.parts.triton import jit

FUNCTIONS = {
    "relu": ["return tl.maximum(v, 0.0)"],
    "tanh_": ["return 2.0 * tl.sigmoid(2.0 * v) - 1.0"],
    "sigmoid": ["return tl.sigmoid(v)"],
    "hardswish": ["return v * tl.minimum(tl.maximum(v + 3.0, 0.0), 6.0) / 6.0"],
    "mish": [
        "e = tl.exp(tl.minimum(v, 20.0))",
        "return v * (e * e + 2.0 * e) / (e * e + 2.0 * e + 2.0)",
    ],
}


def functions(form: ConvolutionForm) -> list[str]:
    """The elementwise functions the form's expressions use."""
    text = form.before + form.after
    return [line for name, body in FUNCTIONS.items() if f"{name}(" in text for line in jit(f"{name}(v)", body)]


def decode_pixels(form: ConvolutionForm, tile: object) -> list[str]:
    """From p_block: the image n, the coordinate of every pixel in the tile, and which of them exist."""
    axes = form.axes
    if tile == "row" and len(axes) > 1:
        lines = [
            "blocks = tl.cdiv(px_w, BLOCK_P)",
            "w = (p_block % blocks) * BLOCK_P + tl.arange(0, BLOCK_P)",
            "p_ok = w < px_w",
            "row = p_block // blocks",
            "h = row % px_h",
            *(["d = (row // px_h) % px_d", "n = row // (px_h * px_d)"] if len(axes) == 3 else ["n = row // px_h"]),
        ]
        # Bounds of transposed taps are compared pixel by pixel, so every coordinate has to be a vector there.
        return [*lines, *(f"{axis} = {axis} + tl.zeros_like(w)" for axis in axes[:-1] if form.transposed)]
    plane = product(extents(form, "px"))
    lines = [
        f"blocks = tl.cdiv({plane}, BLOCK_P)",
        "n = p_block // blocks",
        "p = (p_block % blocks) * BLOCK_P + tl.arange(0, BLOCK_P)",
        f"p_ok = p < {plane}",
    ]
    if len(axes) == 1:
        return [*lines, "w = p"]
    lines.append("w = p % px_w")
    return [*lines, *(["h = p // px_w"] if len(axes) == 2 else ["h = (p // px_w) % px_h", "d = p // (px_w * px_h)"])]


def place_pixels(form: ConvolutionForm, phased: bool) -> list[str]:
    """From pixel coordinates: their place in the output plane, and where their window starts in the input."""
    lines = [f"{axis} = {axis} * {form.stride} + PHASE_{axis.upper()}" for axis in form.axes] if phased else []
    sizes = extents(form, "out" if phased else "px")
    lines.append(f"pixel = {nest(form.axes, sizes)}")
    step = form.stride * form.window
    places = [axis if step == 1 else f"{axis} * {step}" for axis in form.axes]
    if form.transposed:
        lines.append("corner = n * c_in * in_plane")
    else:
        lines.append(f"corner = n * c_in * in_plane + {nest(places, extents(form, 'in'))}")
    return lines


def tap_places(form: ConvolutionForm, phased: bool, pixel: str = "", tap: str = "") -> list[str]:
    """Where a transposed convolution's tap finds its input: i_axis for each axis, and `tap_ok`.

    Args:
        form: the convolution.
        phased: whether the taps of one output class are numbered on their own.
        pixel: subscript that turns pixel coordinates into one side of a tile.
        tap: subscript that does so for tap numbers.
    """
    lines, conditions = [], []
    for axis in form.axes:
        number = f"(FIRST_{axis.upper()} + {form.stride} * k{axis}{tap})" if phased else f"k{axis}{tap}"
        shift = f" + {form.padding}" if form.padding else ""
        lines.append(f"r{axis} = {axis}{pixel}{shift} - {number}")
        lines.append(f"i{axis} = r{axis} // {form.stride}" if form.stride > 1 else f"i{axis} = r{axis}")
        if form.stride > 1 and not phased:
            conditions.append(f"(r{axis} % {form.stride} == 0)")
        conditions += [f"(r{axis} >= 0)", f"(i{axis} < in_{axis})"]
    return [*lines, "tap_ok = " + " & ".join(conditions)]


def input_offset(form: ConvolutionForm) -> str:
    """Offset of a tap's input relative to `corner` and channel."""
    names = extents(form, "in")
    if form.transposed:
        return nest([f"i{axis}" for axis in form.axes], names)
    places = [f"k{axis}" if form.dilation == 1 else f"k{axis} * {form.dilation}" for axis in form.axes]
    return nest(places, names)


def tap_number(form: ConvolutionForm, phased: bool) -> str:
    """Index of a tap within its filter."""
    taps = [f"(FIRST_{a.upper()} + {form.stride} * k{a})" if phased else f"k{a}" for a in form.axes]
    return nest(taps, [str(t) for t in form.taps])


def tap_extents(form: ConvolutionForm, phased: bool) -> list[str]:
    """How many taps each axis has."""
    return [f"COUNT_{a.upper()}" for a in form.axes] if phased else [str(t) for t in form.taps]


def filter_offset(form: ConvolutionForm, channel: str = "", inner: str = "") -> str:
    """Offset of (channel `c`, input channel `ci`) in the weights, without the tap; arguments are subscripts."""
    if not form.transposed:
        return f"(c{channel} * c_in + ci{inner})"
    if form.groups > 1:
        return f"((group * group_in + ci{inner}) * group_out + c_local{channel})"
    return f"(ci{inner} * c_out + c{channel})"


def channel_lines(form: ConvolutionForm, block: str = "c_block") -> list[str]:
    """From a channel block: the channels `c`, which exist, and the input channels they sum over."""
    if form.groups == 1:
        return [f"c = {block} * BLOCK_C + tl.arange(0, BLOCK_C)", "c_ok = c < c_out"]
    return [
        f"group = {block} // tl.cdiv(group_out, BLOCK_C)",
        f"c_local = ({block} % tl.cdiv(group_out, BLOCK_C)) * BLOCK_C + tl.arange(0, BLOCK_C)",
        "c = group * group_out + c_local",
        "c_ok = c_local < group_out",
        "corner += group * group_in * in_plane",
    ]


def subscript(axis: str, swapped: bool) -> str:
    """Subscript that makes a channel ("c") or pixel ("p") vector one side of the tile; swapped: pixels × channels."""
    return "[:, None]" if (axis == "c") != swapped else "[None, :]"


def load_channel_inputs(form: ConvolutionForm, mask: str, shape: str = "{}") -> list[str]:
    """The per-channel inputs at channels `c`, in float32."""
    return [
        f"{name} = " + shape.format(f"tl.load({name}_ptr + c, mask={mask}, other=0.0).to(tl.float32)")
        for name in form.channel_inputs
    ]


def parameters(form: ConvolutionForm) -> list[str]:
    """Size parameters of a convolution function, in launch order."""
    groups = ["group_in", "group_out"] if form.groups > 1 else []
    return ["c_in", "c_out", *groups, *extents(form, "in"), *extents(form, "px")]


def finish_source(form: ConvolutionForm) -> list[str]:
    """The pass that turns raw convolution outputs (summed over splits) into the answer, and the totals' pass."""
    pointers = ", ".join(f"{name}_ptr" for name in form.channel_inputs)
    head = f"buffer_ptr, {pointers + ', ' if pointers else ''}y_ptr, count, c_out, "
    sizes = (
        "raw, plane, SPLITS: tl.constexpr, BLOCK: tl.constexpr"
        if form.window == 1
        else ("raw, out_h, out_w, px_h, px_w, SPLITS: tl.constexpr, BLOCK: tl.constexpr")
    )
    read = ["v = tl.zeros((BLOCK,), tl.float32)", "for s in range(SPLITS):"]
    read.append("    v += tl.load(buffer_ptr + s * raw + at, mask=ok, other=0.0)")
    apply = [*load_channel_inputs(form, "ok"), *([f"v = {form.before}"] if form.before != "v" else [])]
    if form.over_channels:
        body = [
            'best = tl.full((BLOCK,), float("inf"), tl.float32)',
            "for c in range(c_out):",
            *indent(["at = (i // plane * c_out + c) * plane + i % plane", *read]),
            *indent(load_channel_inputs(form, "c < c_out")),
            *indent([f"v = {form.before}", "best = tl.minimum(best, v)"]),
            "tl.store(y_ptr + i, best, mask=ok)",
        ]
    elif form.window > 1:
        body = finish_windows(form, read, apply)
    else:
        body = ["at = i", *read, "c = (i // plane) % c_out", *apply]
        body.append("tl.store(y_ptr + i, v.to(y_ptr.dtype.element_ty), mask=ok)")
    if form.total:
        start = ["n = tl.program_id(0)", "j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)", "ok = j < count"]
        start.append("i = n * count + j")
    else:
        start = ["i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)", "ok = i < count"]
    return [*jit(f"finish({head}{sizes})", [*start, *body])]


def finish_windows(form: ConvolutionForm, read: Sequence[str], apply: Sequence[str]) -> list[str]:
    """The finishing pass's body where windows are combined."""
    start = "float('-inf')" if form.combine == "max" else "0.0"
    join = "tl.maximum(best, v)" if form.combine == "max" else "best + v"
    body = [
        "c = (i // (px_h * px_w)) % c_out",
        f"best = tl.full((BLOCK,), {start}, tl.float32)",
        f"for k in range({form.window**2}):",
        *indent([
            f"row = (i // px_w) % px_h * {form.window} + k // {form.window}",
            f"at = (i // (px_h * px_w) * out_h + row) * out_w + i % px_w * {form.window} + k % {form.window}",
            *read, *apply, f"best = {join}",
        ]),
        "v = best",
        *([f"v = {form.after}"] if form.after != "v" else []),
    ]  # fmt: skip
    if form.total:
        return [
            *body,
            "v = tl.where(ok, v, 0.0)",
            "tl.store(y_ptr + n * tl.num_programs(1) + tl.program_id(1), tl.sum(v, 0))",
        ]
    return [*body, "tl.store(y_ptr + i, v, mask=ok)"]


def total_source() -> list[str]:
    """Sums each image's partial sums, in a fixed order so that the answer never varies."""
    body = [
        "n = tl.program_id(0)",
        "acc = tl.zeros((BLOCK,), tl.float32)",
        "for start in range(0, count, BLOCK):",
        "    j = start + tl.arange(0, BLOCK)",
        "    acc += tl.load(partial_ptr + n * count + j, mask=j < count, other=0.0)",
        "tl.store(y_ptr + n, tl.sum(acc, 0))",
    ]
    return jit("total(partial_ptr, y_ptr, count, BLOCK: tl.constexpr)", body)


def finish_launch(form: ConvolutionForm, splits: int, block: int) -> list[str]:
    """Lines of `run` that launch the finishing pass on `buffer` and return the answer."""
    extra = "".join(f"{name}, " for name in form.channel_inputs)
    tail = f"SPLITS={splits}, BLOCK={block}, num_warps=4)"
    out = extents(form, "out")
    if form.over_channels:
        return [
            f"y = torch.empty((n, 1, {', '.join(out)}), device=x.device, dtype=x.dtype)",
            f"finish[(triton.cdiv(y.numel(), {block}),)](buffer, {extra}y, y.numel(), c_out, "
            f"n * c_out * {product(out)}, {product(out)}, {tail}",
            "return y",
        ]
    if form.window == 1:
        return [
            f"y = torch.empty((n, c_out, {', '.join(out)}), device=x.device, dtype=x.dtype)",
            f"finish[(triton.cdiv(y.numel(), {block}),)](buffer, {extra}y, y.numel(), c_out, "
            f"y.numel(), {product(out)}, {tail}",
            "return y",
        ]
    pooled = [f"px_h, px_w = out_h // {form.window}, out_w // {form.window}"]
    sizes = f"n * c_out * out_h * out_w, out_h, out_w, px_h, px_w, {tail}"
    if not form.total:
        return [
            *pooled,
            "y = torch.empty((n, c_out, px_h, px_w), device=x.device, dtype=x.dtype)",
            f"finish[(triton.cdiv(y.numel(), {block}),)](buffer, {extra}y, y.numel(), c_out, {sizes}",
            "return y",
        ]
    return [
        *pooled,
        "count = c_out * px_h * px_w",
        f"parts = triton.cdiv(count, {block})",
        "partial = torch.empty((n, parts), device=x.device, dtype=torch.float32)",
        f"finish[(n, parts)](buffer, {extra}partial, count, c_out, {sizes}",
        "y = torch.empty((n,), device=x.device, dtype=x.dtype)",
        "total[(n,)](partial, y, parts, BLOCK=256)",
        "return y",
    ]
