// Running sums and products along rows, and one long prefix sum, in CUDA.
%% section rows
// let product = problem == "cumprod"
// let reverse = problem == "cumsum_reverse"
// let masked = problem == "masked_cumsum"
// let kind = "float"
// let neutral = "1.0f" if product else "0.0f"
// let names = "x, mask" if masked else "x"
// let parameters = "const float* __restrict__ x" + (", const unsigned char* __restrict__ mask" if masked else "")
// family row_scan_cuda for cumsum, cumprod, cumsum_reverse, masked_cumsum
// shape plan = "block", "warp", "staged", "two"
// shape style = "shuffle", "shared"
// shape schedule = "grid", "persistent"
// shape vector = 1, 2, 4
// shape load = "plain", "ldg", "ldcs", "ldcg"
// shape store = "plain", "stcs", "stcg", "stwt"
// pick threads = 64, 128, 256, 512, 1024
// pick items = 1, 2, 4, 8
// pick split = 2, 4, 8
// pick per_sm = 1, 2, 4, 8
// let span = threads * items * vector
// refuse plan != "block" and schedule == "persistent": only whole rows are scheduled
// refuse plan == "warp" and style == "shared": warps scan by shuffles
// refuse plan != "warp" and span > 8192: a block would hold more than a row
// refuse plan == "staged" and span * 4 > 32 * 1024: more than 32 KiB of shared memory
// refuse plan == "two" and span > 4096: pieces longer than half a row
// refuse schedule == "persistent" and not 512 <= per_sm * threads <= 2048: too few or too many threads on an SM
// let exported = instances(vector, "totals", "kernel") if plan == "two" else instances(vector, "kernel")
// polish compact

<%% include "rowwise/parts.cu#packs" %%>
<%% include "rowwise/scan.cu#block_scan" %%>
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
%% host named
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
%% section long
// let product = False
// let kind = "int"
// let neutral = "0"
// family long_scan_cuda for prefix_sum
// shape method = "lookback", "reduce_scan", "scan_add"
// shape look = "serial", "warp"
// shape style = "shuffle", "shared"
// shape vector = 1, 2, 4
// shape load = "plain", "ldg", "ldcs", "ldcg"
// shape store = "plain", "stcs", "stcg", "stwt"
// pick threads = 128, 256, 512, 1024
// pick items = 1, 2, 4, 8
// let span = threads * items * vector
// refuse span < (4096 if method == "lookback" and look == "serial" else 1024): too many tiles
// refuse span > 16384: more than registers hold
// let exported = instances(vector, "kernel") if method == "lookback" else instances(vector, "first", "third")
// polish compact

<%% include "rowwise/parts.cu#packs" %%>
<%% include "rowwise/scan.cu#block_scan" %%>
%% macro own()
    int v[${items}][V];
    int total = 0;
#pragma unroll
    for (int k = 0; k < ${items}; ++k) {
        const int i = start + (threadIdx.x * ${items} + k) * V;
#pragma unroll
        for (int e = 0; e < V; ++e) v[k][e] = 0;
        if (i < n) {
            const Pack<int, V> a = load_pack<int, V>(x + i);
#pragma unroll
            for (int e = 0; e < V; ++e) v[k][e] = a.d[e];
        }
#pragma unroll
        for (int e = 0; e < V; ++e) v[k][e] = total += v[k][e];
    }
%% endmacro
%% macro give()
#pragma unroll
    for (int k = 0; k < ${items}; ++k) {
        const int i = start + (threadIdx.x * ${items} + k) * V;
        Pack<int, V> a;
#pragma unroll
        for (int e = 0; e < V; ++e) a.d[e] = v[k][e] + before;
        if (i < n) store_pack<int, V>(y + i, a);
    }
%% endmacro
%% if method == "lookback"

template <int V>
__global__ void __launch_bounds__(${threads}) kernel(
    const int* __restrict__ x, int* __restrict__ y, unsigned long long* states, unsigned int* ticket, int n) {
    __shared__ int tile_shared, prefix_shared;
    if (threadIdx.x == 0) tile_shared = atomicAdd(ticket, 1u);
    __syncthreads();
    const int tile = tile_shared;
    const int start = tile * (${threads} * ${items} * V);
${own()}
    int whole;
    int before = block_scan(total, whole);
    volatile unsigned long long* seen = states;
    const unsigned long long published = (unsigned int)whole;
    if (threadIdx.x == 0) seen[tile] = ((tile == 0 ? 2ull : 1ull) << 32) | published;
%% if look == "serial"
    if (threadIdx.x == 0) {
        int prefix = 0;
        for (int k = tile - 1; k >= 0; --k) {
            unsigned long long word = seen[k];
            while ((word >> 32) == 0) word = seen[k];
            prefix += (int)(unsigned int)word;
            if ((word >> 32) == 2) break;
        }
        if (tile > 0) seen[tile] = (2ull << 32) | (unsigned int)(prefix + whole);
        prefix_shared = prefix;
    }
%% else
    if (threadIdx.x < 32) {
        int prefix = 0;
        for (int top = tile - 1; top >= 0; top -= 32) {
            const int k = top - (int)threadIdx.x;
            unsigned long long word = 2ull << 32;
            if (k >= 0) {
                word = seen[k];
                while ((word >> 32) == 0) word = seen[k];
            }
            const unsigned int complete = __ballot_sync(0xffffffffu, (word >> 32) == 2);
            const int last = complete ? __ffs(complete) - 1 : 31;
            int add = (int)threadIdx.x <= last ? (int)(unsigned int)word : 0;
#pragma unroll
            for (int d = 16; d > 0; d >>= 1) add += __shfl_xor_sync(0xffffffffu, add, d);
            prefix += add;
            if (complete) break;
        }
        if (threadIdx.x == 0) {
            if (tile > 0) seen[tile] = (2ull << 32) | (unsigned int)(prefix + whole);
            prefix_shared = prefix;
        }
    }
%% endif
    __syncthreads();
    before += prefix_shared;
${give()}
}
%% else

template <int V>
__global__ void __launch_bounds__(${threads}) first(
    const int* __restrict__ x, int* __restrict__ y, int* __restrict__ sums, int n) {
    const int start = blockIdx.x * (${threads} * ${items} * V);
%% if method == "scan_add"
${own()}
    int whole;
    const int before = block_scan(total, whole);
${give()}
%% else
    int total = 0, whole;
#pragma unroll
    for (int k = 0; k < ${items}; ++k) {
        const int i = start + (k * ${threads} + threadIdx.x) * V;
        if (i < n) {
            const Pack<int, V> a = load_pack<int, V>(x + i);
#pragma unroll
            for (int e = 0; e < V; ++e) total += a.d[e];
        }
    }
    block_scan(total, whole);
%% endif
    if (threadIdx.x == 0) sums[blockIdx.x] = whole;
}

extern "C" __global__ void __launch_bounds__(${threads}) second(int* __restrict__ sums, int count) {
    int carry = 0;
    for (int start = 0; start < count; start += ${threads}) {
        const int k = start + threadIdx.x;
        int whole;
        const int before = block_scan(k < count ? sums[k] : 0, whole);
        if (k < count) sums[k] = carry + before;
        carry += whole;
    }
}

template <int V>
__global__ void __launch_bounds__(${threads}) third(
    const int* __restrict__ x, int* __restrict__ y, const int* __restrict__ sums, int n) {
    const int start = blockIdx.x * (${threads} * ${items} * V);
%% if method == "scan_add"
    const int before = sums[blockIdx.x];
#pragma unroll
    for (int k = 0; k < ${items}; ++k) {
        const int i = start + (k * ${threads} + threadIdx.x) * V;
        if (i < n) {
            Pack<int, V> a = *reinterpret_cast<const Pack<int, V>*>(y + i);
#pragma unroll
            for (int e = 0; e < V; ++e) a.d[e] += before;
            store_pack<int, V>(y + i, a);
        }
    }
%% else
${own()}
    int whole;
    const int before = sums[blockIdx.x] + block_scan(total, whole);
${give()}
%% endif
}
%% endif
%% host named
def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    vector = ${vector} if n % ${vector} == 0 else 1
    span = ${threads * items} * vector
    count = (n + span - 1) // span
%% if method == "lookback"
    states = torch.zeros(count, dtype=torch.int64, device=x.device)
    ticket = torch.zeros(1, dtype=torch.int32, device=x.device)
    module.launch(f"kernel<{vector}>", grid=count, block=${threads}, args=(x, y, states, ticket, n))
%% else
    sums = torch.empty(count, dtype=torch.int32, device=x.device)
    module.launch(f"first<{vector}>", grid=count, block=${threads}, args=(x, y, sums, n))
    module.launch("second", grid=1, block=${threads}, args=(sums, count))
    module.launch(f"third<{vector}>", grid=count, block=${threads}, args=(x, y, sums, n))
%% endif
    return y
%% section block_scan
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
