<%# Multiplies one pair of shared tiles `as` and `bs`. %>
%% if engine == "simt"
#pragma unroll ${unroll}
for (int k = 0; k < BK; ++k) {
    float fa[TM], fb[TN];
    for (int i = 0; i < TM; ++i) fa[i] = as[${"k * LDA + ROW(i)" if tile.a_rows_k else "ROW(i) * LDA + k"}];
    for (int j = 0; j < TN; ++j) fb[j] = bs[${"k * LDB + COLUMN(j)" if tile.b_rows_k else "COLUMN(j) * LDB + k"}];
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
%% set fragment_a = "wmma::fragment<wmma::matrix_a, 16, 16, " ~ wmma_k ~ ", " ~ kind ~ ", wmma::" ~ ("col" if tile.a_rows_k else "row") ~ "_major>"
%% set fragment_b = "wmma::fragment<wmma::matrix_b, 16, 16, " ~ wmma_k ~ ", " ~ kind ~ ", wmma::" ~ ("row" if tile.b_rows_k else "col") ~ "_major>"
%% set a_at = "k * LDA + wm + i * 16" if tile.a_rows_k else "(wm + i * 16) * LDA + k"
%% set b_at = "k * LDB + wn + j * 16" if tile.b_rows_k else "(wn + j * 16) * LDB + k"
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
as[${"(k + t + " ~ k ~ ") * LDA + wm + i * 16 + g + " ~ row if tile.a_rows_k else "(wm + i * 16 + g + " ~ row ~ ") * LDA + k + t + " ~ k}]
%%- endmacro
%% macro b_at(k)
bs[${"(k + t + " ~ k ~ ") * LDB + wn + j * 8 + g" if tile.b_rows_k else "(wn + j * 8 + g) * LDB + k + t + " ~ k}]
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
%% set half = 16 // product.item_bytes
#pragma unroll
for (int k = 0; k < BK; k += ${2 * half}) {
    unsigned fa[MI][4], fb[NI][2];
%% if fragments == "ldmatrix"
<%# Eight rows of sixteen bytes per quarter warp. %>
    #pragma unroll
    for (int i = 0; i < MI; ++i) <%% if tile.a_rows_k %%>load_matrix_x4_transposed(fa[i], &as[(k + (lane & 7) + (lane >> 4) * 8) * LDA + wm + i * 16 + (lane >> 3 & 1) * 8]);<%% else %%>load_matrix_x4(fa[i], &as[(wm + i * 16 + (lane & 15)) * LDA + k + (lane >> 4) * ${half}]);<%% endif +%%>
    #pragma unroll
    for (int j = 0; j < NI; ++j) <%% if tile.b_rows_k %%>load_matrix_x2_transposed(fb[j], &bs[(k + (lane & 15)) * LDB + wn + j * 8]);<%% else %%>load_matrix_x2(fb[j], &bs[(wn + j * 8 + (lane & 7)) * LDB + k + (lane >> 3 & 1) * ${half}]);<%% endif +%%>
%% else
<%# 32-bit words of neighbouring k, packed from two elements where k is not contiguous. %>
%% macro word(tile, line, row, k, rows_k)
%% if rows_k
(*(const unsigned short*)&${tile}[(${k}) * ${line} + ${row}] | ((unsigned)*(const unsigned short*)&${tile}[(${k} + 1) * ${line} + ${row}] << 16))
%% else
*(const unsigned*)(&${tile}[(${row}) * ${line} + ${k}])
%% endif
%%- endmacro
%% set k = "k + " ~ 4 // product.item_bytes ~ " * t + "
    #pragma unroll
    for (int i = 0; i < MI; ++i) {
%% for slot in range(4)
        fa[i][${slot}] = ${word("as", "LDA", "wm + i * 16 + g + " ~ 8 * (slot % 2), k ~ half * (slot // 2), tile.a_rows_k) | trim};
%% endfor
    }
    #pragma unroll
    for (int j = 0; j < NI; ++j) {
%% for slot in range(2)
        fb[j][${slot}] = ${word("bs", "LDB", "wn + j * 8 + g", k ~ half * slot, tile.b_rows_k) | trim};
%% endfor
    }
%% endif
    #pragma unroll
    for (int i = 0; i < MI; ++i)
        #pragma unroll
        for (int j = 0; j < NI; ++j) ${"MULTIPLY" if product.dtype == "float8_e4m3fn" else "multiply"}(acc[i][j], fa[i], fb[j]);
}
%% endif
