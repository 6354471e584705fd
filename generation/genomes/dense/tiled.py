# Tiled products in Triton: matmul, linear layers with their epilogues, grouped and quantised products.
# facts product = dense/products.toml
# let item_bytes = {"float32": 4, "bfloat16": 2, "float16": 2, "int8": 1, "float8_e4m3fn": 1}[product.dtype]
# # Where the epilogue may run: in the tile, from per-tile statistics, or in a second kernel.
# let tile_only = product.grouped or product.triangle or (product.splits == (1,) and not product.row)
# let finishes = ("fused",) if tile_only else ("fused", "separate")
# let finishes = ("partial", "separate") if product.row in ("sum", "logsumexp", "softmax") else finishes
# let orders = ("row", "column", "snake", "grouped4", "grouped8")
# let orders = ("row", "column", "reverse", "grouped8", "triangle") if product.triangle else orders
# let narrow = product.dtype != "float32"
# let maths = ("tf32x3", "ieee", "outer") if product.aligned else ("tf32x3", "ieee")
# let maths = ("native", "decoded") if product.dtype == "float8_e4m3fn" else "dot" if narrow else maths
# let depths = (64, 128) if item_bytes == 1 else (32, 64, 128) if narrow else (16, 32, 64)
# let rows = "whole"
# let finish_block = 512
# let a_layout = product.a_layout
# let b_layout = product.b_layout
# family matmul_triton_tiled where product.group == "matmul"
# family linear_triton_tiled where product.group == "linear"
# family quantized_triton_tiled where product.group == "quantized"
# shape math = maths
# shape loop = "tile", "persistent1", "persistent2"
# shape order = orders
# shape split_k = product.splits
# shape finish = finishes
# shape pointers = "advance", "recompute"
# shape k_tail = "masked", "peeled"
# shape bounds = "mask" if product.grouped else ("mask", "wrap")
# shape swapped = False, True
# shape skip = (True, False) if product.triangle else ()
# shape a_layout = ("mk", "km") if product.symmetric else ()
# shape b_layout = ("kn", "nk") if product.symmetric else ()
# shape rows = ("whole", "loop") if "separate" in finishes and product.row else ()
# pick block_m = (64, 128) if narrow and not product.shallow else (32, 64, 128)
# pick block_n = (32, 64, 128, 256) if product.shallow else (64, 128, 256) if narrow else (32, 64, 128)
# pick block_k = (16, 32) if product.shallow else depths
# pick warps = 4, 8
# pick stages = 2, 3, 4
# pick finish_block = (512, 1024, 2048) if finishes != ("fused",) else ()
# refuse split_k > 1 and finish != "separate": parts of a sum are joined by a second kernel
# refuse split_k == 1 and finish == "separate" and not product.vectors: without an epilogue or parts there is nothing
#     for a second kernel
# let per_thread = block_m * block_n // (32 * warps)
# refuse not 4 <= per_thread <= (128 if narrow else 64): too many or too few sums per thread
# # Without tensor cores the compiler unrolls the whole depth of a block and holds it in registers.
# refuse math == "ieee" and (per_thread > 32 or block_k > 32): too many registers for a block's depth
# refuse math == "outer" and (k_tail, bounds, stages, pointers) != ("masked", "mask", 2, "recompute"): one column at a
#     time has no tail, no wrapping and no stages
# refuse finish == "fused" and finish_block != 512: no second kernel to size
# refuse finish != "separate" and rows != "whole": no second kernel over rows
# # With smaller tiles, one or two programs per processor wait for memory all the time.
# refuse loop != "tile" and (block_m * block_n < 64 * 64 or math == "outer"): too little work in flight for a persistent
#     grid
# refuse order == "triangle" and (block_m != block_n or loop != "tile" or not skip): a packed triangle needs square
#     tiles and one tile per program
# # Staged operands: three tf32 products keep converted copies beside them; Hopper and later have 227 KiB.
# let operands = (block_m + block_n) * block_k * item_bytes * stages
# refuse operands > (200 if narrow else 96) * 1024: too much shared memory
# let gelu = "v = 0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476))"
# let most_programs = {"tile": None, "persistent1": 132, "persistent2": 264}[loop]

import torch
import triton
import triton.language as tl

<%# Vectors as tiles that broadcast against the sums, and the elementwise statements on them. %>
%% macro load_vectors(names, m, n, rows="", columns="")
%% for vector in product.vectors if vector.name in names
%% set index, limit, shape = (m, "M", rows) if vector.axis == "m" else (n, "N", columns)
${vector.name} = tl.load(${vector.name}_ptr + ${index}, mask=${index} < ${limit}, other=0.0).to(tl.float32)${shape}
%% endfor
%% endmacro
%% macro apply_vectors(m, n, rows="", columns="")
${load_vectors(product.elementwise, m, n, rows, columns)}
${product.triton | join("\n")}
%% endmacro
%% set a, b = product.args[0], product.args[1]
%% set stats = [] if finish != "partial" else ["part"] if product.row == "sum" else ["peak", "part"]
%% set vectors = [] if finish == "separate" else product.vectors | map(attribute="name") | list
<%% filter packed %%>
%% set grouped = "offsets_ptr, GROUPS, " if product.grouped else ""
@triton.jit
def product(a_ptr, b_ptr, c_ptr, <%% for name in stats + vectors %%>${name}_ptr, <%% endfor %%>${grouped}M, N, K, ${"k_span, " if split_k > 1 else ""}BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
%% if product.batched
    batch = tl.program_id(1)
    a_ptr += batch * M * K
    b_ptr += batch * K * N
    c_ptr += batch * M * N
%% endif
    tiles_m = tl.cdiv(M, BM)${" + GROUPS" if product.grouped else ""}
    tiles_n = tl.cdiv(N, BN)
%% if loop == "tile"
    tile = tl.program_id(0)
%% else
    for tile in range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0)):
%% endif
%% filter indent(4 if loop == "tile" else 8, true)
<%# Which output tile this step computes. %>
%% if order == "triangle"
<%# Row r of a triangle starts at tile r (r + 1) / 2. The square root's floor is right once corrected by one either way. %>
r = (tl.sqrt(8.0 * tile.to(tl.float32) + 1.0) * 0.5 - 0.5).to(tl.int32)
r = tl.where(r * (r + 1) // 2 > tile, r - 1, r)
r = tl.where((r + 1) * (r + 2) // 2 <= tile, r + 1, r)
s = tile - r * (r + 1) // 2
pid_m = ${"r" if product.triangle == "lower" else "s"}
pid_n = ${"s" if product.triangle == "lower" else "r"}
%% elif order == "row"
pid_m = tile // tiles_n
pid_n = tile % tiles_n
%% elif order == "column"
pid_m = tile % tiles_m
pid_n = tile // tiles_m
%% elif order == "snake"
pid_m = tile // tiles_n
pid_n = tile % tiles_n
pid_n = tl.where(pid_m % 2 == 1, tiles_n - 1 - pid_n, pid_n)
%% elif order == "reverse"
back = tiles_m * tiles_n - 1 - tile
pid_m = back // tiles_n
pid_n = back % tiles_n
%% else
%% set band = order[7:]
band = tile // (${band} * tiles_n)
band_m = tl.minimum(tiles_m - band * ${band}, ${band})
inside = tile % (${band} * tiles_n)
pid_m = band * ${band} + inside % band_m
pid_n = inside // band_m
%% endif
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
<%# Sums of the tile, as fp32 (int32 for integers) in `acc`. %>
%% set left, right = ("b", "a") if swapped else ("a", "b")
acc = tl.zeros((${"BN, BM" if swapped else "BM, BN"}), dtype=${"tl.int32" if product.dtype == "int8" else "tl.float32"})
%% if math == "outer"
<%# One column of A times one row of B at a time, without tensor cores or shared memory. %>
%% if block_k > 16
for k in tl.range(k_from, k_to, loop_unroll_factor=${block_k // 16}):
%% else
for k in range(k_from, k_to):
%% endif
    a = tl.load(a_ptr + ${"rm * K + k" if a_layout == "mk" else "k * M + rm"}, mask=rm < row_to, other=0.0)
    b = tl.load(b_ptr + ${"k * N + rn" if b_layout == "kn" else "rn * K + k"}, mask=rn < N, other=0.0)
    acc += ${left}[:, None] * ${right}[None, :]
%% else
%% set am, ak, bk, bn = ("[None, :]", "[:, None]", "[None, :]", "[:, None]") if swapped else ("[:, None]", "[None, :]", "[:, None]", "[None, :]")
%% set b_base = "b_group" if product.grouped else "b_ptr"
%% macro a_at(k)
a_ptr + ${"am * K + " ~ k if a_layout == "mk" else k ~ " * M + am"}
%%- endmacro
%% macro b_at(k)
${b_base} + ${k ~ " * N + bn" if b_layout == "kn" else "bn * K + " ~ k}
%%- endmacro
%% macro inside(bound, k_side, masked)
%% set conditions = ([] if bounds == "wrap" else [bound]) + (["((k + rk)" ~ k_side ~ " < k_to)"] if masked else [])
%% set zero = "0.0" if product.dtype in ("float32", "bfloat16", "float16") else "0"
${", mask=" ~ conditions | join(" & ") ~ ", other=" ~ zero if conditions else ""}
%%- endmacro
%% macro decode(name)
${name} = ${name}.to(tl.int16)
${name} = (((${name} & 128) << 8) | ((${name} & 127) << 7)).to(tl.float16, bitcast=True)
%% endmacro
%% macro step(masked)
a = tl.load(${"a_at" if pointers == "advance" else a_at("(k + rk)" ~ ak)}${inside("(am < row_to)", ak, masked)})
b = tl.load(${"b_at" if pointers == "advance" else b_at("(k + rk)" ~ bk)}${inside("(bn < N)", bk, masked)})
%% if product.dtype == "float32"
acc = tl.dot(${left}, ${right}, acc, input_precision="${math}")
%% elif product.dtype == "int8"
acc = tl.dot(${left}, ${right}, acc, out_dtype=tl.int32)
%% elif product.dtype == "float8_e4m3fn" and math == "native"
<%# The bit pattern moved into float16 is 2**-8 of the value, in both operands. %>
if tl.target_info.cuda_capability_geq(8, 9):
    a = a.to(tl.float8e4nv, bitcast=True)
    b = b.to(tl.float8e4nv, bitcast=True)
    acc = tl.dot(${left}, ${right}, acc)
else:
${(decode("a") ~ decode("b")) | indent(4, true)}
    acc += tl.dot(${left}, ${right}) * 65536.0
%% else
%% if product.dtype == "float8_e4m3fn"
${decode("a") ~ decode("b")}
%% endif
acc = tl.dot(${left}, ${right}, acc)
%% endif
%% if pointers == "advance"
a_at += ${"BK" if a_layout == "mk" else "BK * M"}
b_at += ${"BK * N" if b_layout == "kn" else "BK"}
%% endif
%% endmacro
rk = tl.arange(0, BK)
am = ${"(rm % M)" if bounds == "wrap" else "rm"}${am}
bn = ${"(rn % N)" if bounds == "wrap" else "rn"}${bn}
%% if pointers == "advance"
a_at = ${a_at("(k_from + rk)" ~ ak)}
b_at = ${b_at("(k_from + rk)" ~ bk)}
%% endif
%% if k_tail == "masked"
for k in range(k_from, k_to, BK):
${step(true) | indent(4, true)}
%% else
k_main = k_from + (k_to - k_from) // BK * BK
for k in range(k_from, k_main, BK):
${step(false) | indent(4, true)}
if k_main < k_to:
    k = k_main
${step(true) | indent(4, true)}
%% endif
%% endif
%% if swapped
acc = tl.trans(acc)
%% endif
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
%% endfilter
<%% endfilter %%>

<%% if finish != "fused" %%>
<%% filter packed %%>
<%% include "dense/tiled_finish.py" %%>
<%% endfilter %%>

<%% endif %%>
def run(${product.args | join(", ")}):
<%% include "dense/tiled_host.py#shapes" %%>
    tiles_m = triton.cdiv(M, ${block_m})${" + offsets.numel()" if product.grouped else ""}
    tiles_n = triton.cdiv(N, ${block_n})
%% if split_k > 1
    k_span = triton.cdiv(triton.cdiv(K, ${split_k}), ${block_k}) * ${block_k}
%% endif
<%% include "dense/tiled_host.py#allocations" %%>
%% set tiles = "tiles_m * (tiles_m + 1) // 2" if order == "triangle" else "tiles_m * tiles_n"
%% set programs = tiles if loop == "tile" else "min(" ~ tiles ~ ", " ~ most_programs ~ ")"
%% set view = ".view(torch.uint8)" if product.dtype == "float8_e4m3fn" else ""
%% set args = [a ~ view, b ~ view, "out" if finish == "fused" else "sums"] + stats + vectors
%% set args = args + (["offsets", "offsets.numel()"] if product.grouped else [])
%% set args = args + ["M", "N", "K"] + (["k_span"] if split_k > 1 else [])
    product[(${programs}, ${"BATCH" if product.batched else 1}, ${split_k})](
        ${args | join(", ")},
        BM=${block_m}, BN=${block_n}, BK=${block_k}, num_warps=${warps}, num_stages=${stages},
    )
%% if finish == "partial" and product.row == "sum"
    finish[(triton.cdiv(M, 32),)](part, out, M, tiles_n, BLOCK=32, num_warps=1)
%% elif finish == "partial" and product.row == "softmax"
    finish[(M,)](sums, peak, part, out, M, N, tiles_n, BLOCK=${finish_block}, num_warps=4)
%% elif finish == "partial"
    finish[(M,)](peak, part, out, M, tiles_n, BLOCK=${finish_block}, num_warps=1)
%% elif finish == "separate"
%% set inputs = ["sums", "out"] + product.vectors | map(attribute="name") | list + ["M", "N"]
%% if product.row and product.row != "group_norm"
%% set block = "triton.next_power_of_2(N)" if rows == "whole" else finish_block
    finish[(M,)](${inputs | join(", ")}, BLOCK=${block}, num_warps=4)
%% else
    finish[(triton.cdiv(M * N, ${finish_block}), ${"BATCH" if product.batched else 1})](${inputs | join(", ")}, BLOCK=${finish_block}, num_warps=4)
%% endif
%% endif
    return out
