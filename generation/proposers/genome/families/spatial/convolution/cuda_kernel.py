"""CUDA convolutions as text: what a block does from its numbers to its stores, and `run`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kbench.generation.proposers.genome.families.spatial.convolution import cuda_loops as loops
from kbench.generation.proposers.genome.families.spatial.convolution import cuda_parts as parts
from kbench.generation.proposers.genome.families.spatial.convolution.cuda_parts import as_cuda
from kbench.generation.proposers.genome.families.spatial.convolution.form import (
    FORMS,
    ConvolutionForm,
    inner_form,
)
from kbench.generation.proposers.genome.families.spatial.parts.cuda import HEADER, block, nested
from kbench.generation.proposers.genome.families.spatial.parts.lines import extents, indent, product
from kbench.generation.proposers.genome.family import Genome

Body = Callable[[ConvolutionForm, Genome], list[str]]
TILE = ["#pragma unroll\nfor (int i = 0; i < TC; ++i)", "#pragma unroll\nfor (int j = 0; j < TP; ++j)"]


def threads_of(genome: Genome) -> int:
    """Threads of a block."""
    if "threads" in genome:
        return int(genome["threads"])
    return int(genome["bc"]) // int(genome["tc"]) * (int(genome["bp"]) // int(genome["tp"]))


def cleared(name: str, value: str = "0.0f") -> list[str]:
    """A register tile with every element set."""
    return [f"float {name}[TC][TP];", *nested(TILE, [f"{name}[i][j] = {value};"])]


def tile_body(form: ConvolutionForm, genome: Genome, place: dict[str, str], setup: Body, loop: Body) -> list[str]:
    """From a block's numbers to its stores.

    Args:
        form: what the convolution itself computes.
        genome: the genes.
        place: how `channel`, `exists` and `pixel` of element (i, j) are written.
        setup: lines that choose channels from `first`.
        loop: lines that accumulate into acc.
    """
    count = "group_out" if form.groups > 1 else "c_out"
    channel_ok = f"{place['channel']} < {count}"
    absolute = f"group * group_out + {place['channel']}" if form.groups > 1 else place["channel"]
    named = [f"const int c = {absolute};", *parts.channel_values(form, "c")]
    apply = ["float v = acc[i][j];", *([f"v = {as_cuda(form.before)};"] if form.before != "v" else [])]
    if form.over_channels:
        return min_body(form, genome, place, [*setup(form, genome), *cleared("acc"), *loop(form, genome)], named, apply)
    lines = setup(form, genome)
    if form.window == 1:
        lines += [*cleared("acc"), *loop(form, genome)]
        store = [*apply, parts.store_line(form, genome, "c", place["pixel"], "v")]
    else:
        lines += window_lines(form, genome, loop, channel_ok, named, apply)
        store = ["float v = best[i][j];", *([f"v = {as_cuda(form.after)};"] if form.after != "v" else [])]
        store.append("mine += v;" if form.total else parts.store_line(form, genome, "c", place["pixel"], "v"))
        named = [f"const int c = {absolute};"]
    inner = nested([TILE[1]], block(f"if ({place['exists']})", store))
    result = nested([TILE[0]], block(f"if ({channel_ok})", [*named, *inner]))
    if form.total:
        return [*lines, "float mine = 0.0f;", *result, *parts.block_sum(threads_of(genome))]
    return [*lines, *result]


def window_lines(
    form: ConvolutionForm, genome: Genome, loop: Body, channel_ok: str, named: Sequence[str], apply: Sequence[str]
) -> list[str]:
    """Convolution outputs of a window one after another, combined into best[TC][TP]."""
    join = "best[i][j] = fmaxf(best[i][j], v);" if form.combine == "max" else "best[i][j] += v;"
    combine = nested([TILE[0]], block(f"if ({channel_ok})", [*named, *nested([TILE[1]], [*apply, join])]))
    inner = [f"const int shift = sub / {form.window} * in_w + sub % {form.window};"]
    inner += [*cleared("acc"), *loop(form, genome), *combine]
    start = "-INF" if form.combine == "max" else "0.0f"
    return [
        *cleared("best", start),
        *nested([f"#pragma unroll 1\nfor (int sub = 0; sub < {form.window**2}; ++sub)"], inner),
    ]


def min_body(
    form: ConvolutionForm,
    genome: Genome,
    place: dict[str, str],
    tile: Sequence[str],
    named: Sequence[str],
    apply: Sequence[str],
) -> list[str]:
    """Tiles of channels one after another, the smallest value of every pixel kept."""
    keep = nested([TILE[1]], [*apply, "best[j] = fminf(best[j], v);"])
    inner = [*tile, *nested([TILE[0]], block(f"if ({place['channel']} < c_out)", [*named, *keep]))]
    span = "TC" if "threads" in genome else "BC"
    lines = ["float best[TP];", "#pragma unroll", "for (int j = 0; j < TP; ++j) best[j] = INF;"]
    lines += nested([f"for (int first = 0; first < c_out; first += {span})"], inner)
    target = f"put(y + (size_t)n * out_plane + {place['pixel']}, best[j]);"
    if "threads" in genome:
        return [*lines, *nested([TILE[1]], [f"if ({place['exists']}) {target}"])]
    slot = place["slot"]
    lines += ["__shared__ float least[BC / TC][BP];"]
    lines += nested([TILE[1]], [f"least[tc][{slot}] = best[j];"])
    final = nested(["for (int t = 1; t < BC / TC; ++t)"], [f"best[j] = fminf(best[j], least[t][{slot}]);"])
    return [
        *lines,
        "__syncthreads();",
        *block("if (tc == 0)", nested([TILE[1]], [*final, f"if ({place['exists']}) {target}"])),
    ]


def group_lines(form: ConvolutionForm, span: str) -> list[str]:
    """Which channels a block starts from, `first`, and its group."""
    if form.over_channels:
        return []
    if form.groups == 1:
        return [f"const int first = blockIdx.y * {span};"]
    return [
        f"const int per_group = (group_out + {span} - 1) / {span};",
        "const int group = blockIdx.y / per_group;",
        f"const int first = blockIdx.y % per_group * {span};",
    ]


def direct_body(form: ConvolutionForm, genome: Genome) -> list[str]:
    """The direct function's body."""
    place = {"channel": "c0 + i", "exists": "exists[j]", "pixel": "pixels_at[j]"}
    setup = [line.replace("pixels[", "pixels_at[") for line in loops.direct_setup(form, genome)]
    shared = ["extern __shared__ float staged[];"] if genome["weights"] == "shared" else []

    def channels(form: ConvolutionForm, genome: Genome) -> list[str]:
        return loops.direct_channels(form, genome, "first")

    lines = [*parts.block_numbers(form, genome), *shared, *setup, *group_lines(form, "TC")]
    return [*lines, *tile_body(form, genome, place, channels, loops.direct_loop)]


def staged_body(form: ConvolutionForm, genome: Genome) -> list[str]:
    """The staged function's body."""
    slot = "tp * TP + j" if genome["pixels"] == "adjacent" else "tp + j * (BP / TP)"
    place = {
        "channel": "c0 + tc * TC + i",
        "exists": f"blockIdx.x * BP + {slot} < pixels",
        "pixel": f"places[{slot}]",
        "slot": slot,
    }

    def channels(form: ConvolutionForm, genome: Genome) -> list[str]:
        return ["const int c0 = first;"]

    lines = [*parts.block_numbers(form, genome), *loops.staged_setup(form, genome), *group_lines(form, "BC")]
    return [*lines, *tile_body(form, genome, place, channels, loops.staged_loop)]


def render_with(body: Body) -> Callable[[str, Genome], str]:
    """A family's render function around one body."""

    def render(problem: str, genome: Genome) -> str:
        form, finishing = inner_form(problem, genome)
        full = FORMS[problem]
        threads = threads_of(genome)
        names = {"THREADS": threads, "TC": genome["tc"], "TP": genome["tp"], "TAPS": form.tap_count}
        names |= {name.upper(): genome[name] for name in ("bc", "bp", "bk") if name in genome}
        out = "float" if finishing or full.total else "T"
        code = [*parts.preamble(full, genome), *(f"#define {name} {value}" for name, value in names.items())]
        code += [f"typedef {out} OUT;", ""]
        head = f'extern "C" __global__ void __launch_bounds__(THREADS) convolve({parts.parameters(form)})'
        code += [*block(head, body(form, genome)), ""]
        if finishing:
            code += parts.finish_source(full, int(genome.get("splits", 1)))
        if full.total:
            code += parts.TOTAL
        while not code[-1]:
            code.pop()
        lines = [*HEADER, 'module = CudaModule(r"""', *code, '""")', "", ""]
        return "\n".join([*lines, *parts.run_head(full), *indent(run_lines(full, form, finishing, genome))]) + "\n"

    return render


def run_lines(full: ConvolutionForm, form: ConvolutionForm, finishing: bool, genome: Genome) -> list[str]:
    """Lines of `run` after the shapes."""
    splits = int(genome.get("splits", 1))
    outs = extents(form, "out")
    span_c, span_p = (
        (genome["tc"], f"{int(genome['threads']) * int(genome['tp'])}")
        if "threads" in genome
        else (
            genome["bc"],
            str(genome["bp"]),
        )
    )
    phases = form.stride ** len(form.axes) if genome.get("phased") else 1
    sizes = outs
    if phases > 1:
        sizes = [f"((out_{axis} + {form.stride - 1}) // {form.stride})" for axis in form.axes]
    elif form.window > 1:
        sizes = [f"(out_{axis} // {form.window})" for axis in form.axes]
    lines = [f"p_blocks = ({product(sizes)} + {int(span_p) - 1}) // {span_p}"]
    per_group = f"({'group_out' if form.groups > 1 else 'c_out'} + {int(span_c) - 1}) // {span_c}"
    c_blocks = f"{form.groups} * ({per_group})" if form.groups > 1 else per_group
    lines.append("c_blocks = 1" if form.over_channels else f"c_blocks = {c_blocks}")
    if finishing:
        target = "buffer"
        lines.append(
            f"buffer = torch.empty(({splits}, n, c_out, {', '.join(outs)}), device=x.device, dtype=torch.float32)"
        )
    elif form.total:
        target = "partial"
        lines.append("partial = torch.empty((n, c_blocks * p_blocks), device=x.device, dtype=torch.float32)")
    else:
        target = "y"
        shape = ["1" if form.over_channels else "c_out", *(sizes if form.window > 1 else outs)]
        lines.append(f"y = torch.empty((n, {', '.join(shape)}), device=x.device, dtype=x.dtype)")
    layers = "n" if phases * splits == 1 else f"n * {phases * splits}"
    launch = [
        "module.launch(",
        '    "convolve",',
        f"    grid=(p_blocks, c_blocks, {layers}),",
        f"    block={threads_of(genome)},",
        f"    args=({parts.arguments(form, target)}),",
    ]
    if genome.get("weights") == "shared":
        launch.append(
            f"    shared_bytes={4 * int(genome['tc']) * form.tap_count} * {'group_in' if form.groups > 1 else 'c_in'},"
        )
    lines += [*launch, ")"]
    if finishing:
        return [*lines, *parts.finish_launch(full)]
    return [*lines, *(parts.total_launch("c_blocks * p_blocks") if form.total else ["return y"])]
