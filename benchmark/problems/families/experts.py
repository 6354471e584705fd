"""Expert layers of named mixture-of-experts models: rows sorted by expert, each expert's with its own matrix."""

from __future__ import annotations

import functools

from kbench.benchmark.problems.adversarial.cases import InputCase, large, one_hot, small
from kbench.benchmark.problems.adversarial.changes import crowd_one
from kbench.benchmark.problems.definition import ProblemDefinition, Size
from kbench.benchmark.problems.families.fused_matmul import BF16_EPILOGUE
from kbench.benchmark.problems.families.quantized_matmul import EMPTY_GROUPS, group_offsets, grouped_gemm_oracle
from kbench.benchmark.problems.inputs import Sized, Specs, parameters, rooted, tensors, uniform
from kbench.benchmark.problems.lazy_torch import F, Tensor

CROWDED = InputCase(
    "crowded", "An expert with most of the rows finds grids made for even loads.", {"offsets": crowd_one}, strict=True
)
SORTED_ROWS = (
    "Rows of x are sorted by expert; offsets[g] (int32) is the end of expert g's rows and offsets[g-1] their start (0 "
    "for the first). Experts have uneven numbers of rows, or none."
)


def moe_swiglu_up(x: Tensor, weight: Tensor, offsets: Tensor) -> Tensor:
    gate, up = F.grouped_mm(x, weight, offs=offsets).chunk(2, dim=-1)
    return F.silu(gate) * up


def _swiglu_oracle(x: Tensor, weight: Tensor, offsets: Tensor) -> Tensor:
    gate, up = grouped_gemm_oracle(x, weight, offsets).chunk(2, dim=-1)
    return F.silu(gate) * up


def moe_weighted_down(x: Tensor, weight: Tensor, offsets: Tensor, row_weight: Tensor) -> Tensor:
    return F.grouped_mm(x, weight, offs=offsets) * row_weight[:, None]


def _inputs(columns: str) -> Specs:
    return tensors(
        "x: bfloat16[rows,k]", f"weight: bfloat16[experts,k,{columns}]", "offsets: int32[experts]", weight=rooted("k"),
        offsets=Sized(lambda p: lambda g, s, d: group_offsets(g, s, d, p["rows"])),
    )  # fmt: skip


_sized = parameters("rows experts n k")
problem = functools.partial(
    ProblemDefinition, family="quantized_matmul", outputs=tensors("y: bfloat16[rows,n]"), tolerance=BF16_EPILOGUE,
    compute_unit="bf16", tiny=Size("tiny", _sized(88, 5, 40, 72)),
)  # fmt: skip

PROBLEMS: tuple[ProblemDefinition, ...] = (
    problem(
        id="moe_swiglu_up", title="SwiGLU half of all experts", reference=moe_swiglu_up, oracle=_swiglu_oracle,
        description=f"{SORTED_ROWS} An expert's rows times its matrix weight[g] (k by 2n) give a gate (left half) and "
            "an input (right half) of n columns each; the result is silu(gate) * input, in bfloat16 with fp32 sums.",
        inputs=_inputs("2*n"), flops=lambda p: 4 * p["rows"] * p["n"] * p["k"],
        sizes=(
            Size("qwen3_30b", _sized(16384, 128, 768, 2048), "Qwen3-30B-A3B experts, 2048 tokens to 8 experts each"),
            Size("olmoe_1b_7b", _sized(32768, 64, 1024, 2048), "OLMoE-1B-7B experts, 4096 tokens to 8 experts each"),
            Size("deepseek_v2_lite", _sized(12288, 64, 1408, 2048), "DeepSeek-V2-Lite experts, 2048 tokens to 6 each"),
        ),
        cases=(
            large("x", factor=1e3, atol_scale=1e6), small("x", factor=1e-3, atol_scale=1e-6), one_hot("x"),
            EMPTY_GROUPS, CROWDED,
        ),
    ),
    problem(
        id="moe_weighted_down", title="Down projection of all experts, weighted", reference=moe_weighted_down,
        oracle=lambda x, weight, offsets, row_weight: (
            grouped_gemm_oracle(x, weight, offsets) * row_weight.double()[:, None]
        ),
        description=f"{SORTED_ROWS} An expert's rows are multiplied by its matrix weight[g] (k by n), and each row by "
            "its bfloat16 row_weight; bfloat16 with fp32 sums.",
        inputs=tensors(_inputs("n"), "row_weight: bfloat16[rows]", row_weight=uniform(0.1, 1.0)),
        flops=lambda p: 2 * p["rows"] * p["n"] * p["k"],
        sizes=(
            Size("qwen3_30b", _sized(16384, 128, 2048, 768), "Qwen3-30B-A3B experts, 2048 tokens to 8 experts each"),
            Size("mixtral_8x7b", _sized(2048, 8, 4096, 14336), "Mixtral-8x7B experts, 1024 tokens to 2 experts each"),
        ),
        cases=(large("x", factor=1e5), small("x", factor=1e-6), one_hot("x"), EMPTY_GROUPS, CROWDED),
    ),
)  # fmt: skip
