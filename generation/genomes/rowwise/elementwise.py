# Activations, gated units and rotary embeddings in Triton: one pass over memory, walked in several ways.
# let activation = {"swiglu": "swish", "geglu": "gelu_tanh", "rope": ""}
# let activation = activation[problem] if problem in activation else problem
# # Ways to write each activation; every one keeps the error below the problems' tolerance (1e-6 absolute, 1e-5
# # relative),
# # which hardware tanh does not.
# let forms = {"relu": ("maximum", "select", "halves"), "sigmoid": ("divide", "library", "base2", "stable"),
#     "tanh": ("shifted", "library", "ratio", "base2"), "swish": ("divide", "library", "base2"),
#     "gelu": ("erf", "polynomial", "split"), "gelu_tanh": ("logistic", "library", "tanh", "factored"),
#     "softplus": ("plain", "stable", "base2"), "softsign": ("divide", "reciprocal", "select"),
#     "elu": ("select", "clamped", "base2"), "": ("pairs", "singles")}[activation]
# let rope = problem == "rope"
# family elementwise_triton for relu, sigmoid, tanh, swish, gelu, gelu_tanh, softplus, softsign, elu, swiglu, geglu,
#     rope
# shape walk = "blocks", "unrolled", "strided", "chunk", "coarse", "tile", *(() if rope else ("rows",))
# shape form = forms
# shape load = "plain", "ca", "cg", "first", "last"
# shape store = "plain", "cs", "cg", "first"
# pick block = *((64, 128) if rope else ()), 256, 512, 1024, 2048, 4096
# pick unroll = 2, 4, 8
# pick per_sm = 1, 2, 4, 8, 16
# pick stages = 1, 2, 4
# pick warps = 1, 2, 4, 8, 16
# let held = block * (unroll if walk == "tile" else 1)
# let lanes = 32 * warps
# refuse held < lanes: fewer elements than lanes
# refuse held > 32 * lanes: more than 32 elements per lane
# let looped = walk in ("strided", "chunk")
# refuse looped and per_sm * warps > 64: more programs than fit
# refuse rope and looped and held * stages > 8192: stages need more than 96 KiB of shared memory
# refuse rope and walk == "tile" and block > 256: tiles wider than a head
# let load = HINTS[load]
# let store = HINTS[store]
# let arguments = {"geglu": "gate, up", "rope": "x, cos, sin"}[problem] if problem in ("geglu", "rope") else "x"
# let pointers = {"x": "x_ptr", "gate, up": "gate_ptr, up_ptr", "x, cos, sin": "x_ptr, cos_ptr, sin_ptr"}[arguments]
# let flat = walk not in ("tile", "rows")
# let pairs = form != "singles"

import torch
import triton
import triton.language as tl


%% set step
<%# Each step gets the index i of a work item (also as row r and column c of `width`) and whether it exists, m. %>
%% if flat and problem in ("swiglu", "rope")
r = i // width
%% endif
%% if flat and problem == "rope"
c = i % width
%% endif
%% if problem == "swiglu"
a = i + r * width
v = tl.load(x_ptr + a, mask=m${load}).to(tl.float32)
u = tl.load(x_ptr + a + width, mask=m${load}).to(tl.float32)
tl.store(y_ptr + i, (activation(v) * u).to(tl.bfloat16), mask=m${store})
%% elif problem == "geglu"
v = tl.load(gate_ptr + i, mask=m${load}).to(tl.float32)
u = tl.load(up_ptr + i, mask=m${load}).to(tl.float32)
tl.store(y_ptr + i, (activation(v) * u).to(tl.bfloat16), mask=m${store})
%% elif problem == "rope" and pairs
a = i + r * width
t = ((r // heads) % length) * width + c
first = tl.load(x_ptr + a, mask=m${load}).to(tl.float32)
second = tl.load(x_ptr + a + width, mask=m${load}).to(tl.float32)
cosine = tl.load(cos_ptr + t, mask=m)
sine = tl.load(sin_ptr + t, mask=m)
tl.store(y_ptr + a, (first * cosine - second * sine).to(tl.bfloat16), mask=m${store})
tl.store(y_ptr + a + width, (second * cosine + first * sine).to(tl.bfloat16), mask=m${store})
%% elif problem == "rope"
half = width // 2
left = c < half
t = ((r // heads) % length) * half + tl.where(left, c, c - half)
own = tl.load(x_ptr + i, mask=m${load}).to(tl.float32)
other = tl.load(x_ptr + tl.where(left, i + half, i - half), mask=m${load}).to(tl.float32)
cosine = tl.load(cos_ptr + t, mask=m)
sine = tl.load(sin_ptr + t, mask=m)
tl.store(y_ptr + i, (own * cosine + tl.where(left, -other, other) * sine).to(tl.bfloat16), mask=m${store})
%% else
v = tl.load(x_ptr + i, mask=m${load})
tl.store(y_ptr + i, activation(v), mask=m${store})
%% endif
%% endset
%% if activation
@triton.jit
def activation(v):
%% if activation == "relu"
%% if form == "maximum"
    return tl.maximum(v, 0.0)
%% elif form == "select"
    return tl.where(v > 0.0, v, 0.0)
%% else
    return 0.5 * (v + tl.abs(v))
%% endif
%% elif activation == "sigmoid"
%% if form == "divide"
    return 1.0 / (1.0 + tl.exp(-v))
%% elif form == "library"
    return tl.sigmoid(v)
%% elif form == "base2"
    return 1.0 / (1.0 + tl.exp2(v * -1.4426950408889634))
%% else
    e = tl.exp(-tl.abs(v))
    return tl.where(v > 0.0, 1.0, e) / (1.0 + e)
%% endif
%% elif activation == "tanh"
%% if form == "shifted"
    return 2.0 / (1.0 + tl.exp(-2.0 * v)) - 1.0
%% elif form == "library"
    return 2.0 * tl.sigmoid(2.0 * v) - 1.0
%% elif form == "ratio"
    e = tl.exp(-2.0 * tl.abs(v))
    r = (1.0 - e) / (1.0 + e)
    return tl.where(v < 0.0, -r, r)
%% else
    return 1.0 - 2.0 / (1.0 + tl.exp2(v * 2.8853900817779268))
%% endif
%% elif activation == "swish"
%% if form == "divide"
    return v / (1.0 + tl.exp(-v))
%% elif form == "library"
    return v * tl.sigmoid(v)
%% else
    return v / (1.0 + tl.exp2(v * -1.4426950408889634))
%% endif
%% elif activation == "gelu"
%% if form == "erf"
    return 0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476))
%% elif form == "polynomial"
    z = tl.abs(v) * 0.7071067811865476
    t = 1.0 / (1.0 + 0.3275911 * z)
    p = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t
    e = 1.0 - p * tl.exp(-z * z)
    return 0.5 * v * (1.0 + tl.where(v < 0.0, -e, e))
%% else
    h = 0.5 * v
    return h + h * tl.erf(v * 0.7071067811865476)
%% endif
%% elif activation == "gelu_tanh"
%% if form == "logistic"
    u = 1.5957691216057308 * (v + 0.044715 * v * v * v)
    return v / (1.0 + tl.exp(-u))
%% elif form == "library"
    u = 1.5957691216057308 * (v + 0.044715 * v * v * v)
    return v * tl.sigmoid(u)
%% elif form == "tanh"
    u = 1.5957691216057308 * (v + 0.044715 * v * v * v)
    t = 1.0 - 2.0 / (1.0 + tl.exp(u))
    return 0.5 * v * (1.0 + t)
%% else
    q = v * v
    u = v * (1.5957691216057308 + 0.07135481282 * q)
    return v / (1.0 + tl.exp(-u))
%% endif
%% elif activation == "softplus"
%% if form == "plain"
    return tl.where(v > 20.0, v, tl.log(1.0 + tl.exp(v)))
%% elif form == "stable"
    return tl.maximum(v, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(v)))
%% else
    e = tl.exp2(v * 1.4426950408889634)
    return tl.where(v > 20.0, v, tl.log2(1.0 + e) * 0.6931471805599453)
%% endif
%% elif activation == "softsign"
%% if form == "divide"
    return v / (1.0 + tl.abs(v))
%% elif form == "reciprocal"
    return v * (1.0 / (1.0 + tl.abs(v)))
%% else
    return v / tl.where(v < 0.0, 1.0 - v, 1.0 + v)
%% endif
%% elif activation == "elu"
%% if form == "select"
    return tl.where(v > 0.0, v, tl.exp(v) - 1.0)
%% elif form == "clamped"
    return tl.maximum(v, 0.0) + tl.exp(tl.minimum(v, 0.0)) - 1.0
%% else
    return tl.where(v > 0.0, v, tl.exp2(v * 1.4426950408889634) - 1.0)
%% endif
<%% endif %%>


%% endif
@triton.jit
def kernel(${pointers}, y_ptr, n, width, heads, length, BLOCK: tl.constexpr, UNROLL: tl.constexpr):
%% if walk == "blocks"
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
${step.rstrip() | indent(4, true)}
%% elif walk == "unrolled"
    base = tl.program_id(0) * (BLOCK * UNROLL)
    for k in tl.static_range(UNROLL):
        i = base + k * BLOCK + tl.arange(0, BLOCK)
        m = i < n
${step.rstrip() | indent(8, true)}
%% elif walk == "strided"
    for start in tl.range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK, num_stages=${stages}):
        i = start + tl.arange(0, BLOCK)
        m = i < n
${step.rstrip() | indent(8, true)}
%% elif walk == "chunk"
    share = tl.cdiv(tl.cdiv(n, tl.num_programs(0)), BLOCK) * BLOCK
    begin = tl.program_id(0) * share
    end = tl.minimum(begin + share, n)
    for start in tl.range(begin, end, BLOCK, num_stages=${stages}):
        i = start + tl.arange(0, BLOCK)
        m = i < end
${step.rstrip() | indent(8, true)}
%% elif walk == "coarse"
    base = tl.program_id(0) * (BLOCK * UNROLL) + tl.arange(0, BLOCK) * UNROLL
    for k in tl.static_range(UNROLL):
        i = base + k
        m = i < n
${step.rstrip() | indent(8, true)}
%% elif walk == "tile"
    rows = tl.program_id(0) * UNROLL + tl.arange(0, UNROLL)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    r = rows[:, None]
    c = cols[None, :]
    i = r * width + c
    m = (r < n // width) & (c < width)
${step.rstrip() | indent(4, true)}
%% else
    r = tl.program_id(0)
    for start in tl.range(0, width, BLOCK, num_stages=${stages}):
        c = start + tl.arange(0, BLOCK)
        i = r * width + c
        m = c < width
${step.rstrip() | indent(8, true)}
%% endif


def run(${arguments}):
%% if problem == "swiglu"
    width = x.shape[1] // 2
    y = torch.empty((x.shape[0], width), dtype=x.dtype, device=x.device)
    n, heads, length = y.numel(), 1, 1
%% elif problem == "geglu"
    y = torch.empty_like(gate)
    n, width, heads, length = y.numel(), gate.shape[1], 1, 1
%% elif problem == "rope"
    y = torch.empty_like(x)
    length, heads = x.shape[1], x.shape[2]
    n, width = x.numel()${" // 2" if pairs else ""}, x.shape[3]${" // 2" if pairs else ""}
%% else
    y = torch.empty_like(x)
    n, width, heads, length = x.numel(), x.shape[1], 1, 1
%% endif
%% if walk in ("blocks",)
    grid = (triton.cdiv(n, ${block}),)
%% elif walk in ("unrolled", "coarse")
    grid = (triton.cdiv(n, ${block * unroll}),)
%% elif walk in ("strided", "chunk")
    processors = torch.cuda.get_device_properties(y.device).multi_processor_count if y.is_cuda else 4
    grid = (min(triton.cdiv(n, ${block}), processors * ${per_sm}),)
%% elif walk == "tile"
    grid = (triton.cdiv(n // width, ${unroll}), triton.cdiv(width, ${block}))
%% else
    grid = (n // width,)
%% endif
    kernel[grid](${arguments}, y, n, width, heads, length, BLOCK=${block}, UNROLL=${unroll}, num_warps=${warps})
    return y
