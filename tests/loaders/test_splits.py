"""No cluster lies on both sides of a split, and the check finds one that does."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbench.loaders.checks.splits_proof import check_splits, shapes
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.loaders.source.structure import structure_id
from kbench.loaders.splits import cluster_id, pair_split, problem_groups
from kbench.loaders.splits.lineage import kernel_splits
from kbench.schemas import Kernel
from kbench.schemas.ids import content_hash, kernel_id


def kernels_of(build: Any, problems: int, each: int, shapes: int = 6) -> list[Kernel]:
    rows = []
    for problem in range(problems):
        for number in range(each):
            operations = " + 1" * (number % shapes) + f" * f{problem}(x)"
            source = f"import torch\n\n\ndef run(x):\n    return x{operations}  # {number}\n\n\nSIZE = {number}\n"
            name = f"problem_{problem}"
            changes = {
                "problem_id": name, "family": f"family_{problem % 3}", "source": source,
                "kernel_id": kernel_id(name, "triton", source), "structure_id": structure_id(source),
            }  # fmt: skip
            rows.append(build.kernel(number, **changes))
    return rows


def assigned(kernels: list[Kernel]) -> list[Kernel]:
    """Every fourth problem is held out for testing."""
    rows = [dataclasses.replace(row, cluster_id=cluster_id(row.structure_id)) for row in kernels]
    problems = sorted({row.problem_id for row in rows})
    sides = {problem: "train" if at % 4 else "test" for at, problem in enumerate(problems)}
    splits = kernel_splits([row.problem_id for row in rows], [row.cluster_id for row in rows], sides)
    return [dataclasses.replace(row, split=split) for row, split in zip(rows, splits, strict=True)]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 12)), min_size=1, max_size=60))
def test_problems_that_share_a_cluster_are_one_group(links: list[tuple[str, int]]) -> None:
    named = [(problem, f"cluster_{cluster}") for problem, cluster in links]
    groups = problem_groups(named)
    for first, cluster in named:
        for second, other in named:
            if cluster == other:
                assert groups[first] == groups[second]


@pytest.mark.parametrize(
    ("anchor", "candidate", "expected"),
    [
        (None, "test", "test"),
        ("train", "train", "train"),
        ("train", "test_seen", "test_seen"),
        ("test_seen", "train", "test_seen"),
    ],
)
def test_a_pair_is_as_held_out_as_its_more_held_out_kernel(anchor: str | None, candidate: str, expected: str) -> None:
    assert pair_split(anchor, candidate) == expected


def write(path: Path, build: Any, kernels: list[Kernel], **pair_changes: str) -> Corpus:
    with CorpusWriter(path) as writer:
        writer.append("kernels", kernels)
        pairs = [build.pair(row) for row in kernels if row.speedup]
        writer.append("pairs", [dataclasses.replace(pairs[0], **pair_changes), *pairs[1:]])
    return Corpus.open(path)


def test_assigned_splits_pass_the_check(tmp_path: Path, build: Any) -> None:
    looked_at: list[int] = []
    corpus = write(tmp_path / "c", build, assigned(kernels_of(build, 12, 10)))
    assert check_splits(corpus, shapes(corpus, looked_at.append)) == []
    assert sum(looked_at) == 120


def test_the_check_finds_a_twin_that_hides_behind_comments_names_and_numbers(tmp_path: Path, build: Any) -> None:
    rows = assigned(kernels_of(build, 12, 10))
    test = next(row for row in rows if row.split == "test")
    train = next(row for row in rows if row.split == "train")
    source = "# other\n" + test.source.replace("SIZE", "WIDTH").replace("x", "value")
    changes = {"source": source, "kernel_id": kernel_id(train.problem_id, "triton", source)}
    rows.append(dataclasses.replace(train, **changes))
    found = check_splits(write(tmp_path / "c", build, rows))
    assert {violation.rule for violation in found} == {"twin", "stale_cluster"}
    twin = next(violation for violation in found if violation.rule == "twin")
    assert "lies in several splits: test (" in twin.message


def test_sources_are_read_once_only_if_whole_numbers_are_all_that_differs(tmp_path: Path, build: Any) -> None:
    texts = [
        "N = {}\n", "N = 1{}.5\n", "N = '{}'\n", "N = x{}\n", "N = 0{}\n", "def f(a): return a + {}  # {}\n",
        'CODE = """__global__ void f() {{ g(R"-{}(a)-7")-{}"); }}"""\n',
        "N = '\\N{{VARIATION SELECTOR-{}}}'\n",
    ]  # fmt: skip
    sources = [text.format(number, number) for text in texts for number in (7, 8, 999)]
    rows = [build.kernel(at, source=source, kernel_id=f"{at:032x}") for at, source in enumerate(sources)]
    found = shapes(write(tmp_path / "c", build, rows))
    assert [found[row.kernel_id].structure_id for row in rows] == [structure_id(source) for source in sources]


def test_the_check_finds_a_test_problem_in_train(tmp_path: Path, build: Any) -> None:
    rows = assigned(kernels_of(build, 12, 10))
    position = next(i for i, row in enumerate(rows) if row.split == "test")
    rows[position] = dataclasses.replace(rows[position], split="train")
    found = check_splits(write(tmp_path / "c", build, rows))
    assert {violation.rule for violation in found} >= {"seen_problem", "twin"}


def test_the_check_finds_pairs_on_the_wrong_side_or_without_kernels(tmp_path: Path, build: Any) -> None:
    rows = assigned(kernels_of(build, 12, 10))
    rows.sort(key=lambda row: row.split != "test" or row.speedup is None)
    wrong = check_splits(write(tmp_path / "wrong", build, rows, split="train"))
    assert [violation.rule for violation in wrong] == ["pair"]
    assert "make it 'test'" in wrong[0].message
    lost = check_splits(write(tmp_path / "lost", build, rows, candidate_id=content_hash("nobody")))
    assert [violation.rule for violation in lost] == ["pair"]
    assert "is not in the corpus" in lost[0].message
