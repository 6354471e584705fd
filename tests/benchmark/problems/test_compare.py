from __future__ import annotations

import pytest
import torch

from kbench.benchmark.problems import TensorSpec, Tolerance
from kbench.benchmark.problems import compare as module
from kbench.benchmark.problems.compare import compare, float8_step

TOLERANCE = Tolerance(1e-6, 1e-5, "float32")
SPEC = (TensorSpec("y", (64,)),)


@pytest.fixture
def expected() -> torch.Tensor:
    return torch.randn(64, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def test_an_answer_within_tolerance_is_right_and_its_errors_are_told(expected: torch.Tensor) -> None:
    verdict = compare(expected.float() + 1e-7, expected, TOLERANCE, SPEC)
    assert verdict.ok
    assert verdict.reason == ""
    assert 0 < (verdict.max_abs_error or 0) < 1e-6


def test_one_element_beyond_tolerance_is_wrong_and_named(expected: torch.Tensor) -> None:
    answer = expected.float()
    answer[5] += 0.25
    verdict = compare(answer, expected, TOLERANCE, SPEC)
    assert not verdict.ok
    assert "1 of 64 elements" in verdict.reason
    assert verdict.max_abs_error == pytest.approx(0.25, rel=1e-5)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_non_finite_element_is_wrong_whatever_the_tolerance(expected: torch.Tensor, value: float) -> None:
    answer = expected.float()
    answer[0] = value
    verdict = compare(answer, expected, Tolerance(1e9, 1e9, "anything goes", mismatch_share=1.0), SPEC)
    assert not verdict.ok
    assert "NaN or Inf" in verdict.reason


def test_an_infinity_that_is_expected_is_right(expected: torch.Tensor) -> None:
    expected[3] = float("-inf")
    assert compare(expected.float(), expected, TOLERANCE, SPEC).ok


@pytest.mark.parametrize("answer", [65504.0, float("inf"), float("nan"), 0.0])
def test_an_element_that_overflows_its_type_is_not_judged_and_the_others_are(answer: float) -> None:
    spec = (TensorSpec("y", (2,), "float16"),)
    expected = torch.tensor([1e6, 2.0], dtype=torch.float64)
    assert compare(torch.tensor([answer, 2.0], dtype=torch.float16), expected, TOLERANCE, spec).ok
    verdict = compare(torch.tensor([answer, 3.0], dtype=torch.float16), expected, TOLERANCE, spec)
    assert "1 of 2 elements" in verdict.reason
    assert verdict.max_abs_error == 1.0


def test_an_unjudged_output_may_hold_anything_of_its_shape() -> None:
    spec = (TensorSpec("values", (2,)), TensorSpec("places", (2,), "int32"))
    expected = (torch.tensor([2.0, 2.0]).double(), torch.tensor([0, 1]))
    answer = (torch.tensor([2.0, 2.0]), torch.tensor([1, 0], dtype=torch.int32))
    assert not compare(answer, expected, TOLERANCE, spec).ok
    open_places = Tolerance(1e-6, 1e-5, "float32", unjudged=("places",))
    assert compare(answer, expected, open_places, spec).ok
    assert not compare((answer[0], answer[1].long()), expected, open_places, spec).ok


def test_a_share_of_mismatches_is_forgiven_where_declared_and_no_more(expected: torch.Tensor) -> None:
    tolerance = Tolerance(1e-6, 1e-5, "ties", mismatch_share=2 / 64)
    answer = expected.float()
    answer[:6] += 1  # two on average, and three standard deviations
    assert compare(answer, expected, tolerance, SPEC).ok
    answer[6] += 1
    assert not compare(answer, expected, tolerance, SPEC).ok


def test_a_share_of_less_than_one_element_forgives_none(expected: torch.Tensor) -> None:
    answer = expected.float()
    answer[0] += 1
    assert not compare(answer, expected, Tolerance(1e-6, 1e-5, "ties", mismatch_share=0.9 / 64), SPEC).ok


@pytest.mark.parametrize(("miss", "count", "ok"), [(3.0, 19, True), (3.0, 20, False), (5.0, 1, False)])
def test_a_few_of_a_million_elements_may_miss_by_a_little_and_none_by_much(miss: float, count: int, ok: bool) -> None:
    expected = torch.ones(1_000_000, dtype=torch.float64)
    answer = expected.clone()
    answer[:count] += miss * (TOLERANCE.atol + TOLERANCE.rtol)
    assert compare(answer, expected, TOLERANCE, (TensorSpec("y", (1_000_000,), "float64"),)).ok is ok


def test_the_step_to_the_next_float8_number_is_exact_at_powers_of_two_too() -> None:
    numbers = torch.arange(127, dtype=torch.uint8).view(torch.float8_e4m3fn).double()
    assert torch.equal(float8_step(numbers[:-1]), numbers.diff())


@pytest.mark.parametrize(("step", "count", "ok"), [(0.125, 40, True), (0.125, 60, False), (0.25, 1, False)])
def test_a_share_of_float8_numbers_may_be_the_next_one_and_none_another(step: float, count: int, ok: bool) -> None:
    expected = torch.ones(1000, dtype=torch.float64)
    answer = expected.float()
    answer[:count] += step
    tolerance = Tolerance(1e-6, 1e-3, "ties", mismatch_share=4e-3)
    spec = (TensorSpec("q", (1000,), "float8_e4m3fn"),)
    assert compare(answer.to(torch.float8_e4m3fn), expected, tolerance, spec).ok is ok


def test_integers_must_agree_exactly_however_large() -> None:
    spec = (TensorSpec("index", (2,), "int64"),)
    expected = torch.tensor([10**6, 5])
    loose = Tolerance(1e-3, 1e-2, "for the float outputs")
    assert compare(expected.clone(), expected, loose, spec).ok
    assert not compare(torch.tensor([10**6 + 1, 5]), expected, loose, spec).ok


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((torch.zeros(64), torch.zeros(64)), "returned 2 outputs, expected 1"),
        (torch.zeros(8, 8), "shape [8, 8], expected [64]"),
        (torch.zeros(64, dtype=torch.float16), "dtype float16, expected float32"),
        (1.5, "is a float, expected a tensor"),
        (None, "is a NoneType, expected a tensor"),
    ],
)
def test_what_is_not_the_declared_output_is_wrong_with_the_reason(
    expected: torch.Tensor, answer: object, words: str
) -> None:
    verdict = compare(answer, expected, TOLERANCE, SPEC)
    assert not verdict.ok
    assert words in verdict.reason
    assert verdict.max_abs_error is None


def test_large_outputs_are_compared_in_chunks_with_the_same_verdict(
    expected: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = expected.float()
    answer[63] += 0.5
    whole = compare(answer, expected, TOLERANCE, SPEC)
    monkeypatch.setattr(module, "CHUNK", 7)
    assert compare(answer, expected, TOLERANCE, SPEC) == whole


def test_a_scalar_output_is_compared() -> None:
    spec = (TensorSpec("loss", ()),)
    assert compare(torch.tensor(2.0), torch.tensor(2.0, dtype=torch.float64), TOLERANCE, spec).ok
    assert not compare(torch.tensor(2.001), torch.tensor(2.0, dtype=torch.float64), TOLERANCE, spec).ok
