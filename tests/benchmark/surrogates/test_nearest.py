"""`lookup` copies the label of the nearest training kernel, and knows when no kernel is near."""

import dataclasses

from records import filled

from kbench.benchmark.surrogates.nearest import LookupSurrogate
from kbench.schemas import Backend, Pair, PairKind, Query, bins
from kbench.schemas.ids import content_hash

OTHER = "NVIDIA H200 (64 of 132 SMs)"


def query(name: str, problem: str, source: str, anchor: str | None = None) -> Query:
    kind = PairKind.SIBLING if anchor else PairKind.REFERENCE
    facts = {"workloads_json": "[]", "gpu": "NVIDIA H200", "gpu_facts_json": "{}", "backend": Backend.TRITON}
    texts = {"anchor_source": anchor or "torch", "candidate_source": source}
    return filled(Query, query_id=content_hash(name), problem_id=problem, kind=kind, **facts, **texts)


def pair(asked: Query, speedup: float) -> Pair:
    ends = {"pair_id": asked.query_id, "candidate_id": asked.query_id}
    return filled(Pair, like=asked, **ends, speedup=speedup, bin=bins.bin_of(speedup), split="train")


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
        assert max(range(8), key=answer.probabilities.__getitem__) == bins.bin_of(speedup) - 1
        assert max(answer.probabilities) > 0.5


def test_far_from_everything_the_prior_is_all_it_says() -> None:
    (answer,) = trained().forecast([query("far", "p9", "nothing like any of them at all in this source")])
    # Half of the training kernels are in each of two bins.
    assert max(answer.probabilities) < 0.5


def on_two_gpus(kernels: list[tuple[str, str]]) -> LookupSurrogate:
    """Every kernel, given as problem and source, is fast on the first GPU and slow on the second."""
    train = []
    for gpu, speedup in (("NVIDIA H200", 3.0), (OTHER, 0.3)):
        for problem, source in kernels:
            asked = dataclasses.replace(query(source, problem, source), gpu=gpu)
            train.append((asked, pair(asked, speedup)))
    surrogate = LookupSurrogate()
    surrogate.fit(train)
    return surrogate


def test_a_neighbour_speaks_for_the_gpu_asked_about() -> None:
    surrogate = on_two_gpus([("p1", template(1, variant, variant)) for variant in range(80)])
    asked = query("near", "p9", template(1, 99, 7))
    answers = surrogate.forecast([asked, dataclasses.replace(asked, gpu=OTHER)])
    for answer, speedup in zip(answers, (3.0, 0.3), strict=True):
        assert max(range(8), key=answer.probabilities.__getitem__) == bins.bin_of(speedup) - 1
        assert max(answer.probabilities) > 0.5


def test_a_kernel_is_not_its_own_neighbour_on_another_gpu() -> None:
    sources = [template(at, at, at) for at in range(20)]
    surrogate = on_two_gpus([(f"p{at}", source) for at, source in enumerate(sources)])
    own, far = surrogate.forecast([query("own", "p3", sources[3]), query("far", "p9", "nothing like any of them")])
    assert own.probabilities == far.probabilities


def test_without_training_it_is_uniform() -> None:
    (answer,) = LookupSurrogate().forecast([query("q", "p", "x")])
    assert answer.probabilities == (1 / 8,) * 8
