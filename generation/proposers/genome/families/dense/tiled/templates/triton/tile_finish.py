<%# What ends a tile: its outputs, its row statistics, or its sums for the second kernel. %>
%% set at = "rm[:, None] * N + rn[None, :]"
%% if finish == "separate" and split_k > 1
%% set at = "part * " ~ ("tl.num_programs(1) * M * N" if product.batched else "M * N") ~ " + " ~ at
%% endif
%% if product.dtype == "int8" and finish != "separate"
v = acc.to(tl.float32)
%% elif product.dtype == "float8_e4m3fn" and math == "decoded"
<%# Bit patterns of e4m3 moved into float16 are 2**-8 of their values, in both operands. %>
v = acc * 65536.0
%% else
v = acc
%% endif
%% if finish != "separate"
${apply_vectors("rm", "rn", "[:, None]", "[None, :]")}
%% endif
%% if product.row == "group_norm" and finish != "separate"
g = tl.reshape(v, (BM, BN // 32, 32))
mean = tl.sum(g, 2) / 32
g = g - mean[:, :, None]
g = g * tl.rsqrt(tl.sum(g * g, 2) / 32 + 1e-5)[:, :, None]
v = tl.reshape(g, (BM, BN))
${load_vectors(["gamma", "beta"], "rm", "rn", "[:, None]", "[None, :]")}
v = v * gamma + beta
%% endif
%% if finish == "partial" and product.row == "sum"
v = tl.where(rn[None, :] < N, v, 0.0)
tl.store(part_ptr + pid_n * M + rm, tl.sum(v, 1), mask=rm < M)
%% elif finish == "partial"
w = tl.where(rn[None, :] < N, v, float("-inf"))
peak = tl.max(w, 1)
tl.store(peak_ptr + pid_n * M + rm, peak, mask=rm < M)
tl.store(part_ptr + pid_n * M + rm, tl.sum(tl.exp(w - peak[:, None]), 1), mask=rm < M)
%% endif
%% if finish != "partial" or product.row == "softmax"
tl.store(c_ptr + ${at}, ${"v" if finish == "separate" else "v.to(c_ptr.dtype.element_ty)"}, mask=(rm[:, None] < row_to) & (rn[None, :] < N))
%% endif
