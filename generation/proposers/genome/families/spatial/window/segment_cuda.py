"""Pooling and depthwise windows in CUDA where a thread slides over a segment of a row kept in registers."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.spatial.parts.cuda import block, nested
from kbench.generation.proposers.genome.families.spatial.parts.lines import extents, nest, product
from kbench.generation.proposers.genome.families.spatial.window.cuda_kernel import (
    READS,
    arguments,
    finish,
    join,
    preamble,
    shape_lines,
    signature,
    source,
)
from kbench.generation.proposers.genome.families.spatial.window.form import FORMS, WindowForm
from kbench.generation.proposers.genome.family import Family, Gene, Genome
from kbench.schemas import Backend


def segment(form: WindowForm, each: int) -> int:
    """Inputs of a row that `each` adjacent outputs meet."""
    return (each - 1) * form.stride + form.dilation * (form.taps[-1] - 1) + 1


def slide_lines(form: WindowForm, genome: Genome) -> list[str]:
    """Loads a row's segment and adds its taps to every output of the thread."""
    stride = f" * {form.stride}" if form.stride > 1 else ""
    step = f" * {form.dilation}" if form.dilation > 1 else ""
    shift = f" - {form.padding}" if form.padding else ""
    place = [f"i{axis}" for axis in form.axes[:-1]]
    row = f"({nest(place, extents(form, 'in')[:-1])}) * in_w + c" if place else "c"
    fill = [f"const int c = w0{stride}{shift} + s;"]
    fill.append(f"row[s] = {'c >= 0 && ' if form.padding else ''}c < in_w ? wide(READ(from + {row})) : NEUTRAL;")
    tap = nest([f"k{axis}" for axis in form.axes], [str(t) for t in form.taps])
    weight = f"weight[channel * {form.tap_count} + {tap}]"
    use = join(form, f"row[j{stride} + kw{step}]", "f").replace("acc", "accs[j]")
    slide = [*([f"const float f = wide({weight});"] if form.weighted else []), "#pragma unroll"]
    slide.append(f"for (int j = 0; j < EACH; ++j) {use}")
    return [
        "float row[SEGMENT];",
        *nested(["#pragma unroll\nfor (int s = 0; s < SEGMENT; ++s)"], fill),
        *nested([f"#pragma unroll\nfor (int kw = 0; kw < {form.taps[-1]}; ++kw)"], slide),
    ]


def output_lines(form: WindowForm, genome: Genome) -> list[str]:
    """The outputs of one segment, from its number `t` to the stores."""
    lines = [
        "const int across = (out_w + EACH - 1) / EACH;",
        "const int w0 = t % across * EACH;",
        "int rest = t / across;",
    ]
    for axis in reversed(form.axes[:-1]):
        lines += [f"const int {axis} = rest % out_{axis};", f"rest /= out_{axis};"]
    lines += ["const int plane = rest;", *(["const int channel = plane % channels;"] if form.weighted else [])]
    lines.append(f"const T* from = x + (size_t)plane * ({product(extents(form, 'in'))});")
    lines += ["float accs[EACH];", "#pragma unroll", "for (int j = 0; j < EACH; ++j) accs[j] = NEUTRAL;"]
    body = slide_lines(form, genome)
    pragma = "#pragma unroll\n" if genome["taps"] == "unrolled" else "#pragma unroll 1\n"
    for axis, taps in reversed(list(zip(form.axes[:-1], form.taps[:-1], strict=True))):
        place = f"const int i{axis} = {form.input_place(axis, axis, f'k{axis}')};"
        guard = [f"if (i{axis} < 0 || i{axis} >= in_{axis}) continue;"] if form.padding else []
        body = nested([f"{pragma}for (int k{axis} = 0; k{axis} < {taps}; ++k{axis})"], [place, *guard, *body])
    target = nest([*form.axes[:-1], "w"], extents(form, "out"))
    store = ["const int w = w0 + j;", "float acc = accs[j];"]
    store += finish(form, f"y[(size_t)plane * ({product(extents(form, 'out'))}) + {target}]")
    last = nested(["#pragma unroll\nfor (int j = 0; j < EACH; ++j)"], block("if (w0 + j < out_w)", store))
    return [*lines, *body, *last]


def render(problem: str, genome: Genome) -> str:
    """Kernel source."""
    form, threads, each = FORMS[problem], int(genome["threads"]), int(genome["each"])
    start = ["const int segments = count / out_w * ((out_w + EACH - 1) / EACH);"]
    lines = output_lines(form, genome)
    if genome["grid"] == "plain":
        body = [*start, "const int t = blockIdx.x * THREADS + threadIdx.x;", "if (t >= segments) return;", *lines]
        blocks = f"(segments + {threads - 1}) // {threads}"
    else:
        head = "for (int t = blockIdx.x * THREADS + threadIdx.x; t < segments; t += gridDim.x * THREADS)"
        body = [*start, *nested([head], lines)]
        blocks = f"min((segments + {threads - 1}) // {threads}, {132 * 2048 // threads})"
    names = {"THREADS": threads, "EACH": each, "SEGMENT": segment(form, each)}
    code = [*preamble(form, genome), *(f"#define {name} {value}" for name, value in names.items()), ""]
    code += block(signature(form, "slide", "THREADS"), body)
    run = [
        *shape_lines(form),
        f"segments = y.numel() // out_w * ((out_w + {each - 1}) // {each})",
        f'module.launch("slide", grid={blocks}, block={threads}, args=({arguments(form)}))',
        "return y",
    ]
    return source(code, form, run)


def genes(problem: str) -> tuple[Gene, ...]:
    """Genes of the family."""
    outer = ("unrolled", "looped") if len(FORMS[problem].taps) > 1 else ("unrolled",)
    return (
        Gene("grid", ("plain", "grid_stride"), structural=True),
        Gene("taps", outer, structural=True),
        Gene("read", tuple(READS)),
        Gene("each", (2, 3, 4, 8)),
        Gene("threads", (64, 128, 256, 512)),
    )


FAMILIES: tuple[Family, ...] = (
    Family(name="window_segment_cuda", backend=Backend.CUDA, problems=tuple(FORMS), genes=genes, render=render),
)
