<%# Rows, columns and the part of k this tile sums over. %>
%% if product.grouped
<%# Every group has its own last, partly filled tile; walking the groups finds the one this tile belongs to. %>
expert = 0
row_from = 0
row_to = 0
first = 0
end = 0
for g in range(GROUPS):
    start = end
    end = tl.load(offsets_ptr + g)
    tiles = tl.cdiv(end - start, BM)
    mine = (pid_m >= first) & (pid_m < first + tiles)
    expert = tl.where(mine, g, expert)
    row_from = tl.where(mine, start + (pid_m - first) * BM, row_from)
    row_to = tl.where(mine, end, row_to)
    first += tiles
rm = row_from + tl.arange(0, BM)
%% else
row_to = M
rm = pid_m * BM + tl.arange(0, BM)
%% endif
rn = pid_n * BN + tl.arange(0, BN)
%% if product.grouped
b_group = b_ptr + expert * K * N
k_from = 0
k_to = tl.where(row_from < row_to, K, 0)
%% elif split_k > 1
part = tl.program_id(2)
k_from = part * k_span
k_to = tl.minimum(K, k_from + k_span)
%% elif product.triangle == "upper" and skip
k_from = pid_m * BM // BK * BK
k_to = tl.minimum(K, pid_n * BN + BN)
%% elif product.triangle and skip
k_from = pid_n * BN // BK * BK
k_to = tl.minimum(K, pid_m * BM + BM)
%% else
k_from = 0
k_to = K
%% endif
