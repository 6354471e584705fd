# honest: tensor descriptors made on the device, with memory from triton.set_allocator
# problem: geglu
# tags: gpu
import torch
import triton
import triton.language as tl


def allocate(size, alignment, stream):
    return torch.empty(size, device="cuda", dtype=torch.int8)


triton.set_allocator(allocate)


@triton.jit
def kernel(gate, up, y, tokens, width, tile_rows: tl.constexpr, tile_cols: tl.constexpr):
    a = tl.make_tensor_descriptor(gate, [tokens, width], [width, 1], [tile_rows, tile_cols])
    b = tl.make_tensor_descriptor(up, [tokens, width], [width, 1], [tile_rows, tile_cols])
    c = tl.make_tensor_descriptor(y, [tokens, width], [width, 1], [tile_rows, tile_cols])
    row, col = tl.program_id(0) * tile_rows, tl.program_id(1) * tile_cols
    g = a.load([row, col]).to(tl.float32)
    u = 0.7978845608028654 * (g + 0.044715 * g * g * g)
    act = (g / (1.0 + tl.exp(-2.0 * u))).to(tl.bfloat16).to(tl.float32)
    c.store([row, col], (act * b.load([row, col]).to(tl.float32)).to(tl.bfloat16))


def run(gate, up):
    y = torch.empty_like(gate)
    tokens, width = gate.shape
    kernel[(triton.cdiv(tokens, 16), triton.cdiv(width, 64))](gate, up, y, tokens, width, tile_rows=16, tile_cols=64)
    return y
