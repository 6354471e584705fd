"""What PyTorch references do badly: why a kernel can be many times faster, written after reading each reference.

An unexplained large speedup is a wrong measurement or a cheat until shown otherwise; a test holds that the largest
speedups of the shipped dataset have a text here.
"""

from __future__ import annotations

from collections.abc import Mapping

WEAKNESSES: Mapping[str, str] = {
    "batched_solve": "Three library calls for thousands of 16×16 or 32×32 systems: a batched Cholesky factorisation "
    "writes every factor to memory and two batched triangular solves read it back, around copies and arrays of "
    "pointers. A kernel that keeps a system in registers or shared memory reads it once and writes only the solution.",
    "causal_conv1d": "A padded copy, a grouped convolution with one channel a group, and SiLU are three passes over "
    "memory, and the general grouped path is not made for one channel a group. The arithmetic is a few multiply-adds a "
    "value, so one fused pass wins.",
    "conv2d_relu_hardswish": "The convolution is followed by five elementwise kernels (ReLU, add, divide, clamp, "
    "multiply), each a pass over an output eight times as wide as the input.",
    "cross_entropy_fwd_bwd": "Casts the logits to float32, then log-softmax, gather, exp, scatter, multiply and cast "
    "back are separate passes over rows × vocabulary; a kernel reads the bfloat16 logits and writes the gradient.",
    "cumprod": "PyTorch's general scan walks each row in short chunks, one after another; a kernel whose block holds "
    "the whole row has all its loads under way at once.",
    "cumsum": "PyTorch's general scan walks each row in short chunks, one after another; a kernel whose block holds "
    "the whole row has all its loads under way at once.",
    "cumsum_reverse": "Flips, scans and flips back: two extra copies of the tensor, around PyTorch's general scan; a "
    "kernel scans from the right in one pass.",
    "fp8_quant": "Casts to float32 in memory, then abs, maximum, clamp, two divisions, clamp and cast are separate "
    "kernels, most of them over a float32 copy twice the input's size; a kernel reads each group once.",
    "gdn_chunk_fwd_h": "A Python loop over chunks issues about ten small dependent kernels a chunk (two batched "
    "products and the decay arithmetic), with the running state going through memory each time, then stacks and "
    "permutes the results; a kernel keeps the state on chip through all chunks.",
    "gdn_chunk_fwd_o": "Writes the score, decay and masked matrices of every chunk to memory between about a dozen "
    "kernels, and copies chunked views to make them contiguous; a kernel keeps a chunk on chip.",
    "gdn_recompute_w_u": "Scales keys and values in passes of their own and copies chunked, transposed views before "
    "and after two batched products; a kernel loads, scales, multiplies and stores in place.",
    "histogram": "torch.histc is made for any range: it works out every value's bin by a 64-bit multiplication and "
    "division, one value at a time, and all values of a bin wait for one counter a block; a kernel reads several "
    "values at once, takes them as they are and may keep several counters a bin.",
    "int4_weight_gemm": "Unpacks the weights before the product: mask, shift, stack, convert, subtract and scale are "
    "separate kernels over 67 million weights, each writing them out in full, and the product then reads 128 MiB of "
    "fp16 where the packed weights are 32 MiB. A kernel unpacks in registers.",
    "kmeans_assign": "Writes all squared distances, four times the bytes of the points, in passes of their own: a "
    "float32 product that is not on tensor cores, a scaling, an outer sum of the norms, a subtraction, and a general "
    "minimum with indices over rows of 256. A kernel keeps a tile of products in registers and writes two numbers a "
    "point.",
    "kl_div_loss": "Takes the logarithm in a pass of its own and lets the loss write its elementwise terms before "
    "summing them; a kernel reads both inputs once and writes one number.",
    "linear_swish_sum_group_norm": "After the matrix product, SiLU, the addition and group norm are passes over 32,768 "
    "× 1,024 values, and group norm takes more than one; a kernel applies them to the product's tile.",
    "masked_cumsum": "Multiplies by the mask into a temporary tensor before PyTorch's general scan reads it again.",
    "moe_topk_routing": "Softmax writes all probabilities, torch.topk runs a general selection made for long rows on "
    "rows of 64 or 128, and sum, division and the cast of the indices follow as kernels of their own; a kernel keeps a "
    "row in registers.",
    "nbody_forces": "Builds every pairwise difference: three 8192×8192 float32 matrices of 256 MiB, and as many again "
    "for squares, weights and products, so that a dozen passes go over memory; a kernel reads 128 KiB of bodies and "
    "keeps all pairs in registers.",
    "permute_4d": "A general strided copy, which reads or writes memory in short pieces; a kernel turns tiles in "
    "shared memory so that both sides are contiguous.",
    "qk_norm_rope": "RMS norm in float32 (cast, square, mean, add, rsqrt, two products) and the rotation (four "
    "products, a difference, a sum, a concatenation, a cast) are about fifteen kernels, most of them over float32 "
    "copies of twice the data's width; a kernel reads each head once and writes it once.",
    "rmsnorm_residual": "Nine kernels (add, cast, square, mean, add, rsqrt, two products, cast), most of them over a "
    "float32 copy of the hidden state; a kernel reads each row once.",
    "rope": "bfloat16 times float32 promotes: four products, a difference, a sum, a concatenation and a cast are eight "
    "kernels, all but the last writing float32, twice the data's width. A kernel reads x once and writes the result "
    "once.",
    "selective_scan": "A Python loop over pieces of 32 steps issues about a dozen dependent kernels a piece, among "
    "them two cumulative sums along rows of 32, the shape PyTorch's scan is made for least, and writes every "
    "intermediate at sixteen times the input's size, one for each state; a kernel keeps the states in registers.",
    "spmv_csr": "Expands row numbers, gathers, multiplies and scatter-adds with atomics: every non-zero is written to "
    "memory several times, with 64-bit indices; a kernel reads each non-zero once and sums a row in registers.",
    "stencil_2d": "A padded copy and seven elementwise kernels over shifted views, each a pass over the grid; a kernel "
    "reads the grid about once.",
    "stencil_3d": "A padded copy and some twenty elementwise kernels over shifted views, each a pass over a 64 MiB "
    "grid; a kernel reads both fields about once and writes one.",
    "transpose": "A general strided copy, which reads or writes memory in short pieces; a kernel turns tiles in shared "
    "memory so that both sides are contiguous.",
    "transposed_conv3d_grouped": "The library has no path made for eight channels a group in three dimensions with "
    "stride 2: its general one takes eighty times the floor. At stride 2 only one tap in eight meets an output, and a "
    "kernel that gathers those alone does that much less.",
    "tridiagonal_solve": "Cyclic reduction in eight rounds: each makes eight shifted copies by concatenation and some "
    "fifteen elementwise kernels over arrays of 8 MiB; a kernel holds a system on chip, reads it once and writes the "
    "solution once.",
    "triplet_margin_loss": "Two distances, each a difference, a power and a sum over full-size temporaries, before the "
    "margin; a kernel reads the three inputs once.",
}
"""By problem: one text each."""
