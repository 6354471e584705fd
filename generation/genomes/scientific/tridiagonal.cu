// Many tridiagonal systems: elimination, parallel reduction, and both in turn.
// family tridiagonal_cuda for tridiagonal_solve
// shape method = "thread", "staged", "reduce", "reduce"
// shape steps = 2, 3, 4, 5, 6, 8
// pick threads = 32, 64, 128, 256, 512
// pick unroll = 1, 2, 4, 8
// refuse method != "reduce" and steps != 8: steps belong to the reduction
// refuse method == "reduce" and unroll != 1: unrolling belongs to the eliminations
// refuse method == "reduce" and threads > 256: more threads than numbers

const int THREADS = ${threads};

%% if method == "thread"
extern "C" __global__ void __launch_bounds__(THREADS)
solve(const float* __restrict__ lower, const float* __restrict__ diagonal, const float* __restrict__ upper,
      const float* __restrict__ rhs, float* __restrict__ ratios, float* __restrict__ x, int systems, int size) {
    int system = blockIdx.x * THREADS + threadIdx.x;
    if (system >= systems) return;
    long long base = (long long)system * size;
    float ratio = upper[base] / diagonal[base], value = rhs[base] / diagonal[base];
    ratios[base] = ratio;
    x[base] = value;
    #pragma unroll ${unroll}
    for (int i = 1; i < size; ++i) {
        float a = lower[base + i], scale = 1.0f / (diagonal[base + i] - a * ratio);
        ratio = upper[base + i] * scale;
        value = (rhs[base + i] - a * value) * scale;
        ratios[base + i] = ratio;
        x[base + i] = value;
    }
    #pragma unroll ${unroll}
    for (int i = size - 2; i >= 0; --i) {
        value = x[base + i] - ratios[base + i] * value;
        x[base + i] = value;
    }
}
%% elif method == "staged"
// Thirty-two systems a block: tiles of 32 numbers go through shared memory, so that device memory is read along rows.
extern "C" __global__ void __launch_bounds__(THREADS)
solve(const float* __restrict__ lower, const float* __restrict__ diagonal, const float* __restrict__ upper,
      const float* __restrict__ rhs, float* __restrict__ ratios, float* __restrict__ x, int systems, int size) {
    __shared__ float a[32][33], b[32][33], c[32][33], d[32][33];
    int first = blockIdx.x * 32, own = threadIdx.x;
    float ratio = 0.0f, value = 0.0f;
    for (int start = 0; start < size; start += 32) {
        __syncthreads();
        for (int i = threadIdx.x; i < 32 * 32; i += THREADS) {
            int r = i / 32, k = i % 32;
            bool known = first + r < systems && start + k < size;
            long long place = (long long)(first + r) * size + start + k;
            a[r][k] = known && start + k > 0 ? lower[place] : 0.0f;
            b[r][k] = known ? diagonal[place] : 1.0f;
            c[r][k] = known ? upper[place] : 0.0f;
            d[r][k] = known ? rhs[place] : 0.0f;
        }
        __syncthreads();
        if (own < 32) {
            #pragma unroll ${unroll}
            for (int k = 0; k < 32; ++k) {
                float scale = 1.0f / (b[own][k] - a[own][k] * ratio);
                ratio = c[own][k] * scale;
                value = (d[own][k] - a[own][k] * value) * scale;
                c[own][k] = ratio;
                d[own][k] = value;
            }
        }
        __syncthreads();
        for (int i = threadIdx.x; i < 32 * 32; i += THREADS) {
            int r = i / 32, k = i % 32;
            long long place = (long long)(first + r) * size + start + k;
            if (first + r < systems && start + k < size) {
                ratios[place] = c[r][k];
                x[place] = d[r][k];
            }
        }
    }
    value = 0.0f;
    for (int start = (size - 1) / 32 * 32; start >= 0; start -= 32) {
        __syncthreads();
        for (int i = threadIdx.x; i < 32 * 32; i += THREADS) {
            int r = i / 32, k = i % 32;
            bool known = first + r < systems && start + k < size;
            long long place = (long long)(first + r) * size + start + k;
            c[r][k] = known && start + k + 1 < size ? ratios[place] : 0.0f;
            d[r][k] = known ? x[place] : 0.0f;
        }
        __syncthreads();
        if (own < 32)
            for (int k = 31; k >= 0; --k) {
                value = d[own][k] - c[own][k] * value;
                d[own][k] = value;
            }
        __syncthreads();
        for (int i = threadIdx.x; i < 32 * 32; i += THREADS) {
            int r = i / 32, k = i % 32;
            if (first + r < systems && start + k < size) x[(long long)(first + r) * size + start + k] = d[r][k];
        }
    }
}
%% else
const int MOST = 256;

extern "C" __global__ void __launch_bounds__(THREADS)
solve(const float* __restrict__ lower, const float* __restrict__ diagonal, const float* __restrict__ upper,
      const float* __restrict__ rhs, float* __restrict__ ratios, float* __restrict__ x, int systems, int size) {
    __shared__ float a[2][MOST], b[2][MOST], c[2][MOST], d[2][MOST];
    long long base = (long long)blockIdx.x * size;
    for (int i = threadIdx.x; i < size; i += THREADS) {
        a[0][i] = i > 0 ? lower[base + i] : 0.0f;
        b[0][i] = diagonal[base + i];
        c[0][i] = i + 1 < size ? upper[base + i] : 0.0f;
        d[0][i] = rhs[base + i];
    }
    __syncthreads();
    int side = 0, gap = 1;
    for (int step = 0; step < ${steps} && gap < size; ++step) {
        for (int i = threadIdx.x; i < size; i += THREADS) {
            int above = i - gap, below = i + gap;
            float up = 0.0f, down = 0.0f, next_a = 0.0f, next_c = 0.0f;
            float next_b = b[side][i], next_d = d[side][i];
            if (above >= 0) {
                up = -a[side][i] / b[side][above];
                next_a = up * a[side][above];
                next_b += up * c[side][above];
                next_d += up * d[side][above];
            }
            if (below < size) {
                down = -c[side][i] / b[side][below];
                next_c = down * c[side][below];
                next_b += down * a[side][below];
                next_d += down * d[side][below];
            }
            a[1 - side][i] = next_a;
            b[1 - side][i] = next_b;
            c[1 - side][i] = next_c;
            d[1 - side][i] = next_d;
        }
        __syncthreads();
        side = 1 - side;
        gap *= 2;
    }
    for (int first = threadIdx.x; first < gap; first += THREADS) {
        float ratio = c[side][first] / b[side][first], value = d[side][first] / b[side][first];
        c[side][first] = ratio;
        d[side][first] = value;
        int last = first;
        for (int i = first + gap; i < size; i += gap) {
            float scale = 1.0f / (b[side][i] - a[side][i] * ratio);
            ratio = c[side][i] * scale;
            value = (d[side][i] - a[side][i] * value) * scale;
            c[side][i] = ratio;
            d[side][i] = value;
            last = i;
        }
        for (int i = last - gap; i >= 0; i -= gap) {
            value = d[side][i] - c[side][i] * value;
            d[side][i] = value;
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < size; i += THREADS) x[base + i] = d[side][i];
}
%% endif
%% host
def run(lower, diagonal, upper, rhs):
    systems, size = rhs.shape
    x = torch.empty_like(rhs)
    ratios = torch.empty_like(rhs)
%% if method == "thread"
    grid = (systems + ${threads - 1}) // ${threads}
%% elif method == "staged"
    grid = (systems + 31) // 32
%% else
    grid = systems
%% endif
    args = (lower, diagonal, upper, rhs, ratios, x, systems, size)
    module.launch("solve", grid=grid, block=${threads}, args=args)
    return x
