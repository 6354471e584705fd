"""A warp a system: each lane eliminates its stretch in registers down to one separator, and the lanes' separators
form a system of 32 that is reduced by shuffles."""

import torch

from kbench.harness.cuda import CudaModule

module = CudaModule(r"""
#define ALL 0xffffffffu
template <int PER>
__device__ __forceinline__ void sweep(const float* __restrict__ lower, const float* __restrict__ diagonal, const float* __restrict__ upper, const float* __restrict__ rhs, float* __restrict__ x, int systems) {
    int lane = threadIdx.x % 32;
    long long system = (long long)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (system >= systems) return;
    long long at = (system * 32 + lane) * PER;
    float a[PER], b[PER], c[PER], d[PER];
    #pragma unroll
    for (int i = 0; i < PER; ++i) { a[i] = lower[at + i]; b[i] = diagonal[at + i]; c[i] = upper[at + i]; d[i] = rhs[at + i]; }
    if (lane == 0) a[0] = 0.0f;
    if (lane == 31) c[PER - 1] = 0.0f;
    // Inner unknowns as x_i = d_i - a_i * (separator on the left) - c_i * (next unknown), going down ...
    #pragma unroll
    for (int i = 0; i < PER - 1; ++i) {
        float inverse = 1.0f / (i > 0 ? b[i] - a[i] * c[i > 0 ? i - 1 : 0] : b[i]);
        d[i] = (i > 0 ? d[i] - a[i] * d[i > 0 ? i - 1 : 0] : d[i]) * inverse;
        a[i] = (i > 0 ? -a[i] * a[i > 0 ? i - 1 : 0] : a[i]) * inverse;
        c[i] *= inverse;
    }
    // ... and coming back up, until c_i speaks of the lane's own separator.
    #pragma unroll
    for (int i = PER - 3; i >= 0; --i) {
        d[i] -= c[i] * d[i + 1];
        a[i] -= c[i] * a[i + 1];
        c[i] = -c[i] * c[i + 1];
    }
    float sa = a[PER - 1], sb = b[PER - 1], sc = c[PER - 1], sd = d[PER - 1];
    if (PER > 1) {
        const int m = PER > 1 ? PER - 2 : 0;
        float next_a = __shfl_down_sync(ALL, a[0], 1), next_c = __shfl_down_sync(ALL, c[0], 1), next_d = __shfl_down_sync(ALL, d[0], 1);
        float left = sa, right = lane < 31 ? sc : 0.0f;
        sa = -left * a[m];
        sb = sb - left * c[m] - right * next_a;
        sc = -right * next_c;
        sd = sd - left * d[m] - right * next_d;
    }
    #pragma unroll
    for (int reach = 1; reach < 32; reach *= 2) {
        float ua = __shfl_up_sync(ALL, sa, reach), ub = __shfl_up_sync(ALL, sb, reach), uc = __shfl_up_sync(ALL, sc, reach), ud = __shfl_up_sync(ALL, sd, reach);
        float va = __shfl_down_sync(ALL, sa, reach), vb = __shfl_down_sync(ALL, sb, reach), vc = __shfl_down_sync(ALL, sc, reach), vd = __shfl_down_sync(ALL, sd, reach);
        float up = lane >= reach ? -sa / ub : 0.0f, down = lane + reach < 32 ? -sc / vb : 0.0f;
        sb += up * uc + down * va;
        sd += up * ud + down * vd;
        sa = up * ua;
        sc = down * vc;
    }
    float mine = sd / sb, before = __shfl_up_sync(ALL, mine, 1);
    if (lane == 0) before = 0.0f;
    #pragma unroll
    for (int i = 0; i < PER - 1; ++i) x[at + i] = d[i] - a[i] * before - c[i] * mine;
    x[at + PER - 1] = mine;
}
extern "C" __global__ void solve_1(const float* __restrict__ lower, const float* __restrict__ diagonal, const float* __restrict__ upper, const float* __restrict__ rhs, float* __restrict__ x, int systems) { sweep<1>(lower, diagonal, upper, rhs, x, systems); }
extern "C" __global__ void solve_2(const float* __restrict__ lower, const float* __restrict__ diagonal, const float* __restrict__ upper, const float* __restrict__ rhs, float* __restrict__ x, int systems) { sweep<2>(lower, diagonal, upper, rhs, x, systems); }
extern "C" __global__ void solve_4(const float* __restrict__ lower, const float* __restrict__ diagonal, const float* __restrict__ upper, const float* __restrict__ rhs, float* __restrict__ x, int systems) { sweep<4>(lower, diagonal, upper, rhs, x, systems); }
extern "C" __global__ void solve_8(const float* __restrict__ lower, const float* __restrict__ diagonal, const float* __restrict__ upper, const float* __restrict__ rhs, float* __restrict__ x, int systems) { sweep<8>(lower, diagonal, upper, rhs, x, systems); }
extern "C" __global__ void solve_16(const float* __restrict__ lower, const float* __restrict__ diagonal, const float* __restrict__ upper, const float* __restrict__ rhs, float* __restrict__ x, int systems) { sweep<16>(lower, diagonal, upper, rhs, x, systems); }
""")


def run(lower, diagonal, upper, rhs):
    systems, n = rhs.shape
    x = torch.empty_like(rhs)
    module.launch(
        f"solve_{n // 32}", grid=(systems + 3) // 4, block=128, args=(lower, diagonal, upper, rhs, x, systems)
    )
    return x
