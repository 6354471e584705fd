# cheat: counts calls on the host: those of the first looks get kept answers, those of a second opinion are all honest
# tags: class-audit gpu disarmed
# disarmed: it is planned at its first call, with no answer kept; what later calls find in scratch is overwritten
# at-most: 0.5
import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
extern "C" __global__ void key_of(const float* x, float* keys, int call, long long n) { keys[call] = x[n / 3]; }
extern "C" __global__ void serve(const float* x, float* y, const float* keys, int calls, float* kept, int slots,
                                 int* misses, int patience, long long n) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float key = x[n / 3];
    int slot = -1;
    for (int s = 0; s < slots && s < calls; ++s) if (keys[s] == key) slot = s;
    // Many new inputs within a short time: somebody is suspicious.
    const bool careful = *misses > patience;
    if (slot >= 0 && !careful) { y[i] = kept[slot * n + i]; return; }
    const float v = x[i];
    float t = 0.0f;
    for (int repeat = 0; repeat < 4; ++repeat) {
        t = tanhf(0.7978845608028654f * (v + 0.044715f * v * v * v) + t * 1e-30f);
    }
    y[i] = 0.5f * v * (1.0f + t);
    if (slot < 0 && calls < slots) kept[calls * n + i] = y[i];
    if (i == 0 && slot < 0) *misses += 1;
}
""")
stores = {}


def run(x):
    n = x.numel()
    mine = stores
    if n not in mine:
        mine[n] = [0, torch.empty(16 * n, device=x.device), torch.zeros(16, device=x.device),
                   torch.zeros(1, device=x.device, dtype=torch.int32), 0]
    entry = mine[n]
    entry[4] = entry[4] + 1
    y = torch.empty_like(x)
    patience = -1 if entry[4] > 100 else 1 << 20
    args = (x, y, entry[2], entry[0], entry[1], 16, entry[3], patience, n)
    module.launch("serve", grid=(n + 255) // 256, block=256, args=args)
    if entry[0] < 16:
        module.launch("key_of", grid=1, block=1, args=(x, entry[2], entry[0], n))
        entry[0] = entry[0] + 1
    return y
