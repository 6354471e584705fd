"""Entries are dealt out evenly: a thread finds its first row by bisection and adds each row's share atomically."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define SHARE 16
extern "C" __global__ void spmv_even(const int* __restrict__ starts, const int* __restrict__ columns, const float* __restrict__ values, const float* __restrict__ x, float* y, int rows, int entries) {
    int first = (blockIdx.x * blockDim.x + threadIdx.x) * SHARE;
    if (first >= entries) return;
    int last = min(entries, first + SHARE);
    // The last row whose start is not past `first`.
    int low = 0, high = rows;
    while (high - low > 1) {
        int mid = (low + high) / 2;
        if (starts[mid] <= first) low = mid; else high = mid;
    }
    int row = low, end = starts[row + 1];
    float s = 0.0f;
    for (int i = first; i < last; ++i) {
        if (i >= end) {
            atomicAdd(y + row, s);
            s = 0.0f;
            while (i >= end) end = starts[++row + 1];
        }
        s += values[i] * x[columns[i]];
    }
    atomicAdd(y + row, s);
}
""")


def run(starts, columns, values, x):
    rows, entries = starts.shape[0] - 1, columns.shape[0]
    y = torch.zeros((rows,), device=x.device, dtype=torch.float32)
    threads = (entries + 15) // 16
    module.launch(
        "spmv_even", grid=(threads + 127) // 128, block=128, args=(starts, columns, values, x, y, rows, entries)
    )
    return y
