#include <cuda_bf16.h>
typedef __nv_bfloat16 bf16;
__device__ __forceinline__ float wide(bf16 v) { return __bfloat162float(v); }
__device__ __forceinline__ bf16 narrow(float v) { return __float2bfloat16_rn(v); }
