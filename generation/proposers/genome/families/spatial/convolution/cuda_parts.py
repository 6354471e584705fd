"""Pieces of CUDA convolutions that every algorithm shares: index decoding, epilogues, finishing passes, launches."""

from __future__ import annotations

from collections.abc import Sequence

from kbench.generation.proposers.genome.families.spatial.convolution.form import ConvolutionForm, shapes
from kbench.generation.proposers.genome.families.spatial.parts.cuda import block, nested
from kbench.generation.proposers.genome.families.spatial.parts.lines import extents, indent, nest, product
from kbench.generation.proposers.genome.family import Genome

FUNCTIONS = {
    "relu": "return fmaxf(v, 0.0f);",
    "tanh_": "return 1.0f - 2.0f / (EXP(2.0f * v) + 1.0f);",
    "sigmoid": "return 1.0f / (1.0f + EXP(-v));",
    "hardswish": "return v * fminf(fmaxf(v + 3.0f, 0.0f), 6.0f) / 6.0f;",
    "mish": "float e = EXP(fminf(v, 20.0f)); float q = e * e + 2.0f * e; return v * (q / (q + 2.0f));",
}


def as_cuda(expression: str) -> str:
    """A form's expression with float literals as C++ floats."""
    for literal in ("0.25", "2.0"):
        expression = expression.replace(literal, literal + "f")
    return expression


def preamble(form: ConvolutionForm, genome: Genome) -> list[str]:
    """Types, element conversion and the elementwise functions the form's expressions use."""
    lines = ["#include <cuda_bf16.h>", "typedef __nv_bfloat16 T;"] if form.half else ["typedef float T;"]
    if form.half:
        lines += ["__device__ __forceinline__ float wide(T v) { return __bfloat162float(v); }"]
        lines += ["__device__ __forceinline__ void put(T* p, float v) { *p = __float2bfloat16(v); }"]
    else:
        lines += ["__device__ __forceinline__ float wide(T v) { return v; }"]
    lines += ["__device__ __forceinline__ void put(float* p, float v) { *p = v; }"]
    if form.combine in ("max", "min"):
        lines.append("#define INF __int_as_float(0x7f800000)")
    text = form.before + form.after
    used = [name for name in FUNCTIONS if f"{name}(" in text]
    if any("EXP" in FUNCTIONS[name] for name in used):
        lines.append(f"#define EXP {'__expf' if genome.get('math') == 'fast' else 'expf'}")
    return [*lines, *(f"__device__ __forceinline__ float {name}(float v) {{ {FUNCTIONS[name]} }}" for name in used), ""]


def pixel_lines(form: ConvolutionForm, phased: bool, number: str) -> list[str]:
    """From a pixel number known to exist: `pixel` in the output plane, and the coordinates or corner it needs."""
    axes = form.axes
    sizes = extents(form, "px")
    lines = [f"const int q = {number};"]
    if len(axes) == 1:
        lines.append("int w = q;")
    elif len(axes) == 2:
        lines.append("int w = q % px_w, h = q / px_w;")
    else:
        lines.append("int w = q % px_w, h = q / px_w % px_h, d = q / (px_w * px_h);")
    if phased:
        lines += [f"{axis} = {axis} * {form.stride} + phase_{axis};" for axis in axes]
        sizes = extents(form, "out")
    lines.append(f"const int pixel = {nest(axes, sizes)};")
    if not form.transposed:
        step = form.stride * form.window
        places = [axis if step == 1 else f"{axis} * {step}" for axis in axes]
        lines.append(f"const int corner = {nest(places, extents(form, 'in'))};")
    return lines


def tap_value(form: ConvolutionForm, phased: bool, coordinate: str, pointer: str, corner: str) -> list[str]:
    """Reads one tap's input as `value`, zero where a transposed tap meets nothing.

    Args:
        form: the convolution.
        phased: whether taps are known to fall on inputs.
        coordinate: how a pixel's coordinate is written, with {} for the axis.
        pointer: where the image's channel starts.
        corner: the window's start, for a convolution that is not transposed.
    """
    names = extents(form, "in")
    if not form.transposed:
        places = [f"k{axis}" if form.dilation == 1 else f"k{axis} * {form.dilation}" for axis in form.axes]
        return [f"const float value = wide({pointer}[{corner} + {nest(places, names)}]);"]
    lines, conditions = [], []
    for axis in form.axes:
        lines.append(f"const int r{axis} = {coordinate.format(axis)} + {form.padding} - k{axis};")
        lines.append(
            f"const int i{axis} = r{axis} / {form.stride};" if form.stride > 1 else f"const int i{axis} = r{axis};"
        )
        if form.stride > 1 and not phased:
            conditions.append(f"r{axis} % {form.stride} == 0")
        conditions += [f"r{axis} >= 0", f"i{axis} < in_{axis}"]
    at = nest([f"i{axis}" for axis in form.axes], names)
    return [*lines, f"const float value = {' && '.join(conditions)} ? wide({pointer}[{at}]) : 0.0f;"]


def tap_number(form: ConvolutionForm) -> str:
    """Index of a tap within its filter."""
    return nest([f"k{axis}" for axis in form.axes], [str(taps) for taps in form.taps])


def weight_index(form: ConvolutionForm, channel: str, inner: str, tap: str) -> str:
    """Index of one weight; `channel` and `inner` count within the group where there are groups."""
    if not form.transposed:
        return f"({channel} * c_in + {inner}) * {form.tap_count} + {tap}"
    row = (
        f"((group * group_in + {inner}) * group_out + {channel})"
        if form.groups > 1
        else f"({inner} * c_out + {channel})"
    )
    return f"{row} * {form.tap_count} + {tap}"


def channel_values(form: ConvolutionForm, channel: str) -> list[str]:
    """The per-channel inputs at one existing channel."""
    return [f"const float {name} = wide({name}_in[{channel}]);" for name in form.channel_inputs]


def parameters(form: ConvolutionForm) -> str:
    """Parameters of a convolution function."""
    pointers = ["const T* __restrict__ x", "const T* __restrict__ weight"]
    pointers += [f"const T* __restrict__ {name}_in" for name in form.channel_inputs]
    groups = ["group_in", "group_out"] if form.groups > 1 else []
    sizes = ["images", "c_in", "c_out", *groups, *extents(form, "in"), *extents(form, "out")]
    return ", ".join([*pointers, "OUT* __restrict__ y", *(f"int {name}" for name in sizes)])


def arguments(form: ConvolutionForm, target: str) -> str:
    """Arguments that match `parameters`."""
    groups = ["group_in", "group_out"] if form.groups > 1 else []
    names = ["x", "weight", *form.channel_inputs, target, "n", "c_in", "c_out", *groups]
    return ", ".join([*names, *extents(form, "in"), *extents(form, "out")])


def block_numbers(form: ConvolutionForm, genome: Genome) -> list[str]:
    """Opening lines of a convolution function: image, phase, split, input channels and pixel extents."""
    phased, splits = bool(genome.get("phased")), int(genome.get("splits", 1))
    lines = ["int z = blockIdx.z;"]
    for axis, taps in zip(reversed(form.axes), reversed(form.taps), strict=True):
        if phased:
            lines += [f"const int phase_{axis} = z % {form.stride};", f"z /= {form.stride};"]
            lines.append(f"const int first_{axis} = (phase_{axis} + {form.padding}) % {form.stride};")
            lines.append(f"const int count_{axis} = ({taps + form.stride - 1} - first_{axis}) / {form.stride};")
            lines.append(f"const int px_{axis} = (out_{axis} - phase_{axis} + {form.stride - 1}) / {form.stride};")
        else:
            lines.append(f"const int px_{axis} = out_{axis}" + (f" / {form.window};" if form.window > 1 else ";"))
    lines.append("const int n = z % images;")
    count = "group_in" if form.groups > 1 else "c_in"
    if splits > 1:
        lines += ["const int split = z / images;", f"const int chunk = ({count} + {splits - 1}) / {splits};"]
        lines += ["const int ci_first = split * chunk;", f"const int ci_last = min(ci_first + chunk, {count});"]
    else:
        lines += ["const int ci_first = 0;", f"const int ci_last = {count};"]
    lines.append(f"const int in_plane = {product(extents(form, 'in'))};")
    lines.append(f"const int pixels = {product(extents(form, 'px'))};")
    plane = product(extents(form, "out" if phased else "px"))
    lines.append(f"const int out_plane = {plane};")
    return lines


def store_line(form: ConvolutionForm, genome: Genome, channel: str, pixel: str, value: str) -> str:
    """Stores one convolution output."""
    split = "(size_t)split * images * c_out * out_plane + " if int(genome.get("splits", 1)) > 1 else ""
    return f"put(y + {split}(size_t)(n * c_out + {channel}) * out_plane + {pixel}, {value});"


def block_sum(threads: int) -> list[str]:
    """Sums `mine` over the block in a fixed order and stores it as the block's partial sum."""
    return [
        f"__shared__ float sums[{threads}];",
        "sums[threadIdx.x] = mine;",
        "__syncthreads();",
        *nested(
            [f"for (int half = {threads // 2}; half > 0; half /= 2)"],
            ["if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];", "__syncthreads();"],
        ),
        "if (threadIdx.x == 0) y[(n * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x] = sums[0];",
    ]


TOTAL = [
    'extern "C" __global__ void total(const float* partial, float* y, int count) {',
    "    const int n = blockIdx.x;",
    "    float mine = 0.0f;",
    "    for (int j = threadIdx.x; j < count; j += 256) mine += partial[n * count + j];",
    "    __shared__ float sums[256];",
    "    sums[threadIdx.x] = mine;",
    "    __syncthreads();",
    "    for (int half = 128; half > 0; half /= 2) {",
    "        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];",
    "        __syncthreads();",
    "    }",
    "    if (threadIdx.x == 0) y[n] = sums[0];",
    "}",
    "",
]
"""Sums each image's partial sums."""


def finish_source(form: ConvolutionForm, splits: int) -> list[str]:
    """The pass that turns raw convolution outputs (summed over splits) into the answer."""
    extra = "".join(f"const T* __restrict__ {name}_in, " for name in form.channel_inputs)
    read = ["float v = 0.0f;", f"for (int s = 0; s < {splits}; ++s) v += buffer[s * (size_t)raw + at];"]
    apply = [f"v = {as_cuda(form.before)};"] if form.before != "v" else []
    target = "float" if form.total else "T"
    head = f"const float* __restrict__ buffer, {extra}{target}* __restrict__ y, int count, int c_out, int raw"
    if form.over_channels:
        inner = [
            "const int at = (i / plane * c_out + c) * plane + i % plane;",
            *read,
            *channel_values(form, "c"),
            *apply,
        ]
        body = [
            "float best = INF;",
            *nested(["for (int c = 0; c < c_out; ++c)"], [*inner, "best = fminf(best, v);"]),
        ]
        body, sizes = [*body, "put(y + i, best);"], "int plane"
    elif form.window > 1:
        body, sizes = finish_windows(form, read, apply), "int out_h, int out_w, int px_h, int px_w"
    else:
        body = ["const int at = i;", "const int c = i / plane % c_out;", *read, *channel_values(form, "c"), *apply]
        body, sizes = [*body, "put(y + i, v);"], "int plane"
    start = ["const int i = blockIdx.x * 256 + threadIdx.x;", "if (i >= count) return;"]
    if form.total:
        start = ["const int n = blockIdx.z;", "const int j = blockIdx.x * 256 + threadIdx.x;", "float mine = 0.0f;"]
        body = [*block("if (j < count)", ["const int i = n * count + j;", *body]), *block_sum(256)]
    return [*block(f'extern "C" __global__ void finish({head}, {sizes})', [*start, *body]), ""]


def finish_windows(form: ConvolutionForm, read: Sequence[str], apply: Sequence[str]) -> list[str]:
    """The finishing pass's body where windows are combined."""
    join = "best = fmaxf(best, v);" if form.combine == "max" else "best += v;"
    inner = [
        f"const int at = (i / (px_h * px_w) * out_h + i / px_w % px_h * {form.window} + k / {form.window}) * out_w",
        f"    + i % px_w * {form.window} + k % {form.window};",
        *read, *apply, join,
    ]  # fmt: skip
    body = ["const int c = i / (px_h * px_w) % c_out;", *channel_values(form, "c")]
    body += [f"float best = {'-INF' if form.combine == 'max' else '0.0f'};"]
    body += nested([f"for (int k = 0; k < {form.window**2}; ++k)"], inner)
    if form.total:
        return [*body, "const float v = best;", f"mine = {as_cuda(form.after)};"]
    return [*body, "put(y + i, best);"]


def run_head(form: ConvolutionForm) -> list[str]:
    """Signature and shape lines of `run`."""
    return [f"def run({', '.join(['x', 'weight', *form.channel_inputs])}):", *indent(shapes(form))]


def finish_launch(form: ConvolutionForm) -> list[str]:
    """Lines of `run` that launch the finishing pass on `buffer` and return the answer."""
    outs = extents(form, "out")
    extra = "".join(f"{name}, " for name in form.channel_inputs)
    raw = f"n * c_out * {product(outs)}"
    if form.total:
        return [
            f"px_h, px_w = out_h // {form.window}, out_w // {form.window}",
            "count = c_out * px_h * px_w",
            "parts = (count + 255) // 256",
            "partial = torch.empty((n, parts), device=x.device, dtype=torch.float32)",
            'module.launch("finish", grid=(parts, 1, n), block=256, '
            f"args=(buffer, {extra}partial, count, c_out, {raw}, out_h, out_w, px_h, px_w))",
            *total_launch("parts"),
        ]
    sizes = product(outs)
    lines = []
    shape = f"(n, {'1' if form.over_channels else 'c_out'}, {', '.join(outs)})"
    if form.window > 1:
        lines.append(f"px_h, px_w = out_h // {form.window}, out_w // {form.window}")
        shape, sizes = "(n, c_out, px_h, px_w)", "out_h, out_w, px_h, px_w"
    return [
        *lines,
        f"y = torch.empty({shape}, device=x.device, dtype=x.dtype)",
        'module.launch("finish", grid=(y.numel() + 255) // 256, block=256, '
        f"args=(buffer, {extra}y, y.numel(), c_out, {raw}, {sizes}))",
        "return y",
    ]


def total_launch(count: str) -> list[str]:
    """Lines of `run` that sum `partial` and return the answer."""
    return [
        "y = torch.empty((n,), device=x.device, dtype=x.dtype)",
        f'module.launch("total", grid=n, block=256, args=(partial, y, {count}))',
        "return y",
    ]
