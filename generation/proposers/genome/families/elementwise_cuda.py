"""CUDA kernels for activations, gated units and rotary embeddings: one pass over memory, walked in several ways."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.activation_forms import CUDA, GATES, body, forms
from kbench.generation.proposers.genome.families.cuda_parts import BF16, LOADS, STORES, packs
from kbench.generation.proposers.genome.families.templated import CUDA_HEAD, pick, shape
from kbench.generation.proposers.genome.family import Family, Gene, Genome
from kbench.generation.proposers.genome.template import render
from kbench.schemas import Backend

WALKS = ("single", "unrolled", "strided", "coarse", "rows", "batched", "staged")

# Each step handles V work items from index i, which starts a pack; `width` is a multiple of V.
UNARY = """
    Pack<float, V> a = load_pack<float, V>(x + i);
#pragma unroll
    for (int e = 0; e < V; ++e) a.d[e] = activation(a.d[e]);
    store_pack<float, V>(y + i, a);
"""
GATED = """
%% if problem == "swiglu"
    const int at = i + (i / width) * width;
    Pack<bf16, V> a = load_pack<bf16, V>(x + at);
    const Pack<bf16, V> b = load_pack<bf16, V>(x + at + width);
%% else
    Pack<bf16, V> a = load_pack<bf16, V>(gate + i);
    const Pack<bf16, V> b = load_pack<bf16, V>(up + i);
%% endif
#pragma unroll
    for (int e = 0; e < V; ++e) a.d[e] = narrow(activation(wide(a.d[e])) * wide(b.d[e]));
    store_pack<bf16, V>(y + i, a);
"""
ROTATE_PAIRS = """
    const int r = i / width, c = i - r * width;
    const int at = i + r * width;
    const int t = ((r / heads) % length) * width + c;
    Pack<bf16, V> a = load_pack<bf16, V>(x + at);
    Pack<bf16, V> b = load_pack<bf16, V>(x + at + width);
    const Pack<float, V> cosine = load_pack<float, V>(cos + t);
    const Pack<float, V> sine = load_pack<float, V>(sin + t);
#pragma unroll
    for (int e = 0; e < V; ++e) {
        const float first = wide(a.d[e]), second = wide(b.d[e]);
        a.d[e] = narrow(first * cosine.d[e] - second * sine.d[e]);
        b.d[e] = narrow(second * cosine.d[e] + first * sine.d[e]);
    }
    store_pack<bf16, V>(y + at, a);
    store_pack<bf16, V>(y + at + width, b);
"""
ROTATE_SINGLES = """
    const int r = i / (2 * width), c = i - r * 2 * width;
    const bool left = c < width;
    const int t = ((r / heads) % length) * width + (left ? c : c - width);
    Pack<bf16, V> a = load_pack<bf16, V>(x + i);
    const Pack<bf16, V> b = load_pack<bf16, V>(x + (left ? i + width : i - width));
    const Pack<float, V> cosine = load_pack<float, V>(cos + t);
    const Pack<float, V> sine = load_pack<float, V>(sin + t);
    const float sign = left ? -1.0f : 1.0f;
#pragma unroll
    for (int e = 0; e < V; ++e) a.d[e] = narrow(wide(a.d[e]) * cosine.d[e] + sign * wide(b.d[e]) * sine.d[e]);
    store_pack<bf16, V>(y + i, a);
"""
INPUTS = {
    "swiglu": ("const bf16* __restrict__ x", "x", "bf16"),
    "geglu": ("const bf16* __restrict__ gate, const bf16* __restrict__ up", "gate, up", "bf16"),
    "rope": (
        "const bf16* __restrict__ x, const float* __restrict__ cos, const float* __restrict__ sin",
        "x, cos, sin",
        "bf16",
    ),
}

SOURCE = """
module = CudaModule(
    r'''
${parts}
%% if activation
__device__ __forceinline__ float activation(float v) {
${activation}
}
%% endif

template <int V>
__device__ __forceinline__ void step(${parameters}, ${kind}* __restrict__ y, int i, int width, int heads, int length) {
${step}
}

template <int V>
__global__ void __launch_bounds__(${threads}) kernel(
    ${parameters}, ${kind}* __restrict__ y, int n, int width, int heads, int length) {
%% if walk == "single"
    const int i = (blockIdx.x * ${threads} + threadIdx.x) * V;
    if (i < n) step<V>(${names}, y, i, width, heads, length);
%% elif walk == "unrolled"
    const int base = blockIdx.x * (${threads} * ${unroll}) + threadIdx.x;
#pragma unroll
    for (int k = 0; k < ${unroll}; ++k) {
        const int i = (base + k * ${threads}) * V;
        if (i < n) step<V>(${names}, y, i, width, heads, length);
    }
%% elif walk == "strided"
    const int pace = gridDim.x * ${threads} * V;
#pragma unroll ${unroll}
    for (int i = (blockIdx.x * ${threads} + threadIdx.x) * V; i < n; i += pace)
        step<V>(${names}, y, i, width, heads, length);
%% elif walk == "coarse"
    const int base = (blockIdx.x * ${threads} + threadIdx.x) * ${unroll};
#pragma unroll
    for (int k = 0; k < ${unroll}; ++k) {
        const int i = (base + k) * V;
        if (i < n) step<V>(${names}, y, i, width, heads, length);
    }
%% elif walk == "rows"
    const int begin = blockIdx.x * width;
    for (int c = threadIdx.x * V; c < width; c += ${threads} * V)
        step<V>(${names}, y, begin + c, width, heads, length);
%% elif walk == "batched"
    const int base = blockIdx.x * (${threads} * ${unroll}) + threadIdx.x;
    Pack<float, V> held[${unroll}];
#pragma unroll
    for (int k = 0; k < ${unroll}; ++k) {
        const int i = (base + k * ${threads}) * V;
        if (i < n) held[k] = load_pack<float, V>(x + i);
    }
#pragma unroll
    for (int k = 0; k < ${unroll}; ++k) {
        const int i = (base + k * ${threads}) * V;
#pragma unroll
        for (int e = 0; e < V; ++e) held[k].d[e] = activation(held[k].d[e]);
        if (i < n) store_pack<float, V>(y + i, held[k]);
    }
%% else
    __shared__ __align__(16) float staged[${unroll} * ${threads} * V];
    const int base = blockIdx.x * (${threads} * ${unroll}) + threadIdx.x;
    constexpr int WORD = V * 4 > 16 ? 16 : V * 4;
#pragma unroll
    for (int k = 0; k < ${unroll}; ++k) {
        const int i = (base + k * ${threads}) * V;
        float* place = staged + (k * ${threads} + threadIdx.x) * V;
        if (i < n) {
#pragma unroll
            for (int b = 0; b < V * 4; b += WORD) {
                const unsigned int address = (unsigned int)__cvta_generic_to_shared(place + b / 4);
                asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(x + i + b / 4), "n"(WORD));
            }
        }
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
#pragma unroll
    for (int k = 0; k < ${unroll}; ++k) {
        const int i = (base + k * ${threads}) * V;
        const float* place = staged + (k * ${threads} + threadIdx.x) * V;
        Pack<float, V> a;
#pragma unroll
        for (int e = 0; e < V; ++e) a.d[e] = activation(place[e]);
        if (i < n) store_pack<float, V>(y + i, a);
    }
%% endif
}
''',
    names=(${exported}),
)


def run(${names}):
%% if problem == "swiglu"
    width = x.shape[1] // 2
    y = torch.empty((x.shape[0], width), dtype=x.dtype, device=x.device)
    n, heads, length = y.numel(), 1, 1
    packed = width % ${vector} == 0
%% elif problem == "geglu"
    y = torch.empty_like(gate)
    n, width, heads, length = y.numel(), gate.shape[1], 1, 1
    packed = ${"width" if walk == "rows" else "n"} % ${vector} == 0
%% elif problem == "rope"
    y = torch.empty_like(x)
    length, heads, width = x.shape[1], x.shape[2], x.shape[3] // 2
    n = x.numel()${" // 2" if pairs else ""}
    packed = width % ${vector} == 0
%% else
    y = torch.empty_like(x)
    n, width, heads, length = x.numel(), x.shape[1], 1, 1
    packed = ${"width" if walk == "rows" else "n"} % ${vector} == 0
%% endif
    vector = ${vector} if packed else 1
%% if walk == "rows"
    grid = n // width
%% else
    grid = (n // vector + ${per_block - 1}) // ${per_block}
%% endif
%% if walk == "strided"
    grid = min(grid, torch.cuda.get_device_properties(y.device).multi_processor_count * ${per_sm})
%% endif
    module.launch(f"kernel<{vector}>", grid=grid, block=${threads}, args=(${names}, y, n, width, heads, length))
    return y
"""

PROBLEMS = (*CUDA, *GATES, "rope")


def _walks(problem_id: str) -> tuple[str, ...]:
    if problem_id in CUDA:
        return WALKS
    return WALKS[:4] if problem_id == "rope" else WALKS[:5]


def genes(problem_id: str) -> tuple[Gene, ...]:
    """Walk, form and pack width change the code; the rest its numbers and hints."""
    return (
        shape("walk", *_walks(problem_id)),
        shape("form", *(("pairs", "singles") if problem_id == "rope" else forms(CUDA, problem_id))),
        shape("vector", 1, 2, 4, 8),
        shape("load", *LOADS),
        shape("store", *STORES),
        pick("threads", 64, 128, 256, 512, 1024),
        pick("unroll", 2, 4, 8),
        pick("per_sm", 1, 2, 4, 8, 16),
    )


def invalid(problem_id: str, genome: Genome) -> str | None:
    """More threads, registers or shared memory than there are."""
    threads, unroll, vector = int(genome["threads"]), int(genome["unroll"]), int(genome["vector"])
    if genome["walk"] == "staged" and threads * unroll * vector * 4 > 48 * 1024:
        return "more than 48 KiB of shared memory"
    if genome["walk"] == "batched" and unroll * vector > 32:
        return "more than 32 elements a thread"
    if genome["walk"] == "strided" and int(genome["per_sm"]) * threads > 2048:
        return "more threads than an SM holds"
    return None


def text(problem_id: str, genome: Genome) -> str:
    """Kernel source."""
    walk, form, vector = str(genome["walk"]), str(genome["form"]), int(genome["vector"])
    pairs = form != "singles"
    step = {"rope": ROTATE_PAIRS if pairs else ROTATE_SINGLES}.get(problem_id, GATED if problem_id in GATES else UNARY)
    parameters, names, kind = INPUTS.get(problem_id, ("const float* __restrict__ x", "x", "float"))
    parts = packs(str(genome["load"]), str(genome["store"]))
    exported = dict.fromkeys((f'"kernel<{vector}>"', '"kernel<1>"'))
    per_thread = int(genome["unroll"]) if walk in ("unrolled", "coarse", "batched", "staged") else 1
    return CUDA_HEAD + render(
        SOURCE,
        problem=problem_id,
        parts=((BF16 if kind == "bf16" else "") + parts).strip("\n"),
        activation=body(CUDA, problem_id, form) if problem_id != "rope" else "",
        parameters=parameters,
        names=names,
        kind=kind,
        step=render(step, problem=problem_id).strip("\n"),
        exported=", ".join(exported) + ("," if len(exported) == 1 else ""),
        pairs=pairs,
        per_block=int(genome["threads"]) * per_thread,
        **{name: genome[name] for name in ("walk", "vector", "threads", "unroll", "per_sm")},
    )


FAMILIES = (
    Family(
        name="elementwise_cuda",
        backend=Backend.CUDA,
        problems=PROBLEMS,
        genes=genes,
        render=text,
        invalid=invalid,
    ),
)
