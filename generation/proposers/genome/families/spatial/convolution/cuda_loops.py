"""How CUDA convolutions accumulate: a register tile per thread, or a block's tile staged through shared memory."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.spatial.convolution import cuda_parts as parts
from kbench.generation.proposers.genome.families.spatial.convolution.form import ConvolutionForm
from kbench.generation.proposers.genome.families.spatial.parts.cuda import block, nested
from kbench.generation.proposers.genome.families.spatial.parts.lines import product
from kbench.generation.proposers.genome.family import Genome


def tap_loops(form: ConvolutionForm, genome: Genome) -> list[str]:
    """Loop heads over the taps."""
    phased = bool(genome.get("phased"))
    pragma = "#pragma unroll\n" if genome["taps"] == "unrolled" and not phased else "#pragma unroll 1\n"
    heads = []
    for axis, taps in zip(form.axes, form.taps, strict=True):
        first, step = (f"first_{axis}", f"k{axis} += {form.stride}") if phased else ("0", f"++k{axis}")
        heads.append(f"{pragma}for (int k{axis} = {first}; k{axis} < {taps}; {step})")
    return heads


def direct_setup(form: ConvolutionForm, genome: Genome) -> list[str]:
    """The pixels of a thread: which exist, where they go, and where their windows start."""
    kept = ["pixel"] if form.transposed else ["pixel", "corner"]
    coordinates = list(form.axes) if form.transposed else []
    step = "threadIdx.x * TP + j" if genome["pixels"] == "adjacent" else "threadIdx.x + j * THREADS"
    body = [
        f"const int p = blockIdx.x * (THREADS * TP) + {step};",
        "exists[j] = p < pixels;",
        *parts.pixel_lines(form, bool(genome.get("phased")), "exists[j] ? p : 0"),
        *(f"{name}s[j] = {name};" for name in kept),
        *(f"at_{axis}[j] = {axis};" for axis in coordinates),
    ]
    arrays = ", ".join([*(f"{name}s[TP]" for name in kept), *(f"at_{axis}[TP]" for axis in coordinates)])
    return [f"int {arrays};", "bool exists[TP];", *nested(["#pragma unroll\nfor (int j = 0; j < TP; ++j)"], body)]


def direct_channels(form: ConvolutionForm, genome: Genome, first: str) -> list[str]:
    """The channels of a thread from `first` on, and their weights in shared memory where the genome stages them."""
    count = "group_out" if form.groups > 1 else "c_out"
    lines = [f"const int c0 = {first};"]
    if genome["weights"] == "global":
        return lines
    index = parts.weight_index(form, f"min(c0 + e % TC, {count} - 1)", "e / TC / TAPS", "e / TC % TAPS")
    span = "group_in" if form.groups > 1 else "c_in"
    fill = nested(
        [f"for (int e = threadIdx.x; e < {span} * TAPS * TC; e += THREADS)"], [f"staged[e] = wide(weight[{index}]);"]
    )
    # The first barrier keeps the last group's weights until every thread is done with them.
    return [*lines, "__syncthreads();", *fill, "__syncthreads();"]


def direct_loop(form: ConvolutionForm, genome: Genome) -> list[str]:
    """Accumulates one tap of one input channel at a time into acc[TC][TP]."""
    count = "group_out" if form.groups > 1 else "c_out"
    if genome["weights"] == "shared":
        fetch = "const float f = staged[(ci * TAPS + tap) * TC + i];"
    else:
        fetch = f"const float f = wide(weight[{parts.weight_index(form, f'min(c0 + i, {count} - 1)', 'ci', 'tap')}]);"
    group = "group * group_in + " if form.groups > 1 else ""
    source = f"const T* source = x + (size_t)(n * c_in + {group}ci) * in_plane;"
    corner = "corners[j] + shift" if form.window > 1 else "corners[j]"
    value = parts.tap_value(form, bool(genome.get("phased")), "at_{}[j]", "source", corner)
    body = [
        f"const int tap = {parts.tap_number(form)};",
        "float values[TP];",
        *nested(["#pragma unroll\nfor (int j = 0; j < TP; ++j)"], [*value, "values[j] = value;"]),
        *nested(
            ["#pragma unroll\nfor (int i = 0; i < TC; ++i)"],
            [fetch, "#pragma unroll", "for (int j = 0; j < TP; ++j) acc[i][j] = fmaf(f, values[j], acc[i][j]);"],
        ),
    ]
    channels = "#pragma unroll 1\nfor (int ci = ci_first; ci < ci_last; ++ci)"
    loops = tap_loops(form, genome)
    if genome["order"] == "channels_outer":
        return nested([channels], [source, *nested(loops, body)])
    return nested([*loops, channels], [source, *body])


def staged_setup(form: ConvolutionForm, genome: Genome) -> list[str]:
    """Shared memory of a staged tile, and the table of its pixels."""
    buffers = 2 if genome["buffers"] == "double" else 1
    coordinates = [f"at_{axis}[BP]" for axis in form.axes] if form.transposed else ["corners[BP]"]
    body = parts.pixel_lines(form, bool(genome.get("phased")), "min(int(blockIdx.x) * BP + e, pixels - 1)")
    body.append("places[e] = pixel;")
    body += [f"at_{axis}[e] = {axis};" for axis in form.axes] if form.transposed else ["corners[e] = corner;"]
    return [
        f"__shared__ float ws[{buffers}][BK][BC + {genome['pad']}];",
        f"__shared__ float xs[{buffers}][BK][BP];",
        f"__shared__ int places[BP], {', '.join(coordinates)};",
        *nested(["for (int e = threadIdx.x; e < BP; e += THREADS)"], body),
        "const int tp = threadIdx.x % (BP / TP), tc = threadIdx.x / (BP / TP);",
        "__syncthreads();",
    ]


def staged_fill(form: ConvolutionForm, genome: Genome, corner: str, buffer: str, start: str) -> list[str]:
    """Fills one buffer with BK products' weights and inputs, starting at product `start`."""
    phased = bool(genome.get("phased"))
    count = "group_out" if form.groups > 1 else "c_out"
    taps = [f"count_{a}" if phased else str(t) for a, t in zip(form.axes, form.taps, strict=True)]
    number = "(" + product(taps) + ")"
    decode = [f"const int ci = k / {number};"]
    for position, axis in enumerate(form.axes):
        below = product(taps[position + 1 :])
        text = f"k / ({below})" if below else "k"
        place = f"{text} % {taps[position]}"
        decode.append(
            f"const int k{axis} = " + (f"first_{axis} + {form.stride} * ({place});" if phased else f"{place};")
        )
    group = "group * group_in + " if form.groups > 1 else ""
    value = parts.tap_value(form, phased, "at_{}[pp]", "source", corner)
    weight = parts.weight_index(form, "(c0 + cc)", "ci", parts.tap_number(form))
    load_weight = [
        "const int kk = e % BK, cc = e / BK, k = " + start + " + kk;",
        "float f = 0.0f;",
        *block(f"if (k < k_last && c0 + cc < {count})", [*decode, f"f = wide(weight[{weight}]);"]),
        f"ws[{buffer}][kk][cc] = f;",
    ]
    load_value = [
        "const int pp = e % BP, kk = e / BP, k = " + start + " + kk;",
        "float f = 0.0f;",
        *block(
            "if (k < k_last)",
            [*decode, f"const T* source = x + (size_t)(n * c_in + {group}ci) * in_plane;", *value, "f = value;"],
        ),
        f"xs[{buffer}][kk][pp] = f;",
    ]
    return [
        *nested(["for (int e = threadIdx.x; e < BK * BC; e += THREADS)"], load_weight),
        *nested(["for (int e = threadIdx.x; e < BK * BP; e += THREADS)"], load_value),
    ]


def staged_multiply(genome: Genome, buffer: str) -> list[str]:
    """Adds one buffer's products to acc[TC][TP]."""
    pixel = "tp * TP + j" if genome["pixels"] == "adjacent" else "tp + j * (BP / TP)"
    return nested(
        ["#pragma unroll\nfor (int kk = 0; kk < BK; ++kk)"],
        [
            "float f[TC], v[TP];",
            "#pragma unroll",
            f"for (int i = 0; i < TC; ++i) f[i] = ws[{buffer}][kk][tc * TC + i];",
            "#pragma unroll",
            f"for (int j = 0; j < TP; ++j) v[j] = xs[{buffer}][kk][{pixel}];",
            *nested(
                ["#pragma unroll\nfor (int i = 0; i < TC; ++i)"],
                ["#pragma unroll", "for (int j = 0; j < TP; ++j) acc[i][j] = fmaf(f[i], v[j], acc[i][j]);"],
            ),
        ],
    )


def staged_loop(form: ConvolutionForm, genome: Genome) -> list[str]:
    """Accumulates BK products at a time through shared memory."""
    number = product([f"count_{a}" for a in form.axes]) if genome.get("phased") else str(form.tap_count)
    corner = "corners[pp] + shift" if form.window > 1 else "corners[pp]"
    lines = [f"const int k_first = ci_first * ({number}), k_last = ci_last * ({number});"]
    if genome["buffers"] == "single":
        body = [*staged_fill(form, genome, corner, "0", "k0"), "__syncthreads();", *staged_multiply(genome, "0")]
        return [*lines, *nested(["for (int k0 = k_first; k0 < k_last; k0 += BK)"], [*body, "__syncthreads();"])]
    ahead = nested(["if (k0 + BK < k_last)"], staged_fill(form, genome, corner, "1 - buffer", "(k0 + BK)"))
    body = [*ahead, *staged_multiply(genome, "buffer"), "__syncthreads();", "buffer = 1 - buffer;"]
    lines += ["int buffer = 0;", *staged_fill(form, genome, corner, "0", "k_first"), "__syncthreads();"]
    return [*lines, *nested(["for (int k0 = k_first; k0 < k_last; k0 += BK)"], body)]
