// A matrix scaled by one number, or by one number per row: pure memory traffic.
// family scaling_cuda for matmul_scalar, matmul_diagonal
// shape walk = "flat", "flat_stride", "row", "row_warp", "tile"
// shape order = "adjacent", "blocked"
// shape batch = "one", "all_loads_first"
// shape load = "plain", "ldg", "ldcs", "ldcg"
// shape store = "plain", "stcs", "stcg", "stwt"
// pick vector = 1, 2, 4
// pick items = 1, 2, 4, 8
// pick programs = 264, 1056, 4224
// pick threads = 64, 128, 256, 512, 1024
// refuse walk != "flat_stride" and programs != 264: only strided walks choose the number of blocks
// let ahead = programs * threads * items * vector
// # With fewer elements in flight, memory latency makes a strided grid tens of times slower than the rest.
// refuse walk == "flat_stride" and ahead < 132 * 1024: too few elements in flight
// refuse items == 1 and (order, batch) != ("adjacent", "one"): one item has no order
// let diagonal = problem == "matmul_diagonal"
// let factor = "const float* d" if diagonal else "float s"
// let own = "threadIdx.x" if order == "adjacent" else "threadIdx.x * ITEMS"
// let kind = {1: "float", 2: "float2", 4: "float4"}[vector]

<%# Loads, scales and stores a thread's items, one at a time or all loads first. %>
%% set index = "const long long i = base + (long long)u * step;"
%% macro read(at)
${"in[" ~ at ~ "]" if load == "plain" else "__" ~ load ~ "(in + " ~ at ~ ")"}
%%- endmacro
%% macro write(at, value)
${"out[" ~ at ~ "] = " ~ value ~ ";" if store == "plain" else "__" ~ store ~ "(out + " ~ at ~ ", " ~ value ~ ");"}
%%- endmacro
%% macro body(limit, at, row_factor)
%% set scale = row_factor if diagonal else "s"
%% if batch == "one"
        #pragma unroll
        for (int u = 0; u < ITEMS; ++u) { ${index}
            if (i < ${limit}) ${write(at, "times(" ~ read(at) ~ ", " ~ scale ~ ")")}
        }
%% else
        chunk held[ITEMS];
        #pragma unroll
        for (int u = 0; u < ITEMS; ++u) { ${index} if (i < ${limit}) held[u] = ${read(at)}; }
        #pragma unroll
        for (int u = 0; u < ITEMS; ++u) { ${index}
            if (i < ${limit}) ${write(at, "times(held[u], " ~ scale ~ ")")}
        }
%% endif
%% endmacro
constexpr int VEC = ${vector}, ITEMS = ${items}, THREADS = ${threads};
typedef ${kind} chunk;

__device__ __forceinline__ chunk times(chunk v, float s) {
%% if vector == 1
    return v * s;
%% elif vector == 2
    return make_float2(v.x * s, v.y * s);
%% else
    return make_float4(v.x * s, v.y * s, v.z * s, v.w * s);
%% endif
}

extern "C" __global__ void __launch_bounds__(THREADS) scale(
    const float* a, ${factor}, float* c, int rows, int columns) {
    const chunk* in = (const chunk*)a;
    chunk* out = (chunk*)c;
    const int width = columns / VEC;
%% if walk in ("flat", "flat_stride")
    const long long size = (long long)rows * width;
%% if walk == "flat_stride"
    const long long stride = (long long)gridDim.x * THREADS * ITEMS;
    for (long long first = (long long)blockIdx.x * THREADS * ITEMS; first < size; first += stride) {
%% else
    const long long first = (long long)blockIdx.x * THREADS * ITEMS;
    {
%% endif
        const long long base = first + ${own};
        const int step = ${"THREADS" if order == "adjacent" else "1"};
${body("size", "i", "d[i / width]").rstrip()}
    }
%% elif walk == "row"
    const int row = blockIdx.x;
    const long long start = (long long)row * width;
%% if diagonal
    const float s = d[row];
%% endif
    for (int first = 0; first < width; first += THREADS * ITEMS) {
        const long long base = first + ${own};
        const int step = ${"THREADS" if order == "adjacent" else "1"};
${body("width", "start + i", "s").rstrip()}
    }
%% elif walk == "row_warp"
    const int row = blockIdx.x * (THREADS / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    const long long start = (long long)row * width;
%% if diagonal
    const float s = d[row];
%% endif
    for (int first = 0; first < width; first += 32 * ITEMS) {
        const long long base = first + ${"lane" if order == "adjacent" else "lane * ITEMS"};
        const int step = ${"32" if order == "adjacent" else "1"};
${body("width", "start + i", "s").rstrip()}
    }
%% else
    const int row = blockIdx.y;
    const long long start = (long long)row * width;
%% if diagonal
    const float s = d[row];
%% endif
    const long long base = (long long)blockIdx.x * THREADS * ITEMS + ${own};
    const int step = ${"THREADS" if order == "adjacent" else "1"};
${body("width", "start + i", "s").rstrip()}
%% endif
}
%% host
%% if diagonal
def run(d, a):
    s = d
%% else
def run(a, s):
    s = float(s)
%% endif
    out = torch.empty_like(a)
    rows, columns = a.shape
%% if walk in ("flat", "flat_stride")
    blocks = (a.numel() // ${vector} + ${threads * items - 1}) // ${threads * items}
    grid = ${"min(blocks, %d)" % programs if walk == "flat_stride" else "blocks"}
%% elif walk == "row"
    grid = rows
%% elif walk == "row_warp"
    grid = (rows + ${threads // 32 - 1}) // ${threads // 32}
%% else
    grid = ((columns // ${vector} + ${threads * items - 1}) // ${threads * items}, rows)
%% endif
    module.launch("scale", grid=grid, block=${threads}, args=(a, s, out, rows, columns))
    return out
