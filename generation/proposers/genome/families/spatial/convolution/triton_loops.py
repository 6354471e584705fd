"""How Triton convolutions accumulate a tile: tap by tap, or as a matrix product over gathered or stored columns."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.spatial.convolution import triton_parts as parts
from kbench.generation.proposers.genome.families.spatial.convolution.form import ConvolutionForm, flag
from kbench.generation.proposers.genome.families.spatial.convolution.triton_parts import subscript
from kbench.generation.proposers.genome.families.spatial.parts.lines import indent, product
from kbench.generation.proposers.genome.families.spatial.parts.triton import nested
from kbench.generation.proposers.genome.family import Genome


def direct_loop(form: ConvolutionForm, genome: Genome) -> list[str]:
    """Accumulates one tap of one input channel at a time into the tile."""
    swapped, phased = flag(genome, "swapped"), flag(genome, "phased")
    tap_range = "tl.static_range" if genome["taps"] == "unrolled" else "range"
    places = parts.tap_places(form, phased) if form.transposed else []
    mask = "p_ok & tap_ok" if form.transposed else "p_ok"
    body = [
        f"at = corner + ci * in_plane + {parts.input_offset(form)}",
        f"value = tl.load(x_ptr + at, mask={mask}, other=0.0)",
        f"tap = {parts.tap_number(form, phased)}",
        f"weight = tl.load(w_ptr + {parts.filter_offset(form)} * {form.tap_count} + tap, mask=c_ok, other=0.0)",
    ]
    if form.half:
        body += ["value = value.to(tl.float32)", "weight = weight.to(tl.float32)"]
    body.append(f"acc += weight{subscript('c', swapped)} * value{subscript('p', swapped)}")
    counts = parts.tap_extents(form, phased)
    loops = [f"for k{axis} in {tap_range}({count}):" for axis, count in zip(form.axes, counts, strict=True)]
    channel = "for ci in range(ci_first, ci_last):"
    if genome["order"] == "channels_outer":
        return nested([channel, *loops], [*places, *body])
    return nested(loops, [*places, channel, *indent(body)])


def gemm_loop(form: ConvolutionForm, genome: Genome) -> list[str]:
    """Accumulates BLOCK_K products at a time with tl.dot, gathering inputs as the columns of a matrix."""
    swapped, phased = flag(genome, "swapped"), flag(genome, "phased")
    if genome.get("columns") == "stored":
        return stored_loop(form, swapped)
    loops, lines, tap_side = column_numbers(form, genome)
    return nested(
        loops, [*lines, *gather_value(form, swapped, phased, tap_side), *dot(form, swapped, phased, tap_side)]
    )


def column_numbers(form: ConvolutionForm, genome: Genome) -> tuple[list[str], list[str], bool]:
    """Loops over the products, the lines that number `ci` and the taps, and whether taps are vectors."""
    counts = parts.tap_extents(form, flag(genome, "phased"))
    if genome["order"] == "taps_outer":
        loops = [f"for k{axis} in range({count}):" for axis, count in zip(form.axes, counts, strict=True)]
        loops.append("for start in range(ci_first, ci_last, BLOCK_K):")
        return loops, ["ci = start + tl.arange(0, BLOCK_K)", "k_ok = ci < ci_last"], False
    count = f"({product(counts)})"
    lines = ["k = start + tl.arange(0, BLOCK_K)", f"k_ok = k < ci_last * {count}", f"ci = k // {count}"]
    for position, axis in enumerate(form.axes):
        below = product(counts[position + 1 :])
        quotient = f"k // ({below})" if below else "k"
        lines.append(f"k{axis} = {quotient} % {counts[position]}")
    return [f"for start in range(ci_first * {count}, ci_last * {count}, BLOCK_K):"], lines, True


def gather_value(form: ConvolutionForm, swapped: bool, phased: bool, tap_side: bool) -> list[str]:
    """Loads the (k, pixel) part of the gathered matrix as `value`."""
    pixel = subscript("p", swapped)
    inner = subscript("p", not swapped)
    mask = f"p_ok{pixel} & k_ok{inner}"
    if form.transposed:
        lines = parts.tap_places(form, phased, pixel, inner if tap_side else "")
        lines.append(f"at = corner + ci{inner} * in_plane + {parts.input_offset(form)}")
        mask += " & tap_ok"
    else:
        lines = [f"at = corner{pixel} + (ci * in_plane + {parts.input_offset(form)}){inner}"]
    return [*lines, f"value = tl.load(x_ptr + at, mask={mask}, other=0.0)"]


def dot(form: ConvolutionForm, swapped: bool, phased: bool, tap_side: bool) -> list[str]:
    """Loads the (channel, k) part of the weights and adds the product of both operands to the accumulator."""
    channel = subscript("c", swapped)
    inner = subscript("c", not swapped)
    tap = f"({parts.tap_number(form, phased)})"
    return [
        f"w_at = {parts.filter_offset(form, channel, inner)} * {form.tap_count} + {tap}{inner if tap_side else ''}",
        f"weight = tl.load(w_ptr + w_at, mask=c_ok{channel} & k_ok{inner}, other=0.0)",
        product_line(form, swapped),
    ]


def product_line(form: ConvolutionForm, swapped: bool) -> str:
    """The product of `weight` and `value` onto the accumulator, in full precision for float32."""
    operands = "value, weight" if swapped else "weight, value"
    return (
        f"acc = tl.dot({operands}, acc)" if form.half else f"acc = tl.dot({operands}, acc, input_precision=PRECISION)"
    )


def stored_loop(form: ConvolutionForm, swapped: bool) -> list[str]:
    """The product over columns that an earlier pass wrote out: a plain matrix product."""
    pixel, channel = subscript("p", swapped), subscript("c", swapped)
    return nested(
        ["for start in range(0, products, BLOCK_K):"],
        [
            "k = start + tl.arange(0, BLOCK_K)",
            "k_ok = k < products",
            f"at = (n * products + k{subscript('p', not swapped)}) * plane + pixel{pixel}",
            f"value = tl.load(x_ptr + at, mask=p_ok{pixel} & k_ok{subscript('p', not swapped)}, other=0.0)",
            f"w_at = c{channel} * products + k{subscript('c', not swapped)}",
            f"weight = tl.load(w_ptr + w_at, mask=c_ok{channel} & k_ok{subscript('c', not swapped)}, other=0.0)",
            product_line(form, swapped),
        ],
    )
