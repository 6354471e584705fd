"""What is particular to the dense-algebra problems: structure of inputs, and which precisions pass."""

from __future__ import annotations

import pytest
import torch

from kbench.benchmark.problems.definition import ProblemDefinition
from kbench.benchmark.problems.families import fused_matmul, matmul, quantized_matmul
from kbench.benchmark.problems.registry import problem

PROBLEMS = (*matmul.PROBLEMS, *fused_matmul.PROBLEMS, *quantized_matmul.PROBLEMS)
TENSOR_CORE_FP32 = [p.id for p in PROBLEMS if p.compute_unit == matmul.FP32_UNIT]


def share_outside(p: ProblemDefinition, answer: torch.Tensor, expected: torch.Tensor) -> float:
    limit = p.tolerance.atol + p.tolerance.rtol * expected.abs()
    return float(((answer.double() - expected).abs() > limit).double().mean())


def rounded_to_tf32(value: torch.Tensor) -> torch.Tensor:
    """Nearest number with ten bits of mantissa."""
    bits = value.view(torch.int32) + 0x1000
    return (bits & ~0x1FFF).view(torch.float32)


def test_there_are_twenty_eight_dense_algebra_problems() -> None:
    assert [len(group.PROBLEMS) for group in (matmul, fused_matmul, quantized_matmul)] == [15, 9, 4]
    assert len({p.id for p in PROBLEMS}) == 28


@pytest.mark.parametrize("problem_id", TENSOR_CORE_FP32)
def test_an_answer_from_tf32_operands_is_outside_the_fp32_tolerance(problem_id: str) -> None:
    p = problem(problem_id)
    inputs = p.draw(p.tiny, 5)
    (expected,) = p.expected(inputs)
    answer = p.reference(*(rounded_to_tf32(value) for value in inputs))
    assert share_outside(p, answer, expected) > 0.02


@pytest.mark.parametrize("problem_id", TENSOR_CORE_FP32)
def test_an_answer_from_operands_split_into_two_tf32_parts_is_accepted(problem_id: str) -> None:
    p = problem(problem_id)
    inputs = p.draw(p.tiny, 6)
    (expected,) = p.expected(inputs)
    split = []
    for value in inputs:
        big = rounded_to_tf32(value)
        split.append(big + rounded_to_tf32(value - big))
    assert share_outside(p, p.reference(*split), expected) == 0.0


def test_symmetric_inputs_equal_their_transposes() -> None:
    p = problem("matmul_symmetric")
    for value in p.draw(p.tiny, 3):
        assert torch.equal(value, value.t())


def test_triangular_inputs_are_zero_on_one_side_only() -> None:
    for problem_id, keep in (("matmul_upper_triangular", torch.triu), ("matmul_lower_triangular", torch.tril)):
        p = problem(problem_id)
        for value in p.draw(p.tiny, 3):
            assert torch.equal(value, keep(value))
            assert value.count_nonzero() > value.numel() // 2


def test_triangular_operation_count_equals_a_direct_count() -> None:
    p = problem("matmul_upper_triangular")
    n = p.tiny.params["n"]
    ones = torch.triu(torch.ones(n, n, dtype=torch.float64))
    assert p.flops(p.tiny.params) == int(2 * (ones @ ones).sum())


@pytest.mark.parametrize("seed", range(5))
def test_group_offsets_rise_and_end_at_the_number_of_rows(seed: int) -> None:
    p = problem("grouped_gemm")
    offsets = p.draw(p.tiny, seed)[2]
    assert offsets.dtype == torch.int32
    assert offsets[-1] == p.tiny.params["tokens"]
    assert bool((offsets.diff() >= 0).all())


def test_logsumexp_results_fall_on_both_sides_of_zero() -> None:
    p = problem("linear_logsumexp_leaky_gelu")
    (expected,) = p.expected(p.draw(p.tiny, 1))
    assert bool((expected < 0).any())
    assert bool((expected > 1).any())
