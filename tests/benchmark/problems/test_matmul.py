"""What is particular to the dense-algebra problems: structure of inputs, and which precisions pass."""

import pytest
import torch

from kbench.benchmark.problems.definition import ProblemDefinition
from kbench.benchmark.problems.families import fused_matmul, matmul, quantized_matmul
from kbench.benchmark.problems.inputs import TensorSpec, booleans, distinct_in_row, tensors
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


def test_triangular_inputs_are_zero_on_one_side_only_and_are_counted_so() -> None:
    for problem_id, keep in (("matmul_upper_triangular", torch.triu), ("matmul_lower_triangular", torch.tril)):
        p = problem(problem_id)
        for value in p.draw(p.tiny, 3):
            assert torch.equal(value, keep(value))
            assert value.count_nonzero() > value.numel() // 2
        ones = keep(torch.ones(p.tiny.params["n"], p.tiny.params["n"], dtype=torch.float64))
        assert p.flops(p.tiny.params) == int(2 * (ones @ ones).sum())


@pytest.mark.parametrize("seed", range(5))
def test_group_offsets_rise_and_end_at_the_number_of_rows(seed: int) -> None:
    p = problem("grouped_gemm")
    offsets = p.draw(p.tiny, seed)[2]
    assert offsets.dtype == torch.int32
    assert offsets[-1] == p.tiny.params["tokens"]
    assert bool((offsets.diff() >= 0).all())


def test_a_text_states_name_type_and_dimensions() -> None:
    declared = tensors("x[rows,4]", "mask: bool[rows]", "total: int32[]", mask=booleans())
    assert declared({"rows": 7}) == (
        TensorSpec("x", (7, 4)),
        TensorSpec("mask", (7,), "bool"),
        TensorSpec("total", (), "int32"),
    )


@pytest.mark.parametrize("text", ["x", "x[rows, cols]", "x: [rows]", "x[rows]y"])
def test_a_text_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write name: dtype"):
        tensors(text)
    with pytest.raises(ValueError, match="mask"):
        tensors("x[rows]", mask=booleans())


def test_values_of_a_row_are_distinct_and_their_low_bits_tell_no_column() -> None:
    drawn = distinct_in_row(torch.Generator().manual_seed(1), TensorSpec("x", (50, 256)), "cpu")
    assert (drawn.sort(dim=1).values.diff(dim=1) > 0).all()
    fractions = (drawn * 2.0**19).long() % 256
    assert (fractions.sort(dim=1).values == torch.arange(256)).all()
    assert (fractions == torch.arange(256)).double().mean() < 0.02
