import torch
import triton
import triton.language as tl


@triton.jit
def expo(d):
    return ${expression}


%% import "rowwise/norms/templates/triton_steps.py" as step with context
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
${step.where("") | indent(tab, true)}
${step.load(true) | indent(tab, true)}
${step.whole() | indent(tab, true)}
${step.finish() | indent(tab, true)}
${step.write() | indent(tab, true)}
%% elif plan == "passes"
${step.passes() | indent(tab, true)}
%% else
${step.begin() | indent(tab, true)}
${" " * tab}for start in ${sweep}:
${step.where("start + ") | indent(tab + 4, true)}
${step.load(true) | indent(tab + 4, true)}
${step.update() | indent(tab + 4, true)}
${step.combine() | indent(tab, true)}
${step.finish() | indent(tab, true)}
%% if order == "backward"
${" " * tab}for back in ${sweep}:
${" " * tab}    start = (tl.cdiv(cols, BLOCK) - 1) * BLOCK - back
%% else
${" " * tab}for start in ${sweep}:
%% endif
${step.where("start + ") | indent(tab + 4, true)}
${step.load() | indent(tab + 4, true)}
${step.write() | indent(tab + 4, true)}
%% endif
%% else
@triton.jit
def measure(${pointers}, one_ptr, two_ptr, rows, cols${groups}, share, BLOCK: tl.constexpr, SPLIT: tl.constexpr):
    row = tl.program_id(0)
    part = tl.program_id(1)
    end = tl.minimum(part * share + share, cols)
${step.begin() | indent(4, true)}
    for start in tl.range(part * share, end, BLOCK, num_stages=${stages}):
        c = start + tl.arange(0, BLOCK)
        m = c < end
        o = row * cols + c
${step.load(true) | indent(8, true)}
${step.update() | indent(8, true)}
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
${step.finish() | indent(4, true)}
    end = tl.minimum(part * share + share, cols)
    for start in tl.range(part * share, end, BLOCK, num_stages=${stages}):
        c = start + tl.arange(0, BLOCK)
        m = c < end
        o = row * cols + c
%% if problem == "rmsnorm_residual"
        v = tl.load(hidden_ptr + o, mask=m, other=0.0).to(tl.float32)
%% else
${step.load() | indent(8, true)}
%% endif
${step.write() | indent(8, true)}
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
