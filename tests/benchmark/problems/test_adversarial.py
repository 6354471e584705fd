"""Adversarial cases: declared by every problem and drawn from a seed. `check` holds them fair and not to be cheated."""

from __future__ import annotations

from collections.abc import Iterator

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
from kbench.benchmark.problems.check import case_failures, output_failures, plain_cpu
from kbench.benchmark.problems.compare import compare
from kbench.benchmark.problems.families import ragged
from kbench.schemas import UnknownNameError

MEASURED = (*registry.known().values(), *registry.unlisted().values())
every_case = pytest.mark.parametrize(
    ("problem", "case"), [pytest.param(p, c, id=f"{p.id}-{c.name}") for p in MEASURED for c in p.cases]
)


@pytest.fixture(autouse=True)
def plain_loops() -> Iterator[None]:
    with plain_cpu():
        yield


@pytest.mark.parametrize("problem", MEASURED, ids=lambda p: p.id)
def test_a_problem_declares_three_to_six_cases_of_different_names(problem: ProblemDefinition) -> None:
    names = [case.name for case in problem.cases]
    assert 3 <= len(names) <= 6
    assert len(set(names)) == len(names)
    assert all(case.stresses.endswith(".") for case in problem.cases)


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
    assert drawn(changes.few_values(3.0, share=0.3), 6, 9).eq(3.0).double().mean() < 0.6
    assert 15 < drawn(changes.repeat_one, 6, 9).unique(return_counts=True)[1].max() < 40


@pytest.mark.parametrize(
    ("change", "largest_share"),
    [
        (changes.few_rows(64.0, 0.0), 0.13),
        (changes.few_elements(64.0, 0.0), 0.03),
        (changes.few_values(99.0), 0.07),
    ],
)
def test_a_mixed_change_touches_a_minority_at_places_that_the_seed_decides(
    change: changes.Change, largest_share: float
) -> None:
    x = torch.randn(64, 256, generator=torch.Generator().manual_seed(1))
    masks = [change(torch.Generator().manual_seed(seed), x) != x for seed in (0, 0, 1)]
    assert 0.0 < masks[0].double().mean() <= largest_share
    assert torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[0], masks[2])


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
