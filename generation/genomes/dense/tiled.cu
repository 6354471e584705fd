// Tiled products in CUDA. The sums are taken by plain threads that own a small square of the output each (simt), by
// tensor-core instructions (mma), or through the portable warp-matrix interface (wmma).
// facts product = dense/products.toml
// let item_bytes = {"float32": 4, "bfloat16": 2, "float16": 2, "int8": 1, "float8_e4m3fn": 1}[product.dtype]
// # Where the epilogue may run: in the tile, from per-tile statistics, or in a second kernel.
// let tile_only = product.grouped or product.triangle or (product.splits == (1,) and not product.row)
// let finishes = ("fused",) if tile_only else ("fused", "separate")
// let finishes = ("partial", "separate") if product.row in ("sum", "logsumexp", "softmax") else finishes
// let orders = ("row", "column", "snake", "grouped4", "grouped8")
// let orders = ("row", "column", "reverse", "grouped8", "triangle") if product.triangle else orders
// let simt = "simt" in family
// let mma = family[-4:] == "_mma"
// let wmma = "wmma" in family
// let float32 = product.dtype == "float32"
// let int8 = product.dtype == "int8"
// let fp8 = product.dtype == "float8_e4m3fn"
// let plain = float32 or int8
// let flipped = False
// let a_layout = product.a_layout
// let b_layout = product.b_layout
// let finish_threads = 128
// let rows = "block"
// family matmul_cuda_simt where product.group == "matmul" and plain
// family matmul_cuda_mma where product.group == "matmul"
// family matmul_cuda_wmma where product.group == "matmul" and not int8 and not fp8
// family linear_cuda_simt where product.group == "linear" and plain
// family linear_cuda_mma where product.group == "linear"
// family linear_cuda_wmma where product.group == "linear" and not int8 and not fp8
// family quantized_cuda_simt where product.group == "quantized" and plain
// family quantized_cuda_mma where product.group == "quantized"
// family quantized_cuda_wmma where product.group == "quantized" and not int8 and not fp8
// pick engine = "mma" if mma else "wmma" if wmma else "dp4a" if int8 else "simt"
// shape staging = ("global", "plain", "prefetch", "cp_async") if simt and not int8 else ("plain", "prefetch",
//     "cp_async")
// shape flipped = () if not simt else False if int8 else (False, True)
// shape columns = ("strided", "blocked") if simt else ()
// shape path = () if wmma else "staged" if product.row else ("direct", "staged")
// pick path = "staged" if wmma else ()
// shape loop = "tile", "persistent1", "persistent2"
// shape order = orders
// shape split_k = product.splits
// shape finish = finishes
// shape pad = 0, 16
// pick vector = (16, 8, 4) if product.aligned else 4
// shape skip = (True, False) if product.triangle else ()
// shape a_layout = ("mk", "km") if product.symmetric else ()
// shape b_layout = ("kn", "nk") if product.symmetric else ()
// pick finish_threads = (128, 256, 512) if finishes != ("fused",) else ()
// shape rows = ("block", "warp") if product.row and product.row != "group_norm" else ()
// shape fp8 = ("native", "half") if mma and fp8 else ()
// shape fragments = ("words", "ldmatrix") if mma and not float32 else ()
// shape thread_tile = ("2x2", "4x4", "8x4", "4x8", "8x8") if simt else ()
// shape warps = () if simt else ("1x2", "2x1", "2x2", "1x4", "2x4", "4x2")
// pick unroll = (2, 4, 8) if simt else ()
// pick stages = (2, 3) if simt else (2, 3, 4)
// pick block_m = 32, 64, 128
// pick block_n = (32, 64, 128, 256) if mma and not float32 else (32, 64, 128)
// let depths = {4: (16, 32), 2: (32, 64), 1: (64, 128) if mma else (32, 64)}[item_bytes]
// pick block_k = (8, 16, 32) if simt and float32 else (16, 32) if mma and product.shallow else depths
// refuse split_k > 1 and finish != "separate": parts of a sum are joined by a second kernel
// refuse split_k == 1 and finish == "separate" and not product.vectors: without an epilogue or parts there is nothing
//     for a second kernel
// refuse finish == "fused" and finish_threads != 128: no second kernel to size
// refuse finish != "separate" and rows != "block": no second kernel over rows
// let staged = path == "staged"
// refuse int8 and finish == "separate" and staged: integer sums are not staged as floats
// # With smaller tiles, one or two blocks per processor wait for memory all the time.
// refuse loop != "tile" and (block_m * block_n < 64 * 64 or staging == "global"): too little work in flight for a
//     persistent grid
// refuse order == "triangle" and (block_m != block_n or loop != "tile" or not skip): a packed triangle needs square
//     tiles and one tile per block
// refuse staging != "cp_async" and stages != 2: only asynchronous copies have stages
// refuse staging == "cp_async" and flipped and vector != item_bytes: asynchronous copies turn a tile only element by
//     element
// refuse staging == "global" and (flipped, vector, pad) != (False, 4, 0): nothing is staged
// refuse flipped and product.a_layout == "km" and product.b_layout == "kn": both tiles already have rows of one k
// refuse product.row == "group_norm" and block_n % 32: groups of 32 must not straddle tiles
// # Shared memory: rows of an operand tile run along k, or along m or n where a row is one k. Outputs take the
// # operands'
// # place; four floats between their rows keep the rows aligned and spread them over banks.
// let buffers = {"global": 0, "plain": 1, "prefetch": 2, "cp_async": stages}[staging]
// let vector_items = vector // item_bytes
// let a_rows_k = (a_layout == "km") != (flipped and a_layout == "mk")
// let b_rows_k = (b_layout == "kn") != (flipped and b_layout == "nk")
// let lda = (block_m if a_rows_k else block_k) + pad // item_bytes
// let ldb = (block_n if b_rows_k else block_k) + pad // item_bytes
// let a_stage = lda * (block_k if a_rows_k else block_m)
// let b_stage = ldb * (block_k if b_rows_k else block_n)
// let ldc = block_n + 4
// let shared_bytes = max(buffers * (a_stage + b_stage) * item_bytes, block_m * ldc * 4 if staged else 0)
// # Data-centre GPUs since Ampere have 163 KiB and more.
// refuse shared_bytes > 128 * 1024: too much shared memory
// # Rows and columns of threads, or of warps.
// let pair = sides(thread_tile if simt else warps)
// let down = block_m // pair[0] if simt else pair[0]
// let across = block_n // pair[1] if simt else pair[1]
// let threads = across * down * (1 if simt else 32)
// refuse not 64 <= threads <= 512: too few or too many threads
// let sums = block_m * block_n // threads
// refuse simt and sums > 64: too many sums per thread
// refuse not simt and (block_m // down < 16 or block_n // across < (16 if wmma else 8)): a warp needs at least one
//     fragment
// let copies = min(block_m, block_n) * block_k // vector_items
// refuse not simt and (sums > (64 if float32 else 128) or copies < threads // 4): too many sums per thread or too
//     little to copy
// let held = (block_m + block_n) * block_k * item_bytes // 4 // threads
// refuse not simt and staging == "prefetch" and sums + held > 160: too many registers
// let chunks_a = -(-block_m * block_k // vector_items // threads)
// let chunks_b = -(-block_n * block_k // vector_items // threads)
// # C++ names of element types; float8 travels as bytes.
// let types = {"float32": "float", "bfloat16": "__nv_bfloat16", "float16": "__half", "int8": "signed char",
//     "float8_e4m3fn": "unsigned char"}
// let dtypes = (product.dtype, product.out_dtype)
// let wmma_k = 8 if float32 else 16
// let gelu = "v = 0.5f * v * (1.0f + erff(v * 0.70710678f));"
// let most_blocks = {"tile": None, "persistent1": 132, "persistent2": 264}[loop]

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
constexpr int BM = ${block_m};
constexpr int BN = ${block_n};
constexpr int BK = ${block_k};
constexpr int THREADS = ${threads};
constexpr int DOWN = ${down};
constexpr int ACROSS = ${across};
%% if buffers
constexpr int VEC = ${vector_items};
constexpr int LDA = ${lda};
constexpr int LDB = ${ldb};
constexpr int A_STAGE = ${a_stage};
constexpr int B_STAGE = ${b_stage};
constexpr int BUFFERS = ${buffers};
%% endif
%% if staged
constexpr int LDC = ${ldc};
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
extern "C" __global__ void __launch_bounds__(${threads}) product(${parameters | join(", ")}, <%% for name in stats %%>float* ${name}, <%% endfor %%><%% for vector in vectors %%>const ${types[vector.dtype]}* ${vector.name}_at, <%% endfor %%>${"const int* offsets, int groups, " if product.grouped else ""}int M, int N, int K${", int k_span" if split_k > 1 else ""}) {
%% filter flush
%% if shared_bytes
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
    tiles_m = (M + ${block_m - 1}) // ${block_m}${" + offsets.numel()" if product.grouped else ""}
    tiles_n = (N + ${block_n - 1}) // ${block_n}
<%% include "dense/tiled_host.py#allocations" %%>
%% if split_k > 1
    k_span = ((K + ${split_k - 1}) // ${split_k} + ${block_k - 1}) // ${block_k} * ${block_k}
%% endif
%% set tiles = "tiles_m * (tiles_m + 1) // 2" if order == "triangle" else "tiles_m * tiles_n"
%% set blocks = tiles if loop == "tile" else "min(" ~ tiles ~ ", " ~ most_blocks ~ ")"
%% set args = [a, b, "out" if finish == "fused" else "sums"] + stats + vectors | map(attribute="name") | list
%% set args = args + (["offsets", "offsets.numel()"] if product.grouped else [])
%% set args = args + ["M", "N", "K"] + (["k_span"] if split_k > 1 else [])
    module.launch(
        "product", grid=(${blocks}, ${"BATCH" if product.batched else 1}, ${split_k}), block=${threads},
        args=(${args | join(", ")})${", shared_bytes=" ~ shared_bytes if shared_bytes else ""},
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
