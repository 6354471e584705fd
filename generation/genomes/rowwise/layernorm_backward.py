# The backward pass of layer norm in Triton: a row pass for x, a column sum for weight and bias.
# family layernorm_backward_triton for layernorm_backward
# shape plan = "partials", "atomic", "recompute", "loops"
# shape statistics = "centred", "sums"
# shape walk = "strided", "chunk"
# shape hint = HINTS["plain"], HINTS["ca"], HINTS["cg"], HINTS["first"], HINTS["last"]
# shape write = HINTS["plain"], HINTS["cs"], HINTS["cg"], HINTS["first"]
# pick block = 512, 1024, 2048
# pick stages = 1, 2, 3
# pick warps = 4, 8, 16
# pick per_sm = 1, 2, 4, 8
# pick split = 8, 16, 32, 64
# pick column_rows = 4, 8, 16, 32
# pick column_cols = 32, 64, 128
# let held = block if plan == "loops" else 4096
# refuse not 1 <= held / (32 * warps) <= 32: elements per lane out of bounds
# refuse plan in ("partials", "atomic") and not 8 <= per_sm * warps <= 64: too few or too many warps on an SM
# refuse not 128 <= column_rows * column_cols <= 4096: column tiles out of bounds
# refuse plan in ("partials", "atomic") and stages > 2: rows this wide leave no room for more stages
# polish tidy

import torch
import triton
import triton.language as tl


%% macro moments(tab)
%% if statistics == "centred"
${tab}mean = tl.sum(v, axis=0) / cols
${tab}d = tl.where(m, v - mean, 0.0)
${tab}rstd = tl.rsqrt(tl.sum(d * d, axis=0) / cols + 1e-5)
${tab}unit = d * rstd
%% else
${tab}mean = tl.sum(v, axis=0) / cols
${tab}rstd = tl.rsqrt(tl.sum(v * v, axis=0) / cols - mean * mean + 1e-5)
${tab}unit = tl.where(m, (v - mean) * rstd, 0.0)
%% endif
%% endmacro
%% if plan in ("partials", "atomic")
@triton.jit
def rows_kernel(grad_ptr, x_ptr, weight_ptr, out_ptr, one_ptr, two_ptr, rows, cols, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    m = c < cols
    w = tl.load(weight_ptr + c, mask=m, other=0.0)
    to_weight = tl.zeros([BLOCK], tl.float32)
    to_bias = tl.zeros([BLOCK], tl.float32)
%% if walk == "strided"
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=${stages}):
%% else
    share = tl.cdiv(rows, tl.num_programs(0))
    begin = tl.program_id(0) * share
    for row in tl.range(begin, tl.minimum(begin + share, rows), num_stages=${stages}):
%% endif
        v = tl.load(x_ptr + row * cols + c, mask=m, other=0.0${hint})
        g = tl.load(grad_ptr + row * cols + c, mask=m, other=0.0${hint})
${moments("        ")}
        to_weight += g * unit
        to_bias += g
        g = g * w
        near = tl.sum(g, axis=0) / cols
        far = tl.sum(g * unit, axis=0) / cols
        tl.store(out_ptr + row * cols + c, (g - near - unit * far) * rstd, mask=m${write})
%% if plan == "atomic"
    tl.atomic_add(one_ptr + c, to_weight, mask=m, sem="relaxed")
    tl.atomic_add(two_ptr + c, to_bias, mask=m, sem="relaxed")
%% else
    tl.store(one_ptr + tl.program_id(0) * cols + c, to_weight, mask=m)
    tl.store(two_ptr + tl.program_id(0) * cols + c, to_bias, mask=m)
@triton.jit
def columns_kernel(one_ptr, two_ptr, weight_out_ptr, bias_out_ptr, parts, cols, ROWS: tl.constexpr, COLS: tl.constexpr):
    c = tl.program_id(0) * COLS + tl.arange(0, COLS)[None, :]
    to_weight = tl.zeros([ROWS, COLS], tl.float32)
    to_bias = tl.zeros([ROWS, COLS], tl.float32)
    for start in tl.range(0, parts, ROWS):
        r = start + tl.arange(0, ROWS)[:, None]
        m = (r < parts) & (c < cols)
        to_weight += tl.load(one_ptr + r * cols + c, mask=m, other=0.0)
        to_bias += tl.load(two_ptr + r * cols + c, mask=m, other=0.0)
    at = tl.program_id(0) * COLS + tl.arange(0, COLS)
    tl.store(weight_out_ptr + at, tl.sum(to_weight, axis=0), mask=at < cols)
    tl.store(bias_out_ptr + at, tl.sum(to_bias, axis=0), mask=at < cols)
%% endif
%% else
@triton.jit
def rows_kernel(grad_ptr, x_ptr, weight_ptr, out_ptr, mean_ptr, rstd_ptr, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
%% if plan == "recompute"
    c = tl.arange(0, BLOCK)
    m = c < cols
    v = tl.load(x_ptr + row * cols + c, mask=m, other=0.0${hint})
    g = tl.load(grad_ptr + row * cols + c, mask=m, other=0.0${hint})
    g = g * tl.load(weight_ptr + c, mask=m, other=0.0)
${moments("    ")}
    near = tl.sum(g, axis=0) / cols
    far = tl.sum(g * unit, axis=0) / cols
    tl.store(out_ptr + row * cols + c, (g - near - unit * far) * rstd, mask=m${write})
%% else
    one = tl.zeros([BLOCK], tl.float32)
    two = tl.zeros([BLOCK], tl.float32)
    three = tl.zeros([BLOCK], tl.float32)
    four = tl.zeros([BLOCK], tl.float32)
    for start in tl.range(0, cols, BLOCK, num_stages=${stages}):
        c = start + tl.arange(0, BLOCK)
        m = c < cols
        v = tl.load(x_ptr + row * cols + c, mask=m, other=0.0${hint})
        g = tl.load(grad_ptr + row * cols + c, mask=m, other=0.0${hint}) * tl.load(weight_ptr + c, mask=m, other=0.0)
        one += v
        two += v * v
        three += g
        four += g * v
    mean = tl.sum(one, axis=0) / cols
    rstd = tl.rsqrt(tl.sum(two, axis=0) / cols - mean * mean + 1e-5)
    near = tl.sum(three, axis=0) / cols
    far = (tl.sum(four, axis=0) / cols - mean * near) * rstd
    for start in tl.range(0, cols, BLOCK, num_stages=${stages}):
        c = start + tl.arange(0, BLOCK)
        m = c < cols
        v = tl.load(x_ptr + row * cols + c, mask=m, other=0.0)
        g = tl.load(grad_ptr + row * cols + c, mask=m, other=0.0) * tl.load(weight_ptr + c, mask=m, other=0.0)
        tl.store(out_ptr + row * cols + c, (g - near - (v - mean) * rstd * far) * rstd, mask=m${write})
%% endif
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
@triton.jit
def columns_kernel(grad_ptr, x_ptr, mean_ptr, rstd_ptr, weight_out_ptr, bias_out_ptr, rows, cols, share,
                   ROWS: tl.constexpr, COLS: tl.constexpr):
    at = tl.program_id(0) * COLS + tl.arange(0, COLS)
    c = at[None, :]
    begin = tl.program_id(1) * share
    end = tl.minimum(begin + share, rows)
    to_weight = tl.zeros([ROWS, COLS], tl.float32)
    to_bias = tl.zeros([ROWS, COLS], tl.float32)
    for start in tl.range(begin, end, ROWS, num_stages=${stages}):
        r = start + tl.arange(0, ROWS)[:, None]
        m = (r < end) & (c < cols)
        mean = tl.load(mean_ptr + r, mask=r < end, other=0.0)
        rstd = tl.load(rstd_ptr + r, mask=r < end, other=0.0)
        v = tl.load(x_ptr + r * cols + c, mask=m, other=0.0)
        g = tl.load(grad_ptr + r * cols + c, mask=m, other=0.0)
        to_weight += g * (v - mean) * rstd
        to_bias += g
    tl.atomic_add(weight_out_ptr + at, tl.sum(to_weight, axis=0), mask=at < cols, sem="relaxed")
    tl.atomic_add(bias_out_ptr + at, tl.sum(to_bias, axis=0), mask=at < cols, sem="relaxed")
%% endif


def run(grad, x, weight):
    rows, cols = x.shape
    out = torch.empty_like(x)
%% if plan == "partials"
    processors = torch.cuda.get_device_properties(x.device).multi_processor_count if x.is_cuda else 4
    parts = min(rows, processors * ${per_sm})
    to_weight, to_bias = torch.empty_like(weight), torch.empty_like(weight)
    one = torch.empty((parts, cols), dtype=torch.float32, device=x.device)
    two = torch.empty((parts, cols), dtype=torch.float32, device=x.device)
    rows_kernel[(parts,)](grad, x, weight, out, one, two, rows, cols, BLOCK=triton.next_power_of_2(cols),
                          num_warps=${warps})
    columns_kernel[(triton.cdiv(cols, ${column_cols}),)](one, two, to_weight, to_bias, parts, cols,
                                                         ROWS=${column_rows}, COLS=${column_cols}, num_warps=4)
%% elif plan == "atomic"
    processors = torch.cuda.get_device_properties(x.device).multi_processor_count if x.is_cuda else 4
    parts = min(rows, processors * ${per_sm})
    to_weight, to_bias = torch.zeros_like(weight), torch.zeros_like(weight)
    rows_kernel[(parts,)](grad, x, weight, out, to_weight, to_bias, rows, cols, BLOCK=triton.next_power_of_2(cols),
                          num_warps=${warps})
%% else
    mean = torch.empty(rows, dtype=torch.float32, device=x.device)
    rstd = torch.empty_like(mean)
    to_weight, to_bias = torch.zeros_like(weight), torch.zeros_like(weight)
    rows_kernel[(rows,)](grad, x, weight, out, mean, rstd, rows, cols,
                         BLOCK=${"triton.next_power_of_2(cols)" if plan == "recompute" else block}, num_warps=${warps})
    share = triton.cdiv(triton.cdiv(rows, ${split}), ${column_rows}) * ${column_rows}
    columns_kernel[(triton.cdiv(cols, ${column_cols}), ${split})](
        grad, x, mean, rstd, to_weight, to_bias, rows, cols, share,
        ROWS=${column_rows}, COLS=${column_cols}, num_warps=4
    )
%% endif
    return out, to_weight, to_bias
