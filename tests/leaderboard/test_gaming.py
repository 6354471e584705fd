"""Ways to score without reading kernels, each tried on the shipped dataset: caught, flagged, or of no use.

docs/leaderboard.md says which cannot be prevented.
"""

from collections import defaultdict

import numpy as np
import numpy.typing as npt
import pytest
from records import filled

from kbench.benchmark.questions import Questions, build_questions
from kbench.benchmark.questions.corpus_view import benchmark_of
from kbench.benchmark.scoring.score import BootstrapSettings, Scored, score
from kbench.benchmark.surrogates.forecasts import ForecastTable
from kbench.leaderboard.scoring.flags import flags
from kbench.leaderboard.scoring.leaks import Finding, find_leaks
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.splits import splits_of
from kbench.schemas import Submission, bins

QUICK = BootstrapSettings(resamples=0)


@pytest.fixture(scope="module")
def asked() -> Questions:
    return build_questions(benchmark_of(Corpus.open()), "test")


def together(findings: list[Finding]) -> list[Finding]:
    """The joint fits: of a dozen features, one may stand out by chance."""
    found = [one for one in findings if one.feature.startswith("all, ")]
    assert found
    return found


def table_of(
    asked: Questions,
    probabilities: npt.NDArray[np.float64],
    *,
    failed: npt.NDArray[np.bool_] | None = None,
    speedup: npt.NDArray[np.float64] | None = None,
) -> ForecastTable:
    count = len(asked.queries)
    unknown = np.full((1, count), np.nan)
    return ForecastTable(
        probabilities=probabilities[None],
        failed=np.zeros((1, count), dtype=bool) if failed is None else failed[None],
        speedup=unknown if speedup is None else speedup[None],
        p_valid=unknown,
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


SUBMISSION = filled(Submission, tracks=("forecast", "edit", "rank", "select"), repeats=1, kind="statistical")


@pytest.mark.parametrize("split", ["test", "test_near"])
def test_what_the_set_says_of_a_kernel_does_not_tell_its_speed(split: str) -> None:
    """1 to 6: the graph of comparisons, order, ids, metadata, how often a kernel is asked about, and all together."""
    found = find_leaks(build_questions(benchmark_of(Corpus.open()), split))
    # Ids are hashes and files are sorted by them: what either tells is chance.
    blind = {"id", "order"}
    found = [one for one in found if one.feature not in blind] if split == "test" else together(found)
    assert not [one.feature for one in found if one.leaks]


def test_core_tells_no_more_than_chance() -> None:
    """Of few pools even the id, a hash, tells something: that much is chance."""
    found = find_leaks(build_questions(benchmark_of(Corpus.open()), "test", subset="core"))
    assert not [one for one in together(found) if one.leaks]


def test_no_test_kernel_has_a_twin_in_training() -> None:
    """7: looking duplicates up finds none; `kbench data validate --splits` shows that near ones are far too."""
    corpus = Corpus.open()
    splits = splits_of(corpus)
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
    found = flags(SUBMISSION, table, asked, scored.scores())
    assert any("is certain on" in flag for flag in found)
    assert any("better than a second measurement" in flag for flag in found)


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


def test_known_kernels_answer_no_other_query() -> None:
    """13: speedups shown in one query of a few-shot set are of kernels that no query asks about."""
    few = build_questions(benchmark_of(Corpus.open()), "test", shots=8)
    (told,) = [one for one in find_leaks(few) if one.feature == "shown elsewhere"]
    assert told.value == 0.0
    names = {(query.problem_id, query.candidate_source) for query in few.queries}
    assert not any((q.problem_id, shot.source) in names for q in few.queries for shot in q.known or ())
