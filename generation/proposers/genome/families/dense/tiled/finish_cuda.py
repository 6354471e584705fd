"""What CUDA kernels do with finished sums: from registers, through shared memory, or in a second kernel."""

from __future__ import annotations

from collections.abc import Callable

from kbench.generation.proposers.genome.families.dense.tiled.intrinsics_cuda import TYPES
from kbench.generation.proposers.genome.families.dense.tiled.product import GELU_CUDA, Product
from kbench.generation.proposers.genome.families.dense.tiled.tile_cuda import Tile
from kbench.generation.proposers.genome.family import Genome

PAIRS = {
    "float": "*(float2*)({at}) = make_float2({one}, {two});",
    "int": "*(int2*)({at}) = make_int2({one}, {two});",
    "__nv_bfloat16": "*(__nv_bfloat162*)({at}) = __floats2bfloat162_rn({one}, {two});",
    "__half": "*(__half2*)({at}) = __floats2half2_rn({one}, {two});",
}
"""Two neighbouring outputs in one store."""
WARP_SUM = """
__device__ __forceinline__ float warp_sum(float v) {
    for (int lanes = 16; lanes > 0; lanes >>= 1) v += __shfl_xor_sync(0xffffffffu, v, lanes);
    return v;
}
"""
WARP_MAX = """
__device__ __forceinline__ float warp_max(float v) {
    for (int lanes = 16; lanes > 0; lanes >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, lanes));
    return v;
}
"""


def _elementwise(product: Product) -> list[str]:
    return [v.name for v in product.vectors if v.name not in ("gamma", "beta")]


def value_function(product: Product) -> str:
    """The elementwise part of the epilogue as a device function."""
    names = _elementwise(product)
    if not names:
        return ""
    axes = {v.name: (v.axis, TYPES[v.dtype]) for v in product.vectors}
    pointers = "".join(f", const {axes[name][1]}* {name}_at" for name in names)
    loads = [f"    const float {name} = to_float({name}_at[{axes[name][0]}]);" for name in names]
    body = [*loads, *(f"    {line}" for line in product.cuda), "    return v;"]
    return "\n".join([f"__device__ __forceinline__ float value(float v, int m, int n{pointers}) {{", *body, "}"])


def _value(product: Product, raw: str) -> str:
    """The finished value of a raw sum at (m, n)."""
    scaled = f"{raw} * SUM_SCALE" if product.dtype == "float8_e4m3fn" else f"(float){raw}"
    names = _elementwise(product)
    if not names:
        return scaled
    return f"value({scaled}, m, n, {', '.join(f'{name}_at' for name in names)})"


def _raw(product: Product, raw: str) -> str:
    return f"{raw} * SUM_SCALE" if product.dtype == "float8_e4m3fn" else raw


def _sums_at(product: Product, genome: Genome) -> str:
    """Where this block's partial sums begin."""
    if int(genome["split_k"]) > 1:
        return "sums + ((size_t)blockIdx.z * gridDim.y + blockIdx.y) * M * N"
    return "sums + (size_t)blockIdx.y * M * N" if product.batched else "sums"


def tile_finish(product: Product, genome: Genome, tile: Tile) -> list[str]:
    """Statements that end a tile."""
    if tile.staged:
        return _staged(product, genome)
    if genome["finish"] == "separate":
        kind = "int" if product.dtype == "int8" else "float"
        head = [f"{kind}* to = {_sums_at(product, genome)};"]
        return ["{", *head, *_registers(product, genome, kind, lambda x: _raw(product, x)), "}"]
    kind = TYPES[product.out_dtype]
    return ["{", f"{kind}* to = out;", *_registers(product, genome, kind, lambda x: _value(product, x)), "}"]


def _registers(product: Product, genome: Genome, kind: str, finished: Callable[[str], str]) -> list[str]:
    """Store each thread's own sums."""
    if genome["engine"] != "mma":
        return [
            "for (int i = 0; i < TM; ++i) for (int j = 0; j < TN; ++j) {",
            "const int m = m0 + ROW(i), n = n0 + COLUMN(j);",
            f"if (m < m_to && n < N) {_store(kind, '(size_t)m * N + n', finished('acc[i][j]'))}",
            "}",
        ]
    loops = "for (int i = 0; i < MI; ++i) for (int j = 0; j < NI; ++j) for (int h = 0; h < 2; ++h) {"
    row = "const int m = m0 + wm + i * 16 + g + 8 * h;"
    if not product.aligned:
        inner = "for (int e = 0; e < 2; ++e) { const int n = n0 + wn + j * 8 + 2 * t + e; if (m < m_to && n < N)"
        store = _store(kind, "(size_t)m * N + n", finished("acc[i][j][2 * h + e]"))
        return ["#pragma unroll", loops, row, f"{inner} {store} }}", "}"]
    # The second value of a pair needs its own column in the epilogue.
    return [
        "#pragma unroll",
        loops,
        row,
        "int n = n0 + wn + j * 8 + 2 * t;",
        "if (m < m_to && n < N) {",
        f"const auto one = {finished('acc[i][j][2 * h]')}; ++n;",
        f"const auto two = {finished('acc[i][j][2 * h + 1]')}; --n;",
        PAIRS[kind].format(at="to + (size_t)m * N + n", one="one", two="two"),
        "}",
        "}",
    ]


def _store(kind: str, at: str, value: str) -> str:
    return f"to[{at}] = {value};" if kind == "int" else f"put(to + {at}, {value});"


def _staged(product: Product, genome: Genome) -> list[str]:
    """Lay the tile out in shared memory, where rows can be walked and stores are contiguous."""
    lines = ["float* cs = (float*)shared;", "__syncthreads();", *_lay_out(genome), "__syncthreads();"]
    loop = "for (int i = tid; i < BM * BN; i += THREADS) { const int lm = i / BN, ln = i % BN;"
    at = "const int m = m0 + lm, n = n0 + ln;"
    if genome["finish"] == "separate":
        head = f"float* to = {_sums_at(product, genome)};"
        store = f"if (m < m_to && n < N) to[(size_t)m * N + n] = {_raw(product, 'cs[lm * LDC + ln]')};"
        return ["{", *lines, head, loop, at, store, "}", "}"]
    finished = _value(product, "cs[lm * LDC + ln]")
    if not product.row:
        store = f"if (m < m_to && n < N) put(out + (size_t)m * N + n, {finished});"
        return ["{", *lines, loop, at, store, "}", "}"]
    outside = "0.0f" if product.row == "sum" else "-3.0e38f"
    lines += [loop, at, f"const float v = m < m_to && n < N ? {finished} : {outside};", "cs[lm * LDC + ln] = v;"]
    if product.row == "softmax":
        lines += ["if (m < m_to && n < N) sums[(size_t)m * N + n] = v;"]
    return ["{", *lines, "}", "__syncthreads();", *_tile_rows(product), "}"]


def _lay_out(genome: Genome) -> list[str]:
    if genome["engine"] == "wmma":
        return [
            "for (int i = 0; i < MI; ++i) for (int j = 0; j < NI; ++j)",
            "wmma::store_matrix_sync(cs + (wm + i * 16) * LDC + wn + j * 16, acc[i][j], LDC, wmma::mem_row_major);",
        ]
    if genome["engine"] == "mma":
        return [
            "#pragma unroll",
            "for (int i = 0; i < MI; ++i) for (int j = 0; j < NI; ++j) for (int e = 0; e < 4; ++e)",
            "cs[(wm + i * 16 + g + 8 * (e >> 1)) * LDC + wn + j * 8 + 2 * t + (e & 1)] = acc[i][j][e];",
        ]
    return ["for (int i = 0; i < TM; ++i) for (int j = 0; j < TN; ++j) cs[ROW(i) * LDC + COLUMN(j)] = acc[i][j];"]


def _tile_rows(product: Product) -> list[str]:
    """Row-wise work on the finished tile, one thread a row or a group."""
    if product.row == "group_norm":
        return [
            "for (int i = tid; i < BM * (BN / 32); i += THREADS) {",
            "const int lm = i / (BN / 32), first = i % (BN / 32) * 32, m = m0 + lm;",
            "if (m >= m_to || n0 + first >= N) continue;",
            "const float* v = cs + lm * LDC + first;",
            "float mean = 0.0f, square = 0.0f;",
            "for (int e = 0; e < 32; ++e) mean += v[e];",
            "mean *= 1.0f / 32;",
            "for (int e = 0; e < 32; ++e) square += (v[e] - mean) * (v[e] - mean);",
            "const float scale = rsqrtf(square * (1.0f / 32) + 1e-5f);",
            "for (int e = 0; e < 32; ++e) {",
            "const int n = n0 + first + e;",
            "put(out + (size_t)m * N + n, (v[e] - mean) * scale * to_float(gamma_at[n]) + to_float(beta_at[n]));",
            "}",
            "}",
        ]
    head = ["for (int lm = tid; lm < BM; lm += THREADS) {", "const int m = m0 + lm;", "if (m >= m_to) continue;"]
    if product.row == "sum":
        return [
            *head,
            "float total = 0.0f;",
            "for (int ln = 0; ln < BN; ++ln) total += cs[lm * LDC + ln];",
            "part[(size_t)pid_n * M + m] = total;",
            "}",
        ]
    return [
        *head,
        "float high = -3.0e38f, total = 0.0f;",
        "for (int ln = 0; ln < BN; ++ln) high = fmaxf(high, cs[lm * LDC + ln]);",
        "for (int ln = 0; ln < BN; ++ln) total += expf(cs[lm * LDC + ln] - high);",
        "peak[(size_t)pid_n * M + m] = high;",
        "part[(size_t)pid_n * M + m] = total;",
        "}",
    ]


def finish_kernel(product: Product, genome: Genome) -> str:
    """The second kernel, if the genome has one."""
    if genome["finish"] == "partial":
        return "\n".join(_combine(product))
    if genome["finish"] != "separate":
        return ""
    if not product.row:
        return "\n".join(_finish_elements(product, genome))
    if product.row == "group_norm":
        return WARP_SUM.strip() + "\n" + "\n".join(_finish_groups(product, genome))
    return WARP_SUM.strip() + "\n" + WARP_MAX.strip() + "\n" + "\n".join(_finish_rows(product, genome))


def _signature(product: Product) -> str:
    kind = "int" if product.dtype == "int8" else "float"
    pointers = "".join(f"const {TYPES[v.dtype]}* {v.name}_at, " for v in product.vectors)
    return (
        f'extern "C" __global__ void finish(const {kind}* sums, {TYPES[product.out_dtype]}* out, '
        f"{pointers}long long size, int M, int N) {{"
    )


def _joined(product: Product, genome: Genome, at: str) -> list[str]:
    """Declare `acc` as the sum of all parts at an index."""
    kind = "int" if product.dtype == "int8" else "float"
    lines = [f"{kind} acc = sums[{at}];"]
    if int(genome["split_k"]) > 1:
        lines += [f"for (int p = 1; p < {genome['split_k']}; ++p) acc += sums[p * size + {at}];"]
    return lines


def _finished(product: Product) -> str:
    names = _elementwise(product)
    return f"value((float)acc, m, n, {', '.join(f'{name}_at' for name in names)})" if names else "(float)acc"


def _finish_elements(product: Product, genome: Genome) -> list[str]:
    return [
        _signature(product),
        "const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;",
        "if (i >= size) return;",
        "const int m = (int)(i / N), n = (int)(i % N);",
        *_joined(product, genome, "i"),
        f"put(out + i, {_finished(product)});",
        "}",
    ]


def _finish_groups(product: Product, genome: Genome) -> list[str]:
    """A warp a group, a lane a feature."""
    return [
        _signature(product),
        "const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;",
        # Groups are whole warps, so a warp leaves together.
        "if (i >= size) return;",
        "const int m = (int)(i / N), n = (int)(i % N);",
        *_joined(product, genome, "i"),
        f"float v = {_finished(product)};",
        "v -= warp_sum(v) * (1.0f / 32);",
        "v *= rsqrtf(warp_sum(v * v) * (1.0f / 32) + 1e-5f);",
        "put(out + i, v * to_float(gamma_at[n]) + to_float(beta_at[n]));",
        "}",
    ]


def _finish_rows(product: Product, genome: Genome) -> list[str]:
    """A block or a warp a row."""
    by_warp = genome["rows"] == "warp"
    values = [
        "const size_t at = (size_t)m * N + n;",
        *_joined(product, genome, "at"),
        f"const float v = {_finished(product)};",
    ]
    step = "for (int n = lane; n < N; n += 32) {" if by_warp else "for (int n = threadIdx.x; n < N; n += blockDim.x) {"
    where = "blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5)" if by_warp else "blockIdx.x"
    lines = [
        _signature(product),
        f"const int m = {where};",
        "const int lane = threadIdx.x & 31;",
        "if (m >= M) return;",
    ]
    lines += ["float peak = -3.0e38f, total = 0.0f;"]
    if product.row == "sum":
        lines += [step, *values, "total += v;", "}", *_join_threads(by_warp, False)]
        return [
            *lines,
            "if (lane == 0) put(out + m, total);" if by_warp else "if (threadIdx.x == 0) put(out + m, total);",
            "}",
        ]
    lines += [
        step, *values,
        "const float higher = fmaxf(peak, v);",
        "total = total * expf(peak - higher) + expf(v - higher);",
        "peak = higher;",
        "}",
        *_join_threads(by_warp, True),
    ]  # fmt: skip
    if product.row == "logsumexp":
        return [*lines, "if (lane == 0) {" if by_warp else "if (threadIdx.x == 0) {", *_scalar_tail(), "}", "}"]
    return [*lines, step, *values, "put(out + at, expf(v - peak) / total);", "}", "}"]


def _join_threads(by_warp: bool, with_peak: bool) -> list[str]:
    """Join every thread's (peak, total) so that all threads have the row's."""
    if not with_peak:
        warp = ["total = warp_sum(total);"]
    else:
        warp = [
            "{ const float high = warp_max(peak);",
            "total = warp_sum(peak == -3.0e38f ? 0.0f : total * expf(peak - high)); peak = high; }",
        ]
    if by_warp:
        return warp
    lines = [*warp, "__shared__ float totals[32], peaks[32];"]
    lines += [
        "if (lane == 0) { totals[threadIdx.x >> 5] = total; peaks[threadIdx.x >> 5] = peak; }",
        "__syncthreads();",
    ]
    lines += ["const int warps = blockDim.x >> 5;", "total = lane < warps ? totals[lane] : 0.0f;"]
    lines += ["peak = lane < warps ? peaks[lane] : -3.0e38f;"]
    return [*lines, *warp]


def _scalar_tail() -> list[str]:
    return [
        "float v = peak + logf(total);",
        "v = v > 0.0f ? v : 0.0001f * v;",
        GELU_CUDA,
        GELU_CUDA,
        "put(out + m, v);",
    ]


def _combine(product: Product) -> list[str]:
    """Join the row statistics of all column tiles."""
    out = TYPES[product.out_dtype]
    if product.row == "sum":
        return [
            f'extern "C" __global__ void finish(const float* part, {out}* out, int M, int tiles) {{',
            "const int m = blockIdx.x * blockDim.x + threadIdx.x;",
            "if (m >= M) return;",
            "float total = 0.0f;",
            "for (int i = 0; i < tiles; ++i) total += part[(size_t)i * M + m];",
            "put(out + m, total);",
            "}",
        ]
    join = [
        "float peak = -3.0e38f, total = 0.0f;",
        "for (int i = 0; i < tiles; ++i) peak = fmaxf(peak, peaks[(size_t)i * M + m]);",
        "for (int i = 0; i < tiles; ++i) total += part[(size_t)i * M + m] * expf(peaks[(size_t)i * M + m] - peak);",
    ]
    if product.row == "logsumexp":
        return [
            f'extern "C" __global__ void finish(const float* peaks, const float* part, {out}* out, '
            "int M, int tiles) {",
            "const int m = blockIdx.x * blockDim.x + threadIdx.x;",
            "if (m >= M) return;",
            *join,
            *_scalar_tail(),
            "}",
        ]
    return [
        'extern "C" __global__ void finish(const float* sums, const float* peaks, const float* part, '
        f"{out}* out, int M, int N, int tiles) {{",
        "const int m = blockIdx.x;",
        *join,
        "for (int n = threadIdx.x; n < N; n += blockDim.x)",
        "put(out + (size_t)m * N + n, expf(sums[(size_t)m * N + n] - peak) / total);",
        "}",
    ]


def finish_call(product: Product, genome: Genome) -> list[str]:
    """Lines of run that launch the second kernel."""
    if genome["finish"] == "fused":
        return []
    threads = int(genome["finish_threads"])
    if genome["finish"] == "partial":
        if product.row == "softmax":
            return [f'module.launch("finish", grid=M, block={threads}, args=(sums, peak, part, out, M, N, tiles_n))']
        args = "part, out" if product.row == "sum" else "peak, part, out"
        return [f'module.launch("finish", grid=(M + 63) // 64, block=64, args=({args}, M, tiles_n))']
    vectors = "".join(f"{v.name}, " for v in product.vectors)
    if product.row in ("", "group_norm"):
        size = "BATCH * M * N" if product.batched else "M * N"
        grid = f"({size} + {threads - 1}) // {threads}"
    else:
        size = "M * N"
        per_block = threads // 32 if genome["rows"] == "warp" else 1
        grid = f"(M + {per_block - 1}) // {per_block}" if per_block > 1 else "M"
    return [f'module.launch("finish", grid={grid}, block={threads}, args=(sums, out, {vectors}{size}, M, N))']
