// Many small positive definite systems: a tile or a lane per row, or a thread per system.
// family small_solve_cuda for batched_solve
// shape method = "jordan", "gauss", "gradients", "shared", "thread"
// shape load = "column", "vector"
// shape pad = 0, 1
// pick steps = 20, 24, 28
// pick threads = 32, 64, 128, 256, 512
// refuse method in ("thread", "shared") and load != "column": loads belong to the row lanes
// refuse method != "gradients" and steps != 24: steps belong to the iteration
// refuse method != "shared" and pad != 1: padding belongs to shared memory
// refuse method == "shared" and threads > 256: shared memory

const int THREADS = ${threads};

template <int N>
__device__ __forceinline__ void solve(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ x,
                                      int systems) {
%% if method == "thread"
    int system = blockIdx.x * THREADS + threadIdx.x;
    if (system >= systems) return;
    float m[N][N], y[N];
    for (int i = 0; i < N; ++i) {
        y[i] = b[(long long)system * N + i];
        for (int j = 0; j <= i; ++j) m[i][j] = a[((long long)system * N + i) * N + j];
    }
    for (int k = 0; k < N; ++k) {
        float inverse = rsqrtf(m[k][k]);
        for (int i = k; i < N; ++i) m[i][k] *= inverse;
        y[k] *= inverse;
        for (int i = k + 1; i < N; ++i) {
            y[i] -= m[i][k] * y[k];
            for (int j = k + 1; j <= i; ++j) m[i][j] -= m[i][k] * m[j][k];
        }
    }
    for (int k = N - 1; k >= 0; --k) {
        y[k] /= m[k][k];
        for (int i = 0; i < k; ++i) y[i] -= m[k][i] * y[k];
    }
    for (int i = 0; i < N; ++i) x[(long long)system * N + i] = y[i];
%% elif method == "shared"
    __shared__ float m[THREADS / N][N][N + ${pad}], y[THREADS / N][N];
    int row = threadIdx.x % N, slot = threadIdx.x / N;
    int first = blockIdx.x * (THREADS / N);
    for (int i = threadIdx.x; i < (THREADS / N) * N * N; i += THREADS) {
        int system = min(first + i / (N * N), systems - 1);
        m[i / (N * N)][i / N % N][i % N] = a[(long long)system * N * N + i % (N * N)];
    }
    y[slot][row] = b[(long long)min(first + slot, systems - 1) * N + row];
    __syncthreads();
    for (int k = 0; k < N; ++k) {
        float factor = row > k ? m[slot][row][k] / m[slot][k][k] : 0.0f;
        float pivot = y[slot][k];
        __syncthreads();
        if (row > k) {
            for (int j = k + 1; j < N; ++j) m[slot][row][j] -= factor * m[slot][k][j];
            y[slot][row] -= factor * pivot;
        }
        __syncthreads();
    }
    for (int k = N - 1; k >= 0; --k) {
        float value = y[slot][k] / m[slot][k][k];
        __syncthreads();
        if (row == k) y[slot][k] = value;
        if (row < k) y[slot][row] -= m[slot][row][k] * value;
        __syncthreads();
    }
    if (first + slot < systems) x[(long long)(first + slot) * N + row] = y[slot][row];
%% else
    int row = threadIdx.x % N;
    int system = (blockIdx.x * THREADS + threadIdx.x) / N;
    bool known = system < systems;
    if (!known) system = systems - 1;
    float m[N];
%% if load == "vector"
    #pragma unroll
    for (int j = 0; j < N / 4; ++j) {
        float4 part = reinterpret_cast<const float4*>(a + ((long long)system * N + row) * N)[j];
        m[4 * j] = part.x;
        m[4 * j + 1] = part.y;
        m[4 * j + 2] = part.z;
        m[4 * j + 3] = part.w;
    }
%% else
    // The matrix is symmetric: reading its columns is coalesced.
    #pragma unroll
    for (int j = 0; j < N; ++j) m[j] = a[((long long)system * N + j) * N + row];
%% endif
    float y = b[(long long)system * N + row];
%% if method == "jordan"
    #pragma unroll
    for (int k = 0; k < N; ++k) {
        float inverse = 1.0f / __shfl_sync(0xffffffffu, m[k], k, N);
        float pivot = __shfl_sync(0xffffffffu, y, k, N) * inverse;
        float factor = m[k];
        y = row == k ? pivot : y - factor * pivot;
        #pragma unroll
        for (int j = k + 1; j < N; ++j) {
            float above = __shfl_sync(0xffffffffu, m[j], k, N) * inverse;
            m[j] = row == k ? above : m[j] - factor * above;
        }
    }
%% elif method == "gauss"
    #pragma unroll
    for (int k = 0; k < N; ++k) {
        float inverse = 1.0f / __shfl_sync(0xffffffffu, m[k], k, N);
        float pivot = __shfl_sync(0xffffffffu, y, k, N);
        float factor = row > k ? m[k] * inverse : 0.0f;
        y -= factor * pivot;
        #pragma unroll
        for (int j = k + 1; j < N; ++j) m[j] -= factor * __shfl_sync(0xffffffffu, m[j], k, N);
    }
    #pragma unroll
    for (int k = N - 1; k >= 0; --k) {
        float value = __shfl_sync(0xffffffffu, y / m[k], k, N);
        y = row == k ? value : (row < k ? y - m[k] * value : y);
    }
%% else
    float residual = y, direction = y;
    y = 0.0f;
    float size = residual * residual;
    for (int gap = N / 2; gap > 0; gap /= 2) size += __shfl_xor_sync(0xffffffffu, size, gap);
    for (int step = 0; step < ${steps}; ++step) {
        float image = 0.0f;
        #pragma unroll
        for (int j = 0; j < N; ++j) image += m[j] * __shfl_sync(0xffffffffu, direction, j, N);
        float along = direction * image;
        for (int gap = N / 2; gap > 0; gap /= 2) along += __shfl_xor_sync(0xffffffffu, along, gap);
        float rate = along > 0.0f ? size / along : 0.0f;
        y += rate * direction;
        residual -= rate * image;
        float smaller = residual * residual;
        for (int gap = N / 2; gap > 0; gap /= 2) smaller += __shfl_xor_sync(0xffffffffu, smaller, gap);
        direction = residual + (size > 0.0f ? smaller / size : 0.0f) * direction;
        size = smaller;
    }
%% endif
    if (known) x[(long long)system * N + row] = y;
%% endif
}

%% for size in (8, 16, 32)
extern "C" __global__ void __launch_bounds__(THREADS)
solve_${size}(const float* a, const float* b, float* x, int systems) { solve<${size}>(a, b, x, systems); }
%% endfor
%% host
def run(a, b):
    systems, size = b.shape
    x = torch.empty_like(b)
%% if method == "thread"
    grid = (systems + ${threads - 1}) // ${threads}
%% else
    grid = (systems * size + ${threads - 1}) // ${threads}
%% endif
    module.launch(f"solve_{size}", grid=grid, block=${threads}, args=(a, b, x, systems))
    return x
