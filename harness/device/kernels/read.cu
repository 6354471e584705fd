extern "C" __global__ void read(const uint4* from, unsigned int* to, long long count) {
    uint4 parts[8];
    unsigned int sum = 0;
    long long step = (long long)gridDim.x * blockDim.x;
    for (long long at = blockIdx.x * (long long)blockDim.x + threadIdx.x; at + 7 * step < count; at += 8 * step) {
        #pragma unroll
        for (int i = 0; i < 8; i++) parts[i] = __ldcs(from + at + i * step);
        #pragma unroll
        for (int i = 0; i < 8; i++) sum += parts[i].x ^ parts[i].y ^ parts[i].z ^ parts[i].w;
    }
    if (sum == 0x9e3779b9u) *to = sum;
}
