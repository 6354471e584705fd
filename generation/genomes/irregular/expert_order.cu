// Tokens brought into expert order: count, scan, place, move.
// family expert_order_cuda for moe_permute
// shape rank = "compare", "match", "serial"
// shape move = "block", "warp", "flat", "scatter"
// shape word = "unsigned short", "unsigned", "uint2", "uint4"
// pick chunk = 64, 128, 256, 512
// pick threads = 64, 128, 256
// pick unroll = 1, 2, 4
// refuse move == "flat" and unroll != 4: the flat move has no loop
// refuse rank == "match" and chunk > 512: shared memory

typedef ${word} word;
const int CHUNK = ${chunk}, MOST = 256;

extern "C" __global__ void __launch_bounds__(CHUNK)
count(const int* __restrict__ experts, int* __restrict__ counts, int pairs, int width) {
    __shared__ int cells[MOST];
    for (int e = threadIdx.x; e < width; e += CHUNK) cells[e] = 0;
    __syncthreads();
    int place = blockIdx.x * CHUNK + threadIdx.x;
    if (place < pairs) atomicAdd(&cells[experts[place]], 1);
    __syncthreads();
    for (int e = threadIdx.x; e < width; e += CHUNK) counts[blockIdx.x * width + e] = cells[e];
}

extern "C" __global__ void __launch_bounds__(MOST)
scan(int* counts, int* __restrict__ totals, int chunks, int width) {
    __shared__ int sums[MOST];
    int e = threadIdx.x;
    int total = 0;
    for (int c = 0; e < width && c < chunks; ++c) total += counts[c * width + e];
    sums[e] = total;
    __syncthreads();
    if (e >= width) return;
    totals[e] = total;
    int running = 0;
    for (int other = 0; other < e; ++other) running += sums[other];
    for (int c = 0; c < chunks; ++c) {
        int own = counts[c * width + e];
        counts[c * width + e] = running;
        running += own;
    }
}

extern "C" __global__ void __launch_bounds__(CHUNK)
place_pairs(const int* __restrict__ experts, const int* __restrict__ starts, int* __restrict__ slots,
            int* __restrict__ tokens, int pairs, int choices, int width) {
    __shared__ int chosen[CHUNK];
    int place = blockIdx.x * CHUNK + threadIdx.x;
    int own = place < pairs ? experts[place] : -1;
    chosen[threadIdx.x] = own;
    int rank = 0;
%% if rank == "compare"
    __syncthreads();
    for (int j = 0; j < threadIdx.x; ++j) rank += chosen[j] == own;
%% elif rank == "match"
    __shared__ int cells[CHUNK / 32][MOST];
    for (int i = threadIdx.x; i < CHUNK / 32 * MOST; i += CHUNK) cells[i / MOST][i % MOST] = 0;
    __syncthreads();
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned peers = __match_any_sync(0xffffffffu, own);
    rank = __popc(peers & ((1u << lane) - 1));
    if (own >= 0 && rank == 0) cells[warp][own] = __popc(peers);
    __syncthreads();
    if (own >= 0)
        for (int w = 0; w < warp; ++w) rank += cells[w][own];
%% else
    __shared__ int ranks[CHUNK];
    __syncthreads();
    for (int e = threadIdx.x; e < width; e += CHUNK) {
        int seen = 0;
        for (int j = 0; j < CHUNK; ++j)
            if (chosen[j] == e) ranks[j] = seen++;
    }
    __syncthreads();
    rank = ranks[threadIdx.x];
%% endif
    if (own < 0) return;
    int slot = starts[blockIdx.x * width + own] + rank;
    tokens[slot] = place / choices;
    slots[place] = slot;
}

extern "C" __global__ void __launch_bounds__(${threads})
move_rows(const word* __restrict__ x, const int* __restrict__ tokens, const int* __restrict__ slots,
          word* __restrict__ out, int pairs, int choices, int words) {
%% if move == "block"
    long long slot = blockIdx.x;
    const word* from = x + (long long)tokens[slot] * words;
    #pragma unroll ${unroll}
    for (int c = threadIdx.x; c < words; c += ${threads}) out[slot * words + c] = from[c];
%% elif move == "warp"
    long long slot = (long long)blockIdx.x * ${threads // 32} + threadIdx.x / 32;
    if (slot >= pairs) return;
    const word* from = x + (long long)tokens[slot] * words;
    #pragma unroll ${unroll}
    for (int c = threadIdx.x % 32; c < words; c += 32) out[slot * words + c] = from[c];
%% elif move == "flat"
    long long place = (long long)blockIdx.x * ${threads} + threadIdx.x;
    if (place >= (long long)pairs * words) return;
    long long slot = place / words;
    out[place] = x[(long long)tokens[slot] * words + (place - slot * words)];
%% else
    long long token = blockIdx.x;
    for (int c = threadIdx.x; c < words; c += ${threads}) {
        word value = x[token * words + c];
        #pragma unroll ${unroll}
        for (int i = 0; i < choices; ++i) out[(long long)slots[token * choices + i] * words + c] = value;
    }
%% endif
}
%% host
def run(x, experts, num_experts):
    hidden = x.shape[1]
    count, choices = experts.shape
    pairs = count * choices
    chunks = (pairs + ${chunk - 1}) // ${chunk}
    permuted = torch.empty((pairs, hidden), dtype=x.dtype, device=x.device)
    tokens = torch.empty(pairs, dtype=torch.int32, device=x.device)
    slots = torch.empty(pairs, dtype=torch.int32, device=x.device)
    totals = torch.empty(num_experts, dtype=torch.int32, device=x.device)
    counts = torch.empty((chunks, num_experts), dtype=torch.int32, device=x.device)
    module.launch("count", grid=chunks, block=${chunk}, args=(experts, counts, pairs, num_experts))
    module.launch("scan", grid=1, block=256, args=(counts, totals, chunks, num_experts))
    args = (experts, counts, slots, tokens, pairs, choices, num_experts)
    module.launch("place_pairs", grid=chunks, block=${chunk}, args=args)
    words = hidden * 2 // ${{"unsigned short": 2, "unsigned": 4, "uint2": 8, "uint4": 16}[word]}
%% if move == "block"
    grid = pairs
%% elif move == "warp"
    grid = (pairs + ${threads // 32 - 1}) // ${threads // 32}
%% elif move == "flat"
    grid = (pairs * words + ${threads - 1}) // ${threads}
%% else
    grid = count
%% endif
    args = (x, tokens, slots, permuted, pairs, choices, words)
    module.launch("move_rows", grid=grid, block=${threads}, args=args)
    return permuted, tokens, totals
