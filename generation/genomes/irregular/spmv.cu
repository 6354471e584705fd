// Sparse matrix times vector: rows, blocks of rows, or entries with segmented sums.
// family spmv_cuda for spmv_csr
// shape method = "rows", "rows", "stride", "entries", "runs"
// shape lanes = 1, 2, 4, 8, 16, 32
// shape read = "x[columns[i]]", "__ldg(x + columns[i])"
// pick threads = 64, 128, 256, 512
// pick unroll = 1, 2, 4
// pick waves = 4, 8, 16
// refuse method in ("entries", "runs") and (lanes != 8 or unroll != 1): lanes belong to the row walks
// refuse method != "stride" and waves != 8: waves belong to the grid stride

const int THREADS = ${threads}, LANES = ${lanes};

extern "C" __global__ void __launch_bounds__(THREADS)
spmv(const int* __restrict__ starts, const int* __restrict__ columns, const float* __restrict__ values,
     const float* __restrict__ x, float* __restrict__ y, int rows, int entries) {
%% if method in ("rows", "stride")
    int lane = threadIdx.x % LANES;
%% if method == "rows"
    int row = (blockIdx.x * THREADS + threadIdx.x) / LANES;
    {
%% else
    int slots = gridDim.x * (THREADS / LANES);
    // All lanes of a warp keep the same number of turns: the shuffles need every lane.
    for (int base = blockIdx.x * (THREADS / LANES); base < rows; base += slots) {
        int row = base + threadIdx.x / LANES;
%% endif
        int start = row < rows ? starts[row] : 0, stop = row < rows ? starts[row + 1] : 0;
        float total = 0.0f;
        #pragma unroll ${unroll}
        for (int i = start + lane; i < stop; i += LANES) total += values[i] * ${read};
        for (int gap = LANES / 2; gap > 0; gap /= 2) total += __shfl_xor_sync(0xffffffffu, total, gap);
        if (lane == 0 && row < rows) y[row] = total;
    }
%% else
    int place = blockIdx.x * THREADS + threadIdx.x;
    bool known = place < entries;
    int low = 0, high = rows;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (middle < rows && starts[middle] <= place) low = middle;
        else high = middle - 1;
    }
    int i = known ? place : 0;
    float total = known ? values[i] * ${read} : 0.0f;
%% if method == "runs"
    int lane = threadIdx.x % 32;
    for (int gap = 1; gap < 32; gap *= 2) {
        float other = __shfl_up_sync(0xffffffffu, total, gap);
        int other_row = __shfl_up_sync(0xffffffffu, low, gap);
        if (lane >= gap && other_row == low) total += other;
    }
    int next = __shfl_down_sync(0xffffffffu, low, 1);
    if (known && (lane == 31 || next != low || place + 1 == entries)) atomicAdd(y + low, total);
%% else
    if (known) atomicAdd(y + low, total);
%% endif
%% endif
}
%% host
def run(starts, columns, values, x):
    rows = starts.numel() - 1
    entries = columns.numel()
%% if method in ("rows", "stride")
    y = torch.empty(rows, dtype=torch.float32, device=x.device)
    grid = (rows + ${threads // lanes - 1}) // ${threads // lanes}
%% if method == "stride"
    grid = min(grid, 132 * ${waves})
%% endif
%% else
    y = torch.zeros(rows, dtype=torch.float32, device=x.device)
    grid = (entries + ${threads - 1}) // ${threads}
%% endif
    module.launch("spmv", grid=grid, block=${threads}, args=(starts, columns, values, x, y, rows, entries))
    return y
