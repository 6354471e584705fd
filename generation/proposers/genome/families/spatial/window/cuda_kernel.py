"""CUDA windows as text: straight from memory, from a staged tile, or one pass per axis."""

from __future__ import annotations

from collections.abc import Sequence

from kbench.generation.proposers.genome.families.spatial.parts.cuda import HEADER, block, nested
from kbench.generation.proposers.genome.families.spatial.parts.lines import extents, indent, nest, product
from kbench.generation.proposers.genome.families.spatial.window.form import FORMS, WindowForm
from kbench.generation.proposers.genome.family import Genome

READS = {"plain": "*(p)", "ldg": "__ldg(p)", "ldcs": "__ldcs(p)"}


def preamble(form: WindowForm, genome: Genome) -> list[str]:
    """Types, conversions and the read macro."""
    lines = ["#include <cuda_bf16.h>", "typedef __nv_bfloat16 T;"] if form.half else ["typedef float T;"]
    if form.half:
        lines += ["__device__ __forceinline__ float wide(T v) { return __bfloat162float(v); }"]
        lines += ["__device__ __forceinline__ T narrow(float v) { return __float2bfloat16(v); }"]
    else:
        lines += ["__device__ __forceinline__ float wide(T v) { return v; }"]
        lines += ["__device__ __forceinline__ T narrow(float v) { return v; }"]
    lines.append(f"#define READ(p) {READS[str(genome['read'])]}")
    lines.append("#define NEUTRAL " + ("(-__int_as_float(0x7f800000))" if form.op == "max" else "0.0f"))
    return lines


def join(form: WindowForm, value: str, weight: str = "") -> str:
    """One tap's contribution to `acc`."""
    if form.op == "max":
        return f"acc = fmaxf(acc, {value});"
    return f"acc = fmaf({weight}, {value}, acc);" if form.weighted else f"acc += {value};"


def finish(form: WindowForm, target: str) -> list[str]:
    """What follows the reduction, and the store."""
    lines = []
    if form.op == "mean":
        lines.append(f"acc *= {1 / form.tap_count!r}f;")
    if form.silu:
        lines += ["acc += wide(bias[channel]);", "acc = acc / (1.0f + expf(-acc));"]
    return [*lines, f"{target} = narrow(acc);"]


def signature(form: WindowForm, name: str, threads: object) -> str:
    """Head of a window function."""
    pointers = [f"const T* __restrict__ {name}" for name in form.inputs]
    sizes = ["count", "channels", *extents(form, "in"), *extents(form, "out")]
    parameters = ", ".join([*pointers, "T* __restrict__ y", *(f"int {size}" for size in sizes)])
    return f'extern "C" __global__ void __launch_bounds__({threads}) {name}({parameters})'


def source(code: Sequence[str], form: WindowForm, run: Sequence[str]) -> str:
    """The whole kernel text."""
    lines = [*HEADER, 'module = CudaModule(r"""', *code, '""")', "", "", f"def run({', '.join(form.inputs)}):"]
    return "\n".join([*lines, *indent(run)]) + "\n"


def shape_lines(form: WindowForm) -> list[str]:
    """Opening lines of `run`."""
    return [
        f"n, channels, {', '.join(extents(form, 'in'))} = x.shape",
        *(f"out_{axis} = {form.output_extent(axis)}" for axis in form.axes),
        f"y = torch.empty((n, channels, {', '.join(extents(form, 'out'))}), device=x.device, dtype=x.dtype)",
    ]


def arguments(form: WindowForm) -> str:
    """Arguments that match `signature`."""
    return ", ".join([*form.inputs, "y", "y.numel()", "channels", *extents(form, "in"), *extents(form, "out")])


def direct_output(form: WindowForm, genome: Genome) -> list[str]:
    """Computes output `i` with all taps read from memory."""
    lines = ["const int w = i % out_w;"]
    below = "out_w"
    for axis in reversed(form.axes[:-1]):
        lines.append(f"const int {axis} = i / ({below}) % out_{axis};")
        below = f"{below} * out_{axis}"
    lines += [f"const int plane = i / ({below});"]
    lines += [f"const T* from = x + (size_t)plane * ({product(extents(form, 'in'))});"]
    if form.weighted:
        lines.append("const int channel = plane % channels;")
    tap = nest([f"k{axis}" for axis in form.axes], [str(t) for t in form.taps])
    at = nest([f"i{axis}" for axis in form.axes], extents(form, "in"))
    body = [join(form, f"wide(READ(from + {at}))", f"wide(READ(weight + channel * {form.tap_count} + {tap}))")]
    pragma = "#pragma unroll\n" if genome["taps"] == "unrolled" else "#pragma unroll 1\n"
    for axis, taps in reversed(list(zip(form.axes, form.taps, strict=True))):
        place = f"const int i{axis} = {form.input_place(axis, axis, f'k{axis}')};"
        guard = [f"if (i{axis} < 0 || i{axis} >= in_{axis}) continue;"] if form.padding else []
        body = nested([f"{pragma}for (int k{axis} = 0; k{axis} < {taps}; ++k{axis})"], [place, *guard, *body])
    return [*lines, "float acc = NEUTRAL;", *body, *finish(form, "y[i]")]


def render_direct(problem: str, genome: Genome) -> str:
    """Source of the form that reads every tap from memory."""
    form, threads, each = FORMS[problem], int(genome["threads"]), int(genome["each"])
    lines = direct_output(form, genome)
    start = "blockIdx.x * blockDim.x + threadIdx.x"
    if genome["mapping"] == "grid_stride":
        heads = [f"for (int i = {start}; i < count; i += gridDim.x * blockDim.x)"]
        body, blocks = nested(heads, lines), f"min((y.numel() + {threads - 1}) // {threads}, {132 * 2048 // threads})"
    else:
        place = (
            f"({start}) * {each} + j"
            if genome["mapping"] == "adjacent"
            else f"blockIdx.x * {threads * each} + threadIdx.x + j * {threads}"
        )
        head = f"#pragma unroll\nfor (int j = 0; j < {each}; ++j)"
        body = nested([head], [f"const int i = {place};", *block("if (i < count)", lines)])
        blocks = f"(y.numel() + {threads * each - 1}) // {threads * each}"
    code = [*preamble(form, genome), "", *block(signature(form, "slide", threads), body)]
    launch = f'module.launch("slide", grid={blocks}, block={threads}, args=({arguments(form)}))'
    return source(code, form, [*shape_lines(form), launch, "return y"])


def tile_extent(form: WindowForm, axis: str, outputs: object) -> int:
    """Inputs along an axis that a tile of outputs meets."""
    return (int(str(outputs)) - 1) * form.stride + form.dilation * (form.taps[form.axes.index(axis)] - 1) + 1


def render_staged(problem: str, genome: Genome) -> str:
    """Source of the form that stages a tile of each plane in shared memory."""
    form = FORMS[problem]
    tw, th = int(genome["tw"]), int(genome["th"]) if len(form.taps) > 1 else 1
    threads = int(genome["threads"])
    iw = tile_extent(form, "w", tw)
    ih = tile_extent(form, "h", th) if len(form.taps) > 1 else 1
    names = {"TW": tw, "TH": th, "IW": iw, "IH": ih, "THREADS": threads, "EACH": -(-tw * th // threads)}
    body = staged_numbers(form)
    body += [f"__shared__ float tile[IH][IW + {genome['pad']}];"]
    if genome["reduction"] == "separable":
        body.append("__shared__ float rows[IH][TW];")
    reduce = staged_separable(form) if genome["reduction"] == "separable" else staged_full(form)
    body += ["float accs[EACH];", "#pragma unroll", "for (int j = 0; j < EACH; ++j) accs[j] = NEUTRAL;"]
    if len(form.taps) == 3:
        plane = ["const int id = " + form.input_place("d", "d", "kd") + ";"]
        plane += ["if (id < 0 || id >= in_d) continue;"] if form.padding else []
        body += nested(
            [f"for (int kd = 0; kd < {form.taps[0]}; ++kd)"], [*plane, *staged_fill(form), *reduce, "__syncthreads();"]
        )
    else:
        body += [*staged_fill(form), *reduce]
    out = nest(form.axes, extents(form, "out"))
    lines = ["const int e = threadIdx.x + j * THREADS;", "const int w = w0 + e % TW;"]
    ok = "e < TW * TH && w < out_w"
    if len(form.taps) > 1:
        lines.append("const int h = h0 + e / TW;")
        ok += " && h < out_h"
    store = [
        *lines,
        *block(f"if ({ok})", ["float acc = accs[j];", *finish(form, f"y[(size_t)plane * out_plane + {out}]")]),
    ]
    body += nested(["#pragma unroll\nfor (int j = 0; j < EACH; ++j)"], store)
    code = [*preamble(form, genome), *(f"#define {name} {value}" for name, value in names.items()), ""]
    code += block(signature(form, "slide", threads), body)
    tall = [f"((out_h + {th - 1}) // {th})"] if len(form.taps) > 1 else []
    blocks = " * ".join(
        ["n * channels", *(["out_d"] if len(form.taps) == 3 else []), *tall, f"((out_w + {tw - 1}) // {tw})"]
    )
    launch = f'module.launch("slide", grid={blocks}, block={threads}, args=({arguments(form)}))'
    return source(code, form, [*shape_lines(form), launch, "return y"])


def staged_numbers(form: WindowForm) -> list[str]:
    """Which tile of which plane a block has."""
    lines = ["int b = blockIdx.x;", "const int across = (out_w + TW - 1) / TW;"]
    lines += ["const int w0 = b % across * TW;", "b /= across;"]
    if len(form.taps) > 1:
        lines += ["const int down = (out_h + TH - 1) / TH;", "const int h0 = b % down * TH;", "b /= down;"]
    if len(form.taps) == 3:
        lines += ["const int d = b % out_d;", "b /= out_d;"]
    lines += ["const int plane = b;", f"const int out_plane = {product(extents(form, 'out'))};"]
    lines += [f"const T* from = x + (size_t)plane * ({product(extents(form, 'in'))});"]
    return [*lines, *(["const int channel = plane % channels;"] if form.weighted else [])]


def staged_fill(form: WindowForm) -> list[str]:
    """Loads the tile's inputs, neutral outside the plane."""
    shift = f" - {form.padding}" if form.padding else ""
    stride = f" * {form.stride}" if form.stride > 1 else ""
    lines = [f"const int c = w0{stride}{shift} + e % IW;"]
    at, ok = "c", "c >= 0 && c < in_w" if form.padding else "c < in_w"
    if len(form.taps) > 1:
        lines.append(f"const int r = h0{stride}{shift} + e / IW;")
        at, ok = "r * in_w + c", ok + (" && r >= 0 && r < in_h" if form.padding else " && r < in_h")
    if len(form.taps) == 3:
        at = f"id * in_h * in_w + {at}"
    lines.append(f"tile[e / IW][e % IW] = {ok} ? wide(READ(from + {at})) : NEUTRAL;")
    return [*nested(["for (int e = threadIdx.x; e < IH * IW; e += THREADS)"], lines), "__syncthreads();"]


def staged_full(form: WindowForm) -> list[str]:
    """Every output meets every tap of its window in the tile."""
    flat = len(form.taps) == 1
    stride, step = (
        (f" * {form.stride}" if form.stride > 1 else ""),
        (f" * {form.dilation}" if form.dilation > 1 else ""),
    )
    row = "0" if flat else f"e / TW{stride} + kh{step}"
    tap = "kw" if flat else f"kh * {form.taps[-1]} + kw"
    weight = f"wide(weight[channel * {form.tap_count} + {tap}])"
    body = [join(form, f"tile[{row}][e % TW{stride} + kw{step}]", weight)]
    for axis, taps in list(zip(form.axes, form.taps, strict=True))[-2:][::-1]:
        body = nested([f"#pragma unroll\nfor (int k{axis} = 0; k{axis} < {taps}; ++k{axis})"], body)
    inner = ["float acc = accs[j];", *body, "accs[j] = acc;"]
    return nested(
        ["#pragma unroll\nfor (int j = 0; j < EACH; ++j)"],
        ["const int e = threadIdx.x + j * THREADS;", *block("if (e < TW * TH)", inner)],
    )


def staged_separable(form: WindowForm) -> list[str]:
    """Rows of the tile are reduced first, then columns of the result."""
    stride, step = (
        (f" * {form.stride}" if form.stride > 1 else ""),
        (f" * {form.dilation}" if form.dilation > 1 else ""),
    )
    across = [join(form, f"tile[e / TW][e % TW{stride} + kw{step}]")]
    down = [join(form, f"rows[e / TW{stride} + kh{step}][e % TW]")]
    first = ["float acc = NEUTRAL;", *nested([f"#pragma unroll\nfor (int kw = 0; kw < {form.taps[-1]}; ++kw)"], across)]
    then = ["float acc = accs[j];", *nested([f"#pragma unroll\nfor (int kh = 0; kh < {form.taps[-2]}; ++kh)"], down)]
    return [
        *nested(["for (int e = threadIdx.x; e < IH * TW; e += THREADS)"], [*first, "rows[e / TW][e % TW] = acc;"]),
        "__syncthreads();",
        *nested(
            ["#pragma unroll\nfor (int j = 0; j < EACH; ++j)"],
            ["const int e = threadIdx.x + j * THREADS;", *block("if (e < TW * TH)", [*then, "accs[j] = acc;"])],
        ),
    ]


def render_separable(problem: str, genome: Genome) -> str:
    """Source of the form that reduces one axis after another through intermediate tensors."""
    form, threads, each = FORMS[problem], int(genome["threads"]), int(genome["each"])
    pragma = "#pragma unroll" if genome["taps"] == "unrolled" else "#pragma unroll 1"
    taps = form.taps[-1]
    inner = [
        "const int place = i / inner % out_extent;",
        "const T* from = x + (size_t)(i / (inner * out_extent)) * in_extent * inner + i % inner;",
        "float acc = NEUTRAL;",
        *nested(
            [f"{pragma}\nfor (int k = 0; k < {taps}; ++k)"],
            [
                f"const int at = {form.input_place('w', 'place', 'k')};",
                "if (at >= 0 && at < in_extent) " + join(form, "wide(READ(from + (size_t)at * inner))"),
            ],
        ),
        *([f"acc *= {1 / taps!r}f;"] if form.op == "mean" else []),
        "y[i] = narrow(acc);",
    ]
    head = 'extern "C" __global__ void reduce(const T* __restrict__ x, T* __restrict__ y, int count, int inner, '
    place = f"const int i = blockIdx.x * {threads * each} + threadIdx.x + j * {threads};"
    body = nested([f"for (int j = 0; j < {each}; ++j)"], [place, *block("if (i < count)", inner)])
    code = [*preamble(form, genome), "", *block(head + "int in_extent, int out_extent)", body)]
    lines = [f"n, channels, {', '.join(extents(form, 'in'))} = x.shape"]
    lines += [f"out_{axis} = {form.output_extent(axis)}" for axis in form.axes]
    current = {axis: f"in_{axis}" for axis in form.axes}
    order = list(form.axes) if genome["order"] == "outer_first" else list(reversed(form.axes))
    for axis in order:
        below = [current[other] for other in form.axes[form.axes.index(axis) + 1 :]]
        current[axis] = f"out_{axis}"
        lines += [
            f"y = torch.empty((n, channels, {', '.join(current.values())}), device=x.device, dtype=x.dtype)",
            f'module.launch("reduce", grid=(y.numel() + {threads * each - 1}) // {threads * each}, block={threads}, '
            f"args=(x, y, y.numel(), {product(below) or '1'}, in_{axis}, out_{axis}))",
            *(["x = y"] if axis != order[-1] else []),
        ]
    return source(code, form, [*lines, "return y"])
