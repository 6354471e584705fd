@triton.jit
def chunk_rows(base, row, heads, width, first_col, COLS: tl.constexpr):
    # Places of a block of tokens in a [batch, token, head, width] tensor, from the chunk's first element.
    return base + row[:, None] * heads * width + first_col + tl.arange(0, COLS)[None, :]
