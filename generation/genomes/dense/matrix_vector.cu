// A matrix times a vector: who sums a row, and how its parts are joined.
// family matrix_vector_cuda for matmul_vector
// shape owner = "warp", "block"
// shape parts = 1, 2, 4, 8, 16, 32
// shape join = "kernel", "last"
// shape spread = "block", "strided"
// shape reduce = "shuffle", "tree"
// shape x_from = "cache", "shared"
// shape chains = 1, 2, 4
// shape hint = "plain", "streaming"
// pick vector = 1, 2, 4
// pick rows = 1, 2, 4
// pick threads = 64, 128, 256, 512
// refuse parts == 1 and (join, spread) != ("kernel", "block"): one part needs no joining
// refuse x_from == "shared" and spread != "block": a staged part of x is contiguous
// refuse parts == 1 and owner == "warp" and rows > 1: too few threads for a few hundred long rows
// let team = 32 if owner == "warp" else threads
// let per_block = threads // team * rows
// let chunk = 4096
// let last = parts != 1 and join == "last"
// let load = "__ldcs" if hint == "streaming" else "__ldg"

constexpr int VEC = ${vector}, ROWS = ${rows}, THREADS = ${threads}, TEAM = ${team}, PARTS = ${parts};
constexpr int CHAINS = ${chains};
%% if x_from == "shared"
constexpr int CHUNK = ${chunk};
%% endif

__device__ __forceinline__ float dot(const float* a, const float* x) {
%% if vector == 1
    return ${load}(a) * x[0];
%% elif vector == 2
    const float2 v = ${load}((const float2*)a), w = *(const float2*)x;
    return v.x * w.x + v.y * w.y;
%% else
    const float4 v = ${load}((const float4*)a), w = *(const float4*)x;
    return v.x * w.x + v.y * w.y + v.z * w.z + v.w * w.w;
%% endif
}

extern "C" __global__ void __launch_bounds__(THREADS) rows_times_vector(
    const float* a, const float* x, float* y,${" float* part, int* count," if last else ""} int M, int K) {
    const int tid = threadIdx.x, member = tid % TEAM, team = tid / TEAM;
    const int m0 = (blockIdx.x * (THREADS / TEAM) + team) * ROWS;
%% if parts == 1
    const int k_from = 0, k_to = K, stride = TEAM * VEC;
%% elif spread == "strided"
    const int k_from = blockIdx.y * TEAM * VEC, k_to = K, stride = TEAM * VEC * PARTS;
%% else
    const int span = ((K + PARTS - 1) / PARTS + VEC - 1) / VEC * VEC;
    const int k_from = blockIdx.y * span, k_to = min(K, k_from + span), stride = TEAM * VEC;
%% endif
    float sum[ROWS][CHAINS] = {};
%% if x_from == "shared"
    __shared__ __align__(16) float xs[CHUNK];
    for (int k0 = k_from; k0 < k_to; k0 += CHUNK) {
        const int size = min(CHUNK, k_to - k0);
        for (int i = tid; i < size; i += THREADS) xs[i] = x[k0 + i];
        __syncthreads();
        for (int k = member * VEC; k < size; k += TEAM * VEC * CHAINS) {
            for (int c = 0; c < CHAINS; ++c) {
                const int kc = k + c * TEAM * VEC;
                if (kc >= size) break;
                for (int r = 0; r < ROWS; ++r) {
                    if (m0 + r < M) sum[r][c] += dot(a + (size_t)(m0 + r) * K + k0 + kc, xs + kc);
                }
            }
        }
        __syncthreads();
    }
%% else
    for (int k = k_from + member * VEC; k < k_to; k += stride * CHAINS) {
        #pragma unroll
        for (int c = 0; c < CHAINS; ++c) {
            const int kc = k + c * stride;
            if (kc < k_to) {
                for (int r = 0; r < ROWS; ++r) if (m0 + r < M) sum[r][c] += dot(a + (size_t)(m0 + r) * K + kc, x + kc);
            }
        }
    }
%% endif
    for (int r = 0; r < ROWS; ++r) {
        float total = 0.0f;
        for (int c = 0; c < CHAINS; ++c) total += sum[r][c];
%% if reduce == "shuffle"
        for (int lanes = 16; lanes > 0; lanes >>= 1) total += __shfl_xor_sync(0xffffffffu, total, lanes);
%% if owner == "block"
        __shared__ float warps[32];
        if (tid % 32 == 0) warps[tid / 32] = total;
        __syncthreads();
        total = 0.0f;
        for (int w = 0; w < THREADS / 32; ++w) total += warps[w];
        __syncthreads();
%% endif
%% else
        __shared__ float tree[THREADS];
        tree[tid] = total;
        __syncthreads();
        for (int half = TEAM / 2; half > 0; half >>= 1) {
            if (member < half) tree[tid] += tree[tid + half];
            __syncthreads();
        }
        total = tree[team * TEAM];
        __syncthreads();
%% endif
        const int m = m0 + r;
%% if parts == 1
        if (member == 0 && m < M) y[m] = total;
%% elif last
        if (member == 0 && m < M) {
            part[(size_t)blockIdx.y * M + m] = total;
            __threadfence();
            if (atomicAdd(count + m, 1) == PARTS - 1) {
                __threadfence();
                float all = 0.0f;
                for (int p = 0; p < PARTS; ++p) all += __ldcg(part + (size_t)p * M + m);
                y[m] = all;
            }
        }
%% else
        if (member == 0 && m < M) y[(size_t)blockIdx.y * M + m] = total;
%% endif
    }
}
%% if parts > 1 and not last

extern "C" __global__ void join(const float* part, float* y, int M) {
    const int m = blockIdx.x * blockDim.x + threadIdx.x;
    if (m >= M) return;
    float total = 0.0f;
    for (int p = 0; p < PARTS; ++p) total += part[(size_t)p * M + m];
    y[m] = total;
}
%% endif
%% host
def run(a, x):
    M, K = a.shape
    y = torch.empty((M, 1), device=a.device, dtype=a.dtype)
    blocks = (M + ${per_block - 1}) // ${per_block}
%% if parts == 1
    module.launch("rows_times_vector", grid=blocks, block=${threads}, args=(a, x, y, M, K))
%% elif last
    part = torch.empty((${parts}, M), device=a.device, dtype=a.dtype)
    count = torch.zeros((M,), device=a.device, dtype=torch.int32)
    module.launch("rows_times_vector", grid=(blocks, ${parts}), block=${threads}, args=(a, x, y, part, count, M, K))
%% else
    part = torch.empty((${parts}, M), device=a.device, dtype=a.dtype)
    module.launch("rows_times_vector", grid=(blocks, ${parts}), block=${threads}, args=(a, x, part, M, K))
    module.launch("join", grid=(M + 127) // 128, block=128, args=(part, y, M))
%% endif
    return y
