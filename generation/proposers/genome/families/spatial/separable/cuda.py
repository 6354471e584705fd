"""Depthwise-separable convolutions in CUDA: fused per thread, fused per block, or in two passes."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.spatial.convolution.cuda_parts import HEADER, block, nested
from kbench.generation.proposers.genome.families.spatial.convolution.triton_parts import indent
from kbench.generation.proposers.genome.families.spatial.separable.triton import PROBLEM
from kbench.generation.proposers.genome.family import Family, Gene, Genome
from kbench.schemas import Backend

EACH_PIXEL = "#pragma unroll\nfor (int j = 0; j < TP; ++j)"
EACH_CHANNEL = "#pragma unroll\nfor (int i = 0; i < TC; ++i)"


def taps(genome: Genome, source: str, filters: str) -> list[str]:
    """Sums the nine taps at `source` into `value`."""
    pragma = "#pragma unroll" if genome["taps"] == "unrolled" else "#pragma unroll 1"
    heads = [f"{pragma}\nfor (int k{axis} = 0; k{axis} < 3; ++k{axis})" for axis in "hw"]
    return [
        "float value = 0.0f;",
        *nested(heads, [f"value = fmaf({filters}[kh * 3 + kw], {source}[kh * in_w + kw], value);"]),
    ]


def pixels(genome: Genome) -> list[str]:
    """The pixels of a thread: which exist, and where their windows start."""
    spot = "threadIdx.x * TP + j" if genome["pixels"] == "adjacent" else "threadIdx.x + j * THREADS"
    body = [
        f"const int p = blockIdx.x * (THREADS * TP) + {spot};",
        "exists[j] = p < plane;",
        "places[j] = exists[j] ? p : 0;",
        "corners[j] = places[j] / px_w * in_w + places[j] % px_w;",
    ]
    return [
        "const int plane = px_h * px_w;",
        "bool exists[TP];",
        "int places[TP], corners[TP];",
        *nested([EACH_PIXEL], body),
    ]


def mix(weight: str, value: str) -> list[str]:
    """One input channel's outer product onto acc[TC][TP]."""
    return nested(
        [EACH_CHANNEL],
        [f"const float f = {weight};", *nested([EACH_PIXEL], [f"acc[i][j] = fmaf(f, {value}, acc[i][j]);"])],
    )


def store() -> list[str]:
    """Stores the register tile."""
    target = "y[(size_t)(n * c_out + c0 + i) * plane + places[j]] = acc[i][j];"
    return nested([EACH_CHANNEL], block("if (c0 + i < c_out)", nested([EACH_PIXEL], [f"if (exists[j]) {target}"])))


CLEAR = ["float acc[TC][TP];", *nested([EACH_CHANNEL, EACH_PIXEL], ["acc[i][j] = 0.0f;"])]


def thread_body(genome: Genome) -> list[str]:
    """Every thread filters its own pixels for every input channel, for one group of output channels."""
    weight = "pointwise[min(c0 + i, c_out - 1) * c_in + ci]"
    lines = ["const int n = blockIdx.z, c0 = blockIdx.y * TC;", *pixels(genome)]
    if genome["weights"] == "shared":
        fill = "staged[e] = pointwise[min(c0 + e % TC, c_out - 1) * c_in + e / TC];"
        lines += ["extern __shared__ float staged[];"]
        lines += nested(["for (int e = threadIdx.x; e < c_in * TC; e += THREADS)"], [fill])
        lines.append("__syncthreads();")
        weight = "staged[ci * TC + i]"
    if genome["stages"] == "two_pass":
        value = ["values[j] = x[(size_t)(n * c_in + ci) * plane + places[j]];"]
    else:
        value = ["const float* from = x + (size_t)(n * c_in + ci) * in_h * in_w + corners[j];"]
        value += [*taps(genome, "from", "(depthwise + ci * 9)"), "values[j] = value;"]
    body = ["float values[TP];", *nested([EACH_PIXEL], value), *mix(weight, "values[j]")]
    return [*lines, *CLEAR, *nested(["for (int ci = 0; ci < c_in; ++ci)"], body), *store()]


def block_body(genome: Genome) -> list[str]:
    """A block filters its pixels once for all input channels, then walks over all output channels."""
    value = ["const float* from = x + (size_t)(n * c_in + ci) * in_h * in_w + corners[j];"]
    value += [*taps(genome, "from", "(depthwise + ci * 9)"), "staged[(ci * TP + j) * THREADS + threadIdx.x] = value;"]
    lines = ["const int n = blockIdx.z;", *pixels(genome), "extern __shared__ float staged[];"]
    lines += nested(["for (int ci = 0; ci < c_in; ++ci)", EACH_PIXEL], value)
    weight = "pointwise[min(c0 + i, c_out - 1) * c_in + ci]"
    inner = [
        *CLEAR,
        *nested(["for (int ci = 0; ci < c_in; ++ci)"], mix(weight, "staged[(ci * TP + j) * THREADS + threadIdx.x]")),
    ]
    # Each thread reads back only what it wrote itself, so no barrier is needed.
    return [*lines, *nested(["for (int c0 = 0; c0 < c_out; c0 += TC)"], [*inner, *store()])]


def depthwise_source(genome: Genome) -> list[str]:
    """The function that writes out the depthwise stage."""
    body = [
        "const int i = blockIdx.x * 256 + threadIdx.x;",
        "if (i >= count) return;",
        "const int plane = i / (px_h * px_w);",
        "const float* from = x + (size_t)(plane * in_h + i / px_w % px_h) * in_w + i % px_w;",
        *taps(genome, "from", "(depthwise + plane % c_in * 9)"),
        "z[i] = value;",
    ]
    head = 'extern "C" __global__ void filter_planes(const float* __restrict__ x, const float* __restrict__ depthwise, '
    return [
        *block(head + "float* __restrict__ z, int count, int c_in, int in_h, int in_w, int px_h, int px_w)", body),
        "",
    ]


def render(problem: str, genome: Genome) -> str:
    """Kernel source."""
    two = genome["stages"] == "two_pass"
    threads, tc, tp = int(genome["threads"]), int(genome["tc"]), int(genome["tp"])
    pointers = ["x", *([] if two else ["depthwise"]), "pointwise"]
    parameters = [f"const float* __restrict__ {name}" for name in pointers]
    parameters += [
        "float* __restrict__ y",
        *(f"int {name}" for name in ("c_in", "c_out", "in_h", "in_w", "px_h", "px_w")),
    ]
    head = f'extern "C" __global__ void __launch_bounds__(THREADS) mix({", ".join(parameters)})'
    code = [f"#define THREADS {threads}", f"#define TC {tc}", f"#define TP {tp}", ""]
    code += depthwise_source(genome) if two else []
    code += block(head, block_body(genome) if genome["stages"] == "per_block" else thread_body(genome))
    run = [
        "n, c_in, in_h, in_w = x.shape",
        "c_out = pointwise.shape[0]",
        "px_h, px_w = in_h - 2, in_w - 2",
        "y = torch.empty((n, c_out, px_h, px_w), device=x.device, dtype=x.dtype)",
    ]
    if two:
        run += [
            "z = torch.empty((n, c_in, px_h, px_w), device=x.device, dtype=x.dtype)",
            'module.launch("filter_planes", grid=(z.numel() + 255) // 256, block=256, '
            "args=(x, depthwise, z, z.numel(), c_in, in_h, in_w, px_h, px_w))",
        ]
    blocks = f"(px_h * px_w + {threads * tp - 1}) // {threads * tp}"
    groups = "1" if genome["stages"] == "per_block" else f"(c_out + {tc - 1}) // {tc}"
    given = "z, pointwise" if two else "x, depthwise, pointwise"
    shared = ""
    if genome["stages"] == "per_block":
        shared = f", shared_bytes={4 * threads * tp} * c_in"
    elif genome["weights"] == "shared":
        shared = f", shared_bytes={4 * tc} * c_in"
    run += [
        f'module.launch("mix", grid=({blocks}, {groups}, n), block={threads}, '
        f"args=({given}, y, c_in, c_out, in_h, in_w, px_h, px_w){shared})",
        "return y",
    ]
    lines = [*HEADER, 'module = CudaModule(r"""', *code, '""")', "", "", "def run(x, depthwise, pointwise):"]
    return "\n".join([*lines, *indent(run)]) + "\n"


def genes(problem: str) -> tuple[Gene, ...]:
    """Genes of the family."""
    return (
        Gene("stages", ("per_thread", "per_block", "two_pass"), structural=True),
        Gene("weights", ("global", "shared"), structural=True),
        Gene("taps", ("unrolled", "looped"), structural=True),
        Gene("pixels", ("adjacent", "strided"), structural=True),
        Gene("tc", (1, 2, 4, 8, 16, 32)),
        Gene("tp", (1, 2, 4)),
        Gene("threads", (64, 128, 256)),
    )


def invalid(problem: str, genome: Genome) -> str | None:
    """Register tiles that are too large, shared memory that does not fit, and genes that change nothing."""
    tc, tp = int(genome["tc"]), int(genome["tp"])
    if tc * tp > 64:
        return f"{tc * tp} accumulators a thread"
    if tp == 1 and genome["pixels"] == "strided":
        return "one pixel a thread has no stride"
    if genome["stages"] == "per_block":
        if genome["weights"] == "shared":
            return "a block that walks over all channels reads weights from memory"
        if int(genome["threads"]) * tp > 512:
            return "filtered pixels of 32 channels exceed 64 KiB"
    return None


FAMILIES: tuple[Family, ...] = (
    Family(
        name="separable_cuda",
        backend=Backend.CUDA,
        problems=(PROBLEM,),
        genes=genes,
        render=render,
        invalid=invalid,
    ),
)
