"""Items are bucketed by row (count, scan, fill), then a warp sums each row's sources in registers."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void tally(const long long* __restrict__ index, int* __restrict__ counts, int items) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < items) atomicAdd(counts + index[i], 1);
}
// One block: begin[r] becomes the first slot of row r, in two copies of which one moves while filling.
extern "C" __global__ void scan(const int* __restrict__ counts, int* __restrict__ begin, int* __restrict__ cursor, int rows) {
    __shared__ int sums[32];
    int tid = threadIdx.x, lane = tid % 32, warp = tid / 32, carry = 0;
    for (int start = 0; start < rows; start += 1024) {
        int r = start + tid, own = r < rows ? counts[r] : 0, run = own;
        for (int s = 1; s < 32; s *= 2) {
            int left = __shfl_up_sync(0xffffffffu, run, s);
            if (lane >= s) run += left;
        }
        if (lane == 31) sums[warp] = run;
        __syncthreads();
        int before = 0, all = 0;
        for (int w = 0; w < 32; ++w) { before += w < warp ? sums[w] : 0; all += sums[w]; }
        if (r < rows) { begin[r] = carry + before + run - own; cursor[r] = carry + before + run - own; }
        carry += all;
        __syncthreads();
    }
    if (tid == 0) begin[rows] = carry;
}
extern "C" __global__ void fill(const long long* __restrict__ index, int* __restrict__ cursor, int* __restrict__ list, int items) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < items) list[atomicAdd(cursor + index[i], 1)] = i;
}
extern "C" __global__ void gather(const float4* __restrict__ source, const int* __restrict__ begin, const int* __restrict__ list, float4* __restrict__ sums, int rows, int per_row) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (row >= rows) return;
    int from = begin[row], to = begin[row + 1];
    for (int c = threadIdx.x % 32; c < per_row; c += 32) {
        float4 acc = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        #pragma unroll 4
        for (int s = from; s < to; ++s) {
            float4 v = source[(long long)list[s] * per_row + c];
            acc.x += v.x; acc.y += v.y; acc.z += v.z; acc.w += v.w;
        }
        sums[(long long)row * per_row + c] = acc;
    }
}
""")


def run(source, index, rows):
    items, dim = source.shape
    sums = torch.empty((rows, dim), device=source.device, dtype=torch.float32)
    counts = torch.zeros((rows,), device=source.device, dtype=torch.int32)
    begin = torch.empty((rows + 1,), device=source.device, dtype=torch.int32)
    cursor = torch.empty((rows,), device=source.device, dtype=torch.int32)
    order = torch.empty((items,), device=source.device, dtype=torch.int32)
    blocks = (items + 255) // 256
    module.launch("tally", grid=blocks, block=256, args=(index, counts, items))
    module.launch("scan", grid=1, block=1024, args=(counts, begin, cursor, rows))
    module.launch("fill", grid=blocks, block=256, args=(index, cursor, order, items))
    module.launch("gather", grid=(rows + 7) // 8, block=256, args=(source, begin, order, sums, rows, dim // 4))
    return sums
