import torch
import triton
import triton.language as tl


@triton.jit
def term(a, b):
    ${term}


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
<%% include "rowwise/loss/templates/triton_finish.py" %%>


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
<%% include "rowwise/loss/templates/triton_host.py" %%>
