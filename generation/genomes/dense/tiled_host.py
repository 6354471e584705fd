%% section shapes
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
%% section allocations
%% if product.row in ("sum", "logsumexp")
%% set shape = "(M, 1)"
%% elif product.batched
%% set shape = "(BATCH, M, N)"
%% elif product.args | length == 2 and product.a_layout == "mk"
%% set shape = "(*" ~ a ~ ".shape[:-1], N)"
%% else
%% set shape = "(M, N)"
%% endif
<%# Tiles off the triangle are never visited in this order, so their zeros come from the allocation. %>
%% set maker = "zeros" if order == "triangle" else "empty"
    out = torch.${maker}(${shape}, device=${a}.device, dtype=torch.${product.out_dtype})
%% if finish == "separate"
%% set kind = "int32" if product.dtype == "int8" else "float32"
    sums = torch.empty((${split_k}, ${"BATCH, " if product.batched else ""}M, N), device=${a}.device, dtype=torch.${kind})
%% elif finish == "partial"
    part = torch.empty((tiles_n, M), device=${a}.device, dtype=torch.float32)
%% if product.row != "sum"
    peak = torch.empty((tiles_n, M), device=${a}.device, dtype=torch.float32)
%% endif
%% if product.row == "softmax"
    sums = torch.empty((M, N), device=${a}.device, dtype=torch.float32)
%% else
    sums = part
%% endif
%% endif
