"""Ways to score without reading kernels, each tried on benchmark 2: caught, flagged, or of no use.

docs/leaderboard.md says which cannot be prevented.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import numpy.typing as npt
import pytest

from kbench.benchmark.metrics.validity import auroc
from kbench.benchmark.questions import Questions, build_questions
from kbench.benchmark.questions.versions import benchmark_of
from kbench.benchmark.scoring.score import BootstrapSettings, Scored, score
from kbench.benchmark.surrogates.forecasts import ForecastTable
from kbench.leaderboard.scoring.flags import flags
from kbench.leaderboard.scoring.probe import LIMITS, Finding, probe
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.splits.lineage import known_splits
from kbench.schemas import Submission, bins

QUICK = BootstrapSettings(resamples=0)
LEFT_TO_CHANCE = ("occurrences", "side", "neighbours", "graph fit", "order", "id", "kind", "lists", "files")


@pytest.fixture(scope="module")
def asked() -> Questions:
    return build_questions(benchmark_of(Corpus.open()), "test")


@pytest.fixture(scope="module")
def probed(asked: Questions) -> list[Finding]:
    return probe(asked)


def worst(findings: list[Finding], about: str) -> float:
    """What the joint fit that tells most about validity or rank reaches."""
    return max(one.value for one in findings if one.about == about and one.feature.startswith("all, "))


def table_of(
    asked: Questions,
    probabilities: npt.NDArray[np.float64],
    *,
    failed: npt.NDArray[np.bool_] | None = None,
    speedup: npt.NDArray[np.float64] | None = None,
    p_valid: npt.NDArray[np.float64] | None = None,
) -> ForecastTable:
    count = len(asked.queries)
    unknown = np.full((1, count), np.nan)
    return ForecastTable(
        probabilities=probabilities[None],
        failed=np.zeros((1, count), dtype=bool) if failed is None else failed[None],
        speedup=unknown if speedup is None else speedup[None],
        p_valid=unknown if p_valid is None else p_valid[None],
        confidence=probabilities.max(axis=1)[None],
        tokens=unknown,
        elapsed_s=unknown,
        reasons={},
    )


def truth_of(asked: Questions, sharpness: float) -> npt.NDArray[np.float64]:
    """The prior, moved towards the answers: what someone with the labels could hand in."""
    given = np.tile(asked.prior, (len(asked.queries), 1)) * (1 - sharpness)
    given[asked.pairs.query, asked.pairs.bin - 1] += sharpness
    return given / given.sum(axis=1, keepdims=True)


def figure(scored: Scored, track: str, metric: str) -> float:
    return scored.figures[track][metric].value


SUBMISSION = Submission(
    schema_version=Submission.VERSION, name="gamer", version="1", authors=("nobody",), organisation=None,
    license="CC0-1.0", links=(), kind="statistical", open_weights=False, inputs="source", hardware="CPU",
    training_data="none", contamination="all of it", total_seconds=None, total_tokens=None,
    dataset_fingerprint="0" * 32, tracks=("forecast", "select", "rank", "search", "validity"), repeats=1,
    created_at="2026-01-01",
)  # fmt: skip


@pytest.mark.parametrize("feature", LEFT_TO_CHANCE)
def test_what_the_set_says_of_a_kernel_does_not_tell_its_speed_or_validity(probed: list[Finding], feature: str) -> None:
    """1 to 5: the graph of comparisons, order, ids, metadata, and how often a kernel is asked about."""
    told = {one.about: one.value for one in probed if one.feature == feature}
    assert all(value <= LIMITS[about] for about, value in told.items()), told


@pytest.mark.parametrize("split", ["test", "test_near"])
def test_all_of_it_together_does_not_either(split: str, probed: list[Finding]) -> None:
    found = probed if split == "test" else probe(build_questions(benchmark_of(Corpus.open()), split))
    assert not [one for one in found if one.leaks]
    assert all(worst(found, about) <= limit for about, limit in LIMITS.items())


def test_core_tells_no_more_than_chance() -> None:
    """Of eight pools even the id, a hash, tells something: that much is chance."""
    found = probe(build_questions(benchmark_of(Corpus.open()), "test", subset="core"))
    for about, limit in LIMITS.items():
        chance = max(one.value for one in found if one.about == about and one.feature == "id")
        assert chance < limit + 0.1
        assert worst(found, about) <= max(limit, chance)


def test_anchors_are_known_to_be_correct_and_never_asked_for_validity(asked: Questions) -> None:
    """6: whoever rates every anchor as valid learns nothing about the kernels that are asked."""
    anchors = {query.anchor_source for query in asked.queries if query.kind != "reference"}
    is_anchor = np.array([query.candidate_source in anchors for query in asked.queries])
    rows = asked.pools.take(asked.pools.asked_valid)
    assert auroc(is_anchor[rows.query].astype(float), rows.valid.astype(float)) == 0.5


def test_no_test_kernel_has_a_twin_in_training() -> None:
    """7: looking duplicates up finds none; `kbench data validate --splits` shows that near ones are far too."""
    corpus = Corpus.open()
    splits = known_splits(corpus)
    assert splits is not None
    table = corpus.table("kernels", columns=["problem_id", "structure_id"])
    places: dict[str, set[str]] = defaultdict(set)
    for problem, structure in zip(*(column.to_pylist() for column in table.columns), strict=True):
        places[structure].add(splits[problem])
    assert not [found for found in places.values() if "test" in found and len(found) > 1]


def test_a_constant_shift_by_gpu_changes_no_order(asked: Questions) -> None:
    """8: scaling all speedups of a GPU moves no rank figure."""
    generator = np.random.default_rng(0)
    speedup = np.exp(generator.normal(size=len(asked.queries)))
    given = np.tile(asked.prior, (len(asked.queries), 1))
    plain, shifted = (score(asked, table_of(asked, given, speedup=speedup * by), QUICK, sliced=False) for by in (1, 4))
    for metric, one in plain.figures["rank"].items():
        assert shifted.figures["rank"][metric].value == pytest.approx(one.value, nan_ok=True), metric


def test_labels_looked_up_in_the_public_dataset_are_flagged(asked: Questions) -> None:
    """9: cannot be prevented while labels are public; what is better than a second measurement is flagged."""
    table = table_of(asked, truth_of(asked, 0.9999))
    scored = score(asked, table, QUICK, sliced=False)
    found = flags(SUBMISSION, table, asked, {}, scored.scores())
    assert any("is certain on" in flag for flag in found)
    assert any("better than a second measurement" in flag for flag in found)


def test_another_entrys_forecasts_are_flagged(asked: Questions) -> None:
    """10: a copy is flagged, and so is one with a little noise."""
    given = truth_of(asked, 0.3)
    noisy = given + np.random.default_rng(1).uniform(0, 1e-4, given.shape)
    other = {"victim 1": table_of(asked, given)}
    for copied in (given, noisy / noisy.sum(axis=1, keepdims=True)):
        table = table_of(asked, copied)
        assert any("nearly identical" in flag for flag in flags(SUBMISSION, table, asked, other, ()))


def test_a_copy_blurred_enough_to_pass_is_no_better(asked: Questions) -> None:
    """11: more noise is not flagged, and costs skill."""
    given = truth_of(asked, 0.3)
    noisy = given * np.exp(np.random.default_rng(1).normal(0, 0.5, given.shape))
    plain, blurred = (
        score(asked, table_of(asked, one), QUICK, sliced=False)
        for one in (given, noisy / noisy.sum(axis=1, keepdims=True))
    )
    assert figure(blurred, "forecast", "rps") > figure(plain, "forecast", "rps")


def test_leaving_hard_queries_out_does_not_pay(asked: Questions) -> None:
    """12: a missing answer is the uniform forecast and a forced deferral, whichever queries it is."""
    given = truth_of(asked, 0.3)
    hard = np.zeros(len(asked.queries), dtype=bool)
    hard[asked.pairs.query[np.isin(asked.pairs.bin, (1, bins.COUNT))]] = True
    silent = given.copy()
    silent[hard] = 1 / bins.COUNT
    answered = score(asked, table_of(asked, given), QUICK, sliced=False)
    skipped = score(asked, table_of(asked, silent, failed=hard), QUICK, sliced=False)
    assert figure(skipped, "forecast", "rps") > figure(answered, "forecast", "rps")
    assert figure(skipped, "select", "aurc") >= figure(answered, "select", "aurc")


def test_known_kernels_answer_no_other_query(asked: Questions) -> None:
    """13: speedups shown in one query of a few-shot set are of kernels that no query asks about."""
    from kbench.benchmark.questions.benchmark_2.few_shot import with_shots

    corpus = benchmark_of(Corpus.open())
    few = with_shots(asked, corpus, 8)
    found = {one.feature: one for one in probe(few) if one.about == "rank"}
    assert found["shown elsewhere"].value == 0.0
    names = {(query.problem_id, query.candidate_source) for query in few.queries}
    assert not any((q.problem_id, shot.source) in names for q in few.queries for shot in q.known or ())
