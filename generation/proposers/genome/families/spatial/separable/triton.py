"""Depthwise-separable convolutions in Triton: both stages in one pass, or the depthwise stage written out first."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.spatial.convolution import triton_parts as parts
from kbench.generation.proposers.genome.families.spatial.convolution.form import ConvolutionForm
from kbench.generation.proposers.genome.families.spatial.convolution.triton_loops import nested
from kbench.generation.proposers.genome.families.spatial.convolution.triton_parts import flag, indent, subscript
from kbench.generation.proposers.genome.family import Family, Gene, Genome
from kbench.schemas import Backend

PROBLEM = "depthwise_separable_conv2d"
FORM = ConvolutionForm(problem=PROBLEM, taps=(3, 3))


def filtered(genome: Genome, pixel: str, inner: str) -> list[str]:
    """The depthwise stage's outputs at channels `ci` as `value`; subscripts place pixels and channels in a tile."""
    mask = "p_ok" + pixel + (f" & k_ok{inner}" if inner else "")
    shape = "(BLOCK_P,)"
    if inner:
        shape = "(BLOCK_P, BLOCK_K)" if flag(genome, "swapped") else "(BLOCK_K, BLOCK_P)"
    if genome["stages"] == "two_pass":
        return [f"value = tl.load(x_ptr + corner{pixel} + ci{inner} * in_plane, mask={mask}, other=0.0)"]
    kind = "tl.static_range" if genome["taps"] == "unrolled" else "range"
    guard = f", mask=k_ok{inner}, other=0.0" if inner else ""
    body = [
        f"tap_value = tl.load(x_ptr + corner{pixel} + ci{inner} * in_plane + kh * in_w + kw, mask={mask}, other=0.0)",
        f"value += tl.load(d_ptr + ci{inner} * 9 + kh * 3 + kw{guard}) * tap_value",
    ]
    return [f"value = tl.zeros({shape}, tl.float32)", *nested([f"for k{a} in {kind}(3):" for a in "hw"], body)]


def mix_loop(genome: Genome) -> list[str]:
    """Sums over input channels one at a time, or BLOCK_K at a time with tl.dot."""
    swapped = flag(genome, "swapped")
    channel, pixel = subscript("c", swapped), subscript("p", swapped)
    if genome["product"] == "outer":
        weight = "weight = tl.load(w_ptr + c * c_in + ci, mask=c_ok, other=0.0)"
        body = [*filtered(genome, "", ""), weight, f"acc += weight{channel} * value{pixel}"]
        return nested(["for ci in range(c_in):"], body)
    inner = subscript("c", not swapped)
    body = [
        "ci = start + tl.arange(0, BLOCK_K)",
        "k_ok = ci < c_in",
        *filtered(genome, pixel, subscript("p", not swapped)),
        f"weight = tl.load(w_ptr + c{channel} * c_in + ci{inner}, mask=c_ok{channel} & k_ok{inner}, other=0.0)",
        f'acc = tl.dot({"value, weight" if swapped else "weight, value"}, acc, input_precision="{genome["product"]}")',
    ]
    return nested(["for start in range(0, c_in, BLOCK_K):"], body)


def mix_source(genome: Genome) -> list[str]:
    """The function that writes the answer."""
    swapped = flag(genome, "swapped")
    channel, pixel = subscript("c", swapped), subscript("p", swapped)
    numbers = ["p_block = pid // c_blocks", "c_block = pid % c_blocks"]
    if genome["grid"] == "pixels_fast":
        numbers = ["p_block = pid % p_blocks", "c_block = pid // p_blocks"]
    body = [
        "pid = tl.program_id(0)",
        *numbers,
        "in_plane = in_h * in_w",
        *parts.decode_pixels(FORM, genome["tile"]),
        *parts.place_pixels(FORM, False),
        *parts.channel_lines(FORM),
        f"acc = tl.zeros({'(BLOCK_P, BLOCK_C)' if swapped else '(BLOCK_C, BLOCK_P)'}, tl.float32)",
        *mix_loop(genome),
        f"y_at = (n * c_out + c{channel}) * (px_h * px_w) + pixel{pixel}",
        f"tl.store(y_ptr + y_at, acc, mask=c_ok{channel} & p_ok{pixel})",
    ]
    pointers = "x_ptr, w_ptr, y_ptr" if genome["stages"] == "two_pass" else "x_ptr, d_ptr, w_ptr, y_ptr"
    constants = "BLOCK_C: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_K: tl.constexpr"
    return parts.jit(f"mix({pointers}, c_in, c_out, in_h, in_w, px_h, px_w, p_blocks, c_blocks, {constants})", body)


def depthwise_source(genome: Genome) -> list[str]:
    """The function that writes out the depthwise stage."""
    kind = "tl.static_range" if genome["taps"] == "unrolled" else "range"
    body = [
        "i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
        "ok = i < count",
        "plane = i // (px_h * px_w)",
        "source = x_ptr + (plane * in_h + i // px_w % px_h) * in_w + i % px_w",
        "filters = d_ptr + plane % c_in * 9",
        "acc = tl.zeros((BLOCK,), tl.float32)",
        *nested(
            [f"for k{a} in {kind}(3):" for a in "hw"],
            [
                "weight = tl.load(filters + kh * 3 + kw, mask=ok, other=0.0)",
                "acc += weight * tl.load(source + kh * in_w + kw, mask=ok, other=0.0)",
            ],
        ),
        "tl.store(z_ptr + i, acc, mask=ok)",
    ]
    return parts.jit(
        "depthwise_pass(x_ptr, d_ptr, z_ptr, count, c_in, in_h, in_w, px_h, px_w, BLOCK: tl.constexpr)", body
    )


def render(problem: str, genome: Genome) -> str:
    """Kernel source."""
    block_c, block_p = genome["block_c"], genome["block_p"]
    two = genome["stages"] == "two_pass"
    per_image = (
        f"px_h * triton.cdiv(px_w, {block_p})" if genome["tile"] == "row" else f"triton.cdiv(px_h * px_w, {block_p})"
    )
    run = [
        "n, c_in, in_h, in_w = x.shape",
        "c_out = pointwise.shape[0]",
        "px_h, px_w = in_h - 2, in_w - 2",
        "y = torch.empty((n, c_out, px_h, px_w), device=x.device, dtype=x.dtype)",
        f"p_blocks = n * {per_image}",
        f"c_blocks = triton.cdiv(c_out, {block_c})",
    ]
    if two:
        run += [
            "z = torch.empty((n, c_in, px_h, px_w), device=x.device, dtype=x.dtype)",
            f"depthwise_pass[(triton.cdiv(z.numel(), {genome['block_p']}),)](",
            f"    x, depthwise, z, z.numel(), c_in, in_h, in_w, px_h, px_w, BLOCK={genome['block_p']}",
            ")",
        ]
    given = "z, pointwise, y, c_in, c_out, px_h, px_w" if two else "x, depthwise, pointwise, y, c_in, c_out, in_h, in_w"
    constants = f"BLOCK_C={block_c}, BLOCK_P={block_p}, BLOCK_K={genome['block_k']}, num_warps={genome['warps']}"
    run += [
        "mix[(p_blocks * c_blocks,)](",
        f"    {given}, px_h, px_w, p_blocks, c_blocks, {constants}",
        ")",
        "return y",
    ]
    code = [*parts.HEADER, *(depthwise_source(genome) if two else []), *mix_source(genome)]
    return "\n".join([*code, "def run(x, depthwise, pointwise):", *indent(run)]) + "\n"


def genes(problem: str) -> tuple[Gene, ...]:
    """Genes of the family."""
    return (
        Gene("stages", ("fused", "two_pass"), structural=True),
        Gene("product", ("outer", "ieee", "tf32x3"), structural=True),
        Gene("swapped", (False, True), structural=True),
        Gene("tile", ("flat", "row"), structural=True),
        Gene("taps", ("unrolled", "looped"), structural=True),
        Gene("grid", ("channels_fast", "pixels_fast"), structural=True),
        Gene("block_c", (8, 16, 32, 64)),
        Gene("block_p", (32, 64, 128, 256)),
        Gene("block_k", (16, 32)),
        Gene("warps", (2, 4, 8)),
    )


def invalid(problem: str, genome: Genome) -> str | None:
    """Tiles that would spill or are too small for tl.dot, and genes that change nothing."""
    each = int(genome["block_c"]) * int(genome["block_p"]) // (32 * int(genome["warps"]))
    if not 4 <= each <= 64:
        return f"{each} accumulators a thread"
    if genome["product"] == "outer":
        return None if genome["block_k"] == 16 else "only tl.dot has a BLOCK_K"
    return "tl.dot needs 16 channels" if int(genome["block_c"]) < 16 else None


FAMILIES: tuple[Family, ...] = (
    Family(
        name="separable_triton",
        backend=Backend.TRITON,
        problems=(PROBLEM,),
        genes=genes,
        render=render,
        invalid=invalid,
    ),
)
