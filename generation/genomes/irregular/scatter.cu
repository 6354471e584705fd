// Rows added into indexed places: atomics, or lists of items per row.
// family scatter_cuda for scatter_add
// shape method = "flat", "stride", "warp", "block", "lists", "warp_lists"
// shape vector = False, True
// shape zero = "torch", "kernel"
// pick threads = 32, 64, 128, 256, 512
// pick unroll = 1, 2, 4
// refuse method in ("lists", "warp_lists") and zero != "torch": lists need no zeros

%% if method in ("lists", "warp_lists")
extern "C" __global__ void count(const long long* __restrict__ index, int* counts, int items) {
    int item = blockIdx.x * blockDim.x + threadIdx.x;
    if (item < items) atomicAdd(counts + index[item], 1);
}

extern "C" __global__ void __launch_bounds__(1024) find_starts(const int* counts, int* starts, int* cursor, int rows) {
    __shared__ int sums[32];
    __shared__ int carried;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (threadIdx.x == 0) carried = 0;
    __syncthreads();
    for (int first = 0; first < rows; first += 1024) {
        int row = first + threadIdx.x;
        int own = row < rows ? counts[row] : 0;
        int sum = own;
        for (int step = 1; step < 32; step *= 2) {
            int other = __shfl_up_sync(0xffffffffu, sum, step);
            if (lane >= step) sum += other;
        }
        if (lane == 31) sums[warp] = sum;
        __syncthreads();
        int before = carried;
        for (int w = 0; w < warp; ++w) before += sums[w];
        if (row < rows) {
            starts[row] = before + sum - own;
            cursor[row] = before + sum - own;
        }
        __syncthreads();
        if (threadIdx.x == 1023) carried = before + sum;
        __syncthreads();
    }
}

extern "C" __global__ void fill_lists(const long long* __restrict__ index, int* cursor, int* lists, int items) {
    int item = blockIdx.x * blockDim.x + threadIdx.x;
    if (item < items) lists[atomicAdd(cursor + index[item], 1)] = item;
}

extern "C" __global__ void __launch_bounds__(${threads})
sum_rows(const float* __restrict__ source, const int* __restrict__ starts, const int* __restrict__ counts,
         const int* __restrict__ lists, float* __restrict__ out, int rows, int dim) {
%% if method == "warp_lists"
    int row = blockIdx.x * ${threads // 32} + threadIdx.x / 32;
    if (row >= rows) return;
    int first = threadIdx.x % 32, step = 32;
%% else
    int row = blockIdx.x;
    int first = threadIdx.x, step = ${threads};
%% endif
    int start = starts[row], count = counts[row];
%% if vector
    const float4* from = reinterpret_cast<const float4*>(source);
    int words = dim / 4;
    for (int c = first; c < words; c += step) {
        float4 total = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        #pragma unroll ${unroll}
        for (int i = 0; i < count; ++i) {
            float4 value = from[(long long)lists[start + i] * words + c];
            total.x += value.x; total.y += value.y; total.z += value.z; total.w += value.w;
        }
        reinterpret_cast<float4*>(out)[(long long)row * words + c] = total;
    }
%% else
    for (int c = first; c < dim; c += step) {
        float total = 0.0f;
        #pragma unroll ${unroll}
        for (int i = 0; i < count; ++i) total += source[(long long)lists[start + i] * dim + c];
        out[(long long)row * dim + c] = total;
    }
%% endif
}
%% else
%% if zero == "kernel"
extern "C" __global__ void clear(float4* out, long long words) {
    long long place = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (place < words) out[place] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}
%% endif

extern "C" __global__ void __launch_bounds__(${threads})
scatter(const float* __restrict__ source, const long long* __restrict__ index, float* out, int items, int dim) {
%% if vector
    const int width = 4;
%% else
    const int width = 1;
%% endif
    int words = dim / width;
%% if method == "flat"
    long long place = (long long)blockIdx.x * ${threads} + threadIdx.x;
    if (place >= (long long)items * words) return;
    long long item = place / words;
    int c = place % words;
    {
%% elif method == "stride"
    for (long long place = (long long)blockIdx.x * ${threads} + threadIdx.x; place < (long long)items * words;
         place += (long long)gridDim.x * ${threads}) {
        long long item = place / words;
        int c = place % words;
%% elif method == "warp"
    long long item = (long long)blockIdx.x * ${threads // 32} + threadIdx.x / 32;
    if (item >= items) return;
    #pragma unroll ${unroll}
    for (int c = threadIdx.x % 32; c < words; c += 32) {
%% else
    long long item = blockIdx.x;
    #pragma unroll ${unroll}
    for (int c = threadIdx.x; c < words; c += ${threads}) {
%% endif
        float* to = out + index[item] * dim + c * width;
%% if vector
        float4 value = reinterpret_cast<const float4*>(source)[item * words + c];
        atomicAdd(to, value.x);
        atomicAdd(to + 1, value.y);
        atomicAdd(to + 2, value.z);
        atomicAdd(to + 3, value.w);
%% else
        atomicAdd(to, source[item * words + c]);
%% endif
    }
}
%% endif
%% host quoted
def run(source, index, rows):
    items, dim = source.shape
%% if method in ("lists", "warp_lists")
    out = torch.empty((rows, dim), dtype=torch.float32, device=source.device)
    counts = torch.zeros(rows, dtype=torch.int32, device=source.device)
    starts = torch.empty(rows, dtype=torch.int32, device=source.device)
    cursor = torch.empty(rows, dtype=torch.int32, device=source.device)
    lists = torch.empty(items, dtype=torch.int32, device=source.device)
    blocks = (items + 255) // 256
    module.launch("count", grid=blocks, block=256, args=(index, counts, items))
    module.launch("find_starts", grid=1, block=1024, args=(counts, starts, cursor, rows))
    module.launch("fill_lists", grid=blocks, block=256, args=(index, cursor, lists, items))
%% if method == "lists"
    grid = rows
%% else
    grid = (rows + ${threads // 32 - 1}) // ${threads // 32}
%% endif
    module.launch("sum_rows", grid=grid, block=${threads}, args=(source, starts, counts, lists, out, rows, dim))
%% else
%% if zero == "kernel"
    out = torch.empty((rows, dim), dtype=torch.float32, device=source.device)
    module.launch("clear", grid=(rows * dim // 4 + 255) // 256, block=256, args=(out, rows * dim // 4))
%% else
    out = torch.zeros((rows, dim), dtype=torch.float32, device=source.device)
%% endif
    words = dim // ${4 if vector else 1}
%% if method == "flat"
    grid = (items * words + ${threads - 1}) // ${threads}
%% elif method == "stride"
    grid = min(132 * ${unroll * 4}, (items * words + ${threads - 1}) // ${threads})
%% elif method == "warp"
    grid = (items + ${threads // 32 - 1}) // ${threads // 32}
%% else
    grid = items
%% endif
    module.launch("scatter", grid=grid, block=${threads}, args=(source, index, out, items, dim))
%% endif
    return out
