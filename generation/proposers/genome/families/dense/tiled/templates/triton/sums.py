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
%% set zero = "0.0" if product.dtype == "float32" or product.half else "0"
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
