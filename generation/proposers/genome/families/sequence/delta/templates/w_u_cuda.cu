
<%% include "sequence/delta/templates/product.cu" %%>

const int COLS = ${cols}, LINE = 64 + ${pad};

__device__ __forceinline__ void product(const float* matrix, float* tile, const float* factors, const float* x,
                                        float* y, long long line) {
    fetch<64, COLS>(x, line, tile, LINE);
    __syncthreads();
%% if scaling == "rows"
    for (int i = threadIdx.x; i < 64 * COLS; i += THREADS) tile[i / COLS * LINE + i % COLS] *= factors[i / COLS];
    __syncthreads();
    float sums[(64 + TY - 1) / TY][(COLS + TX - 1) / TX] = {};
    multiply<64, COLS, 64, false>(matrix, LINE, tile, LINE, sums);
%% else
    float sums[(64 + TY - 1) / TY][(COLS + TX - 1) / TX] = {};
    int tx = threadIdx.x % TX, ty = threadIdx.x / TX;
    #pragma unroll ${unroll}
    for (int k = 0; k < 64; ++k) {
        float factor = factors[k];
        #pragma unroll
        for (int i = 0; i < (64 + TY - 1) / TY; ++i) {
            if (ty + i * TY >= 64) continue;
            float left = matrix[(ty + i * TY) * LINE + k] * factor;
            #pragma unroll
            for (int j = 0; j < (COLS + TX - 1) / TX; ++j)
                if (tx + j * TX < COLS) sums[i][j] += left * tile[k * LINE + tx + j * TX];
        }
    }
%% endif
    EACH(64, COLS) y[r * line + c] = sums[i][j];
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(THREADS)
products(const float* __restrict__ k, const float* __restrict__ v, const float* __restrict__ beta,
         const float* __restrict__ a, const float* __restrict__ g, float* __restrict__ w, float* __restrict__ u,
         int heads) {
    __shared__ float matrix[64 * LINE], tile[64 * LINE], plain[64], decayed[64];
    long long chunk = blockIdx.x;
    int head = chunk % heads;
    long long token = chunk / heads * 64, line = (long long)heads * 64, base = (token * heads + head) * 64;
    for (int i = threadIdx.x; i < 64; i += THREADS) {
        plain[i] = beta[(token + i) * heads + head];
        decayed[i] = plain[i] * __expf(g[(token + i) * heads + head]);
    }
    fetch<64, 64>(a + base, line, matrix, LINE);
    __syncthreads();
%% if fusion == "together"
    for (int first = 0; first < 64; first += COLS) {
        product(matrix, tile, decayed, k + base + first, w + base + first, line);
        product(matrix, tile, plain, v + base + first, u + base + first, line);
    }
%% else
    int first = blockIdx.y / 2 * COLS;
    if (blockIdx.y % 2) product(matrix, tile, decayed, k + base + first, w + base + first, line);
    else product(matrix, tile, plain, v + base + first, u + base + first, line);
%% endif
}
