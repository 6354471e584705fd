import torch
import triton
import triton.language as tl


%% set step
<%% include "rowwise/elementwise/templates/triton_step.py" %%>
%% endset
%% if activation
@triton.jit
def activation(v):
${activation}


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
