// Embedding lookups.
// family gather_cuda for embedding_gather
// shape walk = "block", "warp", "rows", "flat", "stride"
// shape word = "unsigned short", "unsigned", "uint2", "uint4"
// shape hint = "plain", "stream", "readonly"
// pick threads = 64, 128, 256, 512
// pick unroll = 1, 2, 4, 8
// pick waves = 4, 8, 16
// refuse walk != "stride" and waves != 8: waves belong to the grid stride
// refuse walk == "flat" and unroll != 4: the flat walk has no loop

typedef ${word} word;

__device__ __forceinline__ word take(const word* from) {
%% if hint == "stream"
    return __ldcs(from);
%% elif hint == "readonly"
    return __ldg(from);
%% else
    return *from;
%% endif
}

__device__ __forceinline__ void put(word* to, word value) {
%% if hint == "stream"
    __stcs(to, value);
%% else
    *to = value;
%% endif
}

extern "C" __global__ void __launch_bounds__(${threads})
gather(const long long* __restrict__ ids, const word* __restrict__ table, word* __restrict__ out, int tokens,
       int words) {
%% if walk == "block"
    long long row = blockIdx.x;
    const word* from = table + ids[row] * words;
    word* to = out + row * words;
    #pragma unroll ${unroll}
    for (int c = threadIdx.x; c < words; c += ${threads}) put(to + c, take(from + c));
%% elif walk == "warp"
    long long row = (long long)blockIdx.x * ${threads // 32} + threadIdx.x / 32;
    if (row >= tokens) return;
    const word* from = table + ids[row] * words;
    word* to = out + row * words;
    #pragma unroll ${unroll}
    for (int c = threadIdx.x % 32; c < words; c += 32) put(to + c, take(from + c));
%% elif walk == "rows"
    for (int r = 0; r < ${unroll}; ++r) {
        long long row = (long long)blockIdx.x * ${unroll} + r;
        if (row >= tokens) return;
        const word* from = table + ids[row] * words;
        word* to = out + row * words;
        for (int c = threadIdx.x; c < words; c += ${threads}) put(to + c, take(from + c));
    }
%% elif walk == "flat"
    long long place = (long long)blockIdx.x * ${threads} + threadIdx.x;
    if (place >= (long long)tokens * words) return;
    long long row = place / words;
    put(out + place, take(table + ids[row] * words + place % words));
%% else
    long long total = (long long)tokens * words;
    #pragma unroll ${unroll}
    for (long long place = (long long)blockIdx.x * ${threads} + threadIdx.x; place < total;
         place += (long long)gridDim.x * ${threads}) {
        long long row = place / words;
        put(out + place, take(table + ids[row] * words + (place - row * words)));
    }
%% endif
}
%% host quoted
def run(ids, table):
    tokens = ids.numel()
    out = torch.empty((tokens, table.shape[1]), dtype=table.dtype, device=table.device)
    words = table.shape[1] * 2 // ${{"unsigned short": 2, "unsigned": 4, "uint2": 8, "uint4": 16}[word]}
%% if walk == "block"
    grid = tokens
%% elif walk == "warp"
    grid = (tokens + ${threads // 32 - 1}) // ${threads // 32}
%% elif walk == "rows"
    grid = (tokens + ${unroll - 1}) // ${unroll}
%% elif walk == "flat"
    grid = (tokens * words + ${threads - 1}) // ${threads}
%% else
    grid = min(${waves} * 132, (tokens * words + ${threads - 1}) // ${threads})
%% endif
    module.launch("gather", grid=grid, block=${threads}, args=(ids, table, out, tokens, words))
    return out
