# Norms of contiguous rows in Triton: softmax, log-softmax, L2, RMS with residual, instance and group norm.
# # lse: maximum and sum of exponentials; squares: sum of squares; moments: mean and variance.
# let statistics = {"softmax": "lse", "log_softmax": "lse", "l2_norm": "squares", "rmsnorm_residual": "squares",
#     "instance_norm": "moments", "group_norm": "moments"}[problem]
# # Longest row of any workload, rounded up to a power of two: bounds what a block may hold at once.
# let longest = {"softmax": 16384, "log_softmax": 32768, "l2_norm": 16384, "rmsnorm_residual": 8192,
#     "instance_norm": 65536, "group_norm": 524288}[problem]
# let arguments = {"rmsnorm_residual": "x, residual, weight", "group_norm": "x, weight, bias"}
# let arguments = arguments[problem] if problem in arguments else "x"
# let handed = {"rmsnorm_residual": "x, residual, weight, y, hidden", "group_norm": "x, weight, bias, y"}
# let handed = handed[problem] if problem in handed else "x, y"
# let pointers = {"x": "x_ptr, y_ptr", "x, weight, bias": "x_ptr, weight_ptr, bias_ptr, y_ptr",
#     "x, residual, weight": "x_ptr, residual_ptr, weight_ptr, y_ptr, hidden_ptr"}[arguments]
# # Bytes that a pipeline stage holds of each element.
# let staged_bytes = 8 if problem == "rmsnorm_residual" else 12 if problem == "group_norm" else 4
# family rowwise_triton for softmax, log_softmax, l2_norm, rmsnorm_residual, instance_norm, group_norm
# shape plan = *(("whole",) if longest <= 65536 else ()), "lanes", "scalar", "passes", "split"
# shape rows = (1, 2, 4) if longest <= 16384 else 1
# shape schedule = "grid", "persistent"
# shape order = "forward", "backward"
# shape exponential = ("e", "two") if statistics == "lse" else "e"
# shape load = "plain", "ca", "cg", "first", "last"
# shape store = "plain", "cs", "cg", "first"
# pick block = 512, 1024, 2048, 4096, 8192
# pick split = 2, 4, 8, 16, *((32, 64) if longest > 65536 else ())
# pick per_sm = 1, 2, 4, 8
# pick stages = 1, 2, 3
# pick warps = 2, 4, 8, 16, *((32,) if longest > 16384 else ())
# let held = rows * (longest if plan == "whole" else block)
# refuse held > 64 * 32 * warps: more than 64 elements per lane
# refuse plan == "lanes" and statistics == "lse" and held > 32 * 32 * warps: more than 32 running maxima and sums per
#     lane
# refuse held < 32 * warps: fewer elements than lanes
# refuse plan != "whole" and held * staged_bytes * stages > 120 * 1024: stages need more than 120 KiB of shared memory
# refuse schedule == "persistent" and not 8 <= per_sm * warps <= 64: too few or too many warps on an SM
# refuse plan == "split" and (rows > 1 or schedule == "persistent" or order == "backward"): split rows are neither tiled
#     nor scheduled nor turned
# refuse plan in ("whole", "passes") and order == "backward": only a second pass can be turned
# let hint = HINTS[load]
# let store = HINTS[store]
# let expression = {"e": "tl.exp(d)", "two": "tl.exp2(d * 1.4426950408889634)"}[exponential]
# polish tidy

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
%% macro each_block()
for start in tl.range(0, cols, BLOCK, num_stages=${stages}):
${where("start + ") | indent(4, true)}
${caller() | indent(4, true)}
%% endmacro
%% macro passes()
%% if statistics == "lse"
high = tl.full(${form}, -1.0e30, tl.float32)
%% call each_block()
${load()}
high = tl.maximum(high, v)
%% endcall
top = ${reduce("max", "high")}
first = tl.zeros(${form}, tl.float32)
%% call each_block()
${load()}
first += expo(v - top)
%% endcall
total = ${reduce("sum", "first")}
%% elif statistics == "moments"
first = tl.zeros(${form}, tl.float32)
%% call each_block()
${load()}
first += v
%% endcall
mean = ${reduce("sum", "first")} / cols
first = tl.zeros(${form}, tl.float32)
%% call each_block()
${load()}
d = tl.where(m, v - mean, 0.0)
first += d * d
%% endcall
spread = ${reduce("sum", "first")}
%% else
high = tl.zeros(${form}, tl.float32)
%% call each_block()
${load(true)}
high = tl.maximum(high, tl.abs(v))
%% endcall
peak = tl.maximum(${reduce("max", "high")}, 1e-20)
first = tl.zeros(${form}, tl.float32)
%% call each_block()
${load()}
first += (v / peak) * (v / peak)
%% endcall
total = ${reduce("sum", "first")} * peak * peak
%% endif
${finish()}
%% call each_block()
${load()}
${write()}
%% endcall
%% endmacro
import torch
import triton
import triton.language as tl


@triton.jit
def expo(d):
    return ${expression}


%% set groups = ", per_group, plane, groups" if problem == "group_norm" else ""
%% if plan != "split"
@triton.jit
def kernel(${pointers}, rows, cols${groups}, BLOCK: tl.constexpr, ROWS: tl.constexpr):
%% set sweep = "tl.range(0, cols, BLOCK, num_stages=" ~ stages ~ ")"
%% if schedule == "persistent"
    for item in tl.range(tl.program_id(0), ${"rows" if rows == 1 else "tl.cdiv(rows, ROWS)"}, tl.num_programs(0)):
        row = ${"item" if rows == 1 else "item * ROWS + tl.arange(0, ROWS)[:, None]"}
%% set tab = 8
%% else
    row = ${"tl.program_id(0)" if rows == 1 else "tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]"}
%% set tab = 4
%% endif
%% if plan == "whole"
${where("") | indent(tab, true)}
${load(true) | indent(tab, true)}
${whole() | indent(tab, true)}
${finish() | indent(tab, true)}
${write() | indent(tab, true)}
%% elif plan == "passes"
${passes() | indent(tab, true)}
%% else
${begin() | indent(tab, true)}
${" " * tab}for start in ${sweep}:
${where("start + ") | indent(tab + 4, true)}
${load(true) | indent(tab + 4, true)}
${update() | indent(tab + 4, true)}
${combine() | indent(tab, true)}
${finish() | indent(tab, true)}
%% if order == "backward"
${" " * tab}for back in ${sweep}:
${" " * tab}    start = (tl.cdiv(cols, BLOCK) - 1) * BLOCK - back
%% else
${" " * tab}for start in ${sweep}:
%% endif
${where("start + ") | indent(tab + 4, true)}
${load() | indent(tab + 4, true)}
${write() | indent(tab + 4, true)}
%% endif
%% else
@triton.jit
def measure(${pointers}, one_ptr, two_ptr, rows, cols${groups}, share, BLOCK: tl.constexpr, SPLIT: tl.constexpr):
    row = tl.program_id(0)
    part = tl.program_id(1)
    end = tl.minimum(part * share + share, cols)
${begin() | indent(4, true)}
    for start in tl.range(part * share, end, BLOCK, num_stages=${stages}):
        c = start + tl.arange(0, BLOCK)
        m = c < end
        o = row * cols + c
${load(true) | indent(8, true)}
${update() | indent(8, true)}
%% if statistics == "lse"
    top = tl.max(high, axis=0)
    tl.store(one_ptr + row * SPLIT + part, top)
    tl.store(two_ptr + row * SPLIT + part, tl.sum(first * expo(high - top), axis=0))
%% else
    tl.store(one_ptr + row * SPLIT + part, tl.sum(first, axis=0))
%% if statistics == "moments"
    tl.store(two_ptr + row * SPLIT + part, tl.sum(second, axis=0))
%% endif
%% endif


@triton.jit
def apply(${pointers}, one_ptr, two_ptr, rows, cols${groups}, share, BLOCK: tl.constexpr, SPLIT: tl.constexpr):
    row = tl.program_id(0)
    part = tl.program_id(1)
    parts = row * SPLIT + tl.arange(0, SPLIT)
    one = tl.load(one_ptr + parts)
%% if statistics == "lse"
    top = tl.max(one, axis=0)
    total = tl.sum(tl.load(two_ptr + parts) * expo(one - top), axis=0)
%% elif statistics == "squares"
    total = tl.sum(one, axis=0)
%% else
    mean = tl.sum(one, axis=0) / cols
    spread = tl.sum(tl.load(two_ptr + parts), axis=0) - mean * mean * cols
%% endif
${finish() | indent(4, true)}
    end = tl.minimum(part * share + share, cols)
    for start in tl.range(part * share, end, BLOCK, num_stages=${stages}):
        c = start + tl.arange(0, BLOCK)
        m = c < end
        o = row * cols + c
%% if problem == "rmsnorm_residual"
        v = tl.load(hidden_ptr + o, mask=m, other=0.0).to(tl.float32)
%% else
${load() | indent(8, true)}
%% endif
${write() | indent(8, true)}
%% endif


def run(${arguments}):
    y = torch.empty_like(x)
%% if problem == "rmsnorm_residual"
    hidden = torch.empty_like(x)
    rows, cols = x.shape
%% elif problem == "instance_norm"
    rows, cols = x.shape[0] * x.shape[1], x.shape[2] * x.shape[3]
%% elif problem == "group_norm"
    groups, plane = 8, x.shape[2] * x.shape[3]
    per_group = x.shape[1] // groups
    rows, cols = x.shape[0] * groups, per_group * plane
%% else
    rows, cols = x.shape
%% endif
%% set extra = ", per_group, plane, groups" if problem == "group_norm" else ""
%% if plan == "split"
    share = triton.cdiv(triton.cdiv(cols, ${split}), ${block}) * ${block}
    one = torch.empty((rows, ${split}), dtype=torch.float32, device=x.device)
    two = torch.empty_like(one)
    grid = (rows, ${split})
    measure[grid](${handed}, one, two, rows, cols${extra}, share, BLOCK=${block}, SPLIT=${split}, num_warps=${warps})
    apply[grid](${handed}, one, two, rows, cols${extra}, share, BLOCK=${block}, SPLIT=${split}, num_warps=${warps})
%% else
%% if schedule == "persistent"
    processors = torch.cuda.get_device_properties(x.device).multi_processor_count if x.is_cuda else 4
    grid = (min(triton.cdiv(rows, ${rows}), processors * ${per_sm}),)
%% else
    grid = (triton.cdiv(rows, ${rows}),)
%% endif
%% set span = "triton.next_power_of_2(cols)" if plan == "whole" else block
    kernel[grid](${handed}, rows, cols${extra}, BLOCK=${span}, ROWS=${rows}, num_warps=${warps})
%% endif
    return ${"y, hidden" if problem == "rmsnorm_residual" else "y"}
