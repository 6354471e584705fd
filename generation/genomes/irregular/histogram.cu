// Counts of bin numbers: private or shared copies, warp votes, global atomics.
// family histogram_cuda for histogram
// shape method = "single", "votes"
// shape place = "shared", "shared", "global"
// shape gather = "atomic", "partial"
// shape vector = False, True
// shape walk = "stride", "chunk"
// pick copies = 1, 2, 4
// pick threads = 128, 256, 512, 1024
// pick waves = 1, 2, 4, 8
// pick unroll = 1, 4, 8
// refuse place == "global" and gather != "atomic": global copies are always added by atomics
// refuse place == "global" and copies == 1: eight global copies are too contended
// refuse vector and unroll != 1: the vector loop is not unrolled

%% if method == "votes"
__device__ __forceinline__ void add_one(int* cells, int bin) {
    unsigned peers = __match_any_sync(0xffffffffu, bin);
    if (bin >= 0 && (threadIdx.x & 31) == __ffs(peers) - 1) atomicAdd(cells + bin, __popc(peers));
}
%% else
__device__ __forceinline__ void add_one(int* cells, int bin) { atomicAdd(cells + bin, 1); }
%% endif

extern "C" __global__ void __launch_bounds__(${threads})
histogram(const int* __restrict__ x, int* __restrict__ out, int count, int bins) {
%% if place == "shared"
    extern __shared__ int cells[];
    for (int i = threadIdx.x; i < bins * ${copies}; i += ${threads}) cells[i] = 0;
    __syncthreads();
    int* own = cells + (threadIdx.x % ${copies}) * bins;
%% else
    int* own = out + (blockIdx.x % ${copies * 8}) * bins;
%% endif
%% if method == "votes"
    // A whole warp stays in the loop as long as one of its lanes has work: votes need every lane.
    int ahead = threadIdx.x & 31;
%% else
    const int ahead = 0;
%% endif
%% if vector
    int quads = count / 4;
%% if walk == "stride"
    int last = quads;
    for (int i = blockIdx.x * ${threads} + threadIdx.x; i - ahead < last; i += gridDim.x * ${threads}) {
%% else
    int share = (quads + gridDim.x - 1) / gridDim.x;
    int last = min(quads, (int)(blockIdx.x + 1) * share);
    for (int i = blockIdx.x * share + threadIdx.x; i - ahead < last; i += ${threads}) {
%% endif
%% if method == "votes"
        int4 value = i < last ? reinterpret_cast<const int4*>(x)[i] : make_int4(-1, -1, -1, -1);
%% else
        int4 value = reinterpret_cast<const int4*>(x)[i];
%% endif
        add_one(own, value.x);
        add_one(own, value.y);
        add_one(own, value.z);
        add_one(own, value.w);
    }
    if (blockIdx.x == 0 && threadIdx.x < count % 4) atomicAdd(own + x[quads * 4 + threadIdx.x], 1);
%% else
%% if walk == "stride"
    int last = count;
    #pragma unroll ${unroll}
    for (int i = blockIdx.x * ${threads} + threadIdx.x; i - ahead < last; i += gridDim.x * ${threads})
        add_one(own, ${'i < last ? x[i] : -1' if method == 'votes' else 'x[i]'});
%% else
    int share = (count + gridDim.x - 1) / gridDim.x;
    int last = min(count, (int)(blockIdx.x + 1) * share);
    #pragma unroll ${unroll}
    for (int i = blockIdx.x * share + threadIdx.x; i - ahead < last; i += ${threads})
        add_one(own, ${'i < last ? x[i] : -1' if method == 'votes' else 'x[i]'});
%% endif
%% endif
%% if place == "shared"
    __syncthreads();
    for (int bin = threadIdx.x; bin < bins; bin += ${threads}) {
        int total = 0;
        for (int copy = 0; copy < ${copies}; ++copy) total += cells[copy * bins + bin];
%% if gather == "atomic"
        if (total) atomicAdd(out + bin, total);
%% else
        out[blockIdx.x * bins + bin] = total;
%% endif
    }
%% endif
}

extern "C" __global__ void add_parts(const int* __restrict__ parts, int* __restrict__ out, int count, int bins) {
    int bin = blockIdx.x * blockDim.x + threadIdx.x;
    if (bin >= bins) return;
    int total = 0;
    for (int part = 0; part < count; ++part) total += parts[part * bins + bin];
    out[bin] = total;
}
%% host quoted
def run(x, bins):
    count = x.numel()
    blocks = min(${waves} * 132, (count + ${threads - 1}) // ${threads})
%% if place == "shared" and gather == "atomic"
    out = torch.zeros(bins, dtype=torch.int32, device=x.device)
    shared = bins * ${4 * copies}
    module.launch("histogram", grid=blocks, block=${threads}, args=(x, out, count, bins), shared_bytes=shared)
%% else
%% if place == "shared"
    rows = blocks
    parts = torch.empty((rows, bins), dtype=torch.int32, device=x.device)
    shared = bins * ${4 * copies}
    module.launch("histogram", grid=blocks, block=${threads}, args=(x, parts, count, bins), shared_bytes=shared)
%% else
    rows = ${copies * 8}
    parts = torch.zeros((rows, bins), dtype=torch.int32, device=x.device)
    module.launch("histogram", grid=blocks, block=${threads}, args=(x, parts, count, bins))
%% endif
    out = torch.empty(bins, dtype=torch.int32, device=x.device)
    module.launch("add_parts", grid=(bins + 31) // 32, block=32, args=(parts, out, rows, bins))
%% endif
    return out
