"""Product: a dense-algebra problem seen as out = finish(sum over k of A[m, k] · B[k, n]), whatever the backend."""

from __future__ import annotations

import dataclasses

from kbench.generation.proposers.genome.family import Genome

ITEM_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "int8": 1, "float8_e4m3fn": 1}


@dataclasses.dataclass(frozen=True, slots=True)
class Vector:
    """An extra input with one value per row ("m") or column ("n") of the output."""

    name: str
    axis: str
    dtype: str


@dataclasses.dataclass(frozen=True, slots=True)
class Product:
    """Layouts, element types and what happens to each sum."""

    args: tuple[str, ...]
    """Parameters of run, in order; the first two are A and B."""
    dtype: str
    """Of A and B."""
    out_dtype: str
    a_layout: str = "mk"
    """Storage order of A, slow dimension first: "mk" or "km"."""
    b_layout: str = "kn"
    """Storage order of B: "kn" or "nk"."""
    batched: bool = False
    grouped: bool = False
    """Rows of A belong to experts, each with its own B."""
    triangle: str = ""
    """"upper" or "lower" where A, B and the output are triangular."""
    symmetric: bool = False
    aligned: bool = True
    """Whether every row of A, B and the output starts at a multiple of 16 bytes, in every workload."""
    vectors: tuple[Vector, ...] = ()
    triton: tuple[str, ...] = ()
    """Statements on the tile of sums `v` in Triton; a vector's values are there under its name."""
    cuda: tuple[str, ...] = ()
    """The same on one sum `float v` in CUDA C++."""
    row: str = ""
    """What follows along a row: "group_norm", "sum", "logsumexp", "softmax" or nothing."""

    @property
    def half(self) -> bool:
        """Whether operands are 16-bit floats."""
        return self.dtype in ("bfloat16", "float16")

    @property
    def item_bytes(self) -> int:
        """Bytes of one element of A or B."""
        return ITEM_BYTES[self.dtype]

    @property
    def column_output(self) -> bool:
        """Whether the output has one value per row."""
        return self.row in ("sum", "logsumexp")

    @property
    def elementwise(self) -> tuple[str, ...]:
        """Names of the vectors that the elementwise statements read."""
        return tuple(vector.name for vector in self.vectors if vector.name not in ("gamma", "beta"))

    def layouts(self, genome: Genome) -> tuple[str, str]:
        """Orders in which A and B are read; a symmetric operand may be read in either."""
        if self.symmetric:
            return str(genome["a_layout"]), str(genome["b_layout"])
        return self.a_layout, self.b_layout


GELU_TRITON = "v = 0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476))"
GELU_CUDA = "v = 0.5f * v * (1.0f + erff(v * 0.70710678f));"
MISH_TRITON = (
    "e = tl.exp(tl.minimum(v, 20.0))",
    "e = e * (e + 2.0)",
    "v = v * e / (e + 2.0)",
)
MISH_CUDA = ("{ float e = expf(fminf(v, 20.0f)); e = e * (e + 2.0f); v = v * e / (e + 2.0f); }",)


def _linear(dtype: str, triton: tuple[str, ...], cuda: tuple[str, ...], row: str = "", bias: str = "bias") -> Product:
    return Product(
        args=("x", "weight", bias),
        dtype=dtype,
        out_dtype=dtype,
        b_layout="nk",
        vectors=(Vector(bias, "n", dtype),),
        triton=(f"v += {bias}", *triton),
        cuda=(f"v += {bias};", *cuda),
        row=row,
    )


def _scaled(dtype: str) -> Product:
    return Product(
        args=("x", "weight", "x_scale", "weight_scale"),
        dtype=dtype,
        out_dtype="bfloat16",
        b_layout="nk",
        vectors=(Vector("x_scale", "m", "float32"), Vector("weight_scale", "n", "float32")),
        triton=("v = v * x_scale * weight_scale",),
        cuda=("v = v * x_scale * weight_scale;",),
    )


PRODUCTS: dict[str, Product] = {
    "matmul_square": Product(("a", "b"), "float32", "float32"),
    "matmul_standard": Product(("a", "b"), "float32", "float32"),
    "matmul_batched": Product(("a", "b"), "float32", "float32", batched=True),
    "matmul_large_k": Product(("a", "b"), "float32", "float32"),
    "matmul_small_k": Product(("a", "b"), "float32", "float32"),
    "matmul_irregular": Product(("a", "b"), "float32", "float32", aligned=False),
    "matmul_tall_skinny": Product(("a", "b"), "float32", "float32"),
    "matmul_tensor3d": Product(("a", "b"), "bfloat16", "bfloat16"),
    "matmul_symmetric": Product(("a", "b"), "bfloat16", "bfloat16", symmetric=True),
    "matmul_upper_triangular": Product(("a", "b"), "bfloat16", "bfloat16", triangle="upper"),
    "matmul_lower_triangular": Product(("a", "b"), "float32", "float32", triangle="lower"),
    "matmul_transposed_both": Product(("a", "b"), "float32", "float32", a_layout="km", b_layout="nk"),
    "linear_subtract_multiply_relu": _linear(
        "float32",
        ("v = tl.maximum((v - 2.0) * 1.5, 0.0)",),
        ("v = fmaxf((v - 2.0f) * 1.5f, 0.0f);",),
    ),
    "linear_multiply_leaky_relu": _linear(
        "bfloat16",
        ("v = v * 2.0", "v = tl.where(v > 0, v, 0.1 * v)"),
        ("v *= 2.0f;", "v = v > 0.0f ? v : 0.1f * v;"),
    ),
    "linear_mish_mish": _linear("float32", (*MISH_TRITON, *MISH_TRITON), (*MISH_CUDA, *MISH_CUDA)),
    "linear_swish_sum_group_norm": Product(
        args=("x", "weight", "bias", "added", "gamma", "beta"),
        dtype="bfloat16",
        out_dtype="bfloat16",
        b_layout="nk",
        vectors=tuple(Vector(name, "n", "bfloat16") for name in ("bias", "added", "gamma", "beta")),
        triton=("v += bias", "v = v / (1.0 + tl.exp(-v)) + added"),
        cuda=("v += bias;", "v = v / (1.0f + expf(-v)) + added;"),
        row="group_norm",
    ),
    "linear_sigmoid_sum": _linear(
        "float32", ("v = 1.0 / (1.0 + tl.exp(-v))",), ("v = 1.0f / (1.0f + expf(-v));",), "sum"
    ),
    "linear_logsumexp_leaky_gelu": _linear("float16", (), (), "logsumexp"),
    "linear_add_relu": _linear("float32", ("v = tl.maximum(v, 0.0)",), ("v = fmaxf(v, 0.0f);",), bias="added"),
    "linear_divide_gelu": _linear("float16", ("v = v / 10.0", GELU_TRITON), ("v = v / 10.0f;", GELU_CUDA)),
    "linear_gelu_softmax": _linear("bfloat16", (GELU_TRITON,), (GELU_CUDA,), "softmax"),
    "grouped_gemm": Product(("x", "weight", "offsets"), "bfloat16", "bfloat16", grouped=True),
    "int8_gemm": _scaled("int8"),
    "fp8_gemm": _scaled("float8_e4m3fn"),
}
"""Products by problem id."""
