%% if "bfloat16" in dtypes
#include <cuda_bf16.h>
%% endif
%% if "float16" in dtypes
#include <cuda_fp16.h>
%% endif
%% if engine == "wmma"
#include <mma.h>
%% endif
constexpr int BM = ${tile.bm};
constexpr int BN = ${tile.bn};
constexpr int BK = ${tile.bk};
constexpr int THREADS = ${tile.threads};
constexpr int DOWN = ${tile.down};
constexpr int ACROSS = ${tile.across};
%% if tile.buffers
constexpr int VEC = ${tile.vector};
constexpr int LDA = ${tile.lda};
constexpr int LDB = ${tile.ldb};
constexpr int A_STAGE = ${tile.a_stage};
constexpr int B_STAGE = ${tile.b_stage};
constexpr int BUFFERS = ${tile.buffers};
%% endif
%% if tile.staged
constexpr int LDC = ${tile.ldc};
%% endif
%% if "bfloat16" in dtypes
__device__ __forceinline__ float to_float(__nv_bfloat16 v) { return __bfloat162float(v); }
%% endif
%% if "float16" in dtypes
__device__ __forceinline__ float to_float(__half v) { return __half2float(v); }
%% endif
__device__ __forceinline__ float to_float(float v) { return v; }
%% if product.out_dtype == "bfloat16"
__device__ __forceinline__ void put(__nv_bfloat16* p, float v) { *p = __float2bfloat16(v); }
%% elif product.out_dtype == "float16"
__device__ __forceinline__ void put(__half* p, float v) { *p = __float2half(v); }
%% endif
__device__ __forceinline__ void put(float* p, float v) { *p = v; }
%% if staging == "cp_async"
#define COPY_BYTES ${vector}
#define COPY_BYTES_IS_16 ${1 if vector == 16 else 0}
#define COPY_BYTES_IS_8 ${1 if vector == 8 else 0}
<%% include "dense/tiled/templates/cuda/instructions/cp_async.cu" %%>
%% endif
%% if engine == "mma"
%% if product.dtype != "float32" and fragments == "ldmatrix"
<%% include "dense/tiled/templates/cuda/instructions/ldmatrix.cu" %%>
%% endif
%% if product.dtype == "float32"
<%% include "dense/tiled/templates/cuda/instructions/tf32.cu" %%>
%% endif
%% set operands = "float16" if product.dtype == "float8_e4m3fn" else product.dtype
<%% include "dense/tiled/templates/cuda/instructions/mma.cu" %%>
%% if product.dtype == "float8_e4m3fn"
<%% include "dense/tiled/templates/cuda/instructions/fp8_half.cu" %%>
%% if fp8 == "native"
#if __CUDA_ARCH__ >= 890
<%% include "dense/tiled/templates/cuda/instructions/fp8_native.cu" %%>
#define MULTIPLY multiply_fp8_native
#define SUM_SCALE 1.0f
#else
%% endif
#define MULTIPLY multiply_fp8
#define SUM_SCALE 65536.0f
%% if fp8 == "native"
#endif
%% endif
%% endif
%% endif
%% if product.elementwise
%% set read = product.vectors | selectattr("name", "in", product.elementwise) | list
__device__ __forceinline__ float value(float v, int m, int n<%% for vector in read %%>, const ${types[vector.dtype]}* ${vector.name}_at<%% endfor %%>) {
%% for vector in read
    const float ${vector.name} = to_float(${vector.name}_at[${vector.axis}]);
%% endfor
%% for line in product.cuda
    ${line}
%% endfor
    return v;
}
%% endif
%% set sum_type = "int" if product.dtype == "int8" else "float"
%% set operand, output = types[product.dtype], types[product.out_dtype]
%% set parameters = ["const " ~ operand ~ "* a", "const " ~ operand ~ "* b"]
%% set parameters = parameters + [output ~ "* out" if finish == "fused" else sum_type ~ "* sums"]
extern "C" __global__ void __launch_bounds__(${tile.threads}) product(${parameters | join(", ")}, <%% for name in stats %%>float* ${name}, <%% endfor %%><%% for vector in vectors %%>const ${types[vector.dtype]}* ${vector.name}_at, <%% endfor %%>${"const int* offsets, int groups, " if product.grouped else ""}int M, int N, int K${", int k_span" if split_k > 1 else ""}) {
%% filter flush
%% if tile.shared_bytes
    extern __shared__ __align__(16) unsigned char shared[];
%% endif
    const int tid = threadIdx.x;
%% if product.batched
    a += (size_t)blockIdx.y * M * K;
    b += (size_t)blockIdx.y * K * N;
%% if finish == "fused"
    out += (size_t)blockIdx.y * M * N;
%% endif
%% endif
    const int tiles_m = (M + BM - 1) / BM${" + groups" if product.grouped else ""};
    const int tiles_n = (N + BN - 1) / BN;
%% if loop == "tile"
    const int tile = blockIdx.x;
%% else
    for (int tile = blockIdx.x; tile < tiles_m * tiles_n; tile += gridDim.x) {
%% endif
<%% include "dense/tiled/templates/cuda/order.cu" %%>
%% endfilter
<%% include "dense/tiled/templates/cuda/ranges.cu" %%>
%% filter flush
<%% include "dense/tiled/templates/cuda/sums.cu" %%>
<%% include "dense/tiled/templates/cuda/tile_finish.cu" %%>
%% if loop != "tile"
<%# The next tile's copies must not overtake threads that still read this tile's shared memory. %>
    __syncthreads();
    }
%% endif
%% endfilter
}
%% if finish == "separate" and product.row
<%% include "dense/tiled/templates/cuda/instructions/warp_reduce.cu" %%>
%% endif
%% if finish != "fused"
%% filter flush
<%% include "dense/tiled/templates/cuda/finish.cu" %%>
%% endfilter
%% endif
