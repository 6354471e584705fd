%% if product.batched
    BATCH, M, K = ${a}.shape
    N = ${b}.shape[2]
%% elif product.grouped
    M, K = ${a}.shape
    N = ${b}.shape[2]
%% else
    K = ${a}.shape[${"-1" if product.a_layout == "mk" else 0}]
    M = ${a}.numel() // K
    N = ${b}.shape[${1 if product.b_layout == "kn" else 0}]
%% endif
