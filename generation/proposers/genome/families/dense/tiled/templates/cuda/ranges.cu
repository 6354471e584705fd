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
