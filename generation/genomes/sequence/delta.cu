// The gated delta network: chunk states, outputs, and w and u.
%% section states
// family delta_states_cuda for gdn_chunk_fwd_h
// shape scaling = "values", "keys"
// shape vector = True, False
// shape pad = 0, 1, 4
// pick cols = 8, 16, 32, 64
// pick tx = 4, 8, 16, 32
// pick threads = 64, 128, 256, 512
// pick unroll = 1, 4, 8, 16
// refuse cols == 64: three tiles of 64 × 64 exceed 48 KiB of shared memory
// refuse tx > cols or threads // tx > 64: idle threads
// refuse 64 * tx // threads * max(1, cols // tx) > 64: too many sums per thread


<%% include "sequence/delta.cu#product" %%>

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
%% host
def run(k, w, u, g):
    batch, length, heads, width = k.shape
    h = torch.empty((batch, length // 64, heads, width, u.shape[3]), dtype=torch.float32, device=k.device)
    v = torch.empty_like(u)
    grid = (${64 // cols}, batch * heads)
    module.launch("states", grid=grid, block=${threads}, args=(k, w, u, g, h, v, length, heads))
    return h, v
%% section output
// family delta_output_cuda for gdn_chunk_fwd_o
// shape keys = "turned", "straight"
// shape order = "state", "scores"
// shape vector = True, False
// shape pad = 0, 1, 4
// pick cols = 8, 16, 32, 64
// pick tx = 4, 8, 16, 32
// pick threads = 64, 128, 256, 512
// pick unroll = 1, 4, 8, 16
// refuse threads < 128: too many sums per thread
// refuse tx > cols or threads // tx > 64: idle threads
// refuse 64 * tx // threads * max(1, cols // tx) > 64: too many sums per thread


<%% include "sequence/delta.cu#product" %%>

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
%% host
def run(q, k, v, h, g):
    batch, length, heads, width = q.shape
    o = torch.empty_like(v)
    grid = (batch * (length // 64) * heads, ${64 // cols})
    args = (q, k, v, h, g, o, heads, width**-0.5)
    module.launch("outputs", grid=grid, block=${threads}, args=args, shared_bytes=${4 * 4 * 64 * (64 + pad)})
    return o
%% section w_u
// family delta_w_u_cuda for gdn_recompute_w_u
// shape scaling = "rows", "matrix"
// shape fusion = "together", "apart"
// shape vector = True, False
// shape pad = 0, 1, 4
// pick cols = 8, 16, 32, 64
// pick tx = 4, 8, 16, 32
// pick threads = 64, 128, 256, 512
// pick unroll = 1, 4, 8, 16
// refuse tx > cols or threads // tx > 64: idle threads
// refuse 64 * tx // threads * max(1, cols // tx) > 64: too many sums per thread


<%% include "sequence/delta.cu#product" %%>

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
%% host
def run(k, v, beta, a, g):
    batch, length, heads, width = k.shape
    w = torch.empty_like(k)
    u = torch.empty_like(v)
    grid = (batch * (length // 64) * heads, ${1 if fusion == "together" else 2 * 64 // cols})
    module.launch("products", grid=grid, block=${threads}, args=(k, v, beta, a, g, w, u, heads))
    return w, u
%% section product
// A block of threads multiplies tiles in shared memory; a thread keeps sums at rows ty + i * TY, columns tx + j * TX.
const int TX = ${tx}, TY = ${threads // tx}, THREADS = ${threads};

template <int M, int N, int K, bool TURN>
__device__ __forceinline__ void multiply(const float* a, int a_line, const float* b, int b_line,
                                         float (&sums)[(M + TY - 1) / TY][(N + TX - 1) / TX]) {
    int tx = threadIdx.x % TX, ty = threadIdx.x / TX;
    #pragma unroll ${unroll}
    for (int k = 0; k < K; ++k) {
        float left[(M + TY - 1) / TY], right[(N + TX - 1) / TX];
        #pragma unroll
        for (int i = 0; i < (M + TY - 1) / TY; ++i) {
            int r = ty + i * TY;
            left[i] = r < M ? (TURN ? a[k * a_line + r] : a[r * a_line + k]) : 0.0f;
        }
        #pragma unroll
        for (int j = 0; j < (N + TX - 1) / TX; ++j) right[j] = tx + j * TX < N ? b[k * b_line + tx + j * TX] : 0.0f;
        #pragma unroll
        for (int i = 0; i < (M + TY - 1) / TY; ++i)
            #pragma unroll
            for (int j = 0; j < (N + TX - 1) / TX; ++j) sums[i][j] += left[i] * right[j];
    }
}

template <int ROWS, int COLS>
__device__ __forceinline__ void fetch(const float* from, long long line, float* to, int to_line) {
%% if vector
    for (int i = threadIdx.x; i < ROWS * COLS / 4; i += THREADS) {
        int r = i / (COLS / 4), c = i % (COLS / 4) * 4;
        float4 value = *reinterpret_cast<const float4*>(from + r * line + c);
        float* place = to + r * to_line + c;
        place[0] = value.x;
        place[1] = value.y;
        place[2] = value.z;
        place[3] = value.w;
    }
%% else
    for (int i = threadIdx.x; i < ROWS * COLS; i += THREADS)
        to[i / COLS * to_line + i % COLS] = from[i / COLS * line + i % COLS];
%% endif
}

#define EACH(M, N)                                                   \
    for (int i = 0, r = threadIdx.x / TX; i < (M + TY - 1) / TY; ++i, r += TY) \
        for (int j = 0, c = threadIdx.x % TX; j < (N + TX - 1) / TX; ++j, c += TX) \
            if (r < M && c < N)
