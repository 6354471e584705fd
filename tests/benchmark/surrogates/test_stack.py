"""Maps learned on validation problems: they calibrate, they combine, and they do no harm on other problems."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from kbench.benchmark.cli import evaluate as command
from kbench.benchmark.evaluate.evaluate import evaluate_on
from kbench.benchmark.evaluate.folder import write_folder
from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.evaluate.progress import TerminalProgress
from kbench.benchmark.metrics.arrays import Floats, Ints
from kbench.benchmark.metrics.forecast import ece, log_score, rps
from kbench.benchmark.questions.questions import strings
from kbench.benchmark.surrogates.maps import Sample, choose
from kbench.benchmark.surrogates.online import distribution
from kbench.benchmark.surrogates.protocol import failure
from kbench.benchmark.surrogates.resolve import resolve
from kbench.benchmark.surrogates.stack import CombinedSurrogate, Part, Validation
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import AuthorClass, Backend, Forecast, PairKind, Query, Question, QuestionKind, UserError, bins
from kbench.schemas.ids import content_hash

PROBLEMS, EACH = 16, 40


class Recalled:
    """Answers from a table."""

    def __init__(self, answers: Mapping[str, Forecast]) -> None:
        self.answers = answers

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        # In another order than asked, as surrogates may.
        return [self.answers[query.query_id] for query in reversed(queries) if query.query_id in self.answers]


def query(at: int, kind: PairKind = PairKind.SIBLING) -> Query:
    return Query(
        query_id=content_hash("made up", str(at)), problem_id=f"p{at // EACH:02}", family="f", problem_text="",
        workloads_json="[]", backend=Backend.TRITON, kind=kind, anchor_source="", candidate_source=str(at), gpu="g",
        gpu_facts_json="{}",
    )  # fmt: skip


QUERIES = [query(at) for at in range(PROBLEMS * EACH)]
HELD_OUT = slice(PROBLEMS * EACH // 2, None)
"""Queries of the problems that nothing is learned from."""


def validation(truth: Ints) -> Validation:
    count = HELD_OUT.start
    level = np.array([q.kind is PairKind.REFERENCE for q in QUERIES[:count]])
    problem = strings([q.problem_id for q in QUERIES[:count]])
    return Validation(QUERIES[:count], np.arange(count), truth[:count], problem, level)


def part(name: str, shares: Floats, p_valid: Floats | None = None) -> Part:
    chances = [None] * len(shares) if p_valid is None else p_valid.tolist()
    rows = zip(QUERIES, shares.tolist(), chances, strict=True)
    return Part(name, Recalled({q.query_id: Forecast(query_id=q.query_id, probabilities=tuple(s), p_valid=c)
                                for q, s, c in rows}))  # fmt: skip


def held_out(surrogate: CombinedSurrogate) -> Floats:
    return np.array([each.probabilities for each in surrogate.forecast(QUERIES[HELD_OUT])])


def signals(seed: int = 0) -> tuple[Floats, Floats, Ints]:
    """What two forecasters know of the log speedup, and the bin that both and some noise decide."""
    random = np.random.default_rng(seed)
    one, other, noise = 0.5 * random.standard_normal((3, len(QUERIES)))
    return one, other, bins.bins_of(np.exp(one + other + 0.6 * noise))


def shares(centers: Floats, spread: float) -> Floats:
    return np.array([distribution(center, spread / np.log(2)) for center in centers / np.log(2)])


def test_an_overconfident_surrogate_becomes_calibrated_on_problems_it_was_not_learned_on() -> None:
    one, _, truth = signals()
    given = shares(one, 0.15)
    surrogate = CombinedSurrogate("calibrated-made-up", [part("made-up", given)])
    surrogate.learn(validation(truth))
    before, after, answers = given[HELD_OUT], held_out(surrogate), truth[HELD_OUT]
    assert ece(before, answers) > 0.25
    assert ece(after, answers) < 0.1
    assert rps(after, answers) < rps(before, answers)
    assert log_score(after, answers) < log_score(before, answers)


def test_a_calibrated_surrogate_is_left_unchanged() -> None:
    one, _, truth = signals(1)
    given = shares(one, float(np.hypot(0.5, 0.3)))
    surrogate = CombinedSurrogate("calibrated-made-up", [part("made-up", given)])
    surrogate.learn(validation(truth))
    assert rps(held_out(surrogate), truth[HELD_OUT]) < rps(given[HELD_OUT], truth[HELD_OUT]) + 0.002


def test_a_stack_of_complementary_surrogates_beats_both_on_other_problems() -> None:
    one, other, truth = signals(2)
    parts = [shares(each, float(np.hypot(0.5, 0.3))) for each in (one, other)]
    surrogate = CombinedSurrogate("stack-a+b", [part("a", parts[0]), part("b", parts[1])])
    told: list[str] = []
    surrogate.tell = told.append
    surrogate.learn(validation(truth))
    asked = f"{len(validation(truth).queries):,} validation queries"
    assert told[:2] == [f"asking a {asked}", f"asking b {asked}"]
    assert told[2].startswith("choosing a map by")
    assert told[3].startswith(f"map: {surrogate.chosen.name}; weights of the points: a 0.")
    best = min(log_score(each[HELD_OUT], truth[HELD_OUT]) for each in parts)
    assert log_score(held_out(surrogate), truth[HELD_OUT]) < best - 0.1
    assert surrogate.chosen.weights[0] == pytest.approx(0.5, abs=0.1)


def test_learning_is_deterministic_and_better_than_nothing_in_cross_validation() -> None:
    one, _, truth = signals(5)
    sample = Sample(shares(one, 0.2)[:, None], truth - 1, np.arange(len(truth)) // EACH, np.arange(len(truth)) % 2 > 0)
    first, second = choose(sample), choose(sample)
    assert first.name == second.name
    assert first.log_scores == second.log_scores
    assert min(first.log_scores.values()) <= first.log_scores[first.name] < first.log_scores["unchanged"]
    applied = [each.map.applied(sample.given, sample.level) for each in (first, second)]
    np.testing.assert_array_equal(*applied)
    assert choose(sample.take(sample.problem == 0)).name == "unchanged", "nothing can be held out of one problem"


def test_a_part_that_fails_on_a_query_has_no_say_and_all_failing_is_a_failure() -> None:
    one, other, truth = signals(9)
    parts = [part(name, shares(each, 0.6)) for name, each in (("a", one), ("b", other))]
    surrogate = CombinedSurrogate("stack-a+b", parts)
    surrogate.learn(validation(truth))
    last, before_last = QUERIES[-1], QUERIES[-2]
    both = dict(parts[0].surrogate.answers)
    both[last.query_id] = failure(last.query_id, "no idea")
    parts[0].surrogate.answers = both
    parts[1].surrogate.answers = {before_last.query_id: both[before_last.query_id]}
    one_left, none_left = surrogate.forecast([QUERIES[-3], last])
    assert one_left.failure is None
    assert one_left.probabilities is not None
    assert none_left.failure == "no idea"


def pairs(splits: Sequence[str]) -> list[tuple[Query, Question]]:
    _, _, truth = signals()
    return [
        (q, Question(question_id=q.query_id, problem_id=q.problem_id, family="f", backend=q.backend, gpu="g",
                     anchor_id="a", candidate_id="c", kind=QuestionKind.PAIR, author=AuthorClass.GENOME, workload=None,
                     core=False, pool=None, known_ids=(), speedup=1.0, speedup_low=1.0, speedup_high=1.0, bin=int(b),
                     split=s))
        for q, b, s in zip(QUERIES, truth, splits, strict=False)
    ]  # fmt: skip


def test_what_learns_answers_validation_queries_before_it_has_learned_from_them() -> None:
    events: list[object] = []

    class Learner(Recalled):
        def fit(self, train: Sequence[tuple[Query, Question]]) -> None:
            events.append({pair.split for _, pair in train})

        def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
            events.append(len(queries))
            return [Forecast(query_id=q.query_id, probabilities=(0.125,) * 8) for q in queries]

    surrogate = CombinedSurrogate("calibrated-learner", [Part("learner", Learner({}))])
    surrogate.fit(pairs(["train"] * 300 + ["validation"] * 300))
    assert events == [{"train"}, 300, {"train", "validation"}]
    surrogate.fit(pairs(["train"] * 10))
    assert len(events) == 3, "a search's own measurements hold no validation pair"


def test_too_few_validation_answers_are_one_clear_line(corpus: Corpus) -> None:
    with pytest.raises(UserError, match="answer 168 validation pairs, and 200 are needed"):
        evaluate_on("calibrated:length", corpus)
    with pytest.raises(UserError, match="learns from validation problems"):
        resolve("calibrated:length").forecast(QUERIES[:1])


def test_the_command_evaluates_a_stack_and_describes_its_entry(large_corpus_path: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    asked = ["--surrogate", "stack:length+roofline", "--dataset", large_corpus_path, "--out", out, "--resamples", 20]
    done = CliRunner().invoke(command, [*map(str, asked), "--no-report", "--json"], catch_exceptions=False)
    assert json.loads(done.stdout)["surrogate"] == "stack-length+roofline"
    entry = json.loads((out / "submission.json").read_text())
    assert (entry["name"], entry["kind"]) == ("stack-length+roofline", "statistical")
    assert entry["training_data"] == "the dataset's train and validation splits"


def test_forecasts_made_earlier_are_calibrated_with_a_validation_file(large_corpus_path: Path, tmp_path: Path) -> None:
    for split in ("test", "validation"):
        asked = ["--surrogate", "length", "--dataset", large_corpus_path, "--split", split, "--out", tmp_path / split]
        CliRunner().invoke(command, [*map(str, asked), "--resamples", "5", "--no-report"], catch_exceptions=False)
    corpus, spec = Corpus.open(large_corpus_path), f"calibrated:{tmp_path / 'test'}"
    with pytest.raises(UserError, match="answers 0 of"):
        evaluate_on(spec, corpus, Options(resamples=5))
    file = str(tmp_path / "validation" / "forecasts.parquet")
    found = evaluate_on(spec, corpus, Options(resamples=5, arguments={"validation_forecasts": file}))
    assert found.answered
    assert not found.run.failures


MODEL = """
class Model:
    def fit(self, train):
        self.count = len(train)

    def forecast(self, queries):
        sharp = [0.01] * 7
        return [[*sharp[:2], 0.93, *sharp[2:]] for _ in queries]
"""


def test_a_user_s_part_runs_in_its_own_process_and_is_calibrated_there(large_corpus_path: Path, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    corpus, options = Corpus.open(large_corpus_path), Options(resamples=5)
    raw = evaluate_on(str(tmp_path / "model.py"), corpus, options)
    found = evaluate_on(f"calibrated:{tmp_path / 'model.py'}", corpus, options, questions=raw.questions)
    scores = [each.scored.figures["forecast"]["ece"].value for each in (raw, found)]
    assert scores[1] < scores[0] / 2


def test_a_built_in_stands_beside_a_part_that_sees_no_answers(large_corpus_path: Path, tmp_path: Path) -> None:
    """The built-in needs the corpus, and reads it outside of the process that runs the user's code."""
    hidden = f"assert not list(__import__('os').scandir({str(large_corpus_path)!r}))"
    text = MODEL.replace("        self.count", f"        {hidden}\n        self.count")
    (tmp_path / "model.py").write_text(text)
    corpus, options = Corpus.open(large_corpus_path), Options(resamples=5, tracks=("forecast",))
    made = evaluate_on("length", corpus, options)
    for other in ("lookup", "prior"):
        found = evaluate_on(f"stack:{other}+{tmp_path / 'model.py'}", corpus, options, questions=made.questions)
        assert not found.run.failures, other
        assert found.learned_from == ("train", "validation")


def test_forecasts_by_what_learned_from_validation_calibrate_nothing(
    large_corpus_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus, asked = Corpus.open(large_corpus_path), Options(resamples=5, tracks=("forecast",), split="validation")
    for spec, learned in (("length", ("train",)), ("calibrated:length", ("train", "validation"))):
        done = evaluate_on(spec, corpus, asked, progress=TerminalProgress())
        told = capsys.readouterr().err
        assert ("validation queries; --surrogate-arg validation_limit=N takes fewer" in told) == (len(learned) > 1)
        assert ("which is asked about; its gain shows on test" in told) == (len(learned) > 1)
        assert done.learned_from == learned
        file = str(write_folder(done, tmp_path / spec)["forecasts.parquet"])
        options = Options(resamples=5, tracks=("forecast",), arguments={"validation_forecasts": file})
        if "validation" in learned:
            with pytest.raises(UserError, match="learned from the validation problems"):
                evaluate_on("calibrated:length", corpus, options)
        else:
            assert not evaluate_on("calibrated:length", corpus, options).run.failures
