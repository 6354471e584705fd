// Per-group float8 quantisation; Triton rounds bits by hand, so any GPU runs it.
// family fp8_quant_cuda for fp8_quant
// shape method = "lanes", "lanes", "block", "two_pass"
// shape lanes = 4, 8, 16, 32
// shape walk = "once", "stride"
// shape rounding = "library", "bits"
// shape divide = "exact", "reciprocal"
// pick threads = 64, 128, 256, 512
// pick waves = 4, 8, 16
// refuse method != "lanes" and lanes != 16: lanes belong to the shared group
// refuse method == "block" and threads != 128: one thread per element
// refuse walk == "once" and waves != 8: waves belong to the grid stride

#include <cuda_bf16.h>
#include <cuda_fp8.h>

const int THREADS = ${threads}, LANES = ${lanes}, VEC = 128 / LANES;

__device__ __forceinline__ unsigned char encode(float value) {
%% if rounding == "library"
    return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
%% else
    unsigned bits = __float_as_uint(value), magnitude = bits & 0x7fffffffu;
    unsigned normal = ((magnitude + 0x7ffffu + ((magnitude >> 20) & 1u)) >> 20) - (120u << 3);
    unsigned small = __float_as_uint(__uint_as_float(magnitude) + 16384.0f) & 15u;
    unsigned code = magnitude < 0x3c800000u ? small : min(normal, 0x7eu);
    return (unsigned char)(code | ((bits >> 24) & 0x80u));
%% endif
}

__device__ __forceinline__ float divide(float value, float scale) {
%% if divide == "reciprocal"
    return value * (1.0f / scale);
%% else
    return value / scale;
%% endif
}

%% if method == "lanes"
__device__ __forceinline__ void quantise(const __nv_bfloat16* __restrict__ x, unsigned char* __restrict__ out,
                                         float* __restrict__ scales, long long group, bool known) {
    int lane = threadIdx.x % LANES;
    const __nv_bfloat16* from = x + group * 128 + lane * VEC;
    __align__(16) __nv_bfloat16 raw[VEC];
    __align__(16) unsigned char codes[VEC];
%% if lanes == 32
    *reinterpret_cast<uint2*>(raw) = *reinterpret_cast<const uint2*>(from);
%% else
    #pragma unroll
    for (int i = 0; i < VEC / 8; ++i) reinterpret_cast<uint4*>(raw)[i] = reinterpret_cast<const uint4*>(from)[i];
%% endif
    float most = 0.0f;
    #pragma unroll
    for (int i = 0; i < VEC; ++i) most = fmaxf(most, fabsf(__bfloat162float(raw[i])));
    for (int gap = LANES / 2; gap > 0; gap /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, gap));
    float scale = fmaxf(most, 1.0e-10f) / 448.0f;
    #pragma unroll
    for (int i = 0; i < VEC; ++i) codes[i] = encode(divide(__bfloat162float(raw[i]), scale));
    if (!known) return;
    if (lane == 0) scales[group] = scale;
    unsigned char* to = out + group * 128 + lane * VEC;
%% if lanes == 32
    *reinterpret_cast<unsigned*>(to) = *reinterpret_cast<unsigned*>(codes);
%% elif lanes == 16
    *reinterpret_cast<uint2*>(to) = *reinterpret_cast<uint2*>(codes);
%% else
    #pragma unroll
    for (int i = 0; i < VEC / 16; ++i) reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<uint4*>(codes)[i];
%% endif
}

extern "C" __global__ void __launch_bounds__(THREADS)
quantise_groups(const __nv_bfloat16* __restrict__ x, unsigned char* __restrict__ out, float* __restrict__ scales,
                long long groups) {
    const int SLOTS = THREADS / LANES;
%% if walk == "stride"
    for (long long base = (long long)blockIdx.x * SLOTS; base < groups; base += (long long)gridDim.x * SLOTS) {
        long long group = base + threadIdx.x / LANES;
        quantise(x, out, scales, group < groups ? group : groups - 1, group < groups);
    }
%% else
    long long group = (long long)blockIdx.x * SLOTS + threadIdx.x / LANES;
    quantise(x, out, scales, group < groups ? group : groups - 1, group < groups);
%% endif
}
%% elif method == "block"
extern "C" __global__ void __launch_bounds__(128)
quantise_groups(const __nv_bfloat16* __restrict__ x, unsigned char* __restrict__ out, float* __restrict__ scales,
                long long groups) {
    __shared__ float tops[4];
    for (long long group = blockIdx.x; group < groups; group += gridDim.x) {
        float value = __bfloat162float(x[group * 128 + threadIdx.x]);
        float most = fabsf(value);
        for (int gap = 16; gap > 0; gap /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, gap));
        if (threadIdx.x % 32 == 0) tops[threadIdx.x / 32] = most;
        __syncthreads();
        most = fmaxf(fmaxf(tops[0], tops[1]), fmaxf(tops[2], tops[3]));
        float scale = fmaxf(most, 1.0e-10f) / 448.0f;
        if (threadIdx.x == 0) scales[group] = scale;
        out[group * 128 + threadIdx.x] = encode(divide(value, scale));
        __syncthreads();
    }
}
%% else
extern "C" __global__ void __launch_bounds__(THREADS)
find_scales(const __nv_bfloat16* __restrict__ x, float* __restrict__ scales, long long groups) {
    long long group = ((long long)blockIdx.x * THREADS + threadIdx.x) / 32;
    if (group >= groups) return;
    int lane = threadIdx.x % 32;
    float most = 0.0f;
    for (int i = lane; i < 128; i += 32) most = fmaxf(most, fabsf(__bfloat162float(x[group * 128 + i])));
    for (int gap = 16; gap > 0; gap /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, gap));
    if (lane == 0) scales[group] = fmaxf(most, 1.0e-10f) / 448.0f;
}

extern "C" __global__ void __launch_bounds__(THREADS)
quantise_groups(const __nv_bfloat16* __restrict__ x, unsigned char* __restrict__ out, float* __restrict__ scales,
                long long groups) {
    long long quads = groups * 32;
    for (long long i = (long long)blockIdx.x * THREADS + threadIdx.x; i < quads; i += (long long)gridDim.x * THREADS) {
        __align__(8) __nv_bfloat16 raw[4];
        __align__(4) unsigned char codes[4];
        *reinterpret_cast<uint2*>(raw) = reinterpret_cast<const uint2*>(x)[i];
        float scale = scales[i / 32];
        #pragma unroll
        for (int j = 0; j < 4; ++j) codes[j] = encode(divide(__bfloat162float(raw[j]), scale));
        reinterpret_cast<unsigned*>(out)[i] = *reinterpret_cast<unsigned*>(codes);
    }
}
%% endif
%% host
def run(x, group):
    tokens, hidden = x.shape
    groups = tokens * hidden // group
    out = torch.empty((tokens, hidden), dtype=torch.float8_e4m3fn, device=x.device)
    scales = torch.empty((tokens, hidden // group), dtype=torch.float32, device=x.device)
%% if method == "lanes"
    block = ${threads}
    grid = (groups + ${threads // lanes - 1}) // ${threads // lanes}
%% elif method == "block"
    block = 128
    grid = groups
%% else
    block = ${threads}
    per_block = ${threads // 32}
    module.launch("find_scales", grid=(groups + per_block - 1) // per_block, block=block, args=(x, scales, groups))
    grid = (groups * 32 + block - 1) // block
%% endif
%% if walk == "stride"
    grid = min(grid, 132 * ${waves})
%% endif
    module.launch("quantise_groups", grid=grid, block=block, args=(x, out, scales, groups))
    return out, scales
