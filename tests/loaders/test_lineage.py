"""Splits by lineage: templates stay on one side, test is far, and the shipped record is what the rule allows."""

import dataclasses
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kbench.loaders.checks.splits_proof import check_splits, distances, shapes
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.loaders.source.similarity import Grams
from kbench.loaders.source.structure import structure_id
from kbench.loaders.splits import (
    FAR,
    LARGEST_GROUP,
    assign,
    cluster_id,
    derive_splits,
    lineages,
    problem_groups,
    recorded_splits,
    splits_of,
    splits_of_kernels,
    with_splits,
)
from kbench.schemas import Kernel, from_dict
from kbench.schemas.ids import content_hash, kernel_id

from .conftest import make_kernel


def test_similarity_is_the_jaccard_index_of_five_grams_with_numbers_masked() -> None:
    grams = Grams(["a b c d e f", "a b c d e g", "x = 12; y = 3.5e4; z", "x = 7; y = 8; z", "q w e r t"])
    assert grams.row[2] == grams.row[3], "sources that differ in numbers alone are one"
    ((_, block),) = grams.similarities(np.arange(4), np.arange(4))
    # abcde is shared; bcdef and bcdeg are not.
    assert block[0, 1] == pytest.approx(1 / 3)
    assert np.diag(block) == pytest.approx(np.ones(4))
    assert block[0, 3] == 0
    at, near = grams.nearest(np.array([0]), np.array([2, 1]))
    assert (at[0], near[0]) == (1, pytest.approx(1 / 3))


def test_test_takes_far_lineages_whole_and_test_near_problems_of_seen_ones() -> None:
    groups = {f"p{number:02}": f"g{number // 4}" for number in range(80)}
    outside = {f"g{number}": 0.1 if number % 2 else 0.6 for number in range(20)}
    splits = assign(groups, {problem: problem for problem in groups}, outside, {})
    sides = defaultdict(set)
    for problem, split in splits.items():
        sides[groups[problem]].add(split)
    assert list(splits.values()).count("test") == 16
    assert list(splits.values()).count("test_near") == 8
    for group, found in sides.items():
        if found & {"test", "validation"}:
            assert len(found) == 1, f"{group} is torn"
        if "test" in found:
            assert outside[group] <= FAR
        if "test_near" in found:
            assert found == {"test_near", "train"}


def test_one_lineage_never_fills_a_split() -> None:
    groups = {f"p{number:02}": "big" if number < 30 else f"p{number:02}" for number in range(60)}
    splits = assign(groups, {problem: problem for problem in groups}, dict.fromkeys(groups.values(), 0.0), {})
    assert LARGEST_GROUP * 12 < 30
    assert {splits[problem] for problem in groups if groups[problem] == "big"} == {"train", "test_near"}


def test_published_splits_stay_and_new_problems_of_their_lineages_join_the_most_held_out_side() -> None:
    groups = {f"old{number}": f"g{number}" for number in range(4)} | {
        f"new{number}": f"g{number}" for number in range(4)
    }
    groups |= {f"far{number}": f"far{number}" for number in range(20)}
    kept = {"old0": "test", "old1": "validation", "old2": "train", "old3": "test_near", "gone": "test"}
    splits = assign(groups, {problem: problem for problem in groups}, dict.fromkeys(groups.values(), 0.0), kept)
    assert {problem: splits[problem] for problem in kept if problem != "gone"} == {
        k: kept[k] for k in kept if k != "gone"
    }
    assert [splits[f"new{number}"] for number in range(4)] == ["test", "validation", "train", "train"]
    assert [splits[f"far{number}"] for number in range(20)].count("test") == 4
    assert "gone" not in splits
    near = assign({"old": "g", "new": "g"}, {"old": "t", "new": "t"}, {"g": 0.0}, {"old": "test_near"})
    assert near["new"] == "test_near", "a near-duplicate of a held-out problem is not learnt from"


def test_sides_that_were_planned_before_any_measurement_count_as_published_for_every_dataset() -> None:
    kept = recorded_splits(before=Corpus.open().fingerprint)
    assert kept["tree_decode"] == "test"
    assert kept["adamw_step"] == "validation"
    splits = assign({"tree_decode": "g", "softmax": "g"}, {"tree_decode": "a", "softmax": "b"}, {"g": 0.0}, kept)
    assert splits["tree_decode"] == "test"


def kernel_of(problem: int, number: int, source: str, **changes: object) -> Kernel:
    name = f"problem_{problem}"
    values = {"problem_id": name, "kernel_id": kernel_id(name, "triton", source), "structure_id": structure_id(source)}
    return make_kernel(number, source=source, family="family_0", **values, **changes)


def write(path: Path, kernels: list[Kernel]) -> Corpus:
    with CorpusWriter(path) as writer:
        writer.append("kernels", kernels)
    return Corpus.open(path)


def corpus_of(folder: Path) -> Corpus:
    """Every problem's kernels share one template; problems 0 and 1 share theirs."""
    rows = []
    for problem in range(10):
        body = "def run(x):\n" + "".join(f"    x = op{max(problem, 1)}_{n}(x)\n" for n in range(20))
        for number in range(6):
            cluster = content_hash("cluster", f"problem_{problem}", str(number))
            source = body + "    return x\n" * (number + 1)
            rows.append(kernel_of(problem, number, source, cluster_id=cluster, split="train"))
    return write(folder, rows)


def test_problems_with_alike_kernels_are_one_lineage_and_splits_lie_far_apart(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path / "corpus")
    found = derive_splits(corpus)
    assert found.groups["problem_0"] == found.groups["problem_1"] == "problem_0"
    assert len(set(found.groups.values())) == 9
    assert found.outside["problem_2"] < FAR
    assert found.splits["problem_0"] == found.splits["problem_1"]
    assert sorted(found.splits.values()).count("test") == 2
    table = corpus.table("kernels", columns=["kernel_id", "source"])
    surveyed, faults = distances(corpus, dict(zip(*(c.to_pylist() for c in table.columns), strict=True)))
    assert faults == []
    by_split = {one["split"]: one for one in surveyed}
    assert by_split["test"]["problems"] == 2
    assert by_split["test"]["mean_similarity"] < FAR


def test_kernels_of_an_assembled_corpus_get_the_splits_of_the_rule_on_however_many_gpus(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path / "corpus")
    rows = [from_dict(Kernel, row) for row in corpus.table("kernels").to_pylist()]
    split = with_splits(rows)
    wanted = derive_splits(corpus)
    clusters = [row.cluster_id for row in rows]
    assert [row.split for row in split] == splits_of_kernels([r.problem_id for r in rows], clusters, wanted.splits)
    assert {"train", "test"} <= {row.split for row in split}
    with CorpusWriter(tmp_path / "two") as writer:
        # Few rows of a second GPU: counted twice, they would move the means.
        writer.replace("kernels", [*split, *(dataclasses.replace(row, gpu="other") for row in split[:20])])
    assert derive_splits(Corpus.open(tmp_path / "two")) == wanted


def test_the_recorded_splits_cover_the_shipped_dataset_and_tear_no_lineage() -> None:
    corpus = Corpus.open()
    splits = splits_of(corpus)
    assert {name: side for name, side in recorded_splits().items() if name in splits} == splits
    table = corpus.table("kernels", columns=["kernel_id", "problem_id", "cluster_id"])
    ids, problems, clusters = (column.to_pylist() for column in table.columns)
    assert set(problems) == set(splits)
    families = lineages(corpus)
    assert len(families) > 0.6 * len(set(ids))
    sides: dict[str, set[str]] = defaultdict(set)
    for kernel, problem in zip(ids, problems, strict=True):
        if kernel in families:
            sides[families[kernel]].add(splits[problem])
    assert not [name for name, found in sides.items() if len(found) > 1 and found & {"test", "validation"}]
    places: dict[str, set[str]] = defaultdict(set)
    for cluster, split in zip(clusters, splits_of_kernels(problems, clusters, splits), strict=True):
        places[cluster].add(split)
    assert all(len(found) == 1 for found in places.values())


def assigned() -> list[Kernel]:
    """Ten kernels of each of twelve problems, every fourth of which is held out for testing."""
    rows = []
    for problem in range(12):
        for number in range(10):
            operations = " + 1" * (number % 6) + f" * f{problem}(x)"
            source = f"import torch\n\n\ndef run(x):\n    return x{operations}  # {number}\n\n\nSIZE = {number}\n"
            cluster = cluster_id(structure_id(source))
            rows.append(
                kernel_of(problem, number, source, cluster_id=cluster, split="train" if problem % 4 else "test")
            )
    return rows


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 12)), min_size=1, max_size=60))
def test_problems_that_share_a_cluster_are_one_group(links: list[tuple[str, int]]) -> None:
    named = [(problem, f"cluster_{cluster}") for problem, cluster in links]
    groups = problem_groups(named)
    for first, cluster in named:
        for second, other in named:
            if cluster == other:
                assert groups[first] == groups[second]


def test_assigned_splits_pass_the_check(tmp_path: Path) -> None:
    looked_at: list[int] = []
    corpus = write(tmp_path / "c", assigned())
    assert check_splits(corpus, shapes(corpus, looked_at.append)) == []
    assert sum(looked_at) == 120


def test_the_check_finds_a_twin_that_hides_behind_comments_names_and_numbers(tmp_path: Path) -> None:
    rows = assigned()
    test = next(row for row in rows if row.split == "test")
    train = next(row for row in rows if row.split == "train")
    source = "# other\n" + test.source.replace("SIZE", "WIDTH").replace("x", "value")
    changes = {"source": source, "kernel_id": kernel_id(train.problem_id, "triton", source)}
    rows.append(dataclasses.replace(train, **changes))
    corpus = write(tmp_path / "c", rows)
    found = check_splits(corpus, shapes(corpus))
    assert {violation.rule for violation in found} == {"twin", "stale_cluster"}
    twin = next(violation for violation in found if violation.rule == "twin")
    assert "lies in several splits: test (" in twin.message


def test_the_check_finds_a_test_problem_in_train(tmp_path: Path) -> None:
    rows = assigned()
    position = next(i for i, row in enumerate(rows) if row.split == "test")
    rows[position] = dataclasses.replace(rows[position], split="train")
    corpus = write(tmp_path / "c", rows)
    found = check_splits(corpus, shapes(corpus))
    assert {violation.rule for violation in found} >= {"seen_problem", "twin"}
