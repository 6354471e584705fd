"""Segment sums, suffix sums of those sums, then every segment on its own with what lies behind it."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define SEG 512
extern "C" __global__ void segment_sums(const float* __restrict__ x, float* __restrict__ sums, int cols, int segments) {
    __shared__ float part[4];
    int s = blockIdx.x, t = threadIdx.x;
    size_t base = (size_t)blockIdx.y * cols;
    float sum = 0.0f;
    for (int c = s * SEG + t; c < min(cols, (s + 1) * SEG); c += 128) sum += x[base + c];
    for (int d = 16; d; d /= 2) sum += __shfl_down_sync(0xffffffffu, sum, d);
    if (t % 32 == 0) part[t / 32] = sum;
    __syncthreads();
    if (t == 0) sums[(size_t)blockIdx.y * segments + s] = part[0] + part[1] + part[2] + part[3];
}

extern "C" __global__ void behind_segments(float* sums, int rows, int segments) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float behind = 0.0f;
    for (int s = segments - 1; s >= 0; --s) {
        float sum = sums[(size_t)row * segments + s];
        sums[(size_t)row * segments + s] = behind;
        behind += sum;
    }
}

extern "C" __global__ void segment_suffixes(const float* __restrict__ x, const float* __restrict__ behind, float* __restrict__ y, int cols, int segments) {
    __shared__ float line[SEG];
    __shared__ float part[4];
    int s = blockIdx.x, t = threadIdx.x, lane = t % 32;
    size_t base = (size_t)blockIdx.y * cols + s * SEG;
    int length = min(SEG, cols - s * SEG);
    for (int i = t; i < SEG; i += 128) line[i] = i < length ? x[base + i] : 0.0f;
    __syncthreads();
    float v[4];
    v[3] = line[t * 4 + 3];
    v[2] = line[t * 4 + 2] + v[3];
    v[1] = line[t * 4 + 1] + v[2];
    v[0] = line[t * 4] + v[1];
    float run = v[0];
    for (int d = 1; d < 32; d *= 2) {
        float right = __shfl_down_sync(0xffffffffu, run, d);
        if (lane + d < 32) run += right;
    }
    if (lane == 0) part[t / 32] = run;
    float after = run - v[0] + behind[(size_t)blockIdx.y * segments + s];
    __syncthreads();
    for (int w = t / 32 + 1; w < 4; ++w) after += part[w];
    for (int i = 0; i < 4; ++i) line[t * 4 + i] = v[i] + after;
    __syncthreads();
    for (int i = t; i < length; i += 128) y[base + i] = line[i];
}
""")


def run(x):
    rows, cols = x.shape
    segments = (cols + 511) // 512
    sums = torch.empty((rows, segments), device=x.device, dtype=torch.float32)
    y = torch.empty_like(x)
    module.launch("segment_sums", grid=(segments, rows), block=128, args=(x, sums, cols, segments))
    module.launch("behind_segments", grid=(rows + 127) // 128, block=128, args=(sums, rows, segments))
    module.launch("segment_suffixes", grid=(segments, rows), block=128, args=(x, sums, y, cols, segments))
    return y
