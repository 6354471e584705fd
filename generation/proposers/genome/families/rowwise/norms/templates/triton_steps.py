<%# The steps of a row's kernel. Statistics are kept by lane, or folded to one number in each step. %>
%% set lanes = plan in ("lanes", "split")
%% set form = "[BLOCK]" if rows == 1 else "[ROWS, BLOCK]"
%% macro reduce(name, value)
${"tl." ~ name ~ "(" ~ value ~ ", axis=0)" if rows == 1 else "tl." ~ name ~ "(" ~ value ~ ", axis=1)[:, None]"}
%%- endmacro
%% macro where(start)
c = ${start}${"tl.arange(0, BLOCK)" if rows == 1 else "tl.arange(0, BLOCK)[None, :]"}
m = ${"c < cols" if rows == 1 else "(row < rows) & (c < cols)"}
o = row * cols + c
%% endmacro
%% macro load(keep=false)
%% if problem == "rmsnorm_residual"
h = tl.load(x_ptr + o, mask=m, other=0.0${hint}).to(tl.float32)
h = (h + tl.load(residual_ptr + o, mask=m, other=0.0${hint}).to(tl.float32)).to(tl.bfloat16)
%% if keep
tl.store(hidden_ptr + o, h, mask=m)
%% endif
v = h.to(tl.float32)
%% else
v = tl.load(x_ptr + o, mask=m, other=${"-1.0e30" if statistics == "lse" else "0.0"}${hint})
%% endif
%% endmacro
%% macro whole()
%% if statistics == "lse"
top = ${reduce("max", "v")}
total = ${reduce("sum", "expo(v - top)")}
%% elif statistics == "squares"
total = ${reduce("sum", "v * v")}
%% else
mean = ${reduce("sum", "v")} / cols
d = tl.where(m, v - mean, 0.0)
spread = ${reduce("sum", "d * d")}
%% endif
%% endmacro
%% macro begin()
%% if lanes
%% set zero = "tl.zeros(" + form + ", tl.float32)"
%% set low = "tl.full(" + form + ", -1.0e30, tl.float32)"
%% else
%% set zero = "0.0" if rows == 1 else "tl.zeros([ROWS, 1], tl.float32)"
%% set low = "-1.0e30" if rows == 1 else "tl.full([ROWS, 1], -1.0e30, tl.float32)"
%% endif
%% if statistics == "lse"
high = ${low}
%% endif
first = ${zero}
%% if statistics == "moments"
second = ${zero}
%% endif
%% endmacro
%% macro update()
%% if statistics == "lse" and lanes
larger = tl.maximum(high, v)
first = first * expo(high - larger) + expo(v - larger)
high = larger
%% elif statistics == "lse"
larger = tl.maximum(high, ${reduce("max", "v")})
first = first * expo(high - larger) + ${reduce("sum", "expo(v - larger)")}
high = larger
%% elif statistics == "squares"
first += ${"v * v" if lanes else reduce("sum", "v * v")}
%% else
first += ${"v" if lanes else reduce("sum", "v")}
second += ${"v * v" if lanes else reduce("sum", "v * v")}
%% endif
%% endmacro
%% macro combine()
%% if statistics == "lse" and lanes
top = ${reduce("max", "high")}
total = ${reduce("sum", "first * expo(high - top)")}
%% elif statistics == "lse"
top = high
total = first
%% elif statistics == "squares"
total = ${reduce("sum", "first") if lanes else "first"}
%% else
mean = ${reduce("sum", "first") if lanes else "first"} / cols
spread = ${reduce("sum", "second") if lanes else "second"} - mean * mean * cols
%% endif
%% endmacro
%% macro finish()
%% if problem == "softmax"
factor = 1.0 / total
%% elif problem == "log_softmax"
shift = top + tl.log(total)
%% elif problem == "l2_norm"
factor = 1.0 / tl.sqrt(total)
%% elif problem == "rmsnorm_residual"
factor = tl.rsqrt(total / cols + 1e-6)
%% else
factor = tl.rsqrt(spread / cols + 1e-5)
%% endif
%% endmacro
%% macro write()
%% if problem == "softmax"
y = expo(v - top) * factor
%% elif problem == "log_softmax"
y = v - shift
%% elif problem == "l2_norm"
y = v * factor
%% elif problem == "rmsnorm_residual"
w = tl.load(weight_ptr + c, mask=c < cols, other=0.0).to(tl.float32)
y = (v * factor * w).to(tl.bfloat16)
%% elif problem == "instance_norm"
y = (v - mean) * factor
%% else
channel = (row % groups) * per_group + c // plane
w = tl.load(weight_ptr + channel, mask=m, other=0.0)
b = tl.load(bias_ptr + channel, mask=m, other=0.0)
y = (v - mean) * factor * w + b
%% endif
tl.store(y_ptr + o, y, mask=m${store})
%% endmacro
%% macro sweep()
for start in tl.range(0, cols, BLOCK, num_stages=${stages}):
${where("start + ") | indent(4, true)}
${caller() | indent(4, true)}
%% endmacro
%% macro passes()
%% if statistics == "lse"
high = tl.full(${form}, -1.0e30, tl.float32)
%% call sweep()
${load()}
high = tl.maximum(high, v)
%% endcall
top = ${reduce("max", "high")}
first = tl.zeros(${form}, tl.float32)
%% call sweep()
${load()}
first += expo(v - top)
%% endcall
total = ${reduce("sum", "first")}
%% elif statistics == "moments"
first = tl.zeros(${form}, tl.float32)
%% call sweep()
${load()}
first += v
%% endcall
mean = ${reduce("sum", "first")} / cols
first = tl.zeros(${form}, tl.float32)
%% call sweep()
${load()}
d = tl.where(m, v - mean, 0.0)
first += d * d
%% endcall
spread = ${reduce("sum", "first")}
%% else
high = tl.zeros(${form}, tl.float32)
%% call sweep()
${load(true)}
high = tl.maximum(high, tl.abs(v))
%% endcall
peak = tl.maximum(${reduce("max", "high")}, 1e-20)
first = tl.zeros(${form}, tl.float32)
%% call sweep()
${load()}
first += (v / peak) * (v / peak)
%% endcall
total = ${reduce("sum", "first")} * peak * peak
%% endif
${finish()}
%% call sweep()
${load()}
${write()}
%% endcall
%% endmacro
