"""Linear layers with narrow weights at one to 256 tokens: 4-bit groups, tables, codebooks, float8, ternary, int8."""

from __future__ import annotations

import functools

from kbench.benchmark.problems.adversarial.cases import extremes, large, one_hot, outliers, zero_rows
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.families.shared import bf16, product_flops, sized, wide
from kbench.benchmark.problems.inputs import TensorSpec, around, integers, tensors, uniform
from kbench.benchmark.problems.lazy_torch import F, Generator, Tensor, torch

GROUP = 128
"""4-bit weights along k that share a scale."""
TABLE_GROUP = 64
"""Weights along k that share the size of a table's entries."""
NIBBLES = (0, 15, 240, 255)
NARROW_WEIGHTS = Tolerance(
    1.5e-2, 1.5e-2, "dequantised weights may be rounded to bfloat16 (2^-9 relative, averaged over k), outputs are too"
)
LAYER_CASES = (large("x", factor=32.0, atol_scale=32.0), outliers("x", factor=32.0, atol_scale=8.0), one_hot("x"))


def nibbles(packed: Tensor) -> Tensor:
    """Two numbers a byte, the lower four bits first."""
    return torch.stack((packed & 15, packed >> 4), dim=-1).flatten(-2)


def int4_zero_point_linear(x: Tensor, packed: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    rows, groups = scale.shape
    shifted = nibbles(packed).view(rows, groups, GROUP).to(torch.int16) - zero.unsqueeze(-1).to(torch.int16)
    weight = shifted.to(scale.dtype) * scale.unsqueeze(-1)
    return F.linear(x, weight.view(rows, -1))


def int4_act_order_linear(x: Tensor, packed: Tensor, scale: Tensor, group: Tensor) -> Tensor:
    shifts = torch.arange(0, 32, 4, device=x.device, dtype=torch.int32)
    numbers = ((packed.unsqueeze(1) >> shifts[:, None]) & 15).flatten(0, 1)
    weight = (numbers - 8).to(scale.dtype) * scale[group.long()]
    return x @ weight


def table4_linear(x: Tensor, packed: Tensor, table: Tensor, size: Tensor) -> Tensor:
    rows, groups = size.shape
    weight = wide(table)[nibbles(packed).int()].view(rows, groups, TABLE_GROUP) * wide(size).unsqueeze(-1)
    return F.linear(x, bf16(weight).view(rows, -1))


def codebook_linear(x: Tensor, codes: Tensor, books: Tensor, scale: Tensor) -> Tensor:
    weight = books[0][codes[..., 0].int()] + books[1][codes[..., 1].int()]
    return F.linear(x, weight.flatten(1)) * scale


def fp8_weight_linear(x: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    return bf16(wide(F.linear(x, weight.to(x.dtype))) * scale)


def ternary_linear(x: Tensor, packed: Tensor, x_scale: Tensor, weight_scale: Tensor) -> Tensor:
    shifts = torch.arange(0, 8, 2, device=x.device, dtype=torch.uint8)
    weight = ((packed.unsqueeze(-1) >> shifts) & 3).flatten(1).to(torch.int8) - 1
    total = F.linear(x.to(torch.bfloat16), weight.to(torch.bfloat16))
    return (total.float() * x_scale[:, None] * weight_scale).to(torch.bfloat16)


def _ternary_oracle(x: Tensor, packed: Tensor, x_scale: Tensor, weight_scale: Tensor) -> Tensor:
    shifts = torch.arange(0, 8, 2, device=x.device, dtype=torch.uint8)
    weight = ((packed.unsqueeze(-1) >> shifts) & 3).flatten(1).double() - 1
    return x.double() @ weight.t() * x_scale.double()[:, None] * weight_scale.double()


def int8_weight_swiglu(x: Tensor, gate: Tensor, up: Tensor, gate_scale: Tensor, up_scale: Tensor) -> Tensor:
    opened = F.silu(wide(F.linear(x, gate.to(x.dtype))) * wide(gate_scale))
    return bf16(opened * wide(F.linear(x, up.to(x.dtype))) * wide(up_scale))


def ternary_bytes(generator: Generator, spec: TensorSpec, device: str) -> Tensor:
    """Four numbers 0, 1 or 2 a byte, the lowest two bits first."""
    drawn = torch.randint(0, 3, (*spec.shape, 4), generator=generator, device=device)
    return (drawn << torch.arange(0, 8, 2, device=device)).sum(-1).to(torch.uint8)


def shuffled_groups(generator: Generator, spec: TensorSpec, device: str) -> Tensor:
    """The group of each row of the weight: all of one size, in random order."""
    order = torch.rand(spec.shape, generator=generator, device=device).argsort()
    return (order // GROUP).to(torch.int32)


def rising_table(generator: Generator, spec: TensorSpec, device: str) -> Tensor:
    """Sixteen rising numbers from -1 to 1, denser around zero, other ones for every seed."""
    place = torch.linspace(-1.0, 1.0, 16, device=device)
    drawn = place + 0.1 * torch.rand(16, generator=generator, device=device) - 0.05
    return (drawn.abs() ** 1.2 * drawn.sign()).sort().values


def layers(m: tuple[int, int, int] = (1, 16, 256)) -> tuple[Size, ...]:
    """Gate and up projections in one product, of three models at three batch sizes."""
    return (
        Size(f"llama3_8b_m{m[0]}", sized(m[0], 28672, 4096), f"Llama-3-8B MLP gate and up projections, {m[0]} tokens"),
        Size(
            f"llama3_70b_m{m[1]}", sized(m[1], 57344, 8192), f"Llama-3-70B MLP gate and up projections, {m[1]} tokens"
        ),
        Size(f"qwen3_32b_m{m[2]}", sized(m[2], 51200, 5120), f"Qwen3-32B MLP gate and up projections, {m[2]} tokens"),
    )


problem = functools.partial(
    ProblemDefinition, family="weight_quantised", outputs=tensors("y: bfloat16[m,n]"), flops=product_flops,
    tolerance=NARROW_WEIGHTS, compute_unit="bf16", sizes=layers(), tiny=Size("tiny", sized(9, 40, 256)),
)  # fmt: skip

PROBLEMS: tuple[ProblemDefinition, ...] = (
    problem(
        id="int4_zero_point_linear", title="Linear layer with 4-bit weights and zero points",
        reference=int4_zero_point_linear,
        description="y = x @ W.T in bfloat16. Byte (n, j) of packed holds weights 2j (low four bits) and 2j+1 of "
            "output n; W[n, k] = (nibble - zero[n, k // 128]) * scale[n, k // 128], with bfloat16 scales and zero "
            "points of 0 to 15.",
        # 43 is the mean square of a nibble less a zero point.
        inputs=tensors(
            "x: bfloat16[m,k]", "packed: uint8[n,k/2]", f"scale: bfloat16[n,k/{GROUP}]", f"zero: uint8[n,k/{GROUP}]",
            packed=integers(0, 256), scale=around(lambda p: (43 * p["k"]) ** -0.5), zero=integers(0, 16),
        ),
        cases=(*LAYER_CASES, extremes("packed", values=NIBBLES), zero_rows("scale")),
    ),
    problem(
        id="int4_act_order_linear", title="Linear layer with 4-bit weights in activation order",
        reference=int4_act_order_linear,
        description="y = x @ W in bfloat16. Number (j, n) of packed (int32) holds weights 8j to 8j+7 of output n, four "
            "bits each with the lowest first; W[k, n] = (nibble - 8) * scale[group[k], n], where the int32 groups of "
            "neighbouring rows are unrelated.",
        inputs=tensors(
            "x: bfloat16[m,k]", "packed: int32[k/8,n]", f"scale: bfloat16[k/{GROUP},n]", "group: int32[k]",
            packed=integers(-2 ** 31, 2 ** 31), scale=around(lambda p: (21.5 * p["k"]) ** -0.5), group=shuffled_groups,
        ),
        sizes=layers((4, 32, 128)),
        cases=(*LAYER_CASES, extremes("packed", values=(0, -1, -(2**31), 0x77777777)), zero_rows("scale")),
    ),
    problem(
        id="table4_linear", title="Linear layer with 4-bit weights from a table", reference=table4_linear,
        description="y = x @ W.T in bfloat16. Byte (n, j) of packed holds weights 2j (low four bits) and 2j+1 of "
            "output n; W[n, k] = table[nibble] * size[n, k // 64], with a float32 table of 16 numbers (as NF4 has) and "
            "float32 sizes. Weights may be rounded to bfloat16.",
        inputs=tensors(
            "x: bfloat16[m,k]", "packed: uint8[n,k/2]", "table[16]", f"size[n,k/{TABLE_GROUP}]",
            packed=integers(0, 256), table=rising_table, size=around(lambda p: (0.35 * p["k"]) ** -0.5),
        ),
        sizes=layers((1, 8, 64)),
        cases=(
            *LAYER_CASES, extremes("packed", values=NIBBLES),
            large("size", factor=8.0, atol_scale=8.0, case="large_sizes"),
        ),
    ),
    problem(
        id="codebook_linear", title="Linear layer with weights from two codebooks", reference=codebook_linear,
        description="y = (x @ W.T) * scale in bfloat16. Eight neighbouring weights of output n are the sum of a row of "
            "each of two codebooks: W[n, 8j : 8j+8] = books[0, codes[n, j, 0]] + books[1, codes[n, j, 1]], one byte a "
            "code. Sums of two rows may be rounded to bfloat16.",
        inputs=tensors(
            "x: bfloat16[m,k]", "codes: uint8[n,k/8,2]", "books: bfloat16[2,256,8]", "scale: bfloat16[n]",
            codes=integers(0, 256), scale=around(lambda p: (2 * p["k"]) ** -0.5),
        ),
        sizes=layers((64, 4, 32)),
        cases=(*LAYER_CASES, extremes("codes", values=(0, 127, 128, 255)), zero_rows("scale", dims=())),
    ),
    problem(
        id="fp8_weight_linear", title="Linear layer with float8 weights", reference=fp8_weight_linear,
        description="y = (x @ weight.T) * scale for bfloat16 x, float8_e4m3fn weight and one float32 scale per output, "
            "summed in fp32.",
        inputs=tensors(
            "x: bfloat16[m,k]", "weight: float8_e4m3fn[n,k]", "scale[n]", scale=around(lambda p: p["k"] ** -0.5),
        ),
        sizes=layers((2, 24, 192)),
        cases=(
            *LAYER_CASES, extremes("weight", values=(448.0, -448.0, 2.0**-9), atol_scale=256.0),
            zero_rows("scale", dims=()),
        ),
    ),
    problem(
        id="ternary_linear", title="Linear layer with ternary weights", reference=ternary_linear,
        oracle=_ternary_oracle,
        description="y = (x @ W.T) * x_scale[:, None] * weight_scale in bfloat16, with int8 x and weights -1, 0 and 1: "
            "byte (n, j) of packed holds weights 4j to 4j+3 of output n as two bits each, the lowest first, one more "
            "than the weight. Sums are exact in int32.",
        # 73 is the deviation of uniform bytes.
        inputs=tensors(
            "x: int8[m,k]", "packed: uint8[n,k/4]", "x_scale[m]", "weight_scale[1]", x=integers(-127, 128),
            packed=ternary_bytes, x_scale=uniform(0.5, 1.5),
            weight_scale=around(lambda p: (2 / 3 * p["k"]) ** -0.5 / 73),
        ),
        compute_unit="int8",
        sizes=(
            Size("llama3_70b_m1", sized(1, 57344, 8192), "Llama-3-70B MLP shapes in BitNet form, one token"),
            Size("llama3_8b_m256", sized(256, 28672, 4096), "Llama-3-8B MLP shapes in BitNet form, 256 tokens"),
            Size("falcon3_10b_m64", sized(64, 46080, 3072), "Falcon3-10B-1.58bit MLP gate and up, 64 tokens"),
        ),
        cases=(
            extremes("x", values=(-128, 127)), one_hot("x"), large("x_scale", atol_scale=32.0),
            extremes("packed", values=(0, 0b10101010), atol_scale=4.0, case="extreme_weights"),
        ),
    ),
    problem(
        id="int8_weight_swiglu", title="SwiGLU layer of a decode batch with 8-bit weights",
        reference=int8_weight_swiglu,
        description="silu((x @ gate.T) * gate_scale) * ((x @ up.T) * up_scale) for bfloat16 x, int8 gate and up and a "
            "bfloat16 scale per output, summed in fp32; bfloat16 out.",
        inputs=tensors(
            "x: bfloat16[m,k]", "gate up: int8[n,k]", "gate_scale up_scale: bfloat16[n]", gate=integers(-127, 128),
            up=integers(-127, 128), gate_scale=around(lambda p: p["k"] ** -0.5 / 73, 1.0, 2.0),
            up_scale=around(lambda p: p["k"] ** -0.5 / 73, 1.0, 2.0),
        ),
        flops=lambda p: 4 * p["m"] * p["n"] * p["k"],
        sizes=(
            Size("llama3_8b_m1", sized(1, 14336, 4096), "Llama-3-8B MLP, one token"),
            Size("llama3_70b_m16", sized(16, 28672, 8192), "Llama-3-70B MLP, 16 tokens"),
            Size("qwen3_32b_m128", sized(128, 25600, 5120), "Qwen3-32B MLP, 128 tokens"),
        ),
        tolerance=Tolerance(3e-2, 2e-2, "products of two sums, each possibly rounded to bfloat16 (2^-9 relative)"),
        cases=(
            large("x", factor=8.0, atol_scale=64.0), outliers("x", factor=8.0, atol_scale=8.0),
            extremes("gate", "up", values=(-128, 127), atol_scale=2.0), one_hot("x"),
        ),
    ),
)  # fmt: skip
