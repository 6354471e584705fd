#include <cuda_fp16.h>
constexpr int PARTS = ${split_k};

<%% include device %%>

%% if split_k > 1

extern "C" __global__ void join(const float* part, __half* y, int size) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    float total = 0.0f;
    for (int p = 0; p < PARTS; ++p) total += part[(size_t)p * size + i];
    y[i] = __float2half(total);
}
%% endif
