"""Adversarial cases: declared by every problem and drawn from a seed. `check` holds them fair and not to be cheated."""

from typing import Any

import pytest
import torch

from kbench.benchmark.problems import InputCase, ProblemDefinition, TensorSpec, Tolerance, problem, registry
from kbench.benchmark.problems import compare as module
from kbench.benchmark.problems.adversarial import cases, changes
from kbench.benchmark.problems.adversarial.mixed import mixed_cases
from kbench.benchmark.problems.check import case_failures, output_failures
from kbench.benchmark.problems.compare import compare, float8_step
from kbench.benchmark.problems.inputs import draw
from kbench.benchmark.problems.tuned import PREFIX
from kbench.schemas import UnknownNameError

KNOWN = registry.known()
MEASURED = (*KNOWN.values(), *(p for p in registry.unlisted().values() if p.id.removeprefix(PREFIX) not in KNOWN))
"""All but those of the benchmark at the sizes that kernels are tuned for."""
every_case = pytest.mark.parametrize(
    ("problem", "case"), [pytest.param(p, c, id=f"{p.id}-{c.name}") for p in MEASURED for c in p.every_case]
)


@pytest.mark.parametrize("problem", MEASURED, ids=lambda p: p.id)
def test_a_problem_has_cases_of_different_names_two_of_them_mixed(problem: ProblemDefinition) -> None:
    names = [case.name for case in problem.every_case]
    assert len(set(names)) == len(names)
    assert 3 <= len(problem.cases) <= 6
    assert sum(case.mixed for case in problem.every_case) >= 2
    assert all(case.stresses.endswith(".") for case in problem.every_case)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.view(torch.uint8)


@every_case
def test_a_case_has_the_declared_inputs_and_follows_the_seed(problem: ProblemDefinition, case: InputCase) -> None:
    drawn, again, other = (problem.draw_case(case, problem.tiny, seed) for seed in (7, 7, 8))
    changed = False
    for value, same, new, spec in zip(drawn, again, other, problem.inputs(problem.tiny.params), strict=True):
        if isinstance(spec, TensorSpec):
            assert list(output_failures(value, (spec,), "cpu")) == []
            assert value.is_contiguous()
            assert torch.equal(bits(value), bits(same))
            changed = changed or not torch.equal(bits(value), bits(new))
        else:
            assert value == spec.value
    assert changed


@pytest.mark.gpu
@every_case
def test_the_reference_is_right_on_a_case_of_full_size(
    problem: ProblemDefinition, case: InputCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    # As the harness runs references: by default torch convolves float32 in 10 bits of mantissa.
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    size = problem.sizes[-1]
    inputs = problem.draw_case(case, size, 0, "cuda")
    specs = problem.outputs(size.params)
    verdict = compare(problem.reference(*inputs), problem.expected(inputs), problem.tolerance_of(case), specs)
    assert verdict.ok, verdict.reason


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (InputCase("far", "Too far.", {"x": lambda generator, x: x * 1e20}), "reference misses"),
        (InputCase("zero", "Nothing left.", {"x": changes.scale(0.0)}), "tolerance accepts the constant answer"),
        (InputCase("zero", "Nothing left.", {"x": changes.scale(0.0)}), "the answer of another seed"),
        (InputCase("infinite", "Overflows.", {"x": changes.scale(float("inf"))}), "is not judged"),
    ],
)
def test_a_bad_case_is_found(case: InputCase, words: str) -> None:
    assert words in " ".join(case_failures(problem("instance_norm"), case))


def test_a_case_scales_the_tolerance_and_names_what_is_open() -> None:
    softmax = problem("softmax")
    case = InputCase("mine", "Nothing.", {}, atol_scale=2.0, rtol_scale=3.0, unjudged=("y",))
    tolerance = softmax.tolerance_of(case)
    assert tolerance.atol == 2.0 * softmax.tolerance.atol
    assert tolerance.rtol == 3.0 * softmax.tolerance.rtol
    assert tolerance.unjudged == ("y",)


def test_a_case_is_found_by_name_and_a_wrong_name_is_told() -> None:
    assert problem("softmax").case("shifted").name == "shifted"
    with pytest.raises(UnknownNameError, match="shiftd"):
        problem("softmax").case("shiftd")


def test_a_case_that_changes_an_unknown_input_is_refused() -> None:
    softmax = problem("softmax")
    with pytest.raises(ValueError, match=r"changes \['z'\]"):
        softmax.draw_case(cases.huge("z"), softmax.tiny, 0)


KINDS = (cases.large("x", "z"), cases.zero_rows("x"), cases.outliers("x", factor=30.0))


def spliced(case: InputCase, seed: int, *shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Where two inputs of one shape differ from their draw."""
    specs = (TensorSpec("x", shape), TensorSpec("z", shape))
    pairs = zip(case.draw(specs, seed, "cpu"), draw(specs, seed, "cpu"), strict=True)
    one, other = (new != old for new, old in pairs)
    return one, other


@pytest.mark.parametrize("shape", [(64, 256), (4, 32, 128), (20_000,)])
@pytest.mark.parametrize("case", mixed_cases(KINDS), ids=lambda case: case.name)
def test_a_mixed_case_replaces_a_minority_where_the_seed_says(case: InputCase, shape: tuple[int, ...]) -> None:
    masks = [spliced(case, seed, *shape) for seed in (0, 0, 1)]
    assert torch.equal(masks[0][0], masks[1][0])
    assert not torch.equal(masks[0][0], masks[2][0])
    changed = [spliced(case, seed, *shape) for seed in range(20)]
    shares = [float(one.double().mean()) for one, _ in changed]
    assert 0.0 < max(shares) < 0.35
    # What a case does to several inputs belongs together: places of the one are places of the other.
    assert all(bool((one | ~other).all()) for one, other in changed)


def test_rows_are_replaced_whole_and_spans_inside_rows() -> None:
    by_name = {case.name: case for case in mixed_cases([cases.shifted("x", by=100.0), cases.negative("x")])}
    assert set(by_name) == {"mixed_rows", "mixed_spans"}
    for seed in range(10):
        lines, _ = spliced(by_name["mixed_rows"], seed, 64, 256)
        shifted = lines.double().mean(1)
        assert (shifted > 0.3).double().mean() < 0.5
        spans, _ = spliced(by_name["mixed_spans"], seed, 64, 256)
        assert spans.double().mean(1).max() < 0.5


def test_cases_far_apart_in_tolerance_or_open_in_part_are_not_mixed_together() -> None:
    found = mixed_cases([cases.large("x"), cases.zero_rows("x"), cases.ties("x", unjudged=("y",))])
    assert [case.name for case in found] == ["mixed_rows", "mixed_spans", "mixed_large"]
    assert [case.atol_scale for case in found] == [1.0, 1.0, 1e4]
    assert mixed_cases([InputCase("mine", "Nothing.", {"x": changes.scale(0.0)})]) == ()


def test_a_mixed_case_forgives_no_element_that_is_far_off() -> None:
    softmax = problem("softmax")
    tolerance = softmax.tolerance_of(softmax.case("mixed_rows"))
    assert tolerance.mismatches(10**6) == 0
    assert tolerance.edges(10**6) > 100


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
    less_than_one = Tolerance(1e-6, 1e-5, "ties", mismatch_share=0.9 / 64)
    answer[1:7] -= 1
    assert not compare(answer, expected, less_than_one, SPEC).ok


@pytest.mark.parametrize(
    ("answer", "expected", "dtype", "ok"),
    [
        ([1.0, -torch.inf], [1.0, -torch.inf], "float32", True),
        (2.0, 2.0, "float32", True),
        (2.001, 2.0, "float32", False),
        ([10**6, 5], [10**6, 5], "int64", True),
        ([10**6 + 1, 5], [10**6, 5], "int64", False),
    ],
)
def test_infinities_scalars_and_integers_are_compared(answer: Any, expected: Any, dtype: str, ok: bool) -> None:
    wanted = torch.tensor(expected, dtype=torch.int64 if dtype == "int64" else torch.float64)
    given, specs = torch.tensor(answer), (TensorSpec("y", tuple(wanted.shape), dtype),)
    # Whole numbers must agree however loose the tolerance for floats is.
    tolerance = Tolerance(1e-3, 1e-2, "loose") if dtype == "int64" else TOLERANCE
    assert compare(given, wanted, tolerance, specs).ok is ok


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
def test_what_is_not_the_declared_output_is_wrong(expected: torch.Tensor, answer: object, words: str) -> None:
    verdict = compare(answer, expected, TOLERANCE, SPEC)
    assert not verdict.ok
    assert words in verdict.reason
    assert verdict.max_abs_error is None


def test_chunks_of_large_outputs_change_no_verdict(expected: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = expected.float()
    answer[63] += 0.5
    whole = compare(answer, expected, TOLERANCE, SPEC)
    monkeypatch.setattr(module, "CHUNK", 7)
    assert compare(answer, expected, TOLERANCE, SPEC) == whole
