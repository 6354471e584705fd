// The nearest centroid of every point.
// family cluster_cuda for kmeans_assign
// shape method = "thread", "tile", "tile", "warp"
// shape form = "difference", "expanded"
// shape rx = 2, 4, 8
// pick part = 16, 32, 64
// pick threads = 64, 128, 256, 512
// refuse method != "thread" and part != 32: parts belong to the thread form
// refuse method != "tile" and rx != 4: rx belongs to the tile form
// refuse method == "tile" and threads * rx > 4096: shared memory

const int THREADS = ${threads};
const float HIGHEST = 3.0e38f;

template <int D>
__device__ __forceinline__ void assign(const float* __restrict__ points, const float* __restrict__ centroids,
                                       int* __restrict__ labels, float* __restrict__ lowest, int count, int clusters) {
%% if method == "thread"
    const int PART = ${part};
    __shared__ float kept[PART][D], squares[PART];
    int point = blockIdx.x * THREADS + threadIdx.x;
    bool known = point < count;
    float x[D], own = 0.0f;
    #pragma unroll
    for (int d = 0; d < D; d += 4) {
        float4 value = *reinterpret_cast<const float4*>(points + (long long)(known ? point : 0) * D + d);
        x[d] = value.x; x[d + 1] = value.y; x[d + 2] = value.z; x[d + 3] = value.w;
        own += value.x * value.x + value.y * value.y + value.z * value.z + value.w * value.w;
    }
    float best = HIGHEST;
    int label = 0;
    for (int first = 0; first < clusters; first += PART) {
        __syncthreads();
        for (int i = threadIdx.x; i < PART * D; i += THREADS)
            kept[i / D][i % D] = first + i / D < clusters ? centroids[(long long)first * D + i] : 0.0f;
        __syncthreads();
        for (int i = threadIdx.x; i < PART; i += THREADS) {
            float sum = 0.0f;
            for (int d = 0; d < D; ++d) sum += kept[i][d] * kept[i][d];
            squares[i] = sum;
        }
        __syncthreads();
        for (int c = 0; c < PART && first + c < clusters; ++c) {
            float sum = 0.0f;
%% if form == "difference"
            #pragma unroll
            for (int d = 0; d < D; ++d) {
                float gap = x[d] - kept[c][d];
                sum += gap * gap;
            }
%% else
            #pragma unroll
            for (int d = 0; d < D; ++d) sum += x[d] * kept[c][d];
            sum = own + squares[c] - 2.0f * sum;
%% endif
            if (sum < best) {
                best = sum;
                label = first + c;
            }
        }
    }
    if (known) {
        labels[point] = label;
        lowest[point] = best;
    }
%% elif method == "tile"
    // A block of THREADS / 16 * RX points by 16 * RY centroids; a thread keeps RX × RY distances.
    const int RX = ${rx}, RY = 4, ROWS = THREADS / 16 * RX, COLS = 16 * RY, DEPTH = 16;
    __shared__ float left[DEPTH][ROWS + 1], right[DEPTH][COLS + 1];
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    int first_point = blockIdx.x * ROWS;
    float best[RX];
    int label[RX];
    for (int i = 0; i < RX; ++i) {
        best[i] = HIGHEST;
        label[i] = 0;
    }
    for (int first = 0; first < clusters; first += COLS) {
        float sums[RX][RY] = {};
        for (int depth = 0; depth < D; depth += DEPTH) {
            __syncthreads();
            for (int i = threadIdx.x; i < ROWS * DEPTH; i += THREADS) {
                int r = i / DEPTH, d = i % DEPTH, point = first_point + r;
                left[d][r] = point < count ? points[(long long)point * D + depth + d] : 0.0f;
            }
            for (int i = threadIdx.x; i < COLS * DEPTH; i += THREADS) {
                int c = i / DEPTH, d = i % DEPTH;
                right[d][c] = first + c < clusters ? centroids[(long long)(first + c) * D + depth + d] : 0.0f;
            }
            __syncthreads();
            #pragma unroll
            for (int d = 0; d < DEPTH; ++d) {
                float a[RX], b[RY];
                #pragma unroll
                for (int i = 0; i < RX; ++i) a[i] = left[d][ty * RX + i];
                #pragma unroll
                for (int j = 0; j < RY; ++j) b[j] = right[d][tx + 16 * j];
                #pragma unroll
                for (int i = 0; i < RX; ++i)
                    #pragma unroll
                    for (int j = 0; j < RY; ++j) {
%% if form == "difference"
                        float gap = a[i] - b[j];
                        sums[i][j] += gap * gap;
%% else
                        sums[i][j] += a[i] * (a[i] - 2.0f * b[j]) + b[j] * b[j];
%% endif
                    }
            }
        }
        #pragma unroll
        for (int i = 0; i < RX; ++i)
            #pragma unroll
            for (int j = 0; j < RY; ++j) {
                int c = first + tx + 16 * j;
                if (c < clusters && sums[i][j] < best[i]) {
                    best[i] = sums[i][j];
                    label[i] = c;
                }
            }
    }
    #pragma unroll
    for (int i = 0; i < RX; ++i) {
        for (int gap = 8; gap > 0; gap /= 2) {
            float other = __shfl_xor_sync(0xffffffffu, best[i], gap);
            int other_label = __shfl_xor_sync(0xffffffffu, label[i], gap);
            if (other < best[i] || (other == best[i] && other_label < label[i])) {
                best[i] = other;
                label[i] = other_label;
            }
        }
        int point = first_point + ty * RX + i;
        if (tx == 0 && point < count) {
            labels[point] = label[i];
            lowest[point] = best[i];
        }
    }
%% else
    // A warp takes a point: each lane measures every 32nd centroid.
    __shared__ float kept[THREADS / 32][D];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int point = blockIdx.x * (THREADS / 32) + warp;
    bool known = point < count;
    for (int d = lane; d < D; d += 32) kept[warp][d] = points[(long long)(known ? point : 0) * D + d];
    __syncwarp();
    float best = HIGHEST;
    int label = 0;
    for (int c = lane; c < clusters; c += 32) {
        float sum = 0.0f;
        #pragma unroll
        for (int d = 0; d < D; d += 4) {
            float4 value = *reinterpret_cast<const float4*>(centroids + (long long)c * D + d);
%% if form == "difference"
            float g0 = kept[warp][d] - value.x, g1 = kept[warp][d + 1] - value.y;
            float g2 = kept[warp][d + 2] - value.z, g3 = kept[warp][d + 3] - value.w;
            sum += g0 * g0 + g1 * g1 + g2 * g2 + g3 * g3;
%% else
            float a0 = kept[warp][d], a1 = kept[warp][d + 1], a2 = kept[warp][d + 2], a3 = kept[warp][d + 3];
            sum += a0 * (a0 - 2.0f * value.x) + value.x * value.x + a1 * (a1 - 2.0f * value.y) + value.y * value.y;
            sum += a2 * (a2 - 2.0f * value.z) + value.z * value.z + a3 * (a3 - 2.0f * value.w) + value.w * value.w;
%% endif
        }
        if (sum < best) {
            best = sum;
            label = c;
        }
    }
    for (int gap = 16; gap > 0; gap /= 2) {
        float other = __shfl_xor_sync(0xffffffffu, best, gap);
        int other_label = __shfl_xor_sync(0xffffffffu, label, gap);
        if (other < best || (other == best && other_label < label)) {
            best = other;
            label = other_label;
        }
    }
    if (known && lane == 0) {
        labels[point] = label;
        lowest[point] = best;
    }
%% endif
}

%% for dim in (16, 64)
extern "C" __global__ void __launch_bounds__(THREADS)
assign_${dim}(const float* points, const float* centroids, int* labels, float* lowest, int count, int clusters) {
    assign<${dim}>(points, centroids, labels, lowest, count, clusters);
}
%% endfor
%% host
def run(points, centroids):
    count, dim = points.shape
    labels = torch.empty(count, dtype=torch.int32, device=points.device)
    lowest = torch.empty(count, dtype=torch.float32, device=points.device)
    per_block = ${{"thread": threads, "tile": threads // 16 * rx, "warp": threads // 32}[method]}
    args = (points, centroids, labels, lowest, count, centroids.shape[0])
    module.launch(f"assign_{dim}", grid=(count + per_block - 1) // per_block, block=${threads}, args=args)
    return labels, lowest
