"""The benchmark's questions are drawn without looking at what was measured."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

from kbench.benchmark.questions import build_questions
from kbench.benchmark.questions.benchmark_2.edition import DIGITS, HELD_OUT, edition, keep_edition
from kbench.benchmark.questions.benchmark_2.lineage_corpus import VERSION
from kbench.benchmark.questions.benchmark_2.sample import drawn, sampled_pairs
from kbench.benchmark.questions.versions import benchmark_of
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import UserError
from kbench.schemas.ids import content_hash


def cell(count: int, failing: float, seed: int = 0, split: str = "test") -> list[dict[str, Any]]:
    random = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for number in range(count):
        ok = bool(random.random() >= failing)
        time = float(random.lognormal()) if ok else None
        rows.append(
            {
                "kernel_id": content_hash("kernel", str(seed), str(number)), "problem_id": "softmax", "family": "norm",
                "backend": "cuda", "gpu": "NVIDIA H200", "split": split, "origin": "kbench", "proposer": "genome",
                "status": "ok" if ok else "incorrect", "speedup": time and 10 / time, "runtime_us": time,
                "runtime_low_us": time, "runtime_high_us": time, "speedup_low": time and 9 / time,
                "speedup_high": time and 11 / time,
                "parent_id": rows[int(random.integers(number))]["kernel_id"] if number % 3 else None,
            }
        )  # fmt: skip
    return rows


@pytest.mark.parametrize("failing", [0.0, 0.05, 0.5])
def test_every_kernel_of_the_draw_occurs_once_and_anchors_are_correct(failing: float) -> None:
    rows = cell(100, failing)
    pairs = list(drawn(rows))
    ends = Counter(end["kernel_id"] for anchor, candidate in pairs for end in (anchor, candidate))
    assert set(ends.values()) == {1}
    assert all(anchor["status"] == "ok" for anchor, _ in pairs)
    used = {candidate["kernel_id"] for _, candidate in pairs} | {anchor["kernel_id"] for anchor, _ in pairs}
    # What is left over is what failed and could be no anchor, and at most one more.
    assert sum(row["kernel_id"] not in used and row["status"] == "ok" for row in rows) <= 1


def test_candidates_fail_at_their_natural_rate() -> None:
    many = [pair for seed in range(40) for pair in drawn(cell(100, 0.3, seed))]
    assert np.mean([candidate["status"] != "ok" for _, candidate in many]) == pytest.approx(0.3, abs=0.03)


def test_the_draw_does_not_see_runtimes() -> None:
    rows = cell(60, 0.1)
    times = {row["kernel_id"]: row["runtime_us"] for row in rows if row["runtime_us"]}
    turned = dict(zip(times, reversed(times.values()), strict=True))
    other = [row | {"runtime_us": turned.get(row["kernel_id"])} for row in rows]

    def ids(pairs: Any) -> list[Any]:
        return [(anchor["kernel_id"], candidate["kernel_id"]) for anchor, candidate in pairs]

    assert ids(drawn(rows)) == ids(drawn(other))
    assert ids(drawn(rows)) == ids(drawn(rows[::-1])), "nor the order of rows"


def test_training_pairs_have_answers_and_test_pairs_are_asked_even_without() -> None:
    rows = cell(100, 0.3)
    asked = list(sampled_pairs(rows))
    assert any(pair["speedup"] is None for pair in asked)
    assert sum(pair["kind"] == "reference" for pair in asked) == 100
    learnt = list(sampled_pairs(row | {"split": "train"} for row in rows))
    assert all(pair["speedup"] is not None for pair in learnt)
    assert sum(pair["kind"] != "reference" for pair in learnt) > 1.5 * sum(p["kind"] != "reference" for p in asked)


def test_a_corpus_without_splits_by_lineage_is_asked_as_it_stands(corpus: Corpus) -> None:
    assert benchmark_of(corpus) is corpus
    assert build_questions(corpus).benchmark is None
    with pytest.raises(UserError, match="about every GPU"):
        benchmark_of(corpus, "H200")


def test_tracks_ask_about_kernels_whatever_came_of_them() -> None:
    questions = build_questions(benchmark_of(Corpus.open()), "test_seen")
    tasks = {track: set(task.query_ids) for track, task in questions.tasks().items()}
    assert questions.benchmark == VERSION
    assert tasks["rank"] == tasks["search"], "a rank list of correct kernels alone would tell which failed"
    assert tasks["forecast"] == {query.query_id for query in questions.queries}
    assert tasks["validity"] < tasks["search"]
    assert (~questions.pools.valid).sum() > 10
    assert not np.isnan(questions.pairs.speedup).any()
    anchors = {query.anchor_source for query in questions.queries if query.kind != "reference"}
    by_id = {query.query_id: query for query in questions.queries}
    assert not anchors & {by_id[query_id].candidate_source for query_id in tasks["validity"]}


def test_what_joins_held_out_problems_after_the_edition_is_neither_asked_nor_learnt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorded = {"a" * 10: "test", "b" * 10: "test_seen"}
    monkeypatch.setattr("kbench.benchmark.questions.benchmark_2.edition.edition", lambda: recorded)
    ids = [letter * 32 for letter in "abcdef"]
    splits = dict(zip(ids, ("test", "train", "test", "train", "train", "test_seen"), strict=True))
    clusters = dict(zip(ids, ("1", "2", "3", "2", "4", "5"), strict=True))
    kept = keep_edition(splits, clusters)
    assert kept == {"a" * 32: "test", "b" * 32: "test_seen", "e" * 32: "train"}
    del splits["a" * 32]
    assert keep_edition(splits, clusters) == splits, "a corpus without one of the edition's kernels is another one"


def test_the_shipped_dataset_holds_the_edition() -> None:
    view = benchmark_of(Corpus.open())
    table = view.table("kernels", columns=["kernel_id", "split"]).to_pylist()
    held_out = {row["kernel_id"][:DIGITS]: row["split"] for row in table if row["split"] in HELD_OUT}
    assert held_out == edition()
