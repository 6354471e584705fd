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
<%# Multiplies one pair of shared tiles `as` and `bs`. %>
%% if engine == "simt"
#pragma unroll ${unroll}
for (int k = 0; k < BK; ++k) {
    float fa[TM], fb[TN];
    for (int i = 0; i < TM; ++i) fa[i] = as[${"k * LDA + ROW(i)" if a_rows_k else "ROW(i) * LDA + k"}];
    for (int j = 0; j < TN; ++j) fb[j] = bs[${"k * LDB + COLUMN(j)" if b_rows_k else "COLUMN(j) * LDB + k"}];
    for (int i = 0; i < TM; ++i) for (int j = 0; j < TN; ++j) acc[i][j] = fmaf(fa[i], fb[j], acc[i][j]);
}
%% elif engine == "dp4a"
#pragma unroll ${unroll}
for (int k = 0; k < BK; k += 4) {
    int fa[TM], fb[TN];
    for (int i = 0; i < TM; ++i) fa[i] = *(const int*)(as + ROW(i) * LDA + k);
    for (int j = 0; j < TN; ++j) fb[j] = *(const int*)(bs + COLUMN(j) * LDB + k);
    for (int i = 0; i < TM; ++i) for (int j = 0; j < TN; ++j) acc[i][j] = __dp4a(fa[i], fb[j], acc[i][j]);
}
%% elif engine == "wmma"
%% set split = product.dtype == "float32"
%% set kind = "wmma::precision::tf32" if split else operand
%% set fragment_a = "wmma::fragment<wmma::matrix_a, 16, 16, " ~ wmma_k ~ ", " ~ kind ~ ", wmma::" ~ ("col" if a_rows_k else "row") ~ "_major>"
%% set fragment_b = "wmma::fragment<wmma::matrix_b, 16, 16, " ~ wmma_k ~ ", " ~ kind ~ ", wmma::" ~ ("row" if b_rows_k else "col") ~ "_major>"
%% set a_at = "k * LDA + wm + i * 16" if a_rows_k else "(wm + i * 16) * LDA + k"
%% set b_at = "k * LDB + wn + j * 16" if b_rows_k else "(wn + j * 16) * LDB + k"
%% if not split
for (int k = 0; k < BK; k += ${wmma_k}) {
    ${fragment_a} fa[MI]; ${fragment_b} fb[NI];
    for (int i = 0; i < MI; ++i) wmma::load_matrix_sync(fa[i], as + ${a_at}, LDA);
    for (int j = 0; j < NI; ++j) wmma::load_matrix_sync(fb[j], bs + ${b_at}, LDB);
    for (int i = 0; i < MI; ++i) for (int j = 0; j < NI; ++j)
        wmma::mma_sync(acc[i][j], fa[i], fb[j], acc[i][j]);
}
%% else
%% macro cut(big, small)
        for (int e = 0; e < ${big}.num_elements; ++e) { const float v = ${big}.x[e]; ${big}.x[e] = wmma::__float_to_tf32(v); ${small}.x[e] = wmma::__float_to_tf32(v - ${big}.x[e]); }
%% endmacro
<%# Tensor cores truncate as they add: sums of one tile are kept apart and joined by rounded additions. %>
wmma::fragment<wmma::accumulator, 16, 16, ${wmma_k}, float> sum[MI][NI];
for (int i = 0; i < MI; ++i) for (int j = 0; j < NI; ++j) wmma::fill_fragment(sum[i][j], 0.0f);
for (int k = 0; k < BK; k += ${wmma_k}) {
    ${fragment_a} fa[MI], sa_[MI]; ${fragment_b} fb[NI], sb_[NI];
    for (int i = 0; i < MI; ++i) { wmma::load_matrix_sync(fa[i], as + ${a_at}, LDA);
${cut("fa[i]", "sa_[i]")}
    }
    for (int j = 0; j < NI; ++j) { wmma::load_matrix_sync(fb[j], bs + ${b_at}, LDB);
${cut("fb[j]", "sb_[j]")}
    }
    for (int i = 0; i < MI; ++i) for (int j = 0; j < NI; ++j) {
        wmma::mma_sync(sum[i][j], sa_[i], fb[j], sum[i][j]);
        wmma::mma_sync(sum[i][j], fa[i], sb_[j], sum[i][j]);
        wmma::mma_sync(sum[i][j], fa[i], fb[j], sum[i][j]);
    }
}
for (int i = 0; i < MI; ++i) for (int j = 0; j < NI; ++j)
    for (int e = 0; e < sum[i][j].num_elements; ++e) acc[i][j].x[e] += sum[i][j].x[e];
%% endif
%% elif product.dtype == "float32"
<%# Three tf32 products of high and low parts give fp32 accuracy. %>
%% macro a_at(row, k)
as[${"(k + t + " ~ k ~ ") * LDA + wm + i * 16 + g + " ~ row if a_rows_k else "(wm + i * 16 + g + " ~ row ~ ") * LDA + k + t + " ~ k}]
%%- endmacro
%% macro b_at(k)
bs[${"(k + t + " ~ k ~ ") * LDB + wn + j * 8 + g" if b_rows_k else "(wn + j * 8 + g) * LDB + k + t + " ~ k}]
%%- endmacro
<%# Tensor cores truncate as they add: sums of one tile are kept apart and joined by rounded additions. %>
float sum[MI][NI][4] = {};
#pragma unroll
for (int k = 0; k < BK; k += 8) {
    unsigned ah[MI][4], al[MI][4], bh[NI][2], bl[NI][2];
    #pragma unroll
    for (int i = 0; i < MI; ++i) {
        const float v[4] = {${a_at(0, 0)}, ${a_at(8, 0)}, ${a_at(0, 4)}, ${a_at(8, 4)}};
        for (int s = 0; s < 4; ++s) {
            ah[i][s] = to_tf32(v[s]);
            al[i][s] = to_tf32(v[s] - __uint_as_float(ah[i][s]));
        }
    }
    #pragma unroll
    for (int j = 0; j < NI; ++j) {
        const float v[2] = {${b_at(0)}, ${b_at(4)}};
        for (int s = 0; s < 2; ++s) {
            bh[j][s] = to_tf32(v[s]);
            bl[j][s] = to_tf32(v[s] - __uint_as_float(bh[j][s]));
        }
    }
    #pragma unroll
    for (int i = 0; i < MI; ++i)
        #pragma unroll
        for (int j = 0; j < NI; ++j) {
            multiply(sum[i][j], al[i], bh[j]);
            multiply(sum[i][j], ah[i], bl[j]);
            multiply(sum[i][j], ah[i], bh[j]);
        }
}
for (int i = 0; i < MI; ++i) for (int j = 0; j < NI; ++j)
    for (int e = 0; e < 4; ++e) acc[i][j][e] += sum[i][j][e];
%% else
%% set half = 16 // item_bytes
#pragma unroll
for (int k = 0; k < BK; k += ${2 * half}) {
    unsigned fa[MI][4], fb[NI][2];
%% if fragments == "ldmatrix"
<%# Eight rows of sixteen bytes per quarter warp. %>
    #pragma unroll
    for (int i = 0; i < MI; ++i) <%% if a_rows_k %%>load_matrix_x4_transposed(fa[i], &as[(k + (lane & 7) + (lane >> 4) * 8) * LDA + wm + i * 16 + (lane >> 3 & 1) * 8]);<%% else %%>load_matrix_x4(fa[i], &as[(wm + i * 16 + (lane & 15)) * LDA + k + (lane >> 4) * ${half}]);<%% endif +%%>
    #pragma unroll
    for (int j = 0; j < NI; ++j) <%% if b_rows_k %%>load_matrix_x2_transposed(fb[j], &bs[(k + (lane & 15)) * LDB + wn + j * 8]);<%% else %%>load_matrix_x2(fb[j], &bs[(wn + j * 8 + (lane & 7)) * LDB + k + (lane >> 3 & 1) * ${half}]);<%% endif +%%>
%% else
<%# 32-bit words of neighbouring k, packed from two elements where k is not contiguous. %>
%% macro word(tile, line, row, k, rows_k)
%% if rows_k
(*(const unsigned short*)&${tile}[(${k}) * ${line} + ${row}] | ((unsigned)*(const unsigned short*)&${tile}[(${k} + 1) * ${line} + ${row}] << 16))
%% else
*(const unsigned*)(&${tile}[(${row}) * ${line} + ${k}])
%% endif
%%- endmacro
%% set k = "k + " ~ 4 // item_bytes ~ " * t + "
    #pragma unroll
    for (int i = 0; i < MI; ++i) {
%% for slot in range(4)
        fa[i][${slot}] = ${word("as", "LDA", "wm + i * 16 + g + " ~ 8 * (slot % 2), k ~ half * (slot // 2), a_rows_k) | trim};
%% endfor
    }
    #pragma unroll
    for (int j = 0; j < NI; ++j) {
%% for slot in range(2)
        fb[j][${slot}] = ${word("bs", "LDB", "wn + j * 8 + g", k ~ half * slot, b_rows_k) | trim};
%% endfor
    }
%% endif
    #pragma unroll
    for (int i = 0; i < MI; ++i)
        #pragma unroll
        for (int j = 0; j < NI; ++j) ${"MULTIPLY" if product.dtype == "float8_e4m3fn" else "multiply"}(acc[i][j], fa[i], fb[j]);
}
%% endif
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
%% set rows_k = a_rows_k if name == "a" else b_rows_k
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
${chunk} ra[${chunks_a}], rb[${chunks_b}];
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
