__device__ __forceinline__ float warp_sum(float v) {
    for (int lanes = 16; lanes > 0; lanes >>= 1) v += __shfl_xor_sync(0xffffffffu, v, lanes);
    return v;
}
%% if product.row != "group_norm"
__device__ __forceinline__ float warp_max(float v) {
    for (int lanes = 16; lanes > 0; lanes >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, lanes));
    return v;
}
%% endif
