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
<%% include "rowwise/loss/templates/triton_finish.py" %%>


def run(${arguments}):
    rows, cols = ${first}.shape
    scale = 1.0 / rows
    count = triton.cdiv(rows, ${rows})
%% if schedule == "persistent"
    processors = torch.cuda.get_device_properties(${first}.device).multi_processor_count if ${first}.is_cuda else 4
    count = min(count, processors * ${per_sm})
%% endif
<%% include "rowwise/loss/templates/triton_host.py" %%>
