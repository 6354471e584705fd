"""Adversarial cases: declared by every problem and drawn from a seed. `check` holds them fair and not to be cheated."""

from __future__ import annotations

import pytest
import torch

from kbench.benchmark.problems import (
    InputCase,
    ProblemDefinition,
    TensorSpec,
    problem,
    registry,
)
from kbench.benchmark.problems.adversarial import cases, changes
from kbench.benchmark.problems.adversarial.mixed import mixed_cases
from kbench.benchmark.problems.check import case_failures, output_failures
from kbench.benchmark.problems.compare import compare
from kbench.benchmark.problems.families import ragged
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
            assert isinstance(value, torch.Tensor)
            assert isinstance(same, torch.Tensor)
            assert isinstance(new, torch.Tensor)
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


def drawn(change: changes.Change, *shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(5)
    return change(generator, torch.randn(shape, generator=generator))


def test_changes_do_what_they_say() -> None:
    rows = drawn(changes.fill_rows(), 6, 9)
    assert (rows == rows[:, :1]).all()
    assert (rows != 0).all()
    assert drawn(changes.keep_one(), 6, 9).count_nonzero(1).tolist() == [1] * 6
    assert drawn(changes.shift_rows(100.0), 6, 9).mean(1).abs().min() > 90
    assert drawn(changes.round_to(0.5), 6, 9).unique().numel() < 15
    assert drawn(changes.negate, 6, 9).max() <= 0
    signs = drawn(changes.alternate(), 6, 9).sign()
    assert (signs[:, 1:] == -signs[:, :-1]).all()
    steps = drawn(changes.sort_rows(), 6, 9).diff(dim=1).sign()
    assert (steps == steps[:, :1]).all()
    zeros = drawn(changes.some_rows(changes.scale(0.0)), 6, 9)
    assert (zeros == 0).all(1).sum() == 3
    assert set(drawn(changes.choose(3.0, 4.0), 6, 9).unique().tolist()) == {3.0, 4.0}
    assert 15 < drawn(changes.repeat_one, 6, 9).unique(return_counts=True)[1].max() < 40


KINDS = (cases.large("x", "z"), cases.zero_rows("x"), cases.outliers("x", factor=30.0))


def spliced(case: InputCase, seed: int, *shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Where two inputs of one shape differ from their draw."""
    specs = (TensorSpec("x", shape), TensorSpec("z", shape))
    pairs = zip(case.draw(specs, seed, "cpu"), draw(specs, seed, "cpu"), strict=True)
    one, other = (new != old for new, old in pairs)  # type: ignore[union-attr]
    return one, other  # type: ignore[return-value]


@pytest.mark.parametrize("shape", [(64, 256), (4, 32, 128), (20_000,)])
@pytest.mark.parametrize("case", mixed_cases(KINDS), ids=lambda case: case.name)
def test_a_mixed_case_replaces_a_minority_at_places_that_the_seed_decides(
    case: InputCase, shape: tuple[int, ...]
) -> None:
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


def test_ragged_inputs_are_the_same_lengths_in_another_order() -> None:
    spec = TensorSpec("starts", (9,), "int32")
    starts = [ragged.packed_starts(800)(torch.Generator().manual_seed(seed), spec, "cpu") for seed in (0, 1)]
    for one in starts:
        assert (one[0], one[-1]) == (0, 800)
        assert (one.diff() > 0).all()
        short = ragged.one_token_sequences(torch.Generator().manual_seed(3), one)
        assert (short.diff() >= 0).all()
        assert (short[0], short[-1]) == (0, 800)
    lengths = [one.diff().sort().values for one in starts]
    assert (lengths[0] - lengths[1]).abs().max() <= 1
    assert not torch.equal(*starts)
    owners = ragged.sequence_of(starts[0], 800)
    assert torch.equal(owners.bincount(), starts[0].diff().long())
