// Products with packed 4-bit weights: tensor cores or plain lanes, and where nibbles become numbers.
// family int4_cuda_mma for int4_weight_gemm
// shape decode = "magic", "convert", "table"
// shape scaled = "weights", "sums"
// shape x_from = "global", "shared"
// shape split_k = 1, 2, 4, 8
// shape hint = "plain", "streaming"
// shape warps_k = 1, 2, 4, 8
// pick warps_n = 1, 2, 4
// pick tiles = 1, 2, 4
// let warps = warps_k * warps_n
// refuse not 2 <= warps <= 16: too few or too many warps
// let columns = warps_n * tiles * 8
// let joined = warps_k * 16 * columns * 4 if warps_k != 1 else 0
// let staged = 16 * (warps_k * 128 + 8) * 2 if x_from == "shared" else 0
// refuse joined + staged + 1024 > 48 * 1024: too much static shared memory
// let device = "mma"
// let threads = 32 * warps
// let load = "__ldcs" if hint == "streaming" else "__ldg"
// let operands = "float16"
// let parts = split_k != 1
// let kind = "float" if parts else "__half"
// let at = ("(size_t)blockIdx.z * M * N + " if parts else "") + "(size_t)m * N + n"
//
// family int4_cuda_lanes for int4_weight_gemm
// shape x_from = "global", "shared"
// shape rows = "halves", "floats"
// shape split_k = 1, 2, 4, 8
// shape hint = "plain", "streaming"
// shape zero = "weights", "folded"
// pick warps = 2, 4, 8
// pick outputs = 1, 2, 4
// refuse x_from == "global" and rows == "floats": rows read from device memory stay halves
// let device = "lanes"
// let threads = 32 * warps
// let columns = warps * outputs
// let staged = "__half2float(xs[r][lane * 8 + e])" if rows == "halves" else "xs[r][lane * 8 + e]"
// let load = "__ldcs" if hint == "streaming" else "__ldg"
// let operands = "float16"
// let parts = split_k != 1
// let kind = "float" if parts else "__half"
// let at = ("(size_t)blockIdx.z * M * N + " if parts else "") + "(size_t)m * N + n"

#include <cuda_fp16.h>
constexpr int PARTS = ${split_k};

<%% if device == "mma" %%>
constexpr int WARPS_K = ${warps_k}, WARPS_N = ${warps_n}, TILES = ${tiles};
constexpr int COLUMNS = WARPS_N * TILES * 8, LDX = WARPS_K * 128 + 8;
<%% include "dense/tiled_instructions.cu#mma" %%>
__device__ __forceinline__ unsigned word(__half2 h) { return *(unsigned*)&h; }
__device__ __forceinline__ __half2 pair(unsigned w) { return *(__half2*)&w; }
%% if decode == "table"
__device__ __forceinline__ unsigned decode(unsigned byte, const unsigned* table) { return table[byte & 255]; }
%% elif decode == "magic"
// 1024 + n has the nibble in its lowest bits, so a subtraction makes it a number.
__device__ __forceinline__ unsigned decode(unsigned byte, const unsigned* table) {
    const unsigned bits = (byte & 15) | ((byte & 240) << 12) | 0x64006400u;
    return word(__hsub2(pair(bits), pair(0x64086408u)));
}
%% else
__device__ __forceinline__ unsigned decode(unsigned byte, const unsigned* table) {
    return word(__floats2half2_rn((float)(int)(byte & 15) - 8.0f, (float)(int)(byte >> 4 & 15) - 8.0f));
}
%% endif

extern "C" __global__ void __launch_bounds__(${threads}) product(
    const __half* x, const unsigned char* packed, const __half* scale, ${kind}* y, int M, int N, int K) {
    const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5, g = lane >> 2, t = lane & 3;
    const int wk = warp % WARPS_K, wn = warp / WARPS_K;
    const int m0 = blockIdx.y * 16, n0 = blockIdx.x * COLUMNS + wn * TILES * 8;
    const int groups = K / 128, span = (groups + PARTS - 1) / PARTS;
    const int first = blockIdx.z * span, last = min(groups, first + span);
%% if decode == "table"
    __shared__ unsigned table[256];
    for (int i = tid; i < 256; i += ${threads}) {
        table[i] = word(__floats2half2_rn((float)(i & 15) - 8.0f, (float)(i >> 4) - 8.0f));
    }
    __syncthreads();
%% else
    const unsigned* table = nullptr;
%% endif
%% if x_from == "shared"
    __shared__ __align__(16) __half xs[16 * LDX];
%% endif
    float acc[TILES][4] = {};
    for (int base = first; base < last; base += WARPS_K) {
        const int group = base + wk;
%% if x_from == "shared"
        for (int i = tid; i < 16 * WARPS_K * 16; i += ${threads}) {
            const int r = i / (WARPS_K * 16), c = i % (WARPS_K * 16) * 8;
            const bool inside = m0 + r < M && base + c / 128 < last;
            const __half* from = x + (size_t)(m0 + r) * K + base * 128 + c;
            *(uint4*)(xs + r * LDX + c) = inside ? *(const uint4*)from : make_uint4(0, 0, 0, 0);
        }
        __syncthreads();
%% endif
        if (group < last) {
%% if scaled == "sums"
            float sum[TILES][4] = {};
%% endif
            for (int half = 0; half < 2; ++half) {
                const int kc = group * 128 + half * 64;
                uint2 w[TILES];
%% if scaled == "weights"
                __half2 s[TILES];
%% endif
                for (int j = 0; j < TILES; ++j) {
                    const int n = n0 + j * 8 + g;
                    const uint2* from = (const uint2*)(packed + (size_t)n * (K / 2) + kc / 2 + t * 8);
                    w[j] = n < N ? ${load}(from) : make_uint2(0, 0);
%% if scaled == "weights"
                    s[j] = __half2half2(n < N ? scale[(size_t)n * groups + group] : __float2half(0.0f));
%% endif
                }
                #pragma unroll
                for (int q = 0; q < 4; ++q) {
%% if x_from == "shared"
                    const int at = wk * 128 + half * 64 + 16 * t + 4 * q;
                    const uint2 low = *(const uint2*)(xs + g * LDX + at);
                    const uint2 high = *(const uint2*)(xs + (g + 8) * LDX + at);
%% else
                    const int at = kc + 16 * t + 4 * q;
                    const __half* from = x + (size_t)(m0 + g) * K + at;
                    const uint2 low = m0 + g < M ? *(const uint2*)from : make_uint2(0, 0);
                    const uint2 high = m0 + g + 8 < M ? *(const uint2*)(from + (size_t)8 * K) : make_uint2(0, 0);
%% endif
                    const unsigned fa[4] = {low.x, high.x, low.y, high.y};
                    for (int j = 0; j < TILES; ++j) {
                        const unsigned bytes = (q < 2 ? w[j].x : w[j].y) >> (q % 2 * 16);
                        unsigned fb[2] = {decode(bytes & 255, table), decode(bytes >> 8 & 255, table)};
%% if scaled == "weights"
                        fb[0] = word(__hmul2(pair(fb[0]), s[j]));
                        fb[1] = word(__hmul2(pair(fb[1]), s[j]));
                        multiply(acc[j], fa, fb);
%% else
                        multiply(sum[j], fa, fb);
%% endif
                    }
                }
            }
%% if scaled == "sums"
            for (int j = 0; j < TILES; ++j) {
                for (int e = 0; e < 4; ++e) {
                    const int n = n0 + j * 8 + 2 * t + (e & 1);
                    if (n < N) acc[j][e] += sum[j][e] * __half2float(scale[(size_t)n * groups + group]);
                }
            }
%% endif
        }
%% if x_from == "shared"
        __syncthreads();
%% endif
    }
%% if warps_k > 1
    __shared__ float joined[WARPS_K][16][COLUMNS];
    for (int j = 0; j < TILES; ++j) {
        for (int e = 0; e < 4; ++e) joined[wk][g + 8 * (e >> 1)][(wn * TILES + j) * 8 + 2 * t + (e & 1)] = acc[j][e];
    }
    __syncthreads();
    for (int i = tid; i < 16 * COLUMNS; i += ${threads}) {
        const int m = m0 + i / COLUMNS, n = blockIdx.x * COLUMNS + i % COLUMNS;
        float total = 0.0f;
        for (int p = 0; p < WARPS_K; ++p) total += joined[p][i / COLUMNS][i % COLUMNS];
        if (m < M && n < N) y[${at}] = ${"total" if parts else "__float2half(total)"};
    }
%% else
    for (int j = 0; j < TILES; ++j) {
        for (int e = 0; e < 4; ++e) {
            const int m = m0 + g + 8 * (e >> 1), n = n0 + j * 8 + 2 * t + (e & 1);
            if (m < M && n < N) y[${at}] = ${"acc[j][e]" if parts else "__float2half(acc[j][e])"};
        }
    }
%% endif
}
<%% else %%>
constexpr int WARPS = ${warps}, OUTPUTS = ${outputs};

extern "C" __global__ void __launch_bounds__(${threads}) product(
    const __half* x, const unsigned char* packed, const __half* scale, ${kind}* y, int M, int N, int K) {
    const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
    const int m0 = blockIdx.y * 16, n0 = (blockIdx.x * WARPS + warp) * OUTPUTS;
    const int groups = K / 128, span = (groups + PARTS - 1) / PARTS * 128;
    const int k_from = blockIdx.z * span, k_to = min(K, k_from + span);
%% if x_from == "shared"
    __shared__ __align__(16) ${"__half" if rows == "halves" else "float"} xs[16][256];
%% endif
    float acc[OUTPUTS][16] = {};
    for (int kc = k_from; kc < k_to; kc += 256) {
%% if x_from == "shared"
        __syncthreads();
        for (int i = tid; i < 16 * 256; i += ${threads}) {
            const int r = i / 256, c = i % 256;
            const __half v = m0 + r < M && kc + c < k_to ? x[(size_t)(m0 + r) * K + kc + c] : __float2half(0.0f);
            xs[r][c] = ${"v" if rows == "halves" else "__half2float(v)"};
        }
        __syncthreads();
%% endif
        const int k = kc + lane * 8;
        if (k < k_to) {
            float w[OUTPUTS][8];
%% if zero == "folded"
            float s[OUTPUTS];
%% endif
            for (int o = 0; o < OUTPUTS; ++o) {
                const int n = n0 + o;
                const unsigned bits = n < N ? ${load}((const unsigned*)(packed + (size_t)n * (K / 2) + k / 2)) : 0u;
                const float each = n < N ? __half2float(scale[(size_t)n * groups + k / 128]) : 0.0f;
%% if zero == "folded"
                s[o] = each;
                for (int e = 0; e < 8; ++e) w[o][e] = (float)(int)(bits >> (4 * e) & 15);
%% else
                for (int e = 0; e < 8; ++e) w[o][e] = ((float)(int)(bits >> (4 * e) & 15) - 8.0f) * each;
%% endif
            }
            #pragma unroll
            for (int r = 0; r < 16; ++r) {
                float v[8];
%% if x_from == "shared"
                for (int e = 0; e < 8; ++e) v[e] = ${staged};
%% else
                __align__(16) __half h[8];
                *(uint4*)h = m0 + r < M ? *(const uint4*)(x + (size_t)(m0 + r) * K + k) : make_uint4(0, 0, 0, 0);
                for (int e = 0; e < 8; ++e) v[e] = __half2float(h[e]);
%% endif
%% if zero == "folded"
                float count = 0.0f;
                for (int e = 0; e < 8; ++e) count += v[e];
                for (int o = 0; o < OUTPUTS; ++o) {
                    float sum = -8.0f * count;
                    for (int e = 0; e < 8; ++e) sum = fmaf(w[o][e], v[e], sum);
                    acc[o][r] = fmaf(s[o], sum, acc[o][r]);
                }
%% else
                for (int o = 0; o < OUTPUTS; ++o) {
                    for (int e = 0; e < 8; ++e) acc[o][r] = fmaf(w[o][e], v[e], acc[o][r]);
                }
%% endif
            }
        }
    }
    for (int o = 0; o < OUTPUTS; ++o) {
        for (int r = 0; r < 16; ++r) {
            float total = acc[o][r];
            for (int lanes = 16; lanes > 0; lanes >>= 1) total += __shfl_xor_sync(0xffffffffu, total, lanes);
            const int m = m0 + r, n = n0 + o;
            if (lane == r && m < M && n < N) y[${at}] = ${"total" if parts else "__float2half(total)"};
        }
    }
}
<%% endif %%>

%% if split_k > 1

extern "C" __global__ void join(const float* part, __half* y, int size) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    float total = 0.0f;
    for (int p = 0; p < PARTS; ++p) total += part[(size_t)p * size + i];
    y[i] = __float2half(total);
}
%% endif
%% host
def run(x, packed, scale):
    M, K = x.shape
    N = packed.shape[0]
    y = torch.empty((M, N), device=x.device, dtype=x.dtype)
%% if split_k > 1
    part = torch.empty((${split_k}, M, N), device=x.device, dtype=torch.float32)
%% endif
    module.launch(
        "product", grid=((N + ${columns - 1}) // ${columns}, (M + 15) // 16, ${split_k}), block=${threads},
        args=(x, packed, scale, ${"part" if split_k > 1 else "y"}, M, N, K),
    )
%% if split_k > 1
    module.launch("join", grid=(M * N + 255) // 256, block=256, args=(part, y, M * N))
%% endif
    return y
