import torch
from kbench.harness.cuda import CudaModule

module = CudaModule(r'''
// Slices of the length write partial sums; the block that arrives last at a column strip adds them up.
extern "C" __global__ void mean_slices(const float* __restrict__ x, float* part, unsigned* arrived,
                                       float* __restrict__ y, int length, int width, int slice) {
    __shared__ bool last;
    int w = blockIdx.x * blockDim.x + threadIdx.x;
    int b = blockIdx.z;
    int slices = gridDim.y;
    int from = blockIdx.y * slice, to = min(length, from + slice);
    if (w < width) {
        const float* p = x + ((size_t)b * length + from) * width + w;
        float s = 0.0f;
        for (int l = from; l < to; ++l, p += width) s += *p;
        part[((size_t)b * slices + blockIdx.y) * width + w] = s;
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(arrived + b * gridDim.x + blockIdx.x, 1u) == (unsigned)slices - 1u;
    __syncthreads();
    if (!last || w >= width) return;
    __threadfence();
    float s = 0.0f;
    for (int k = 0; k < slices; ++k) s += __ldcg(part + ((size_t)b * slices + k) * width + w);
    y[(size_t)b * width + w] = s / length;
}
''')


def run(x):
    batch, length, width = x.shape
    slice_rows = 128
    slices = (length + slice_rows - 1) // slice_rows
    strips = (width + 127) // 128
    part = torch.empty((batch, slices, width), device=x.device, dtype=torch.float32)
    arrived = torch.zeros((batch, strips), device=x.device, dtype=torch.int32)
    y = torch.empty((batch, width), device=x.device, dtype=torch.float32)
    module.launch(
        "mean_slices", grid=(strips, slices, batch), block=128, args=(x, part, arrived, y, length, width, slice_rows)
    )
    return y
