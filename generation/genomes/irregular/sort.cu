// Sorted rows: in registers or shared memory, by rank, radix, merging, or passes over memory.
// family sort_cuda for sort
// shape method = "bitonic", "shuffle", "rank", "radix", "merge", "odd_even"
// shape key = "float", "integer"
// pick threads = 32, 64, 128, 256, 512, 1024
// pick unroll = 1, 2, 4, 8, 16
// refuse method in ("shuffle", "radix", "merge") and threads != 256: one thread per element
// refuse method == "radix" and key == "integer": the radix sort has its own key
// refuse method != "rank" and unroll != 4: only the rank loop unrolls

%% if key == "integer"
typedef int item;
__device__ __forceinline__ item to_key(float value) {
    int bits = __float_as_int(value);
    return bits < 0 ? bits ^ 0x7fffffff : bits;
}
__device__ __forceinline__ float from_key(item key) { return __int_as_float(key < 0 ? key ^ 0x7fffffff : key); }
%% else
typedef float item;
__device__ __forceinline__ item to_key(float value) { return value; }
__device__ __forceinline__ float from_key(item key) { return key; }
%% endif

const int MOST = 1024;

extern "C" __global__ void __launch_bounds__(1024)
sort_rows(const float* __restrict__ x, float* __restrict__ y, int cols) {
    const float* from = x + (long long)blockIdx.x * cols;
    float* to = y + (long long)blockIdx.x * cols;
    int self = threadIdx.x;
%% if method == "bitonic"
    __shared__ item keys[MOST];
    for (int i = self; i < cols; i += blockDim.x) keys[i] = to_key(from[i]);
    __syncthreads();
    for (int span = 2; span <= cols; span *= 2) {
        for (int gap = span / 2; gap > 0; gap /= 2) {
            for (int pair = self; pair < cols / 2; pair += blockDim.x) {
                int i = pair / gap * 2 * gap + pair % gap;
                item one = keys[i], two = keys[i + gap];
                if ((one > two) == ((i & span) == 0)) {
                    keys[i] = two;
                    keys[i + gap] = one;
                }
            }
            __syncthreads();
        }
    }
    for (int i = self; i < cols; i += blockDim.x) to[i] = from_key(keys[i]);
%% elif method == "shuffle"
    __shared__ item keys[MOST];
    item own = to_key(from[self]);
    for (int span = 2; span <= cols; span *= 2) {
        bool rising = (self & span) == 0;
        for (int gap = span / 2; gap > 0; gap /= 2) {
            item other;
            if (gap >= 32) {
                __syncthreads();
                keys[self] = own;
                __syncthreads();
                other = keys[self ^ gap];
            } else {
                other = __shfl_xor_sync(0xffffffffu, own, gap);
            }
            bool low = (self & gap) == 0;
            own = (low == rising) == (own > other) && own != other ? other : own;
        }
    }
    to[self] = from_key(own);
%% elif method == "rank"
    __shared__ item keys[MOST];
    for (int i = self; i < cols; i += blockDim.x) keys[i] = to_key(from[i]);
    __syncthreads();
    for (int i = self; i < cols; i += blockDim.x) {
        item own = keys[i];
        int rank = 0;
        #pragma unroll ${unroll}
        for (int j = 0; j < cols; ++j) rank += keys[j] < own || (keys[j] == own && j < i);
        to[rank] = from_key(own);
    }
%% elif method == "radix"
    __shared__ unsigned keys[MOST];
    __shared__ int zeros[32];
    int lane = self % 32, warp = self / 32, warps = cols / 32;
    unsigned bits = __float_as_uint(from[self]);
    unsigned own = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    for (int bit = 0; bit < 32; ++bit) {
        unsigned votes = __ballot_sync(0xffffffffu, !((own >> bit) & 1));
        if (lane == 0) zeros[warp] = __popc(votes);
        __syncthreads();
        int before = 0, all = 0;
        for (int w = 0; w < warps; ++w) {
            before += w < warp ? zeros[w] : 0;
            all += zeros[w];
        }
        before += __popc(votes & ((1u << lane) - 1));
        int place = (own >> bit) & 1 ? all + self - before : before;
        keys[place] = own;
        __syncthreads();
        own = keys[self];
    }
    to[self] = __uint_as_float(own & 0x80000000u ? own & 0x7fffffffu : ~own);
%% elif method == "merge"
    __shared__ item keys[2][MOST];
    item own = to_key(from[self]);
    int lane = self % 32;
    for (int span = 2; span <= 32; span *= 2) {
        for (int gap = span / 2; gap > 0; gap /= 2) {
            item other = __shfl_xor_sync(0xffffffffu, own, gap);
            bool rising = span == 32 || (lane & span) == 0;
            bool low = (lane & gap) == 0;
            own = (low == rising) == (own > other) && own != other ? other : own;
        }
    }
    int side = 0;
    keys[0][self] = own;
    __syncthreads();
    for (int run = 32; run < cols; run *= 2) {
        int start = self / run * run, mate = start ^ run;
        item mine = keys[side][self];
        int low = 0, high = run;
        while (low < high) {
            int middle = (low + high) / 2;
            item probe = keys[side][mate + middle];
            if (probe < mine || (probe == mine && mate < start)) low = middle + 1;
            else high = middle;
        }
        int place = (start & ~run) + (self - start) + low;
        keys[1 - side][place] = mine;
        __syncthreads();
        side = 1 - side;
    }
    to[self] = from_key(keys[side][self]);
%% else
    __shared__ item keys[MOST];
    for (int i = self; i < cols; i += blockDim.x) keys[i] = to_key(from[i]);
    __syncthreads();
    for (int pass = 0; pass < cols; ++pass) {
        for (int i = 2 * self + (pass & 1); i + 1 < cols; i += 2 * blockDim.x) {
            item one = keys[i], two = keys[i + 1];
            if (one > two) {
                keys[i] = two;
                keys[i + 1] = one;
            }
        }
        __syncthreads();
    }
    for (int i = self; i < cols; i += blockDim.x) to[i] = from_key(keys[i]);
%% endif
}
%% host
def run(x):
    rows, cols = x.shape
    y = torch.empty_like(x)
%% if method in ("shuffle", "radix", "merge")
    block = cols
%% else
    block = min(${threads}, cols)
%% endif
    module.launch("sort_rows", grid=rows, block=block, args=(x, y, cols))
    return y
