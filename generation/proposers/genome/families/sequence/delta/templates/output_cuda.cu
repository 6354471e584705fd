
<%% include "sequence/delta/templates/product.cu" %%>

const int COLS = ${cols}, LINE = 64 + ${pad};

extern "C" __global__ void __launch_bounds__(THREADS)
outputs(const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
        const float* __restrict__ h, const float* __restrict__ g, float* __restrict__ o, int heads, float scale) {
    extern __shared__ float pool[];
    float* queries = pool;
    float* other = queries + 64 * LINE;
    float* scores = other + 64 * LINE;
    float* values = scores + 64 * LINE;
    __shared__ float decay[64];
    long long chunk = blockIdx.x;
    int head = chunk % heads, first = blockIdx.y * COLS;
    long long token = chunk / heads * 64, line = (long long)heads * 64;
    const float* base_k = k + (token * heads + head) * 64;
    for (int i = threadIdx.x; i < 64; i += THREADS) decay[i] = g[(token + i) * heads + head];
    fetch<64, 64>(q + (token * heads + head) * 64, line, queries, LINE);
    fetch<64, COLS>(h + chunk * 64 * 64 + first, 64, values, LINE);
%% if keys == "turned"
    for (int i = threadIdx.x; i < 64 * 64; i += THREADS) other[i % 64 * LINE + i / 64] = base_k[i / 64 * line + i % 64];
%% else
    fetch<64, 64>(base_k, line, other, LINE);
%% endif
    __syncthreads();
    float sums[(64 + TY - 1) / TY][(COLS + TX - 1) / TX] = {};
%% if order == "state"
    multiply<64, COLS, 64, false>(queries, LINE, values, LINE, sums);
    EACH(64, COLS) sums[i][j] *= __expf(decay[r]);
%% endif
    {
        float inner[(64 + TY - 1) / TY][(64 + TX - 1) / TX] = {};
%% if keys == "turned"
        multiply<64, 64, 64, false>(queries, LINE, other, LINE, inner);
%% else
        #pragma unroll ${unroll}
        for (int d = 0; d < 64; ++d) EACH(64, 64) inner[i][j] += queries[r * LINE + d] * other[c * LINE + d];
%% endif
        EACH(64, 64) scores[r * LINE + c] = c <= r ? inner[i][j] * __expf(decay[r] - decay[c]) : 0.0f;
    }
%% if order == "scores"
    multiply<64, COLS, 64, false>(queries, LINE, values, LINE, sums);
    EACH(64, COLS) sums[i][j] *= __expf(decay[r]);
%% endif
    __syncthreads();
    fetch<64, COLS>(v + (token * heads + head) * 64 + first, line, values, LINE);
    __syncthreads();
    multiply<64, COLS, 64, false>(scores, LINE, values, LINE, sums);
    EACH(64, COLS) o[((token + r) * heads + head) * 64 + first + c] = sums[i][j] * scale;
}
