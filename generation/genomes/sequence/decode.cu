// Attention of one new token to a dense, grouped or paged cache.
// family decode_cuda for attention_decode, paged_attention_decode
// family grouped_decode_cuda for gqa_decode
// let sharing = "head"
// shape sharing = ("group", "head") if problem == "gqa_decode" else ()
// shape method = "lanes", "lanes", "tokens", "warps"
// shape rescale = "always", "rarely"
// shape splits = 1, 2, 4, 8, 16
// shape vec = 4, 8, 16
// pick threads = 64, 128, 256, 512
// pick unroll = 1, 2, 4
// refuse method != "lanes" and (rescale != "always" or vec != 8): only the one-pass form rescales
// refuse method != "lanes" and sharing != "head": stored scores serve one head
// refuse method != "lanes" and splits == 1 and threads > 256: 8,192 stored scores and 32 partial rows exceed 48 KiB
//     together
// refuse threads * vec > 8192: the slots' sums exceed static shared memory

%% set paged = problem == "paged_attention_decode"
%% set grouped = problem == "gqa_decode"
#include <cuda_bf16.h>

const int THREADS = ${threads}, SPLITS = ${splits};
const float LOWEST = -1.0e30f;

struct Cache {
    const __nv_bfloat16* k;
    const __nv_bfloat16* v;
    const int* table;
    long long first;
    long long stride;
};

__device__ __forceinline__ long long place_of(const Cache& cache, int token) {
%% if paged
    return cache.first + ((long long)cache.table[token / 16] * 16 + token % 16) * cache.stride;
%% else
    return cache.first + token * cache.stride;
%% endif
}

template <int VEC>
__device__ __forceinline__ void load(const __nv_bfloat16* from, float* to) {
    __align__(16) __nv_bfloat16 raw[VEC];
    if (VEC >= 8) {
        for (int i = 0; i < VEC / 8; ++i)
            reinterpret_cast<uint4*>(raw)[i] = reinterpret_cast<const uint4*>(from)[i];
    } else {
        *reinterpret_cast<uint2*>(raw) = *reinterpret_cast<const uint2*>(from);
    }
    #pragma unroll
    for (int i = 0; i < VEC; ++i) to[i] = __bfloat162float(raw[i]);
}

template <int D, int GROUP>
__device__ __forceinline__ void attend(const __nv_bfloat16* q, Cache cache, __nv_bfloat16* out, float* parts,
                                       float* stats, int own, int start, int stop, float scale, int part) {
%% if method == "lanes"
    const int VEC = ${vec}, LANES = D / VEC, SLOTS = THREADS / LANES;
    int lane = threadIdx.x % LANES, slot = threadIdx.x / LANES;
    float queries[GROUP][VEC], sums[GROUP][VEC], top[GROUP], total[GROUP];
    #pragma unroll
    for (int g = 0; g < GROUP; ++g) {
        load<VEC>(q + (long long)(own + g) * D + lane * VEC, queries[g]);
        top[g] = LOWEST;
        total[g] = 0.0f;
        for (int i = 0; i < VEC; ++i) sums[g][i] = 0.0f;
    }
    // All slots of a warp stay in the loop: the shuffles need every lane.
    #pragma unroll ${unroll}
    for (int base = start; base < stop; base += SLOTS) {
        int token = base + slot;
        bool known = token < stop;
        long long place = place_of(cache, known ? token : start) + lane * VEC;
        float keys[VEC], values[VEC];
        load<VEC>(cache.k + place, keys);
        load<VEC>(cache.v + place, values);
        #pragma unroll
        for (int g = 0; g < GROUP; ++g) {
            float score = 0.0f;
            #pragma unroll
            for (int i = 0; i < VEC; ++i) score += queries[g][i] * keys[i];
            for (int gap = LANES / 2; gap > 0; gap /= 2) score += __shfl_xor_sync(0xffffffffu, score, gap);
            score = known ? score * scale : LOWEST;
%% if rescale == "always"
            float higher = fmaxf(top[g], score);
            float shrink = __expf(top[g] - higher);
            float weight = known ? __expf(score - higher) : 0.0f;
            total[g] = total[g] * shrink + weight;
            #pragma unroll
            for (int i = 0; i < VEC; ++i) sums[g][i] = sums[g][i] * shrink + weight * values[i];
            top[g] = higher;
%% else
            if (score > top[g]) {
                float shrink = __expf(top[g] - score);
                total[g] *= shrink;
                #pragma unroll
                for (int i = 0; i < VEC; ++i) sums[g][i] *= shrink;
                top[g] = score;
            }
            float weight = known ? __expf(score - top[g]) : 0.0f;
            total[g] += weight;
            #pragma unroll
            for (int i = 0; i < VEC; ++i) sums[g][i] += weight * values[i];
%% endif
        }
    }
    __shared__ float slot_sums[SLOTS][D];
    __shared__ float slot_top[SLOTS], slot_total[SLOTS];
    #pragma unroll
    for (int g = 0; g < GROUP; ++g) {
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < VEC; ++i) slot_sums[slot][lane * VEC + i] = sums[g][i];
        if (lane == 0) {
            slot_top[slot] = top[g];
            slot_total[slot] = total[g];
        }
        __syncthreads();
        for (int d = threadIdx.x; d < D; d += THREADS) {
            float highest = LOWEST, all = 0.0f, mixed = 0.0f;
            for (int s = 0; s < SLOTS; ++s) highest = fmaxf(highest, slot_top[s]);
            for (int s = 0; s < SLOTS; ++s) {
                float factor = __expf(slot_top[s] - highest);
                all += slot_total[s] * factor;
                mixed += slot_sums[s][d] * factor;
            }
%% if splits > 1
            long long to = (long long)(own + g) * SPLITS + part;
            parts[to * D + d] = mixed;
            if (d == 0) {
                stats[to * 2] = highest;
                stats[to * 2 + 1] = all;
            }
%% else
            out[(long long)(own + g) * D + d] = __float2bfloat16(mixed / all);
%% endif
        }
    }
%% else
    extern __shared__ float scores[];
    __shared__ float queries[D], partial[THREADS / (D / 8)][D], reduced[32];
    for (int d = threadIdx.x; d < D; d += THREADS) queries[d] = __bfloat162float(q[(long long)own * D + d]) * scale;
    __syncthreads();
    float top = LOWEST;
%% if method == "tokens"
    for (int token = start + threadIdx.x; token < stop; token += THREADS) {
        const __nv_bfloat16* key = cache.k + place_of(cache, token);
        float score = 0.0f;
        #pragma unroll ${unroll}
        for (int d = 0; d < D; d += 8) {
            float keys[8];
            load<8>(key + d, keys);
            for (int i = 0; i < 8; ++i) score += keys[i] * queries[d + i];
        }
        scores[token - start] = score;
        top = fmaxf(top, score);
    }
%% else
    for (int token = start + threadIdx.x / 32; token < stop; token += THREADS / 32) {
        const __nv_bfloat16* key = cache.k + place_of(cache, token);
        float score = 0.0f;
        for (int d = threadIdx.x % 32; d < D; d += 32) score += __bfloat162float(key[d]) * queries[d];
        for (int gap = 16; gap > 0; gap /= 2) score += __shfl_xor_sync(0xffffffffu, score, gap);
        if (threadIdx.x % 32 == 0) scores[token - start] = score;
        top = fmaxf(top, score);
    }
%% endif
    for (int gap = 16; gap > 0; gap /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, gap));
    if (threadIdx.x % 32 == 0) reduced[threadIdx.x / 32] = top;
    __syncthreads();
    for (int w = 0; w < THREADS / 32; ++w) top = fmaxf(top, reduced[w]);
    __syncthreads();
    float total = 0.0f;
    for (int i = threadIdx.x; i < stop - start; i += THREADS) {
        float weight = __expf(scores[i] - top);
        scores[i] = weight;
        total += weight;
    }
    for (int gap = 16; gap > 0; gap /= 2) total += __shfl_xor_sync(0xffffffffu, total, gap);
    if (threadIdx.x % 32 == 0) reduced[threadIdx.x / 32] = total;
    __syncthreads();
    total = 0.0f;
    for (int w = 0; w < THREADS / 32; ++w) total += reduced[w];
    const int LANES = D / 8, SLOTS = THREADS / LANES;
    int lane = threadIdx.x % LANES, slot = threadIdx.x / LANES;
    float sums[8] = {};
    #pragma unroll ${unroll}
    for (int token = start + slot; token < stop; token += SLOTS) {
        float values[8];
        load<8>(cache.v + place_of(cache, token) + lane * 8, values);
        float weight = scores[token - start];
        for (int i = 0; i < 8; ++i) sums[i] += weight * values[i];
    }
    for (int i = 0; i < 8; ++i) partial[slot][lane * 8 + i] = sums[i];
    __syncthreads();
    for (int d = threadIdx.x; d < D; d += THREADS) {
        float mixed = 0.0f;
        for (int s = 0; s < SLOTS; ++s) mixed += partial[s][d];
%% if splits > 1
        long long to = (long long)own * SPLITS + part;
        parts[to * D + d] = mixed;
        if (d == 0) {
            stats[to * 2] = top;
            stats[to * 2 + 1] = total;
        }
%% else
        out[(long long)own * D + d] = __float2bfloat16(mixed / total);
%% endif
    }
%% endif
}

template <int D, int GROUP>
__device__ __forceinline__ void attend_head(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v,
                                            const int* table, const int* lengths, __nv_bfloat16* out, float* parts,
                                            float* stats, int length, int heads, int kv_heads, float scale) {
    int groups = heads / GROUP;
    int batch = blockIdx.x / groups, head = blockIdx.x % groups * GROUP;
    int kv_head = head / (heads / kv_heads);
%% if paged
    int last = lengths[batch];
    Cache cache = {k, v, table + batch * (length / 16), (long long)kv_head * D, (long long)kv_heads * D};
%% elif grouped
    int last = length;
    Cache cache = {k, v, table, ((long long)batch * length * kv_heads + kv_head) * D, (long long)kv_heads * D};
%% else
    int last = length;
    Cache cache = {k, v, table, ((long long)batch * kv_heads + kv_head) * length * D, D};
%% endif
    int share = (last + SPLITS - 1) / SPLITS;
    int start = min(last, (int)blockIdx.y * share), stop = min(last, start + share);
    attend<D, GROUP>(q, cache, out, parts, stats, batch * heads + head, start, stop, scale, blockIdx.y);
}

%% for dim in (64, 128)
%% for group in ((1, 2, 4) if grouped and sharing == "group" else (1,))
extern "C" __global__ void __launch_bounds__(THREADS)
attend_${dim}_${group}(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v, const int* table,
             const int* lengths, __nv_bfloat16* out, float* parts, float* stats, int length, int heads, int kv_heads,
             float scale) {
    attend_head<${dim}, ${group}>(q, k, v, table, lengths, out, parts, stats, length, heads, kv_heads, scale);
}
%% endfor
%% endfor

%% if splits > 1
extern "C" __global__ void combine(const float* __restrict__ parts, const float* __restrict__ stats, __nv_bfloat16* out,
                                   int dim) {
    long long own = blockIdx.x;
    float highest = LOWEST, all = 0.0f, mixed = 0.0f;
    for (int s = 0; s < SPLITS; ++s) highest = fmaxf(highest, stats[(own * SPLITS + s) * 2]);
    for (int s = 0; s < SPLITS; ++s) {
        float factor = __expf(stats[(own * SPLITS + s) * 2] - highest);
        all += stats[(own * SPLITS + s) * 2 + 1] * factor;
        mixed += parts[(own * SPLITS + s) * dim + threadIdx.x] * factor;
    }
    out[own * dim + threadIdx.x] = __float2bfloat16(mixed / all);
}
%% endif
%% host
%% if paged
def run(q, k_pages, v_pages, page_table, context_lengths):
    k, v, table, lengths = k_pages, v_pages, page_table, context_lengths
    length = page_table.shape[1] * 16
    kv_heads = k.shape[2]
%% else
def run(q, k, v):
    table, lengths = q, q
%% if grouped
    length, kv_heads = k.shape[1], k.shape[2]
%% else
    kv_heads, length = k.shape[1], k.shape[2]
%% endif
%% endif
    batch, heads, dim = q.shape
    out = torch.empty_like(q)
    group = ${"heads // kv_heads" if grouped and sharing == "group" else "1"}
    parts = torch.empty((batch * heads, ${splits}, dim), dtype=torch.float32, device=q.device)
    stats = torch.empty((batch * heads, ${splits}, 2), dtype=torch.float32, device=q.device)
    args = (q, k, v, table, lengths, out, parts, stats, length, heads, kv_heads, dim**-0.5)
    grid = (batch * heads // group, ${splits})
    shared = ${"0" if method == "lanes" else "(length + %d) // %d * 4" % (splits - 1, splits)}
    module.launch(f"attend_{dim}_{group}", grid=grid, block=${threads}, args=args, shared_bytes=shared)
%% if splits > 1
    module.launch("combine", grid=batch * heads, block=dim, args=(parts, stats, out, dim))
%% endif
    return out
