<%# Leaves the tile's sums in registers: where they live, and how operands reach the arithmetic of compute.cu. %>
%% if engine in ("simt", "dp4a")
constexpr int TM = BM / DOWN, TN = BN / ACROSS;
const int ty = tid / ACROSS, tx = tid % ACROSS;
#define ROW(i) (ty * TM + (i))
#define COLUMN(j) ${"(tx * TN + (j))" if columns == "blocked" else "(tx + (j) * ACROSS)"}
${sum_type} acc[TM][TN] = {};
%% elif engine == "mma"
constexpr int MI = BM / DOWN / 16, NI = BN / ACROSS / 8;
const int lane = tid & 31, warp = tid >> 5, g = lane >> 2, t = lane & 3;
const int wm = warp / ACROSS * (BM / DOWN), wn = warp % ACROSS * (BN / ACROSS);
${sum_type} acc[MI][NI][4] = {};
%% else
using namespace nvcuda;
constexpr int MI = BM / DOWN / 16, NI = BN / ACROSS / 16;
const int warp = tid >> 5;
const int wm = warp / ACROSS * (BM / DOWN), wn = warp % ACROSS * (BN / ACROSS);
wmma::fragment<wmma::accumulator, 16, 16, ${wmma_k}, float> acc[MI][NI];
for (int i = 0; i < MI; ++i) for (int j = 0; j < NI; ++j) wmma::fill_fragment(acc[i][j], 0.0f);
%% endif
%% if staging == "global"
<%# Every thread reads its operands from device memory, leaving reuse to the caches. %>
#pragma unroll ${unroll}
for (int k = k_from; k < k_to; ++k) {
    float fa[TM], fb[TN];
    for (int i = 0; i < TM; ++i) { const int m = m0 + ROW(i); fa[i] = m < m_to ? a[${"(size_t)m * K + k" if a_layout == "mk" else "(size_t)k * M + m"}] : 0.0f; }
    for (int j = 0; j < TN; ++j) { const int n = n0 + COLUMN(j); fb[j] = n < N ? b[${"(size_t)k * N + n" if b_layout == "kn" else "(size_t)n * K + k"}] : 0.0f; }
    for (int i = 0; i < TM; ++i) for (int j = 0; j < TN; ++j) acc[i][j] = fmaf(fa[i], fb[j], acc[i][j]);
}
%% else
%% macro compute()
<%% include "dense/tiled/templates/cuda/compute.cu" %%>
%% endmacro
%% set chunk = {16: "uint4", 8: "uint2", 4: "unsigned int"}[vector]
%% set zero = {16: "make_uint4(0, 0, 0, 0)", 8: "make_uint2(0, 0)", 4: "0u"}[vector]
%% macro put(value, to, along_k, rows_k, ld)
<%# A chunk runs along k when shared rows are single k, and along m or n otherwise; a turned tile goes by elements. %>
%% if rows_k != along_k
    *(${chunk}*)(${to} + ${"kk * " ~ ld ~ " + s" if rows_k else "s * " ~ ld ~ " + kk"}) = ${value};
%% else
    for (int e = 0; e < VEC; ++e) (${to})[${"(kk + e) * " ~ ld ~ " + s" if rows_k else "(s + e) * " ~ ld ~ " + kk"}] = ((const ${operand}*)&${value})[e];
%% endif
%% endmacro
%% macro copy(name, k, to, mode)
<%# Copy one operand's tile at k: straight to shared memory, into registers, out of them, or asynchronously. %>
%% set along_k = a_layout == "mk" if name == "a" else b_layout == "nk"
%% set rows_k = tile.a_rows_k if name == "a" else tile.b_rows_k
%% set side, start, limit, ld, stride = ("BM", "m0", "m_to", "LDA", "M") if name == "a" else ("BN", "n0", "N", "LDB", "N")
%% set base = "bg" if product.grouped and name == "b" else name
%% set held = mode in ("fetch", "stash")
%% set count = side ~ " * BK / VEC"
%% set line = "BK" if along_k else side
%% set address = "(size_t)(" ~ start ~ " + s) * K + " ~ k ~ " + kk" if along_k else "(size_t)(" ~ k ~ " + kk) * " ~ stride ~ " + " ~ start ~ " + s"
%% set source = base ~ " + (inside ? " ~ address ~ " : 0)"
%% if held
#pragma unroll
for (int u = 0; u < (${count} + THREADS - 1) / THREADS; ++u) {
    const int i = tid + u * THREADS;
%% else
for (int i = tid; i < ${count}; i += THREADS) {
%% endif
    const int r = i / (${line} / VEC), c = i % (${line} / VEC) * VEC;
    const int ${"s = r, kk = c" if along_k else "s = c, kk = r"};
%% if mode != "stash"
    const bool inside = ${start} + s < ${limit} && ${k} + kk < k_to${" && i < " ~ count if held else ""};
%% endif
%% if mode == "async"
    copy_async(${to} + ${"kk * " ~ ld ~ " + s" if rows_k else "s * " ~ ld ~ " + kk"}, ${source}, inside);
%% elif mode == "fetch"
    r${name}[u] = inside ? *(const ${chunk}*)(${source}) : ${zero};
%% elif mode == "stash"
    if (i < ${count}) {
${put("r" ~ name ~ "[u]", to, along_k, rows_k, ld)}
    }
%% else
    ${chunk} w = inside ? *(const ${chunk}*)(${source}) : ${zero};
${put("w", to, along_k, rows_k, ld)}
%% endif
}
%% endmacro
${operand}* sa = (${operand}*)shared;
${operand}* sb = sa + BUFFERS * A_STAGE;
%% if staging == "plain"
for (int k0 = k_from; k0 < k_to; k0 += BK) {
${copy("a", "k0", "sa", "direct")}
${copy("b", "k0", "sb", "direct")}
    __syncthreads();
    { const auto* as = sa; const auto* bs = sb;
${compute()}
    }
    __syncthreads();
}
%% elif staging == "prefetch"
<%# Fetch the next tiles into registers while this one is used, in two shared buffers. %>
${chunk} ra[${tile.chunks_a}], rb[${tile.chunks_b}];
{ const int at_k = k_from, to = 0;
${copy("a", "at_k", "", "fetch")}
${copy("b", "at_k", "", "fetch")}
${copy("a", "at_k", "sa + to * A_STAGE", "stash")}
${copy("b", "at_k", "sb + to * B_STAGE", "stash")}
}
__syncthreads();
int buffer = 0;
for (int k0 = k_from; k0 < k_to; k0 += BK) {
    const int at_k = k0 + BK, to = buffer ^ 1;
    if (at_k < k_to) {
${copy("a", "at_k", "", "fetch")}
${copy("b", "at_k", "", "fetch")}
    }
    { const auto* as = sa + buffer * A_STAGE; const auto* bs = sb + buffer * B_STAGE;
${compute()}
    }
    if (at_k < k_to) {
${copy("a", "at_k", "sa + to * A_STAGE", "stash")}
${copy("b", "at_k", "sb + to * B_STAGE", "stash")}
    }
    __syncthreads();
    buffer ^= 1;
}
%% else
<%# A ring of shared buffers filled by asynchronous copies that run ahead. %>
const int steps = k_to > k_from ? (k_to - k_from + BK - 1) / BK : 0;
for (int ahead = 0; ahead < BUFFERS - 1; ++ahead) {
    if (ahead < steps) { const int at_k = k_from + ahead * BK, to = ahead;
${copy("a", "at_k", "sa + to * A_STAGE", "async")}
${copy("b", "at_k", "sb + to * B_STAGE", "async")}
    }
    copy_commit();
}
for (int step = 0; step < steps; ++step) {
    copy_wait<BUFFERS - 2>();
    __syncthreads();
    const int ahead = step + BUFFERS - 1;
    if (ahead < steps) { const int at_k = k_from + ahead * BK, to = ahead % BUFFERS;
${copy("a", "at_k", "sa + to * A_STAGE", "async")}
${copy("b", "at_k", "sb + to * B_STAGE", "async")}
    }
    copy_commit();
    { const int buffer = step % BUFFERS;
    const auto* as = sa + buffer * A_STAGE; const auto* bs = sb + buffer * B_STAGE;
${compute()}
    }
}
copy_wait<0>();
__syncthreads();
%% endif
%% endif
