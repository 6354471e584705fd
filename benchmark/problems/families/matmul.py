"""Matrix products: square, skinny, batched, triangular and their relatives.

Operands are scaled so that outputs have a standard deviation near one whatever the inner dimension, which makes one
tolerance right for every workload of a problem.
"""

from __future__ import annotations

import functools

from kbench.benchmark.problems.adversarial.cases import (
    InputCase,
    huge,
    large,
    one_hot,
    outliers,
    small,
    wide,
    zero_rows,
)
from kbench.benchmark.problems.adversarial.changes import Change
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.families.shared import (
    lower_fill,
    product_flops,
    scaled_symmetric_fill,
    sized,
    symmetric_fill,
    upper_fill,
)
from kbench.benchmark.problems.inputs import Params, rooted, tensors, with_numbers
from kbench.benchmark.problems.lazy_torch import Generator, Tensor, torch

FP32_PRODUCT = Tolerance(
    atol=1e-4,
    rtol=1e-4,
    reason="fp32 sums of K products of unit scale err by about 0.2·eps·sqrt(K), under 1e-5 up to K = 131072 in any "
    "order; tf32 or fp16 operands err by 3e-4 on average and are meant to fail",
)
BF16_PRODUCT = Tolerance(
    atol=1e-2, rtol=1e-2, reason="one rounding to bfloat16 is 2e-3 relative; fp32 accumulation adds far less"
)
FP32_SCALED = Tolerance(atol=1e-7, rtol=1e-6, reason="one fp32 multiplication: half a unit in the last place is 6e-8")

# Three tf32 passes give fp32 accuracy on tensor cores, so an honest fp32 product may beat the fp32 units' peak.
FP32_UNIT = "tf32"


def product_cases(left: str, dim: int = -1) -> tuple[InputCase, ...]:
    """Cases of a product whose left operand sums along `dim`: beyond float16 at both ends, sparse, and uneven."""
    return (
        large(left, factor=1e5),
        small(left, factor=1e-6),
        one_hot(left, dim=dim),
        outliers(left, dim=dim, atol_scale=20.0),
    )


DIAGONAL = InputCase(
    "diagonal",
    "A diagonal operand finds blocks that are skipped or counted twice, whatever structure a kernel relies on.",
    {"a": lambda generator, x: x * torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)},
)


def few_lines(factor: float) -> Change:
    """A few rows, and the same columns, times the factor: the matrix stays symmetric."""

    def change(generator: Generator, x: Tensor) -> Tensor:
        order = torch.rand(x.shape[-1], generator=generator, device=x.device).argsort()
        line = torch.where(order < max(1, x.shape[-1] // 32), factor, 1.0).to(x.dtype)
        return x * line * line[:, None]

    return change


SYMMETRIC_CASES = (
    large("a", unit=None),
    small("a", unit=None),
    DIAGONAL,
    InputCase(
        "mixed_lines", "A few large rows and columns find magnitudes guessed from a sample.",
        {"a": few_lines(8.0)}, atol_scale=8.0, mixed=True,
    ),
    InputCase(
        "mixed_zeros", "A few empty rows and columns find structure guessed from a sample.",
        {"a": few_lines(0.0), "b": few_lines(0.0)}, mixed=True,
    ),
)  # fmt: skip


def square_product(a: Tensor, b: Tensor) -> Tensor:
    """C = A B."""
    return torch.matmul(a, b)


def standard_product(a: Tensor, b: Tensor) -> Tensor:
    """C = A B."""
    return torch.matmul(a, b)


def batched_product(a: Tensor, b: Tensor) -> Tensor:
    """One product a batch entry."""
    return torch.bmm(a, b)


def matrix_vector_product(a: Tensor, x: Tensor) -> Tensor:
    """y = A x, with x one column."""
    return torch.matmul(a, x)


def matrix_scalar_product(a: Tensor, s: float) -> Tensor:
    """Every element times one number."""
    return a * s


def large_k_product(a: Tensor, b: Tensor) -> Tensor:
    """C = A B where the summed dimension is far longer than the others."""
    return torch.matmul(a, b)


def small_k_product(a: Tensor, b: Tensor) -> Tensor:
    """C = A B where the summed dimension is short."""
    return torch.matmul(a, b)


def irregular_product(a: Tensor, b: Tensor) -> Tensor:
    """C = A B with odd sizes."""
    return torch.matmul(a, b)


def tall_skinny_product(a: Tensor, b: Tensor) -> Tensor:
    """C = A B, an outer-product-like expansion."""
    return torch.matmul(a, b)


def tensor3d_product(a: Tensor, b: Tensor) -> Tensor:
    """Contract the last dimension of a 3D tensor with a matrix."""
    return torch.matmul(a, b)


def diagonal_product(d: Tensor, b: Tensor) -> Tensor:
    """diag(d) B without building the diagonal matrix."""
    return d.unsqueeze(1) * b


def symmetric_product(a: Tensor, b: Tensor) -> Tensor:
    """C = A B with A and B symmetric; C is not symmetric in general."""
    return torch.matmul(a, b)


def upper_triangular_product(a: Tensor, b: Tensor) -> Tensor:
    """C = A B with A and B upper triangular, so C is too."""
    return torch.triu(torch.matmul(a, b))


def lower_triangular_product(a: Tensor, b: Tensor) -> Tensor:
    """C = A B with A and B lower triangular, so C is too."""
    return torch.tril(torch.matmul(a, b))


def transposed_both_product(a: Tensor, b: Tensor) -> Tensor:
    """C = Aᵀ Bᵀ."""
    return torch.matmul(a.t(), b.t())


_plain_inputs = tensors("a[m,k]", "b[k,n]", b=rooted("k"))
_plain_outputs = tensors("c[m,n]")


def _triangle_bytes(n: int, item_bytes: int, dense_outputs: int) -> int:
    """Two operands of which one triangle is needed, and the output in full: its zeros are written too."""
    return 2 * (n * (n + 1) // 2) * item_bytes + dense_outputs * n * n * item_bytes


def _triangular_flops(p: Params) -> int:
    """Each output (i, j) of the triangle sums |i − j| + 1 products: n(n+1)(n+2)/6 multiply-adds in all."""
    n = p["n"]
    return int(n * (n + 1) * (n + 2) // 3)


problem = functools.partial(ProblemDefinition, family="matmul", cases=product_cases("a"))
fp32_product = functools.partial(
    problem, inputs=_plain_inputs, outputs=_plain_outputs, flops=product_flops,
    tolerance=FP32_PRODUCT, compute_unit=FP32_UNIT,
)  # fmt: skip

PROBLEMS: tuple[ProblemDefinition, ...] = (
    fp32_product(
        id="matmul_square", title="Square matrix product", reference=square_product,
        description="C = A @ B for two square fp32 matrices of the same size, row-major.",
        sizes=(Size("kb_v0", sized(2048, 2048, 2048)),), tiny=Size("tiny", sized(72, 72, 72)),
        aliases=("kernelbench/v0/L1/1",),
    ),
    fp32_product(
        id="matmul_standard", title="Rectangular matrix product", reference=standard_product,
        description="C = A @ B for row-major fp32 matrices A (m by k) and B (k by n).",
        sizes=(Size("kb_v0", sized(1024, 2048, 4096)),), tiny=Size("tiny", sized(48, 80, 96)),
        aliases=("kernelbench/v0/L1/2",),
    ),
    problem(
        id="matmul_batched", title="Batched matrix product", reference=batched_product,
        description="C[i] = A[i] @ B[i] for a batch of small row-major fp32 matrices.",
        inputs=tensors("a[batch,m,k]", "b[batch,k,n]", b=rooted("k")),
        outputs=tensors("c[batch,m,n]"), flops=lambda p: p["batch"] * product_flops(p),
        sizes=(Size("kb_v0", {"batch": 128, **sized(128, 512, 256)}),),
        tiny=Size("tiny", {"batch": 3, **sized(40, 56, 48)}),
        tolerance=FP32_PRODUCT, compute_unit=FP32_UNIT, aliases=("kernelbench/v0/L1/3",),
    ),
    problem(
        id="matmul_vector", title="Matrix-vector product", reference=matrix_vector_product,
        description="y = A @ x for a wide row-major fp32 matrix and one fp32 column; limited by reading A once.",
        inputs=tensors("a[m,k]", "x[k,1]", x=rooted("k")),
        outputs=tensors("y[m,1]"), flops=lambda p: 2 * p["m"] * p["k"],
        sizes=(Size("kb_v0", {"m": 256, "k": 131072}), Size("tall", {"m": 4096, "k": 32768})),
        tiny=Size("tiny", {"m": 37, "k": 520}),
        tolerance=FP32_PRODUCT, aliases=("kernelbench/v0/L1/4",),
    ),
    problem(
        id="matmul_scalar", title="Matrix-scalar product", reference=matrix_scalar_product,
        description="C = A * s for an fp32 matrix and one number given as a Python float; limited by memory traffic.",
        inputs=with_numbers(tensors("a[m,n]"), s=3.14), outputs=_plain_outputs,
        flops=lambda p: p["m"] * p["n"],
        sizes=(Size("kb_v0", {"m": 16384, "n": 4096}),), tiny=Size("tiny", {"m": 33, "n": 68}),
        tolerance=FP32_SCALED, aliases=("kernelbench/v0/L1/5",),
        cases=(wide("a", decades=25.0, atol_scale=1e-25), huge("a"), zero_rows("a")),
    ),
    fp32_product(
        id="matmul_large_k", title="Matrix product with a long inner dimension", reference=large_k_product,
        description="C = A @ B in fp32 where k is hundreds of times m and n, so one output tile per block leaves most "
            "of the GPU idle.",
        sizes=(Size("kb_v0", sized(256, 256, 131072)),), tiny=Size("tiny", sized(40, 40, 1100)),
        aliases=("kernelbench/v0/L1/6",),
    ),
    fp32_product(
        id="matmul_small_k", title="Matrix product with a short inner dimension", reference=small_k_product,
        description="C = A @ B in fp32 where k is tens and the output is a gigabyte: writing C dominates.",
        sizes=(Size("kb_v0", sized(16384, 16384, 32)),), tiny=Size("tiny", sized(72, 88, 24)),
        aliases=("kernelbench/v0/L1/7",),
    ),
    fp32_product(
        id="matmul_irregular", title="Matrix product with odd sizes", reference=irregular_product,
        description="C = A @ B in fp32 where no dimension is a multiple of a power of two, so rows are not aligned.",
        sizes=(Size("odd", sized(1237, 1511, 2949)),), tiny=Size("tiny", sized(37, 53, 61)),
    ),
    fp32_product(
        id="matmul_tall_skinny", title="Tall-skinny matrix product", reference=tall_skinny_product,
        description="C = A @ B in fp32 for a tall thin A and a short wide B (k = 16): close to an outer product.",
        sizes=(Size("kb_v0", sized(16384, 16384, 16)),), tiny=Size("tiny", sized(88, 72, 16)),
        aliases=("kernelbench/v0/L1/9",),
    ),
    problem(
        id="matmul_tensor3d", title="3D tensor times matrix", reference=tensor3d_product,
        description="C[b, m, n] = sum over k of A[b, m, k] B[k, n], in bfloat16 with an fp32 accumulator.",
        inputs=tensors("a: bfloat16[batch,m,k]", "b: bfloat16[k,n]", b=rooted("k")),
        outputs=tensors("c: bfloat16[batch,m,n]"), flops=lambda p: p["batch"] * product_flops(p),
        sizes=(Size("kb", {"batch": 16, **sized(1024, 768, 2048)}),),
        tiny=Size("tiny", {"batch": 2, **sized(40, 48, 80)}),
        tolerance=BF16_PRODUCT, compute_unit="bf16", aliases=("kernelbench/v0/L1/10", "kernelbench/v0.1/L1/10"),
    ),
    problem(
        id="matmul_diagonal", title="Diagonal matrix times matrix", reference=diagonal_product,
        description="C = diag(d) @ B in fp32: each row of B times one element of d; limited by memory traffic.",
        inputs=tensors("d[n]", "b[n,m]"), outputs=tensors("c[n,m]"), flops=lambda p: p["n"] * p["m"],
        sizes=(Size("kb", {"n": 4096, "m": 4096}), Size("large", {"n": 16384, "m": 4096})),
        tiny=Size("tiny", {"n": 41, "m": 68}),
        tolerance=FP32_SCALED, aliases=("kernelbench/v0/L1/12", "kernelbench/v0.1/L1/12"),
        cases=(wide("d", "b", decades=12.0, atol_scale=1e-24), huge("d"), zero_rows("b")),
    ),
    problem(
        id="matmul_symmetric", title="Product of two symmetric matrices", reference=symmetric_product,
        description="C = A @ B in bfloat16 for symmetric A and B. Each operand may be read from either triangle or "
            "transposed.",
        inputs=tensors("a: bfloat16[n,n]", "b: bfloat16[n,n]", a=symmetric_fill, b=scaled_symmetric_fill),
        outputs=tensors("c: bfloat16[n,n]"), flops=lambda p: 2 * p["n"] ** 3,
        min_bytes=lambda p: _triangle_bytes(p["n"], 2, 1),
        sizes=(Size("kb", {"n": 4096}),), tiny=Size("tiny", {"n": 72}),
        tolerance=BF16_PRODUCT, compute_unit="bf16", aliases=("kernelbench/v0/L1/13", "kernelbench/v0.1/L1/13"),
        cases=SYMMETRIC_CASES,
    ),
    problem(
        id="matmul_upper_triangular", title="Product of two upper-triangular matrices",
        reference=upper_triangular_product,
        description="C = A @ B in bfloat16 where A and B are zero below the diagonal. C is upper triangular; its zeros "
            "must be written. Operations are counted for the non-zero part only.",
        inputs=tensors("a: bfloat16[n,n]", "b: bfloat16[n,n]", a=upper_fill, b=upper_fill),
        outputs=tensors("c: bfloat16[n,n]"), flops=_triangular_flops, min_bytes=lambda p: _triangle_bytes(p["n"], 2, 1),
        sizes=(Size("kb", {"n": 4096}),), tiny=Size("tiny", {"n": 72}),
        tolerance=BF16_PRODUCT, compute_unit="bf16", aliases=("kernelbench/v0/L1/14", "kernelbench/v0.1/L1/14"),
        cases=(large("a"), small("a"), zero_rows("a"), DIAGONAL),
    ),
    problem(
        id="matmul_lower_triangular", title="Product of two lower-triangular matrices",
        reference=lower_triangular_product,
        description="C = A @ B in fp32 where A and B are zero above the diagonal. C is lower triangular; its zeros "
            "must be written. Operations are counted for the non-zero part only.",
        inputs=tensors("a[n,n]", "b[n,n]", a=lower_fill, b=lower_fill), outputs=tensors("c[n,n]"),
        flops=_triangular_flops, min_bytes=lambda p: _triangle_bytes(p["n"], 4, 1),
        sizes=(Size("n2048", {"n": 2048}),), tiny=Size("tiny", {"n": 72}),
        tolerance=FP32_PRODUCT, compute_unit=FP32_UNIT,
        cases=(large("a", factor=1e5), small("a", factor=1e-6), zero_rows("a"), DIAGONAL),
    ),
    fp32_product(
        id="matmul_transposed_both", title="Product of two transposed matrices", reference=transposed_both_product,
        description="C = A.T @ B.T in fp32 for A stored k by m and B stored n by k, both row-major.",
        inputs=tensors("a[k,m]", "b[n,k]", b=rooted("k")),
        sizes=(Size("kb_v0", sized(1024, 2048, 4096)),), tiny=Size("tiny", sized(56, 72, 80)),
        aliases=("kernelbench/v0/L1/18",), cases=product_cases("a", 0),
    ),
)  # fmt: skip
