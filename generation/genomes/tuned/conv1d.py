# Short causal convolution over packed sequences: a program keeps the last three tokens of its channels in registers.
# family conv1d_tuned for causal_conv1d_varlen
# pick tokens = 4, 8, 16, 32, 64
# pick channels = 64, 128, 256, 512, 1024
# pick warps = 1, 2, 4, 8
# pick stages = 1, 2, 3, 4
# refuse channels < 32 * warps: threads without a channel
# refuse channels > 256 * warps: more than eight channels per thread

import torch
import triton
import triton.language as tl


@triton.jit
def convolve(
    x_ptr, weight_ptr, bias_ptr, starts_ptr, y_ptr, count, T, C,
    TOKENS: tl.constexpr, CHANNELS: tl.constexpr, COUNT: tl.constexpr, STAGES: tl.constexpr,
):
    first = tl.program_id(0) * TOKENS
    c = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    inside = c < C
    every = tl.arange(0, COUNT)
    starts = tl.load(starts_ptr + every, mask=every < count, other=T)
    w0 = tl.load(weight_ptr + 4 * c, mask=inside, other=0.0).to(tl.float32)
    w1 = tl.load(weight_ptr + 4 * c + 1, mask=inside, other=0.0).to(tl.float32)
    w2 = tl.load(weight_ptr + 4 * c + 2, mask=inside, other=0.0).to(tl.float32)
    w3 = tl.load(weight_ptr + 4 * c + 3, mask=inside, other=0.0).to(tl.float32)
    bias = tl.load(bias_ptr + c, mask=inside, other=0.0).to(tl.float32)
    row = x_ptr + first.to(tl.int64) * C + c
    x3 = tl.load(row - 3 * C, mask=c < tl.where(first >= 3, C, 0), other=0.0).to(tl.float32)
    x2 = tl.load(row - 2 * C, mask=c < tl.where(first >= 2, C, 0), other=0.0).to(tl.float32)
    x1 = tl.load(row - C, mask=c < tl.where(first >= 1, C, 0), other=0.0).to(tl.float32)
    for i in tl.range(0, TOKENS, num_stages=STAGES):
        t = first + i
        known = c < tl.where(t < T, C, 0)
        x0 = tl.load(x_ptr + t.to(tl.int64) * C + c, mask=known, other=0.0).to(tl.float32)
        # Tokens since the start of the token's own sequence: earlier ones count as zero.
        age = t - tl.max(tl.where(starts <= t, starts, 0), 0)
        z = bias + w3 * x0
        z += tl.where(age >= 1, w2 * x1, 0.0)
        z += tl.where(age >= 2, w1 * x2, 0.0)
        z += tl.where(age >= 3, w0 * x3, 0.0)
        tl.store(y_ptr + t.to(tl.int64) * C + c, (z * tl.sigmoid(z)).to(tl.bfloat16), mask=known)
        x3 = x2
        x2 = x1
        x1 = x0


def run(x, weight, bias, starts):
    T, C = x.shape
    y = torch.empty_like(x)
    convolve[(triton.cdiv(T, ${tokens}), triton.cdiv(C, ${channels}))](
        x, weight, bias, starts, y, starts.shape[0], T, C, TOKENS=${tokens}, CHANNELS=${channels},
        COUNT=triton.next_power_of_2(starts.shape[0]), STAGES=${stages}, num_warps=${warps},
    )
    return y
