"""Tasks: what is asked, what is never told, and that a fingerprint names exactly it."""

import json
from pathlib import Path

import pytest
from records import filled

import kbench
from kbench.benchmark.questions import Questions, build_questions, training_kernels, training_pairs
from kbench.benchmark.questions.asked import Tables
from kbench.benchmark.questions.corpus_view import benchmark_of
from kbench.benchmark.questions.render import gpu_facts, strip_comments
from kbench.benchmark.surrogates.llm import render
from kbench.benchmark.tracks import PAIR_TRACKS, TRACK_NAMES
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.schemas import Backend, Pair, PairKind, Query, UnknownNameError, UserError, to_dict


def everything_told(query: Query) -> str:
    return json.dumps(to_dict(query)) + render(query)


def test_no_query_tells_its_answer(corpus: Tables, questions: Questions, secret: str) -> None:
    kernels = {row["kernel_id"]: row for row in corpus.table("kernels").to_pylist()}
    for query in questions.queries:
        told = everything_told(query)
        assert secret not in told
        assert "#" not in query.candidate_source
        assert '"""' not in query.candidate_source
    for at, candidate in zip(questions.pools.query, questions.pools.candidate, strict=True):
        told, row = everything_told(questions.queries[at]), kernels[candidate]
        for name in ("runtime_us", "speedup", "kernel_id", "cluster_id", "structure_id", "run_id", "error"):
            assert row[name] is None or str(row[name]) not in told
        assert not told.count(row["split"] + '"')


def test_every_track_is_a_frozen_list_with_a_fingerprint(corpus: Tables, questions: Questions) -> None:
    assert questions.tracks == TRACK_NAMES
    assert len(set(map(questions.fingerprint_of, TRACK_NAMES))) == len(TRACK_NAMES)
    assert len({tuple(questions.asked(track)) for track in PAIR_TRACKS}) == 1
    assert len(questions.asked("rank")) == len(questions.pools)
    again = build_questions(corpus)
    assert again.fingerprint == questions.fingerprint
    assert again.queries == questions.queries
    assert build_questions(corpus, "validation").fingerprint != questions.fingerprint


def test_limit_keeps_a_prefix_and_says_so(corpus: Tables, questions: Questions) -> None:
    few = build_questions(corpus, limit=10)
    assert few.queries == questions.queries[:10]
    assert few.limited
    assert not questions.limited
    assert few.fingerprint != questions.fingerprint
    assert set(few.pairs.query) <= set(range(10))


def test_one_problem_may_be_asked_about_alone(corpus: Tables, questions: Questions) -> None:
    chosen = questions.queries[0].problem_id
    few = build_questions(corpus, problems=[chosen])
    assert few.queries == tuple(query for query in questions.queries if query.problem_id == chosen)
    assert few.limited
    learnt = next(iter(training_pairs(corpus)))[0].problem_id
    with pytest.raises(UnknownNameError, match=f"unknown problem '{learnt}x'; did you mean '{learnt}'"):
        build_questions(corpus, problems=[f"{learnt}x"])
    with pytest.raises(UserError, match=f"problem '{learnt}' is in train, not in test"):
        build_questions(corpus, problems=[learnt])


def test_one_track_asks_only_its_own_queries(corpus: Tables) -> None:
    asked = build_questions(corpus, tracks=["rank"])
    assert asked.tracks == ("rank",)
    assert len(asked.pairs) == 0
    with pytest.raises(UnknownNameError, match="forecast"):
        asked.fingerprint_of("forecast")


def test_training_material_is_from_training_splits_alone(corpus: Tables, questions: Questions) -> None:
    pairs, kernels = list(training_pairs(corpus)), list(training_kernels(corpus))
    held_out = set(questions.pools.problem)
    assert {pair.split for _, pair in pairs} == {"train", "validation"}
    assert not held_out & {query.problem_id for query, _ in pairs}
    assert not held_out & {query.problem_id for query, _ in kernels}
    assert any(row["status"] != "ok" for _, row in kernels)


@pytest.mark.parametrize("split", ["test", "test_seen"])
def test_fitting_on_a_test_split_is_refused(corpus: Tables, split: str) -> None:
    with pytest.raises(UserError, match="kept for testing"):
        next(training_pairs(corpus, [split]))
    with pytest.raises(UserError, match="kept for testing"):
        next(training_kernels(corpus, [split]))


@pytest.mark.parametrize(
    ("split", "tracks", "limit", "message"),
    [
        ("tset", TRACK_NAMES, None, "did you mean 'test'"),
        ("train", TRACK_NAMES, None, "unknown split 'train'"),
        ("test", ["forcast"], None, "did you mean 'forecast'"),
        ("test", [], None, "no track"),
        ("test", TRACK_NAMES, 0, "limit is 0"),
        ("test_seen", TRACK_NAMES, None, "holds no question"),
    ],
)
def test_odd_wishes_are_refused(corpus: Tables, split: str, tracks: list[str], limit: int | None, message: str) -> None:
    with pytest.raises(UserError, match=message):
        build_questions(corpus, split, tracks, limit)


def test_gpu_facts_come_from_the_environment_then_the_data_sheet() -> None:
    row = {"gpu": "NVIDIA H200", "env_id": "a", "copy_bandwidth_gbs": 4300.0, "sm_count": 132}
    facts = json.loads(gpu_facts("NVIDIA H200", [row]))
    assert facts["bandwidth_gbs"] == 4300.0
    assert facts["bf16_tflops"] == 989
    assert json.loads(gpu_facts("NVIDIA L40S"))["sm_count"] == 142
    others = json.loads(gpu_facts("AMD Instinct MI350X"))
    assert (others["bf16_tflops"], others["compute_capability"]) == (2307, None)
    unheard = json.loads(gpu_facts("Unheard Of"))
    assert unheard["sm_count"] is None
    assert "no table here has this GPU" in unheard["note"]


def test_a_partition_has_its_own_bandwidth_and_the_share_of_the_rates_that_was_measured() -> None:
    part = "NVIDIA H200 (64 of 132 SMs)"
    whole = {"gpu": "NVIDIA H200", "env_id": "b", "sm_count": 132, "matmul_peak_tflops": 800.0}
    row = {"gpu": part, "env_id": "a", "sm_count": 64, "matmul_peak_tflops": 400.0, "copy_bandwidth_gbs": 3700.0}
    facts = json.loads(gpu_facts(part, [whole, row]))
    sheet = json.loads(gpu_facts("NVIDIA H200"))
    assert (facts["sm_count"], facts["bandwidth_gbs"]) == (64, 3700.0)
    assert facts["bf16_tflops"] == sheet["bf16_tflops"] / 2
    assert facts["memory_bytes"] == sheet["memory_bytes"]
    unmeasured = json.loads(gpu_facts(part, [whole]))
    assert (unmeasured["sm_count"], unmeasured["fp32_tflops"]) == (64, sheet["fp32_tflops"] * 64 / 132)


@pytest.mark.parametrize(
    "source",
    [
        "x = 1  # fast\n",
        'def f():\n    "fast"\n    return 1\n',
        "def f(): 'fast'\n",
        "x = 1; 'fast'\n",
        '"""fast"""\nx = 1\n',
        'from kbench.harness.cuda import CudaModule\nm = CudaModule("int x; // fast")\n',
        "x = 1 \\\n  + 2 # fast\n",
    ],
)
def test_no_comment_slips_past_the_quick_look(source: str) -> None:
    assert "fast" not in strip_comments(source)


def test_a_corpus_without_questions_loads_and_says_how_to_make_it_again(corpus: Tables, tmp_path: Path) -> None:
    ends = {"pair_id": "1" * 32, "candidate_id": "2" * 32, "kind": PairKind.REFERENCE, "backend": Backend.CUDA}
    pair = filled(Pair, **ends, speedup=2.0, bin=7, split="test")
    with CorpusWriter(tmp_path) as writer:
        writer.append("kernels", corpus.table("kernels"))
        writer.append("pairs", [pair])
    assert kbench.load(tmp_path, config="pairs").to_arrow().to_pylist()[0]["speedup"] == 2.0
    assert kbench.load(tmp_path, split="test").count() > 0
    with pytest.raises(UserError, match=r"states no questions.*kbench data assemble"):
        build_questions(benchmark_of(Corpus.open(tmp_path)))
