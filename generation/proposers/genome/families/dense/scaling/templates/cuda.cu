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
${body("size", "i", "d[i / width]")}
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
${body("width", "start + i", "s")}
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
${body("width", "start + i", "s")}
    }
%% else
    const int row = blockIdx.y;
    const long long start = (long long)row * width;
%% if diagonal
    const float s = d[row];
%% endif
    const long long base = (long long)blockIdx.x * THREADS * ITEMS + ${own};
    const int step = ${"THREADS" if order == "adjacent" else "1"};
${body("width", "start + i", "s")}
%% endif
}
