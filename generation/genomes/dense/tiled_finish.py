<%# The second kernel: joins parts of sums or row statistics, and applies what needs a whole row. %>
%% macro summed(at, mask)
acc = tl.load(sums_ptr + ${at}, mask=${mask}, other=0)
%% if split_k > 1
for part in range(1, ${split_k}):
    acc += tl.load(sums_ptr + part * size + ${at}, mask=${mask}, other=0)
%% endif
%% endmacro
%% macro row_values()
${summed("m * N + n", "n < N")}
v = acc
${apply_vectors("m", "n")}
%% if product.row == "sum"
v = tl.where(n < N, v, 0.0)
%% else
w = tl.where(n < N, v, float("-inf"))
%% endif
%% endmacro
%% macro logsumexp()
    v = peak + tl.log(total)
    v = tl.where(v > 0, v, 0.0001 * v)
    ${gelu}
    ${gelu}
    tl.store(out_ptr + m, v.to(out_ptr.dtype.element_ty))
%% endmacro
@triton.jit
%% if finish == "partial" and product.row == "sum"
def finish(part_ptr, out_ptr, M, TILES, BLOCK: tl.constexpr):
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for tile in range(TILES):
        total += tl.load(part_ptr + tile * M + m, mask=m < M, other=0.0)
    tl.store(out_ptr + m, total, mask=m < M)
%% elif finish == "partial"
%% set softmax = product.row == "softmax"
def finish(${"sums_ptr, " if softmax else ""}peak_ptr, part_ptr, out_ptr, M, ${"N, " if softmax else ""}TILES, BLOCK: tl.constexpr):
    m = tl.program_id(0)
    peak = float("-inf")
    total = 0.0
    for tile in range(TILES):
        high = tl.load(peak_ptr + tile * M + m)
        higher = tl.maximum(peak, high)
        total = total * tl.exp(peak - higher) + tl.load(part_ptr + tile * M + m) * tl.exp(high - higher)
        peak = higher
%% if softmax
    for start in range(0, N, BLOCK):
        n = start + tl.arange(0, BLOCK)
        v = tl.load(sums_ptr + m * N + n, mask=n < N, other=0.0)
        v = tl.exp(v - peak) / total
        tl.store(out_ptr + m * N + n, v.to(out_ptr.dtype.element_ty), mask=n < N)
%% else
${logsumexp()}
%% endif
%% else
def finish(sums_ptr, out_ptr, <%% for vector in product.vectors %%>${vector.name}_ptr, <%% endfor %%>M, N, BLOCK: tl.constexpr):
%% if product.batched
    size = tl.num_programs(1) * M * N
    sums_ptr += tl.program_id(1) * M * N
    out_ptr += tl.program_id(1) * M * N
%% else
    size = M * N
%% endif
%% if not product.row
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < M * N
    m = at // N
    n = at % N
${summed("at", "inside") | indent(4, true)}
    v = acc.to(tl.float32)
${apply_vectors("m", "n") | indent(4, true)}
    tl.store(out_ptr + at, v.to(out_ptr.dtype.element_ty), mask=inside)
%% elif product.row == "group_norm"
    group = tl.program_id(0) * (BLOCK // 32) + tl.arange(0, BLOCK // 32)
    at = group[:, None] * 32 + tl.arange(0, 32)[None, :]
    m = at // N
    n = at % N
${summed("at", "at < M * N") | indent(4, true)}
    v = acc
${apply_vectors("m", "n") | indent(4, true)}
    v = v - (tl.sum(v, 1) / 32)[:, None]
    v = v * tl.rsqrt(tl.sum(v * v, 1) / 32 + 1e-5)[:, None]
${load_vectors(["gamma", "beta"], "m", "n") | indent(4, true)}
    v = v * gamma + beta
    tl.store(out_ptr + at, v.to(out_ptr.dtype.element_ty), mask=at < M * N)
%% else
    m = tl.program_id(0)
%% if rows == "whole"
    n = tl.arange(0, BLOCK)
${row_values() | indent(4, true)}
%% if product.row == "sum"
    total = tl.sum(v, 0)
%% else
    peak = tl.max(w, 0)
    total = tl.sum(tl.exp(w - peak), 0)
%% endif
%% elif product.row == "sum"
    sums = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        n = start + tl.arange(0, BLOCK)
${row_values() | indent(8, true)}
        sums += v
    total = tl.sum(sums, 0)
%% else
    peak = float("-inf")
    total = 0.0
    for start in range(0, N, BLOCK):
        n = start + tl.arange(0, BLOCK)
${row_values() | indent(8, true)}
        higher = tl.maximum(peak, tl.max(w, 0))
        total = total * tl.exp(peak - higher) + tl.sum(tl.exp(w - higher), 0)
        peak = higher
%% endif
%% if product.row == "sum"
    tl.store(out_ptr + m, total)
%% elif product.row == "logsumexp"
${logsumexp()}
%% else
%% set tab = 4 if rows == "whole" else 8
%% if rows != "whole"
    for start in range(0, N, BLOCK):
        n = start + tl.arange(0, BLOCK)
${row_values() | indent(8, true)}
%% endif
${" " * tab}tl.store(out_ptr + m * N + n, (tl.exp(w - peak) / total).to(out_ptr.dtype.element_ty), mask=n < N)
%% endif
%% endif
%% endif
