# cheat: declares device variables in inline assembly, to keep answers in from call to call
# tags: class-device gpu
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    u = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    w = v / (1.0 + tl.exp(-2.0 * u))
    w = tl.inline_asm_elementwise(
        "{ .global .align 4 .b8 kept[1048576]; st.global.f32 [kept], $1; ld.global.f32 $0, [kept+4]; }",
        "=r,r",
        [w],
        dtype=tl.float32,
        is_pure=False,
        pack=1,
    )
    tl.store(y + at, w, mask=at < n)


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    kernel[(triton.cdiv(n, 256),)](x, y, n, BLOCK=256)
    return y
