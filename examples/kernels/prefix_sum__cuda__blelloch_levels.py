import torch
from kbench.harness.cuda import CudaModule

module = CudaModule(r'''
#define THREADS 512
#define TILE (2 * THREADS)
// Work-efficient up-sweep and down-sweep in shared memory; block totals go to the next level.
extern "C" __global__ void scan_tile(const int* __restrict__ x, int* __restrict__ y, int* __restrict__ totals, int n) {
    __shared__ int tree[TILE];
    int t = threadIdx.x;
    int a = blockIdx.x * TILE + t, b = a + THREADS;
    int va = a < n ? x[a] : 0;
    int vb = b < n ? x[b] : 0;
    tree[t] = va;
    tree[t + THREADS] = vb;
    int stride = 1;
    for (int d = THREADS; d > 0; d >>= 1, stride <<= 1) {
        __syncthreads();
        if (t < d) tree[stride * (2 * t + 2) - 1] += tree[stride * (2 * t + 1) - 1];
    }
    __syncthreads();
    if (t == 0) {
        totals[blockIdx.x] = tree[TILE - 1];
        tree[TILE - 1] = 0;
    }
    for (int d = 1; d < TILE; d <<= 1) {
        stride >>= 1;
        __syncthreads();
        if (t < d) {
            int left = stride * (2 * t + 1) - 1, right = stride * (2 * t + 2) - 1;
            int keep = tree[left];
            tree[left] = tree[right];
            tree[right] += keep;
        }
    }
    __syncthreads();
    // exclusive in the tree, inclusive in the output
    if (a < n) y[a] = tree[t] + va;
    if (b < n) y[b] = tree[t + THREADS] + vb;
}

extern "C" __global__ void add_previous(int* __restrict__ y, const int* __restrict__ scanned, int n) {
    // tile k takes the inclusive sum of tiles before it
    int tile = blockIdx.x + 1;
    int add = scanned[tile - 1];
    for (int i = tile * TILE + threadIdx.x; i < min(n, (tile + 1) * TILE); i += blockDim.x) y[i] += add;
}
''')


def scan(x, y, n):
    tiles = (n + 1023) // 1024
    totals = torch.empty((tiles,), device=x.device, dtype=torch.int32)
    module.launch("scan_tile", grid=tiles, block=512, args=(x, y, totals, n))
    if tiles > 1:
        scanned = torch.empty((tiles,), device=x.device, dtype=torch.int32)
        scan(totals, scanned, tiles)
        module.launch("add_previous", grid=tiles - 1, block=256, args=(y, scanned, n))


def run(x):
    y = torch.empty_like(x)
    scan(x, y, x.numel())
    return y
