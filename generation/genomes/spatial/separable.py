# Depthwise-separable convolutions: both stages in one pass, or the depthwise stage written out first.
# family separable_triton for depthwise_separable_conv2d
# shape stages = "fused", "two_pass"
# shape product = "outer", "ieee", "tf32x3"
# shape swapped = False, True
# shape tile = "flat", "row"
# shape taps = "unrolled", "looped"
# shape grid = "channels_fast", "pixels_fast"
# pick block_c = 8, 16, 32, 64
# pick block_p = 32, 64, 128, 256
# pick block_k = 16, 32
# pick warps = 2, 4, 8
# let each = block_c * block_p // (32 * warps)
# refuse not 4 <= each <= 64: {each} accumulators per thread
# refuse product == "outer" and block_k != 16: only tl.dot has a BLOCK_K
# refuse product != "outer" and block_c < 16: tl.dot needs 16 channels

import torch
import triton
import triton.language as tl


%% set two_pass = stages == "two_pass"
%% set channel, pixel = ("[None, :]", "[:, None]") if swapped else ("[:, None]", "[None, :]")
%% set each_tap = "tl.static_range(3)" if taps == "unrolled" else "range(3)"
<%% if two_pass %%>
@triton.jit
def depthwise_pass(x_ptr, d_ptr, z_ptr, count, c_in, in_h, in_w, px_h, px_w, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = i < count
    plane = i // (px_h * px_w)
    source = x_ptr + (plane * in_h + i // px_w % px_h) * in_w + i % px_w
    filters = d_ptr + plane % c_in * 9
    acc = tl.zeros((BLOCK,), tl.float32)
    for kh in ${each_tap}:
        for kw in ${each_tap}:
            weight = tl.load(filters + kh * 3 + kw, mask=ok, other=0.0)
            acc += weight * tl.load(source + kh * in_w + kw, mask=ok, other=0.0)
    tl.store(z_ptr + i, acc, mask=ok)


<%% endif %%>
%% macro filtered(shape, p="", k="")
%% set mask = "p_ok" ~ p ~ (" & k_ok" ~ k if k else "")
%% if two_pass
        value = tl.load(x_ptr + corner${p} + ci${k} * in_plane, mask=${mask}, other=0.0)
%% else
        value = tl.zeros(${shape}, tl.float32)
        for kh in ${each_tap}:
            for kw in ${each_tap}:
                tap_value = tl.load(x_ptr + corner${p} + ci${k} * in_plane + kh * in_w + kw, mask=${mask}, other=0.0)
                value += tl.load(d_ptr + ci${k} * 9 + kh * 3 + kw${", mask=k_ok" ~ k ~ ", other=0.0" if k else ""}) * tap_value
%% endif
%% endmacro
<%% filter packed %%>
@triton.jit
def mix(x_ptr, ${"" if two_pass else "d_ptr, "}w_ptr, y_ptr, c_in, c_out, in_h, in_w, px_h, px_w, p_blocks, c_blocks, BLOCK_C: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_K: tl.constexpr):
    pid = tl.program_id(0)
%% if grid == "pixels_fast"
    p_block = pid % p_blocks
    c_block = pid // p_blocks
%% else
    p_block = pid // c_blocks
    c_block = pid % c_blocks
%% endif
    in_plane = in_h * in_w
%% if tile == "row"
    blocks = tl.cdiv(px_w, BLOCK_P)
    w = (p_block % blocks) * BLOCK_P + tl.arange(0, BLOCK_P)
    p_ok = w < px_w
    row = p_block // blocks
    h = row % px_h
    n = row // px_h
%% else
    blocks = tl.cdiv(px_h * px_w, BLOCK_P)
    n = p_block // blocks
    p = (p_block % blocks) * BLOCK_P + tl.arange(0, BLOCK_P)
    p_ok = p < px_h * px_w
    w = p % px_w
    h = p // px_w
%% endif
    pixel = (h) * px_w + w
    corner = n * c_in * in_plane + (h) * in_w + w
    c = c_block * BLOCK_C + tl.arange(0, BLOCK_C)
    c_ok = c < c_out
    acc = tl.zeros(${"(BLOCK_P, BLOCK_C)" if swapped else "(BLOCK_C, BLOCK_P)"}, tl.float32)
%% if product == "outer"
    for ci in range(c_in):
${filtered("(BLOCK_P,)")}
        weight = tl.load(w_ptr + c * c_in + ci, mask=c_ok, other=0.0)
        acc += weight${channel} * value${pixel}
%% else
    for start in range(0, c_in, BLOCK_K):
        ci = start + tl.arange(0, BLOCK_K)
        k_ok = ci < c_in
${filtered("(BLOCK_P, BLOCK_K)" if swapped else "(BLOCK_K, BLOCK_P)", pixel, channel)}
        weight = tl.load(w_ptr + c${channel} * c_in + ci${pixel}, mask=c_ok${channel} & k_ok${pixel}, other=0.0)
        acc = tl.dot(${"value, weight" if swapped else "weight, value"}, acc, input_precision="${product}")
%% endif
    y_at = (n * c_out + c${channel}) * (px_h * px_w) + pixel${pixel}
    tl.store(y_ptr + y_at, acc, mask=c_ok${channel} & p_ok${pixel})
<%% endfilter %%>


def run(x, depthwise, pointwise):
    n, c_in, in_h, in_w = x.shape
    c_out = pointwise.shape[0]
    px_h, px_w = in_h - 2, in_w - 2
    y = torch.empty((n, c_out, px_h, px_w), device=x.device, dtype=x.dtype)
%% if tile == "row"
    p_blocks = n * px_h * triton.cdiv(px_w, ${block_p})
%% else
    p_blocks = n * triton.cdiv(px_h * px_w, ${block_p})
%% endif
    c_blocks = triton.cdiv(c_out, ${block_c})
%% if two_pass
    z = torch.empty((n, c_in, px_h, px_w), device=x.device, dtype=x.dtype)
    depthwise_pass[(triton.cdiv(z.numel(), ${block_p}),)](
        x, depthwise, z, z.numel(), c_in, in_h, in_w, px_h, px_w, BLOCK=${block_p}
    )
%% endif
%% set inputs = "z, pointwise, y, c_in, c_out, px_h, px_w" if two_pass else "x, depthwise, pointwise, y, c_in, c_out, in_h, in_w"
    mix[(p_blocks * c_blocks,)](
        ${inputs}, px_h, px_w, p_blocks, c_blocks, BLOCK_C=${block_c}, BLOCK_P=${block_p}, BLOCK_K=${block_k}, num_warps=${warps}
    )
    return y
