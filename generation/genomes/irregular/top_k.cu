// The largest values of a row: repeated maxima, sorting, private lists, radix or threshold selection.
// family top_k_cuda for top_k
// shape method = "warp", "rounds", "staged", "lists", "radix"
// pick threads = 32, 64, 128, 256, 512, 1024
// pick unroll = 1, 2, 4, 8
// refuse method == "lists" and (unroll != 4 or threads > 512): lists fill the registers

const int MOST = 16;

__device__ __forceinline__ void better(float& value, int& place, float other, int other_place) {
    if (other > value) {
        value = other;
        place = other_place;
    }
}

__device__ __forceinline__ void warp_best(float& value, int& place) {
    for (int gap = 16; gap > 0; gap /= 2) {
        float other = __shfl_xor_sync(0xffffffffu, value, gap);
        int other_place = __shfl_xor_sync(0xffffffffu, place, gap);
        better(value, place, other, other_place);
    }
}

%% if method != "warp"
__device__ __forceinline__ void block_best(float& value, int& place) {
    __shared__ float values[32];
    __shared__ int places[32];
    warp_best(value, place);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (lane == 0) {
        values[warp] = value;
        places[warp] = place;
    }
    __syncthreads();
    value = values[0];
    place = places[0];
    for (int w = 1; w < ${threads // 32}; ++w) better(value, place, values[w], places[w]);
    __syncthreads();
}
%% endif

extern "C" __global__ void __launch_bounds__(${threads})
top_k(const float* __restrict__ x, float* __restrict__ values, int* __restrict__ places, int rows, int cols, int k) {
    const float worst = __int_as_float(0xff800000);
%% if method == "warp"
    int row = blockIdx.x * ${threads // 32} + threadIdx.x / 32;
    if (row >= rows) return;
    const float* from = x + (long long)row * cols;
    int lane = threadIdx.x % 32;
    float last = __int_as_float(0x7f800000);
    for (int step = 0; step < k; ++step) {
        float value = worst;
        int place = 0;
        #pragma unroll ${unroll}
        for (int i = lane; i < cols; i += 32) {
            float own = from[i];
            if (own < last) better(value, place, own, i);
        }
        warp_best(value, place);
        last = value;
        if (lane == 0) {
            values[(long long)row * k + step] = value;
            places[(long long)row * k + step] = place;
        }
    }
%% elif method in ("rounds", "staged")
    int row = blockIdx.x;
    const float* from = x + (long long)row * cols;
%% if method == "staged"
    extern __shared__ float kept[];
    for (int i = threadIdx.x; i < cols; i += ${threads}) kept[i] = from[i];
    __syncthreads();
%% else
    const float* kept = from;
%% endif
    float last = __int_as_float(0x7f800000);
    for (int step = 0; step < k; ++step) {
        float value = worst;
        int place = 0;
        #pragma unroll ${unroll}
        for (int i = threadIdx.x; i < cols; i += ${threads}) {
            float own = kept[i];
            if (own < last) better(value, place, own, i);
        }
        block_best(value, place);
        last = value;
        if (threadIdx.x == 0) {
            values[(long long)row * k + step] = value;
            places[(long long)row * k + step] = place;
        }
    }
%% elif method == "lists"
    int row = blockIdx.x;
    const float* from = x + (long long)row * cols;
    float best[MOST];
    int where[MOST];
    #pragma unroll
    for (int i = 0; i < MOST; ++i) {
        best[i] = worst;
        where[i] = 0;
    }
    for (int i = threadIdx.x; i < cols; i += ${threads}) {
        float own = from[i];
        if (own > best[MOST - 1]) {
            int place = i;
            #pragma unroll
            for (int s = 0; s < MOST; ++s) {
                if (own > best[s]) {
                    float old = best[s];
                    int old_place = where[s];
                    best[s] = own;
                    where[s] = place;
                    own = old;
                    place = old_place;
                }
            }
        }
    }
    for (int step = 0; step < k; ++step) {
        float value = best[0];
        int place = where[0];
        block_best(value, place);
        if (best[0] == value && where[0] == place) {
            #pragma unroll
            for (int s = 0; s + 1 < MOST; ++s) {
                best[s] = best[s + 1];
                where[s] = where[s + 1];
            }
            best[MOST - 1] = worst;
        }
        if (threadIdx.x == 0) {
            values[(long long)row * k + step] = value;
            places[(long long)row * k + step] = place;
        }
    }
%% else
    int row = blockIdx.x;
    const float* from = x + (long long)row * cols;
    __shared__ int counts[256];
    __shared__ unsigned prefix;
    __shared__ int wanted, found;
    __shared__ float chosen[MOST];
    __shared__ int chosen_places[MOST];
    if (threadIdx.x == 0) {
        prefix = 0;
        wanted = k;
        found = 0;
    }
    for (int shift = 24; shift >= 0; shift -= 8) {
        for (int i = threadIdx.x; i < 256; i += ${threads}) counts[i] = 0;
        __syncthreads();
        unsigned above = shift == 24 ? 0u : 0xffffffffu << (shift + 8);
        #pragma unroll ${unroll}
        for (int i = threadIdx.x; i < cols; i += ${threads}) {
            unsigned bits = __float_as_uint(from[i]);
            unsigned key = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
            if ((key & above) == prefix) atomicAdd(&counts[(key >> shift) & 255], 1);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            int digit = 255;
            while (counts[digit] < wanted) wanted -= counts[digit--];
            prefix |= (unsigned)digit << shift;
        }
        __syncthreads();
    }
    for (int i = threadIdx.x; i < cols; i += ${threads}) {
        float own = from[i];
        unsigned bits = __float_as_uint(own);
        unsigned key = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
        if (key >= prefix) {
            int slot = atomicAdd(&found, 1);
            if (slot < MOST) {
                chosen[slot] = own;
                chosen_places[slot] = i;
            }
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < k; i += ${threads}) {
        int rank = 0;
        for (int j = 0; j < k; ++j) rank += chosen[j] > chosen[i];
        values[(long long)row * k + rank] = chosen[i];
        places[(long long)row * k + rank] = chosen_places[i];
    }
%% endif
}
%% host
def run(x, k):
    rows, cols = x.shape
    values = torch.empty((rows, k), dtype=torch.float32, device=x.device)
    places = torch.empty((rows, k), dtype=torch.int32, device=x.device)
%% if method == "warp"
    grid = (rows + ${threads // 32 - 1}) // ${threads // 32}
%% else
    grid = rows
%% endif
%% if method == "staged"
    shared = cols * 4
%% else
    shared = 0
%% endif
    module.launch("top_k", grid=grid, block=${threads}, args=(x, values, places, rows, cols, k), shared_bytes=shared)
    return values, places
