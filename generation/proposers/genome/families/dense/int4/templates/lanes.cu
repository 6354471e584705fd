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
            if (lane == r && m < M && n < N) y[${at}] = ${finish("total")};
        }
    }
}
