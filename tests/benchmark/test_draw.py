"""Questions drawn from a corpus: within one author class and backend, by ids alone, with enough of every kind."""

import dataclasses
import itertools
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from records import filled

from kbench.benchmark.questions.draw import EDITS, KNOWN, PAIRS, POOL, draw_questions
from kbench.schemas import AuthorClass, Backend, Kernel, Question, QuestionKind, Status
from kbench.schemas.ids import content_hash

WRITERS = (("genome", "random"), ("rewrite", "evolve"), ("llm", "evolve"), ("llm", "written"))


def kernel(number: int, split: str, problem: str, **other: Any) -> Kernel:
    proposer, method = WRITERS[number % 4]
    values = {
        "kernel_id": content_hash(problem, str(number)), "problem_id": problem, "family": "rowwise", "gpu": "G",
        "backend": Backend.TRITON if number % 8 < 4 else Backend.CUDA, "search_method": method, "proposer": proposer,
        "parent_id": content_hash(problem, str(number - 8)) if number >= 8 and number % 16 >= 8 else None,
        "structure_id": content_hash(problem, str(number // 2)), "split": split, "status": Status.OK,
        "runtime_us": 10.0 + number % 13, "speedup": 40.0 / (10.0 + number % 13), "source": "", "origin": "kbench",
    }  # fmt: skip
    return filled(Kernel, **values | other)


KERNELS = [kernel(n, split, name) for split, name in (("test", "far"), ("train", "seen")) for n in range(320)]


def measured(one: Kernel, factor: float) -> list[Any]:
    """Two workloads, of which the second takes `factor` as long."""
    rows = [("small", one.runtime_us), ("large", one.runtime_us * factor)]
    return [SimpleNamespace(kernel_id=one.kernel_id, gpu=one.gpu, workload=name, runtime_us=time,
                            runtime_low_us=time, runtime_high_us=time) for name, time in rows]  # fmt: skip


def drawn(seed: str = "") -> list[Question]:
    # A kernel of every third is four times as slow on the second workload, so that some pairs disagree.
    rows = itertools.chain.from_iterable(measured(one, 4.0 if n % 3 else 1.0) for n, one in enumerate(KERNELS))
    return draw_questions(KERNELS, rows, seed)


@pytest.fixture(scope="module")
def questions() -> list[Question]:
    return drawn()


def test_kernels_are_compared_within_one_author_class_and_backend(questions: list[Question]) -> None:
    by_id = {one.kernel_id: one for one in KERNELS}
    for one in questions:
        candidate = by_id[one.candidate_id]
        assert one.author is AuthorClass.of(candidate.proposer, candidate.search_method)
        if one.anchor_id is not None:
            anchor = by_id[one.anchor_id]
            assert (anchor.backend, AuthorClass.of(anchor.proposer, anchor.search_method)) == (one.backend, one.author)
            is_edit = candidate.parent_id == one.anchor_id
            assert one.kind is (QuestionKind.EDIT if is_edit else QuestionKind.PAIR)


def test_a_held_out_problem_has_enough_questions_and_each_cell_its_share(questions: list[Question]) -> None:
    asked = [one for one in questions if one.split == "test" and one.workload is None]
    assert Counter(one.kind for one in asked) == {
        QuestionKind.PAIR: PAIRS, QuestionKind.EDIT: EDITS, QuestionKind.LEVEL: 8 * POOL
    }  # fmt: skip
    pairs = Counter((one.backend, one.author) for one in asked if one.kind is QuestionKind.PAIR)
    assert set(pairs.values()) == {PAIRS // 8}
    core = [one for one in asked if one.core]
    assert {one.kind for one in core} == set(QuestionKind)
    edits = [(one.backend, one.author) for one in core if one.kind is QuestionKind.EDIT]
    assert len(edits) > 2
    assert len(set(edits)) == 1


def test_a_held_out_kernel_of_an_edit_tells_nothing_by_where_else_it_is_asked_about(questions: list[Question]) -> None:
    asked = [one for one in questions if one.split == "test"]
    edits = [one for one in asked if one.kind is QuestionKind.EDIT]
    ends = Counter(end for one in edits if one.workload is None for end in (one.anchor_id, one.candidate_id))
    others = [one for one in asked if one.kind is not QuestionKind.EDIT]
    assert set(ends.values()) == {1}
    assert not set(ends) & {end for one in others for end in (one.anchor_id, one.candidate_id)}


def test_a_held_out_problem_of_few_kernels_is_not_asked_about_and_edits_are_near_in_length() -> None:
    few = [kernel(n, split, split, source="x" * 40) for split in ("test", "train") for n in range(0, 32, 8)]
    assert {one.split for one in draw_questions(few, [])} == {"train"}
    # Every other kernel, which is each one's parent or child, is far longer.
    uneven = [dataclasses.replace(one, source="x" * (20 if n % 16 < 8 else 40)) for n, one in enumerate(KERNELS)]
    kinds = Counter((one.split, one.kind) for one in draw_questions(uneven, []))
    assert kinds["test", QuestionKind.EDIT] == 0 < kinds["train", QuestionKind.EDIT]


def test_no_question_is_about_a_known_kernel_or_its_structure(questions: list[Question]) -> None:
    structures = {one.kernel_id: one.structure_id for one in KERNELS}
    for one in (one for one in questions if one.split == "test"):
        assert len(one.known_ids) == KNOWN
        known = {structures[kernel_id] for kernel_id in one.known_ids}
        assert not {structures[str(end)] for end in (one.anchor_id, one.candidate_id) if end} & known
    assert not any(one.known_ids for one in questions if one.split == "train")


def test_one_workload_is_asked_about_where_workloads_disagree(questions: list[Question]) -> None:
    by_id = {one.kernel_id: one for one in KERNELS}
    of_one = [one for one in questions if one.workload]
    assert {one.workload for one in of_one} == {"small", "large"}
    slow = {one.kernel_id for n, one in enumerate(KERNELS) if n % 3}
    for one in of_one:
        differ = (one.anchor_id in slow) != (one.candidate_id in slow)
        assert differ or one.split == "test"
        whole = (by_id[one.anchor_id].runtime_us or 0.0) / (by_id[one.candidate_id].runtime_us or 1.0)
        factor = 1.0 if one.workload == "small" or not differ else 4.0 if one.anchor_id in slow else 0.25
        assert one.speedup == pytest.approx(whole * factor)
    alike = [one for one in of_one if (one.anchor_id in slow) == (one.candidate_id in slow)]
    assert alike


def test_the_draw_is_the_same_again_and_another_seed_draws_others(questions: list[Question]) -> None:
    assert drawn() == questions
    assert {one.question_id for one in drawn("other")} != {one.question_id for one in questions}
