# honest: tensor descriptors made on the host
# problem: geglu
# tags: gpu
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def kernel(gate, up, y, tile_rows: tl.constexpr, tile_cols: tl.constexpr):
    row, col = tl.program_id(0) * tile_rows, tl.program_id(1) * tile_cols
    g = gate.load([row, col]).to(tl.float32)
    u = 0.7978845608028654 * (g + 0.044715 * g * g * g)
    act = (g / (1.0 + tl.exp(-2.0 * u))).to(tl.bfloat16).to(tl.float32)
    y.store([row, col], (act * up.load([row, col]).to(tl.float32)).to(tl.bfloat16))


def run(gate, up):
    y = torch.empty_like(gate)
    tokens, width = gate.shape
    views = [TensorDescriptor.from_tensor(tensor, [16, 64]) for tensor in (gate, up, y)]
    kernel[(triton.cdiv(tokens, 16), triton.cdiv(width, 64))](*views, tile_rows=16, tile_cols=64)
    return y
