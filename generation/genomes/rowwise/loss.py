# Losses in Triton: a sum over everything, or one value per row, joined into one number.
# let huber = problem == "huber_loss"
# let entropy = problem == "cross_entropy_loss"
# let flat = problem in ("huber_loss", "kl_div_loss")
# # Longest row of any workload.
# let longest = 4096 if entropy else 8192
# let first = "predictions" if flat else "logits" if entropy else "anchor"
# let arguments = first + (", positive, negative" if problem == "triplet_margin_loss" else ", targets")
# let pointers = "x_ptr, targets_ptr" if entropy else "x_ptr, positive_ptr, negative_ptr"
# let sizes = "n" if flat else "rows, cols"
# family loss_triton for cross_entropy_loss, triplet_margin_loss, huber_loss, kl_div_loss
# shape walk = ("blocks", "strided", "chunk", "scalar") if flat else ()
# shape form = () if not flat else ("select", "clamp") if huber else ("ratio", "logs", "base2")
# shape plan = () if flat else ("whole", "lanes", "passes") if entropy else ("whole", "lanes")
# shape rows = () if flat else (1, 2, 4)
# shape schedule = () if flat else ("grid", "persistent")
# shape load = "plain", "ca", "cg", "first", "last"
# shape finish = "atomic", "second", "last"
# pick join = 256, 1024
# pick stages = 1, 2, 3
# pick block = (512, 1024, 2048, 4096, 8192) if flat else (256, 512, 1024, 2048, 4096)
# pick unroll = (1, 2, 4, 8) if flat else ()
# pick per_sm = (1, 2, 4, 8, 16) if flat else (2, 4, 8, 16)
# pick warps = (2, 4, 8, 16) if flat else (1, 2, 4, 8, 16)
# let lanes = 32 * warps
# let held = block if flat else rows * (longest if plan == "whole" else block)
# refuse not lanes <= held <= (64 if flat else 32) * lanes: elements per lane out of bounds
# let scheduled = walk != "blocks" if flat else schedule == "persistent"
# refuse scheduled and not 8 <= per_sm * warps <= 64: too few or too many warps on an SM
# refuse held * 12 * stages > 120 * 1024: stages need more than 120 KiB of shared memory
# refuse flat and walk == "blocks" and held * unroll < 4096: too many parts
# let hint = HINTS[load]
# let width = block if flat or plan != "whole" else "triton.next_power_of_2(cols)"
# let constants = f"BLOCK={width}, UNROLL={unroll}" if flat else f"BLOCK={width}, ROWS={rows}"
# polish tidy

%% if flat
<%% include "rowwise/loss.py#flat" %%>
%% else
<%% include "rowwise/loss.py#rows" %%>
%% endif
%% section flat
import torch
import triton
import triton.language as tl


@triton.jit
def term(a, b):
%% if form == "select"
    d = tl.abs(a - b)
    return tl.where(d < 1.0, 0.5 * d * d, d - 0.5)
%% elif form == "clamp"
    d = tl.abs(a - b)
    q = tl.minimum(d, 1.0)
    return q * (d - 0.5 * q)
%% elif form == "ratio"
    return b * tl.log(b / a)
%% elif form == "logs"
    return b * (tl.log(b) - tl.log(a))
%% else
    return b * (tl.log2(b) - tl.log2(a)) * 0.6931471805599453
%% endif


@triton.jit
def kernel(a_ptr, b_ptr, loss_ptr, parts_ptr, counter_ptr, n, scale, BLOCK: tl.constexpr, UNROLL: tl.constexpr,
           JOIN: tl.constexpr):
%% if walk == "blocks"
    held = tl.zeros([BLOCK], tl.float32)
    for k in tl.static_range(UNROLL):
        i = (tl.program_id(0) * UNROLL + k) * BLOCK + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + i, mask=i < n, other=1.0${hint})
        b = tl.load(b_ptr + i, mask=i < n, other=1.0${hint})
        held += term(a, b)
    part = tl.sum(held, axis=0)
%% elif walk == "strided"
    held = tl.zeros([BLOCK], tl.float32)
    for start in tl.range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK, num_stages=${stages}):
        i = start + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + i, mask=i < n, other=1.0${hint})
        b = tl.load(b_ptr + i, mask=i < n, other=1.0${hint})
        held += term(a, b)
    part = tl.sum(held, axis=0)
%% elif walk == "chunk"
    share = tl.cdiv(tl.cdiv(n, tl.num_programs(0)), BLOCK) * BLOCK
    held = tl.zeros([BLOCK], tl.float32)
    for start in tl.range(tl.program_id(0) * share, tl.minimum(tl.program_id(0) * share + share, n), BLOCK,
                          num_stages=${stages}):
        i = start + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + i, mask=i < n, other=1.0${hint})
        b = tl.load(b_ptr + i, mask=i < n, other=1.0${hint})
        held += term(a, b)
    part = tl.sum(held, axis=0)
%% else
    part = 0.0
    for start in tl.range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK, num_stages=${stages}):
        i = start + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + i, mask=i < n, other=1.0${hint})
        b = tl.load(b_ptr + i, mask=i < n, other=1.0${hint})
        part += tl.sum(term(a, b), axis=0)
%% endif
<%% include "rowwise/loss.py#finish" %%>


def run(predictions, targets):
    n = predictions.numel()
    scale = 1.0 / ${"predictions.shape[0]" if problem == "kl_div_loss" else "n"}
%% if walk == "blocks"
    count = triton.cdiv(n, ${block * unroll})
%% else
    device = predictions.device
    processors = torch.cuda.get_device_properties(device).multi_processor_count if predictions.is_cuda else 4
    count = min(triton.cdiv(n, ${block}), processors * ${per_sm})
%% endif
<%% include "rowwise/loss.py#host" %%>
%% section rows
import torch
import triton
import triton.language as tl


%% macro where(tab, start)
%% if rows > 1
${tab}c = ${start}tl.arange(0, BLOCK)[None, :]
${tab}m = (row < rows) & (c < cols)
%% else
${tab}c = ${start}tl.arange(0, BLOCK)
${tab}m = c < cols
%% endif
${tab}o = row * cols + c
%% if problem == "cross_entropy_loss"
${tab}v = tl.load(x_ptr + o, mask=m, other=-1.0e30${hint})
%% else
${tab}a = tl.load(x_ptr + o, mask=m, other=0.0${hint}) + 1e-6
${tab}p = tl.load(positive_ptr + o, mask=m, other=1e-6${hint}) - a
${tab}q = tl.load(negative_ptr + o, mask=m, other=1e-6${hint}) - a
%% endif
%% endmacro
%% macro fold(name, value)
${"tl." ~ name ~ "(" ~ value ~ ", axis=1)[:, None]" if rows > 1 else "tl." ~ name ~ "(" ~ value ~ ", axis=0)"}
%%- endmacro
@triton.jit
def kernel(${pointers}, loss_ptr, parts_ptr, counter_ptr, rows, cols, scale, BLOCK: tl.constexpr, ROWS: tl.constexpr,
           JOIN: tl.constexpr):
%% if schedule == "persistent"
    part = 0.0
    for item in tl.range(tl.program_id(0), tl.cdiv(rows, ROWS), tl.num_programs(0)):
        row = item${" * ROWS + tl.arange(0, ROWS)[:, None]" if rows > 1 else ""}
%% set tab = "        "
%% else
    row = tl.program_id(0)${" * ROWS + tl.arange(0, ROWS)[:, None]" if rows > 1 else ""}
%% set tab = "    "
%% endif
%% if plan == "whole"
${where(tab, "")}
%% if problem == "cross_entropy_loss"
${tab}top = ${fold("max", "v")}
${tab}total = ${fold("sum", "tl.exp(v - top)")}
%% else
${tab}near = ${fold("sum", "p * p")}
${tab}far = ${fold("sum", "q * q")}
%% endif
%% else
%% set form = "[ROWS, BLOCK]" if rows > 1 else "[BLOCK]"
%% if problem == "cross_entropy_loss"
%% if plan == "passes"
${tab}high = tl.full(${form}, -1.0e30, tl.float32)
${tab}for start in tl.range(0, cols, BLOCK, num_stages=${stages}):
${where(tab + "    ", "start + ")}
${tab}    high = tl.maximum(high, v)
${tab}top = ${fold("max", "high")}
${tab}held = tl.zeros(${form}, tl.float32)
${tab}for start in tl.range(0, cols, BLOCK, num_stages=${stages}):
${where(tab + "    ", "start + ")}
${tab}    held += tl.exp(v - top)
${tab}total = ${fold("sum", "held")}
%% else
${tab}high = tl.full(${form}, -1.0e30, tl.float32)
${tab}held = tl.zeros(${form}, tl.float32)
${tab}for start in tl.range(0, cols, BLOCK, num_stages=${stages}):
${where(tab + "    ", "start + ")}
${tab}    larger = tl.maximum(high, v)
${tab}    held = held * tl.exp(high - larger) + tl.exp(v - larger)
${tab}    high = larger
${tab}top = ${fold("max", "high")}
${tab}total = ${fold("sum", "held * tl.exp(high - top)")}
%% endif
%% else
${tab}near = tl.zeros(${form}, tl.float32)
${tab}far = tl.zeros(${form}, tl.float32)
${tab}for start in tl.range(0, cols, BLOCK, num_stages=${stages}):
${where(tab + "    ", "start + ")}
${tab}    near += p * p
${tab}    far += q * q
${tab}near = ${fold("sum", "near")}
${tab}far = ${fold("sum", "far")}
%% endif
%% endif
%% if problem == "cross_entropy_loss"
%% if rows > 1
${tab}target = tl.load(targets_ptr + row, mask=row < rows, other=0)
${tab}chosen = tl.load(x_ptr + row * cols + target, mask=row < rows, other=0.0)
%% else
${tab}chosen = tl.load(x_ptr + row * cols + tl.load(targets_ptr + row))
%% endif
${tab}value = top + tl.log(total) - chosen
%% else
${tab}value = tl.maximum(tl.sqrt(near) - tl.sqrt(far) + 1.0, 0.0)
%% endif
%% if rows > 1
${tab}value = tl.sum(tl.sum(tl.where(row < rows, value, 0.0), axis=1), axis=0)
%% endif
${tab}part ${"+=" if schedule == "persistent" else "="} value
<%% include "rowwise/loss.py#finish" %%>


def run(${arguments}):
    rows, cols = ${first}.shape
    scale = 1.0 / rows
    count = triton.cdiv(rows, ${rows})
%% if schedule == "persistent"
    processors = torch.cuda.get_device_properties(${first}.device).multi_processor_count if ${first}.is_cuda else 4
    count = min(count, processors * ${per_sm})
%% endif
<%% include "rowwise/loss.py#host" %%>
%% section finish
<%# Every program ends with its part of the sum in `part`; the parts are joined. %>
%% if finish == "atomic"
    tl.atomic_add(loss_ptr, part * scale, sem="relaxed")
%% else
    tl.store(parts_ptr + tl.program_id(0), part)
%% if finish == "last"
    done = tl.atomic_add(counter_ptr, 1, sem="acq_rel")
    if done == tl.num_programs(0) - 1:
        joined = tl.zeros([JOIN], tl.float32)
        for base in range(0, tl.num_programs(0), JOIN):
            p = base + tl.arange(0, JOIN)
            joined += tl.load(parts_ptr + p, mask=p < tl.num_programs(0), other=0.0, cache_modifier=".cg")
        tl.store(loss_ptr, tl.sum(joined, axis=0) * scale)
%% endif
%% endif
%% if finish == "second"
@triton.jit
def join(loss_ptr, parts_ptr, count, scale, JOIN: tl.constexpr):
    held = tl.zeros([JOIN], tl.float32)
    for start in tl.range(0, count, JOIN):
        k = start + tl.arange(0, JOIN)
        held += tl.load(parts_ptr + k, mask=k < count, other=0.0)
    tl.store(loss_ptr, tl.sum(held, axis=0) * scale)
%% endif
%% section host
%% if finish == "atomic"
    loss = torch.zeros((), dtype=torch.float32, device=${first}.device)
    parts, counter = loss, loss
%% else
    loss = torch.empty((), dtype=torch.float32, device=${first}.device)
    parts = torch.empty(count, dtype=torch.float32, device=${first}.device)
    counter = ${"torch.zeros(1, dtype=torch.int32, device=" + first + ".device)" if finish == "last" else "parts"}
%% endif
    kernel[(count,)](${arguments}, loss, parts, counter, ${sizes}, scale, ${constants}, JOIN=${join}, num_warps=${warps})
%% if finish == "second"
    join[(1,)](loss, parts, count, scale, JOIN=${join}, num_warps=4)
%% endif
    return loss
