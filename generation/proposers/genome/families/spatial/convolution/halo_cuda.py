"""Convolutions in CUDA that stage an input tile with its halo, and the filters, in shared memory."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.spatial.convolution import cuda_parts as parts
from kbench.generation.proposers.genome.families.spatial.convolution.cuda_parts import as_cuda
from kbench.generation.proposers.genome.families.spatial.convolution.form import FORMS, ConvolutionForm, inner_form
from kbench.generation.proposers.genome.families.spatial.parts.cuda import HEADER, block, nested
from kbench.generation.proposers.genome.families.spatial.parts.lines import extents, indent, nest, product
from kbench.generation.proposers.genome.family import Family, Gene, Genome
from kbench.schemas import Backend

PROBLEMS = tuple(name for name, form in FORMS.items() if not form.transposed)


def reach(form: ConvolutionForm, axis: str, outputs: int) -> int:
    """Inputs along an axis that a run of outputs meets."""
    if axis not in form.axes:
        return 1
    return (outputs - 1) * form.stride + form.dilation * (form.taps[form.axes.index(axis)] - 1) + 1


def taps_along(form: ConvolutionForm, axis: str) -> int:
    """Taps along an axis, one where the form has no such axis."""
    return form.taps[form.axes.index(axis)] if axis in form.axes else 1


def block_numbers(form: ConvolutionForm) -> list[str]:
    """Which tile of which image, and which channels, a block has."""
    lines = ["const int across = (out_w + TW - 1) / TW;", "const int w0 = blockIdx.x % across * TW;"]
    lines.append("const int h0 = blockIdx.x / across * TH;" if "h" in form.axes else "const int h0 = 0;")
    if "d" in form.axes:
        lines += ["const int n = blockIdx.z / out_d, d = blockIdx.z % out_d;"]
    else:
        lines.append("const int n = blockIdx.z;")
    lines += ["const int c0 = blockIdx.y * TC;", "const int tx = threadIdx.x % TX, ty = threadIdx.x / TX;"]
    lines += [f"const int in_plane = {product(extents(form, 'in'))};"]
    return [*lines, f"const int out_plane = {product(extents(form, 'out'))};"]


def fill(form: ConvolutionForm) -> list[str]:
    """Loads CK channels of the input tile and of the filters."""
    stride = f" * {form.stride}" if form.stride > 1 else ""
    step = f" * {form.dilation}" if form.dilation > 1 else ""
    lines = ["const int ci = first + e / (IW * IH * KD);", f"const int c = w0{stride} + e % IW;"]
    ok, place = ["ci < c_in", "c < in_w"], ["c"]
    if "h" in form.axes:
        lines.append(f"const int r = h0{stride} + e / IW % IH;")
        ok, place = [*ok, "r < in_h"], ["r", "c"]
    if "d" in form.axes:
        place = [f"(d{stride} + e / (IW * IH) % KD{step})", *place]
    at = nest(place, extents(form, "in"))
    lines.append(f"tile[e] = {' && '.join(ok)} ? wide(x[(size_t)(n * c_in + ci) * in_plane + {at}]) : 0.0f;")
    weights = ["const int ci = first + e / (TC * TAPS);"]
    index = "(min(c0 + e % TC, c_out - 1) * c_in + ci) * TAPS + e / TC % TAPS"
    weights.append(f"filters[e] = ci < c_in ? wide(weight[{index}]) : 0.0f;")
    return [
        *nested(["for (int e = threadIdx.x; e < CK * KD * IH * IW; e += THREADS)"], lines),
        *nested(["for (int e = threadIdx.x; e < CK * TAPS * TC; e += THREADS)"], weights),
    ]


def accumulate(form: ConvolutionForm, genome: Genome) -> list[str]:
    """Adds CK channels' products from shared memory to acc[TC][EX]."""
    stride = f" * {form.stride}" if form.stride > 1 else ""
    step = f" * {form.dilation}" if form.dilation > 1 else ""
    column = "(tx * EX + j)" if genome["pixels"] == "adjacent" else "(tx + j * TX)"
    row = f"ty{stride} + kh{step}" if "h" in form.axes else "0"
    at = f"((cc * KD + {'kd' if 'd' in form.axes else '0'}) * IH + {row}) * IW + {column}{stride} + kw{step}"
    tap = nest([f"k{axis}" for axis in form.axes], [str(t) for t in form.taps])
    body = [
        "float values[EX];",
        *nested(["#pragma unroll\nfor (int j = 0; j < EX; ++j)"], [f"values[j] = tile[{at}];"]),
        *nested(
            ["#pragma unroll\nfor (int i = 0; i < TC; ++i)"],
            [
                f"const float f = filters[(cc * TAPS + {tap}) * TC + i];",
                "#pragma unroll",
                "for (int j = 0; j < EX; ++j) acc[i][j] = fmaf(f, values[j], acc[i][j]);",
            ],
        ),
    ]
    pragma = "#pragma unroll" if genome["taps"] == "unrolled" else "#pragma unroll 1"
    loops = [f"{pragma}\nfor (int k{a} = 0; k{a} < {t}; ++k{a})" for a, t in zip(form.axes, form.taps, strict=True)]
    return nested(["#pragma unroll 1\nfor (int cc = 0; cc < CK; ++cc)", *loops], body)


def convolve_body(form: ConvolutionForm, genome: Genome) -> list[str]:
    """The convolution function's body."""
    column = "tx * EX + j" if genome["pixels"] == "adjacent" else "tx + j * TX"
    coordinates = [f"const int w = w0 + {column};"]
    ok = "w < out_w"
    if "h" in form.axes:
        coordinates.append("const int h = h0 + ty;")
        ok += " && h < out_h"
    apply = ["float v = acc[i][j];", *([f"v = {as_cuda(form.before)};"] if form.before != "v" else [])]
    target = f"y + (size_t)(n * c_out + c) * out_plane + {nest(form.axes, extents(form, 'out'))}"
    store = [*coordinates, *block(f"if ({ok})", [*apply, f"put({target}, v);"])]
    named = ["const int c = c0 + i;", *parts.channel_values(form, "min(c, c_out - 1)")]
    loop = [*fill(form), "__syncthreads();", *accumulate(form, genome), "__syncthreads();"]
    return [
        *block_numbers(form),
        "__shared__ float tile[CK * KD * IH * IW], filters[CK * TAPS * TC];",
        "float acc[TC][EX];",
        *nested(
            ["#pragma unroll\nfor (int i = 0; i < TC; ++i)", "#pragma unroll\nfor (int j = 0; j < EX; ++j)"],
            ["acc[i][j] = 0.0f;"],
        ),
        *nested(["#pragma unroll 1\nfor (int first = 0; first < c_in; first += CK)"], loop),
        *nested(
            ["#pragma unroll\nfor (int i = 0; i < TC; ++i)"],
            [*named, *block("if (c < c_out)", nested(["#pragma unroll\nfor (int j = 0; j < EX; ++j)"], store))],
        ),
    ]


def measures(form: ConvolutionForm, genome: Genome) -> dict[str, int]:
    """Every size a function is compiled for."""
    tw, th, ex = int(genome["tw"]), int(genome["th"]), int(genome["ex"])
    return {
        "TW": tw, "TH": th, "EX": ex, "TX": tw // ex, "THREADS": tw // ex * th, "TC": int(genome["tc"]),
        "CK": int(genome["ck"]), "KD": taps_along(form, "d"), "IH": reach(form, "h", th), "IW": reach(form, "w", tw),
        "TAPS": form.tap_count,
    }  # fmt: skip


def render(problem: str, genome: Genome) -> str:
    """Kernel source."""
    form, finishing = inner_form(problem, genome)
    full = FORMS[problem]
    names = measures(form, genome)
    code = [*parts.preamble(full, genome), *(f"#define {name} {value}" for name, value in names.items())]
    code += [f"typedef {'float' if finishing else 'T'} OUT;", ""]
    head = f'extern "C" __global__ void __launch_bounds__(THREADS) convolve({parts.parameters(form)})'
    code += [*block(head, convolve_body(form, genome)), ""]
    code += parts.finish_source(full, 1) if finishing else []
    code += parts.TOTAL if full.total else []
    while not code[-1]:
        code.pop()
    outs = ", ".join(extents(form, "out"))
    target, dtype = ("buffer", "torch.float32") if finishing else ("y", "x.dtype")
    down = f" * ((out_h + {names['TH'] - 1}) // {names['TH']})" if "h" in form.axes else ""
    lines = [
        f"{target} = torch.empty((n, c_out, {outs}), device=x.device, dtype={dtype})",
        f"tiles = ((out_w + {names['TW'] - 1}) // {names['TW']}){down}",
        "module.launch(",
        '    "convolve",',
        f"    grid=(tiles, (c_out + {names['TC'] - 1}) // {names['TC']}, {'n * out_d' if 'd' in form.axes else 'n'}),",
        f"    block={names['THREADS']},",
        f"    args=({parts.arguments(form, target)}),",
        ")",
        *(parts.finish_launch(full) if finishing else ["return y"]),
    ]
    head_lines = [*HEADER, 'module = CudaModule(r"""', *code, '""")', "", ""]
    return "\n".join([*head_lines, *parts.run_head(full), *indent(lines)]) + "\n"


def genes(problem: str) -> tuple[Gene, ...]:
    """Genes of the family."""
    form = FORMS[problem]
    flat = len(form.axes) == 1
    genes = [
        Gene("pixels", ("adjacent", "strided"), structural=True),
        Gene("taps", ("unrolled", "looped"), structural=True),
        Gene("tw", (64, 128, 256, 512) if flat else (16, 32, 64)),
        Gene("th", (1,) if flat else (2, 4, 8, 16)),
        Gene("ex", (1, 2, 4)),
        Gene("tc", (2, 4, 8, 16, 32)),
        Gene("ck", (1, 2, 4, 8)),
    ]
    if form.has_epilogue:
        genes.append(Gene("epilogue", ("fused", "separate") if form.plain else ("separate",), structural=True))
    if any(f"{name}(" in form.before + form.after for name in ("tanh_", "sigmoid", "mish")):
        genes.append(Gene("math", ("precise", "fast")))
    return tuple(genes)


def invalid(problem: str, genome: Genome) -> str | None:
    """Blocks of a poor size and tiles that do not fit shared memory."""
    sizes = measures(FORMS[problem], genome)
    if not 64 <= sizes["THREADS"] <= 512:
        return f"{sizes['THREADS']} threads per block"
    if not 4 <= sizes["TC"] * sizes["EX"] <= 64:
        return f"{sizes['TC'] * sizes['EX']} accumulators per thread"
    if sizes["EX"] == 1 and genome["pixels"] == "strided":
        return "one pixel per thread has no stride"
    words = sizes["CK"] * (sizes["KD"] * sizes["IH"] * sizes["IW"] + sizes["TAPS"] * sizes["TC"])
    return "more than 48 KiB of shared memory" if 4 * words > 48 * 1024 else None


FAMILIES: tuple[Family, ...] = (
    Family(
        name="conv_halo_cuda",
        backend=Backend.CUDA,
        problems=PROBLEMS,
        genes=genes,
        render=render,
        invalid=invalid,
    ),
)
