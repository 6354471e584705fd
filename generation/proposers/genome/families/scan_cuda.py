"""CUDA kernels for running sums and products along rows."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.cuda_parts import LOADS, STORES, packs
from kbench.generation.proposers.genome.families.rowwise_cuda import without_blank_lines_inside
from kbench.generation.proposers.genome.families.templated import CUDA_HEAD, pick, shape
from kbench.generation.proposers.genome.family import Family, Gene, Genome
from kbench.generation.proposers.genome.template import render
from kbench.schemas import Backend

ROW_PROBLEMS = ("cumsum", "cumprod", "cumsum_reverse", "masked_cumsum")

BLOCK_SCAN = """
typedef ${kind} value_t;
__device__ __forceinline__ value_t join(value_t a, value_t b) { return a ${"*" if product else "+"} b; }

__device__ __forceinline__ value_t warp_scan(value_t v) {
#pragma unroll
    for (int k = 1; k < 32; k <<= 1) {
        const value_t other = __shfl_up_sync(0xffffffffu, v, k);
        if ((threadIdx.x & 31) >= k) v = join(other, v);
    }
    return v;
}

// What comes before this thread's total, and the whole block's.
__device__ __forceinline__ value_t block_scan(value_t total, value_t& whole) {
%% if style == "shuffle"
    __shared__ value_t parts[32];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    const value_t inclusive = warp_scan(total);
    __syncthreads();
    if (lane == 31) parts[warp] = inclusive;
    __syncthreads();
    value_t before = ${neutral};
    whole = ${neutral};
    for (int k = 0; k < ${threads // 32}; ++k) {
        if (k == warp) before = whole;
        whole = join(whole, parts[k]);
    }
    const value_t left = __shfl_up_sync(0xffffffffu, inclusive, 1);
    return lane == 0 ? before : join(before, left);
%% else
    __shared__ value_t parts[2][${threads}];
    int from = 0;
    __syncthreads();
    parts[0][threadIdx.x] = total;
    __syncthreads();
    for (int k = 1; k < ${threads}; k <<= 1) {
        value_t v = parts[from][threadIdx.x];
        if (threadIdx.x >= k) v = join(parts[from][threadIdx.x - k], v);
        parts[1 - from][threadIdx.x] = v;
        from = 1 - from;
        __syncthreads();
    }
    whole = parts[from][${threads - 1}];
    return threadIdx.x == 0 ? ${neutral} : parts[from][threadIdx.x - 1];
%% endif
}
"""

ROWS = """
module = CudaModule(
    r'''
${parts}
template <int V>
__device__ __forceinline__ void fetch(${parameters}, int base, int j, int cols, float (&v)[V]) {
    const int at = base + ${"cols - V - j" if reverse else "j"};
    const Pack<float, V> a = load_pack<float, V>(x + at);
%% if masked
    const Pack<unsigned char, V> keep = load_pack<unsigned char, V>(mask + at);
%% endif
#pragma unroll
%% if masked
    for (int e = 0; e < V; ++e) v[e] = keep.d[e] ? a.d[e] : 0.0f;
%% else
    for (int e = 0; e < V; ++e) v[e] = a.d[${"V - 1 - e" if reverse else "e"}];
%% endif
}

template <int V>
__device__ __forceinline__ void emit(float* __restrict__ y, int base, int j, int cols, const float (&v)[V]) {
    Pack<float, V> a;
#pragma unroll
    for (int e = 0; e < V; ++e) a.d[${"V - 1 - e" if reverse else "e"}] = v[e];
    store_pack<float, V>(y + base + ${"cols - V - j" if reverse else "j"}, a);
}
%% macro own(lane, tab)
${tab}float v[${items}][V];
${tab}float total = ${neutral};
#pragma unroll
${tab}for (int k = 0; k < ${items}; ++k) {
${tab}    const int j = start + (${lane} * ${items} + k) * V;
#pragma unroll
${tab}    for (int e = 0; e < V; ++e) v[k][e] = ${neutral};
${tab}    if (j < end) fetch<V>(${names}, base, j, cols, v[k]);
#pragma unroll
${tab}    for (int e = 0; e < V; ++e) v[k][e] = total = join(total, v[k][e]);
${tab}}
%% endmacro
%% macro give(lane, tab)
#pragma unroll
${tab}for (int k = 0; k < ${items}; ++k) {
${tab}    const int j = start + (${lane} * ${items} + k) * V;
#pragma unroll
${tab}    for (int e = 0; e < V; ++e) v[k][e] = join(before, v[k][e]);
${tab}    if (j < end) emit<V>(y, base, j, cols, v[k]);
${tab}}
%% endmacro
%% if plan == "warp"

template <int V>
__global__ void __launch_bounds__(${threads}) kernel(${parameters}, float* __restrict__ y, int rows, int cols) {
    const int lane = threadIdx.x & 31, row = blockIdx.x * ${threads // 32} + (threadIdx.x >> 5);
    if (row >= rows) return;
    const int base = row * cols, end = cols;
    float carry = ${neutral};
    for (int start = 0; start < end; start += 32 * ${items} * V) {
${own("lane", "        ")}
        const float inclusive = warp_scan(total);
        const float left = __shfl_up_sync(0xffffffffu, inclusive, 1);
        const float before = lane == 0 ? carry : join(carry, left);
${give("lane", "        ")}
        carry = join(carry, __shfl_sync(0xffffffffu, inclusive, 31));
    }
}
%% elif plan == "staged"

template <int V>
__global__ void __launch_bounds__(${threads}) kernel(${parameters}, float* __restrict__ y, int rows, int cols) {
    __shared__ float stage[${threads} * ${items} * V];
    const int row = blockIdx.x, base = row * cols;
    float carry = ${neutral};
    for (int start = 0; start < cols; start += ${threads} * ${items} * V) {
        __syncthreads();
#pragma unroll
        for (int k = 0; k < ${items}; ++k) {
            const int at = (k * ${threads} + threadIdx.x) * V;
            float v[V];
#pragma unroll
            for (int e = 0; e < V; ++e) v[e] = ${neutral};
            if (start + at < cols) fetch<V>(${names}, base, start + at, cols, v);
#pragma unroll
            for (int e = 0; e < V; ++e) stage[at + e] = v[e];
        }
        __syncthreads();
        float* mine = stage + threadIdx.x * (${items} * V);
        float total = ${neutral};
#pragma unroll
        for (int e = 0; e < ${items} * V; ++e) mine[e] = total = join(total, mine[e]);
        float whole;
        const float before = join(carry, block_scan(total, whole));
#pragma unroll
        for (int e = 0; e < ${items} * V; ++e) mine[e] = join(before, mine[e]);
        carry = join(carry, whole);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < ${items}; ++k) {
            const int at = (k * ${threads} + threadIdx.x) * V;
            float v[V];
#pragma unroll
            for (int e = 0; e < V; ++e) v[e] = stage[at + e];
            if (start + at < cols) emit<V>(y, base, start + at, cols, v);
        }
    }
}
%% else
%% if plan == "two"

template <int V>
__global__ void __launch_bounds__(${threads}) totals(
    ${parameters}, float* __restrict__ found, int rows, int cols, int share) {
    const int row = blockIdx.x, base = row * cols;
    const int begin = blockIdx.y * share, end = min(begin + share, cols);
    float total = ${neutral};
    float whole = ${neutral};
    for (int j = begin + threadIdx.x * V; j < end; j += ${threads} * V) {
        float v[V];
        fetch<V>(${names}, base, j, cols, v);
#pragma unroll
        for (int e = 0; e < V; ++e) total = join(total, v[e]);
    }
    block_scan(total, whole);
    if (threadIdx.x == 0) found[row * gridDim.y + blockIdx.y] = whole;
}
%% endif

template <int V>
__global__ void __launch_bounds__(${threads}) kernel(
    ${parameters}, float* __restrict__ y, const float* __restrict__ found, int rows, int cols, int share) {
%% if schedule == "persistent"
    for (int row = blockIdx.x; row < rows; row += gridDim.x) {
%% else
    const int row = blockIdx.x;
    {
%% endif
        const int base = row * cols, begin = blockIdx.y * share, end = min(begin + share, cols);
        float carry = ${neutral};
%% if plan == "two"
        for (int k = 0; k < blockIdx.y; ++k) carry = join(carry, found[row * gridDim.y + k]);
%% endif
        for (int start = begin; start < end; start += ${threads} * ${items} * V) {
${own("threadIdx.x", "            ")}
            float whole;
            const float before = join(carry, block_scan(total, whole));
${give("threadIdx.x", "            ")}
            carry = join(carry, whole);
        }
    }
}
%% endif
''',
    names=(${exported}),
)


def run(x${", mask" if masked else ""}):
    y = torch.empty_like(x)
    rows, cols = x.shape
    vector = ${vector} if cols % ${vector} == 0 else 1
%% if plan == "warp"
    grid = (rows + ${threads // 32 - 1}) // ${threads // 32}
    module.launch(f"kernel<{vector}>", grid=grid, block=${threads}, args=(${names}, y, rows, cols))
%% elif plan == "staged"
    module.launch(f"kernel<{vector}>", grid=rows, block=${threads}, args=(${names}, y, rows, cols))
%% elif plan == "two"
    share = ((cols + ${split - 1}) // ${split} + vector - 1) // vector * vector
    found = torch.empty((rows, ${split}), dtype=torch.float32, device=x.device)
    grid = (rows, ${split})
    module.launch(f"totals<{vector}>", grid=grid, block=${threads}, args=(${names}, found, rows, cols, share))
    module.launch(f"kernel<{vector}>", grid=grid, block=${threads}, args=(${names}, y, found, rows, cols, share))
%% else
    grid = rows
%% if schedule == "persistent"
    grid = min(rows, torch.cuda.get_device_properties(x.device).multi_processor_count * ${per_sm})
%% endif
    module.launch(f"kernel<{vector}>", grid=grid, block=${threads}, args=(${names}, y, x, rows, cols, cols))
%% endif
    return y
"""


def row_genes(problem_id: str) -> tuple[Gene, ...]:
    """How a row is cut and how totals of threads are scanned."""
    return (
        shape("plan", "block", "warp", "staged", "two"),
        shape("style", "shuffle", "shared"),
        shape("schedule", "grid", "persistent"),
        shape("vector", 1, 2, 4),
        shape("load", *LOADS),
        shape("store", *STORES),
        pick("threads", 64, 128, 256, 512, 1024),
        pick("items", 1, 2, 4, 8),
        pick("split", 2, 4, 8),
        pick("per_sm", 1, 2, 4, 8),
    )


def row_invalid(problem_id: str, genome: Genome) -> str | None:
    """More than a row, registers or shared memory, or combinations a plan does not have."""
    threads, piece = int(genome["threads"]), int(genome["items"]) * int(genome["vector"])
    if genome["plan"] != "block" and genome["schedule"] == "persistent":
        return "only whole rows are scheduled"
    if genome["plan"] == "warp" and genome["style"] == "shared":
        return "warps scan by shuffles"
    if genome["plan"] != "warp" and threads * piece > 8192:
        return "a block would hold more than a row"
    if genome["plan"] == "staged" and threads * piece * 4 > 32 * 1024:
        return "more than 32 KiB of shared memory"
    if genome["plan"] == "two" and threads * piece > 4096:
        return "pieces longer than half a row"
    if genome["schedule"] == "persistent" and not 512 <= int(genome["per_sm"]) * threads <= 2048:
        return "too few or too many threads on an SM"
    return None


def row_text(problem_id: str, genome: Genome) -> str:
    """Kernel source."""
    product, masked = problem_id == "cumprod", problem_id == "masked_cumsum"
    vector = int(genome["vector"])
    functions = ("totals", "kernel") if genome["plan"] == "two" else ("kernel",)
    exported = [f'"{name}<{width}>"' for name in functions for width in dict.fromkeys((vector, 1))]
    values = dict(genome) | {"kind": "float", "product": product, "neutral": "1.0f" if product else "0.0f"}
    parts = packs(str(genome["load"]), str(genome["store"])) + render(BLOCK_SCAN, **values)
    values.pop("kind")
    code = render(
        ROWS,
        **values,
        parts=parts.strip("\n"),
        reverse=problem_id == "cumsum_reverse",
        masked=masked,
        parameters="const float* __restrict__ x" + (", const unsigned char* __restrict__ mask" if masked else ""),
        names="x, mask" if masked else "x",
        exported=", ".join(exported) + ("," if len(exported) == 1 else ""),
    )
    return CUDA_HEAD + without_blank_lines_inside(code)


FAMILIES = (
    Family(
        name="row_scan_cuda",
        backend=Backend.CUDA,
        problems=ROW_PROBLEMS,
        genes=row_genes,
        render=row_text,
        invalid=row_invalid,
    ),
)
