
<%% include "sequence/delta/templates/product.cu" %%>

const int COLS = ${cols}, LINE = 64 + ${pad}, THIN = COLS + ${pad};

extern "C" __global__ void __launch_bounds__(THREADS)
states(const float* __restrict__ k, const float* __restrict__ w, const float* __restrict__ u,
       const float* __restrict__ g, float* __restrict__ h, float* __restrict__ v, int length, int heads) {
    __shared__ float state[64 * THIN], tile[64 * LINE], fresh[64 * THIN], decay[64];
    int first = blockIdx.x * COLS, head = blockIdx.y % heads, batch = blockIdx.y / heads, chunks = length / 64;
    long long line = (long long)heads * 64;
    float kept[(64 + TY - 1) / TY][(COLS + TX - 1) / TX] = {};
    for (int n = 0; n < chunks; ++n) {
        long long token = (long long)batch * length + n * 64, base = (token * heads + head) * 64;
        float* slot = h + (((long long)batch * chunks + n) * heads + head) * 64 * 64 + first;
        __syncthreads();
        EACH(64, COLS) {
            state[r * THIN + c] = kept[i][j];
            slot[r * 64 + c] = kept[i][j];
        }
        for (int i = threadIdx.x; i < 64; i += THREADS) decay[i] = g[(token + i) * heads + head];
        fetch<64, 64>(w + base, line, tile, LINE);
        __syncthreads();
        float sums[(64 + TY - 1) / TY][(COLS + TX - 1) / TX] = {};
        multiply<64, COLS, 64, false>(tile, LINE, state, THIN, sums);
        float last = decay[63];
        EACH(64, COLS) {
            float value = u[base + r * line + first + c] - sums[i][j];
            v[base + r * line + first + c] = value;
%% if scaling == "values"
            fresh[r * THIN + c] = value * __expf(last - decay[r]);
%% else
            fresh[r * THIN + c] = value;
%% endif
        }
        __syncthreads();
        fetch<64, 64>(k + base, line, tile, LINE);
        __syncthreads();
%% if scaling == "keys"
        for (int i = threadIdx.x; i < 64 * 64; i += THREADS)
            tile[i / 64 * LINE + i % 64] *= __expf(last - decay[i / 64]);
        __syncthreads();
%% endif
        float shrink = __expf(last);
        EACH(64, COLS) kept[i][j] *= shrink;
        multiply<64, COLS, 64, true>(tile, LINE, fresh, THIN, kept);
    }
}
