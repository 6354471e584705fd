// Choice of experts: top-k of the router's softmax.
// family routing_cuda for moe_topk_routing
// shape method = "lanes", "lanes", "thread", "staged", "rank"
// shape lanes = 4, 8, 16, 32
// shape softmax = "chosen", "first"
// pick threads = 32, 64, 128, 256, 512
// refuse method != "lanes" and (lanes != 32 or softmax == "first"): lanes and softmax belong to the shared token
// refuse method == "staged" and threads > 512: shared memory

const int MOST = 8, LANES = ${lanes}, PER_LANE = 128 / LANES;

extern "C" __global__ void __launch_bounds__(${threads})
route(const float* __restrict__ logits, float* __restrict__ weights, int* __restrict__ experts, int tokens, int count,
      int k) {
    const float worst = __int_as_float(0xff800000);
%% if method == "lanes"
    int token = (blockIdx.x * ${threads} + threadIdx.x) / LANES;
    bool known = token < tokens;
    const float* from = logits + (long long)(known ? token : tokens - 1) * count;
    int lane = threadIdx.x % LANES;
    float kept[PER_LANE];
    float top = worst;
    #pragma unroll
    for (int i = 0; i < PER_LANE; ++i) {
        int expert = i * LANES + lane;
        kept[i] = expert < count ? from[expert] : worst;
        top = fmaxf(top, kept[i]);
    }
    for (int gap = LANES / 2; gap > 0; gap /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, gap));
%% if softmax == "first"
    float sum = 0.0f;
    #pragma unroll
    for (int i = 0; i < PER_LANE; ++i) sum += __expf(kept[i] - top);
    for (int gap = LANES / 2; gap > 0; gap /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, gap);
%% else
    const float sum = 1.0f;
%% endif
    float chosen[MOST];
    int where[MOST];
    float total = 0.0f;
    #pragma unroll
    for (int step = 0; step < MOST; ++step) {
        if (step < k) {
            float best = worst;
            int place = 0;
            #pragma unroll
            for (int i = 0; i < PER_LANE; ++i)
                if (kept[i] > best) {
                    best = kept[i];
                    place = i * LANES + lane;
                }
            for (int gap = LANES / 2; gap > 0; gap /= 2) {
                float other = __shfl_xor_sync(0xffffffffu, best, gap);
                int other_place = __shfl_xor_sync(0xffffffffu, place, gap);
                if (other > best) {
                    best = other;
                    place = other_place;
                }
            }
            #pragma unroll
            for (int i = 0; i < PER_LANE; ++i)
                if (i * LANES + lane == place) kept[i] = worst;
            chosen[step] = __expf(best - top) / sum;
            where[step] = place;
            total += chosen[step];
        }
    }
    if (known && lane == 0) {
        #pragma unroll
        for (int step = 0; step < MOST; ++step)
            if (step < k) {
                weights[(long long)token * k + step] = chosen[step] / total;
                experts[(long long)token * k + step] = where[step];
            }
    }
%% elif method in ("thread", "staged")
    int token = blockIdx.x * ${threads} + threadIdx.x;
%% if method == "staged"
    const int PART = 16;
    __shared__ float tile[${threads}][PART + 1];
    float best[MOST];
    int where[MOST];
    #pragma unroll
    for (int s = 0; s < MOST; ++s) best[s] = worst;
    for (int first = 0; first < count; first += PART) {
        __syncthreads();
        for (int i = threadIdx.x; i < ${threads} * PART; i += ${threads}) {
            int row = blockIdx.x * ${threads} + i / PART;
            if (row < tokens && first + i % PART < count)
                tile[i / PART][i % PART] = logits[(long long)row * count + first + i % PART];
        }
        __syncthreads();
        for (int i = 0; i < PART && first + i < count; ++i) {
            float own = tile[threadIdx.x][i];
            int place = first + i;
%% else
    if (token >= tokens) return;
    float best[MOST];
    int where[MOST];
    #pragma unroll
    for (int s = 0; s < MOST; ++s) best[s] = worst;
    {
        for (int i = 0; i < count; ++i) {
            float own = logits[(long long)token * count + i];
            int place = i;
%% endif
            if (own > best[MOST - 1]) {
                #pragma unroll
                for (int s = 0; s < MOST; ++s)
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
    if (token >= tokens) return;
    float total = 0.0f;
    #pragma unroll
    for (int s = 0; s < MOST; ++s)
        if (s < k) total += __expf(best[s] - best[0]);
    #pragma unroll
    for (int s = 0; s < MOST; ++s)
        if (s < k) {
            weights[(long long)token * k + s] = __expf(best[s] - best[0]) / total;
            experts[(long long)token * k + s] = where[s];
        }
%% else
    __shared__ float rows[${threads // 32}][128];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int token = blockIdx.x * ${threads // 32} + warp;
    bool known = token < tokens;
    for (int i = lane; i < count; i += 32) rows[warp][i] = known ? logits[(long long)token * count + i] : 0.0f;
    __syncwarp();
    float top = worst;
    for (int i = lane; i < count; i += 32) top = fmaxf(top, rows[warp][i]);
    for (int gap = 16; gap > 0; gap /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, gap));
    float total = 0.0f;
    int ranks[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        int expert = i * 32 + lane;
        ranks[i] = MOST;
        if (expert < count) {
            float own = rows[warp][expert];
            int rank = 0;
            for (int j = 0; j < count; ++j) rank += rows[warp][j] > own;
            ranks[i] = rank;
            if (rank < k) total += __expf(own - top);
        }
    }
    for (int gap = 16; gap > 0; gap /= 2) total += __shfl_xor_sync(0xffffffffu, total, gap);
    #pragma unroll
    for (int i = 0; i < 4; ++i)
        if (known && ranks[i] < k) {
            weights[(long long)token * k + ranks[i]] = __expf(rows[warp][i * 32 + lane] - top) / total;
            experts[(long long)token * k + ranks[i]] = i * 32 + lane;
        }
%% endif
}
%% host
def run(logits, k):
    tokens, count = logits.shape
    weights = torch.empty((tokens, k), dtype=torch.float32, device=logits.device)
    experts = torch.empty((tokens, k), dtype=torch.int32, device=logits.device)
%% if method == "lanes"
    per_block = ${threads // lanes}
%% elif method == "rank"
    per_block = ${threads // 32}
%% else
    per_block = ${threads}
%% endif
    grid = (tokens + per_block - 1) // per_block
    module.launch("route", grid=grid, block=${threads}, args=(logits, weights, experts, tokens, count, k))
    return weights, experts
