"""`lookup` copies the label of the nearest training kernel, and knows when no kernel is near."""

from kbench.benchmark.surrogates.baselines.lookup import LookupSurrogate
from kbench.schemas import Backend, Pair, PairKind, Query, bins
from kbench.schemas.ids import content_hash


def query(name: str, problem: str, source: str, anchor: str | None = None) -> Query:
    return Query(
        query_id=content_hash(name), problem_id=problem, family="norm", problem_text="", workloads_json="[]",
        backend=Backend.TRITON, kind=PairKind.SIBLING if anchor else PairKind.REFERENCE,
        anchor_source=anchor or "torch", candidate_source=source, gpu="NVIDIA H200", gpu_facts_json="{}",
    )  # fmt: skip


def pair(asked: Query, speedup: float, split: str = "train") -> Pair:
    return Pair(
        pair_id=asked.query_id, problem_id=asked.problem_id, family="norm", backend=Backend.TRITON, gpu=asked.gpu,
        anchor_id=None, candidate_id=asked.query_id, kind=asked.kind, speedup=speedup, speedup_low=None,
        speedup_high=None, bin=bins.bin_of(speedup), split=split, origin="kbench",
    )  # fmt: skip


def template(problem: int, variant: int, number: int) -> str:
    return " ".join(f"op{problem}_{at}({number})" for at in range(30)) + f" tail{variant}"


def trained() -> LookupSurrogate:
    """Problem 1 is fast, problem 2 slow; each has many kernels that differ little."""
    train = []
    for problem, speedup in ((1, 3.0), (2, 0.3)):
        for variant in range(40):
            asked = query(f"{problem}-{variant}", f"p{problem}", template(problem, variant, variant))
            train.append((asked, pair(asked, speedup)))
    surrogate = LookupSurrogate()
    surrogate.fit(train)
    return surrogate


def test_a_near_duplicate_gets_its_neighbours_bin() -> None:
    fast = query("fast", "p9", template(1, 99, 7))
    slow = query("slow", "p9", template(2, 99, 7))
    answers = trained().forecast([fast, slow])
    for answer, speedup in zip(answers, (3.0, 0.3), strict=True):
        assert answer.probabilities is not None
        assert max(range(8), key=answer.probabilities.__getitem__) == bins.bin_of(speedup) - 1
        assert max(answer.probabilities) > 0.5


def test_far_from_everything_the_prior_is_all_it_says() -> None:
    (answer,) = trained().forecast([query("far", "p9", "nothing like any of them at all in this source")])
    assert answer.probabilities is not None
    # Half of the training kernels are in each of two bins.
    assert max(answer.probabilities) < 0.5


def test_without_training_it_is_uniform() -> None:
    (answer,) = LookupSurrogate().forecast([query("q", "p", "x")])
    assert answer.probabilities == (1 / 8,) * 8
