%% set a, b = product.args[0], product.args[1]
%% set stats = [] if finish != "partial" else ["part"] if product.row == "sum" else ["peak", "part"]
%% set vectors = [] if finish == "separate" else product.vectors
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
<%% include "dense/tiled_instructions.cu#cp_async" %%>
%% endif
%% if engine == "mma"
%% if product.dtype != "float32" and fragments == "ldmatrix"
<%% include "dense/tiled_instructions.cu#ldmatrix" %%>
%% endif
%% if product.dtype == "float32"
<%% include "dense/tiled_instructions.cu#tf32" %%>
%% endif
%% set operands = "float16" if product.dtype == "float8_e4m3fn" else product.dtype
<%% include "dense/tiled_instructions.cu#mma" %%>
%% if product.dtype == "float8_e4m3fn"
<%% include "dense/tiled_instructions.cu#fp8_half" %%>
%% if fp8 == "native"
#if __CUDA_ARCH__ >= 890
<%% include "dense/tiled_instructions.cu#fp8_native" %%>
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
<%# Which output tile this step computes. %>
%% if order == "triangle"
int r = (int)(sqrtf(8.0f * tile + 1.0f) * 0.5f - 0.5f);
while (r * (r + 1) / 2 > tile) --r;
while ((r + 1) * (r + 2) / 2 <= tile) ++r;
const int s = tile - r * (r + 1) / 2;
const int pid_m = ${"r" if product.triangle == "lower" else "s"}, pid_n = ${"s" if product.triangle == "lower" else "r"};
%% elif order == "row"
const int pid_m = tile / tiles_n, pid_n = tile % tiles_n;
%% elif order == "column"
const int pid_m = tile % tiles_m, pid_n = tile / tiles_m;
%% elif order == "snake"
const int pid_m = tile / tiles_n, across = tile % tiles_n;
const int pid_n = pid_m & 1 ? tiles_n - 1 - across : across;
%% elif order == "reverse"
const int back = tiles_m * tiles_n - 1 - tile;
const int pid_m = back / tiles_n, pid_n = back % tiles_n;
%% else
%% set band = order[7:]
const int band = tile / (${band} * tiles_n), inside = tile % (${band} * tiles_n);
const int band_m = min(tiles_m - band * ${band}, ${band});
const int pid_m = band * ${band} + inside % band_m, pid_n = inside / band_m;
%% endif
%% endfilter
<%# Rows, columns and the part of k this tile sums over. %>
const int n0 = pid_n * BN;
%% if product.grouped
<%# Every group has its own last, partly filled tile; walking the groups finds the one this tile belongs to. %>
int expert = 0, m0 = 0, m_to = 0, first = 0, end = 0;
for (int g = 0; g < groups; ++g) {
    const int start = end;
    end = offsets[g];
    const int tiles = (end - start + BM - 1) / BM;
    if (pid_m >= first && pid_m < first + tiles) {
        expert = g; m0 = start + (pid_m - first) * BM; m_to = end;
    }
    first += tiles;
}
const ${operand}* bg = b + (size_t)expert * K * N;
const int k_from = 0, k_to = m0 < m_to ? K : 0;
%% else
const int m0 = pid_m * BM, m_to = M;
%% if split_k > 1
const int k_from = blockIdx.z * k_span, k_to = min(K, k_from + k_span);
%% elif product.triangle == "upper" and skip
const int k_from = m0 / BK * BK, k_to = min(K, n0 + BN);
%% elif product.triangle and skip
const int k_from = n0 / BK * BK, k_to = min(K, m0 + BM);
%% else
const int k_from = 0, k_to = K;
%% endif
%% endif
%% filter flush
<%% include "dense/tiled_sums.cu" %%>
<%% include "dense/tiled_finish.cu#tile" %%>
%% if loop != "tile"
<%# The next tile's copies must not overtake threads that still read this tile's shared memory. %>
    __syncthreads();
    }
%% endif
%% endfilter
}
%% if finish == "separate" and product.row
<%% include "dense/tiled_instructions.cu#warp_reduce" %%>
%% endif
%% if finish != "fused"
%% filter flush
<%% include "dense/tiled_finish.cu#pass" %%>
%% endfilter
%% endif
%% host
def run(${product.args | join(", ")}):
<%% include "dense/tiled_host.py#shapes" %%>
    tiles_m = (M + ${tile.bm - 1}) // ${tile.bm}${" + offsets.numel()" if product.grouped else ""}
    tiles_n = (N + ${tile.bn - 1}) // ${tile.bn}
<%% include "dense/tiled_host.py#allocations" %%>
%% if split_k > 1
    k_span = ((K + ${split_k - 1}) // ${split_k} + ${tile.bk - 1}) // ${tile.bk} * ${tile.bk}
%% endif
%% set tiles = "tiles_m * (tiles_m + 1) // 2" if order == "triangle" else "tiles_m * tiles_n"
%% set blocks = tiles if loop == "tile" else "min(" ~ tiles ~ ", " ~ most_blocks ~ ")"
%% set args = [a, b, "out" if finish == "fused" else "sums"] + stats + vectors | map(attribute="name") | list
%% set args = args + (["offsets", "offsets.numel()"] if product.grouped else [])
%% set args = args + ["M", "N", "K"] + (["k_span"] if split_k > 1 else [])
    module.launch(
        "product", grid=(${blocks}, ${"BATCH" if product.batched else 1}, ${split_k}), block=${tile.threads},
        args=(${args | join(", ")})${", shared_bytes=" ~ tile.shared_bytes if tile.shared_bytes else ""},
    )
%% if finish == "partial" and product.row == "softmax"
    module.launch("finish", grid=M, block=${finish_threads}, args=(sums, peak, part, out, M, N, tiles_n))
%% elif finish == "partial"
    module.launch("finish", grid=(M + 63) // 64, block=64, args=(${stats | join(", ")}, out, M, tiles_n))
%% elif finish == "separate"
%% set size = "BATCH * M * N" if product.batched else "M * N"
%% if product.row in ("", "group_norm")
%% set grid = "(" ~ size ~ " + " ~ (finish_threads - 1) ~ ") // " ~ finish_threads
%% elif rows == "warp"
%% set grid = "(M + " ~ (finish_threads // 32 - 1) ~ ") // " ~ finish_threads // 32
%% else
%% set grid = "M"
%% endif
%% set inputs = ["sums", "out"] + product.vectors | map(attribute="name") | list
    module.launch("finish", grid=${grid}, block=${finish_threads}, args=(${inputs | join(", ")}, ${size}, M, N))
%% endif
    return out
