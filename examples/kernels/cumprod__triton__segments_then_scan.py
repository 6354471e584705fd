"""First kernel multiplies up every segment of a row; the second scans a segment times the product of those before."""

import torch
import triton
import triton.language as tl


@triton.jit
def times(a, b):
    return a * b


@triton.jit
def segment_products(x_ptr, p_ptr, cols, segments, SEG: tl.constexpr):
    row = tl.program_id(1).to(tl.int64)
    s = tl.program_id(0)
    c = s * SEG + tl.arange(0, SEG)
    x = tl.load(x_ptr + row * cols + c, mask=c < cols, other=1.0)
    tl.store(p_ptr + row * segments + s, tl.reduce(x, 0, times))


@triton.jit
def segment_scan(x_ptr, p_ptr, y_ptr, cols, segments, SEG: tl.constexpr, COUNT: tl.constexpr):
    row = tl.program_id(1).to(tl.int64)
    s = tl.program_id(0)
    k = tl.arange(0, COUNT)
    # Segments from this one on count as factors of one.
    before = tl.reduce(tl.load(p_ptr + row * segments + k, mask=k < s, other=1.0), 0, times)
    c = s * SEG + tl.arange(0, SEG)
    x = tl.load(x_ptr + row * cols + c, mask=c < cols, other=1.0)
    y = tl.associative_scan(x, 0, times) * before
    tl.store(y_ptr + row * cols + c, y, mask=c < cols)


def run(x):
    rows, cols = x.shape
    seg = 1024
    segments = triton.cdiv(cols, seg)
    products = torch.empty((rows, segments), device=x.device, dtype=torch.float32)
    y = torch.empty_like(x)
    segment_products[(segments, rows)](x, products, cols, segments, SEG=seg, num_warps=4)
    count = triton.next_power_of_2(segments)
    segment_scan[(segments, rows)](x, products, y, cols, segments, SEG=seg, COUNT=count, num_warps=4)
    return y
