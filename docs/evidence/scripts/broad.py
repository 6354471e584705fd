"""What the broad forecasts and their limits were chosen by, on kernels of our own.

python docs/evidence/scripts/broad.py

1. How strange training problems are to those of other families: USUAL is where 99 of 100 lie.
2. Skill over an author's own frequencies of the other authors' frequencies, mixed with the even forecast.
3. Our validation kernels, stated as an import states kernels of others: how much of `static`'s answer is worth keeping.
   Its shipped model has learnt from these kernels, so that less is worth keeping of what it says of others.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.metrics.forecast import rps_rows
from kbench.benchmark.questions.asked import Tables
from kbench.benchmark.questions.build import training_kernels, training_pairs
from kbench.benchmark.surrogates.broad import BROAD, EVEN, strangeness
from kbench.benchmark.surrogates.static.kernel_rows import RowLayout, problem_of
from kbench.benchmark.surrogates.static.model import MODEL_FILE, STATED, StaticModel
from kbench.schemas import Query, bins

Array = npt.NDArray[Any]
SPLITS = ("train", "validation")
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
GPU, ASKED = "NVIDIA H200", 1600
LEAST = 100
"""Questions of an author."""


def families(corpus: Tables) -> None:
    """Strangeness of every training problem to the problems of other families."""
    rows: dict[tuple[str, str, str], Array] = {}
    for query, kernel in training_kernels(corpus, SPLITS):
        key = kernel["family"], query.problem_id, query.gpu
        if key not in rows:
            rows[key] = problem_of(query)[: len(STATED)][STATED].astype(np.float64)
    every, family = np.stack(list(rows.values())), np.array([key[0] for key in rows])
    found = [
        strangeness(every[family == one], every[family != one].min(axis=0), every[family != one].max(axis=0))
        for one in np.unique(family)
    ]
    quantiles = np.quantile(np.concatenate(found), [0.5, 0.9, 0.95, 0.99, 1.0]).round(2).tolist()
    click.echo(f"strangeness to other families: 50, 90, 95, 99, 100 % of {len(rows)} problems and GPUs: {quantiles}")


def authors(corpus: Tables) -> None:
    """Skill of other authors' frequencies over those of the author left out; every problem alike."""
    rows = corpus.table("questions").to_pandas()
    rows = rows[rows["workload"].isna() & rows["split"].isin(SPLITS) & rows["bin"].notna()]
    for kind, of_kind in rows.groupby("kind"):
        for author, of_author in of_kind.groupby("author"):
            if len(of_author) < LEAST:
                continue
            own, others = _frequencies(of_author), _frequencies(of_kind[of_kind["author"] != author])
            figures = [_over(own, (1 - even) * others + even * EVEN) for even in SHARES]
            click.echo(f"{kind} without {author}: {dict(zip(SHARES, np.round(figures, 3).tolist(), strict=True))}")


def _frequencies(rows: Any) -> Array:
    counts = [
        np.bincount(of.astype(int) - 1, minlength=bins.COUNT) / len(of) for _, of in rows.groupby("problem_id")["bin"]
    ]
    mean: Array = np.mean(counts, axis=0)
    return mean


def _over(own: Array, given: Array) -> float:
    below, expected = np.cumsum(own)[:-1], np.cumsum(given)[:-1]
    return -float(((expected - below) ** 2).sum() / (below * (1 - below)).sum())


def inputs_alone(query: Query) -> Query:
    """As an import states workloads."""
    works = [one | {"outputs": [], "flops": 0} for one in json.loads(query.workloads_json)]
    return dataclasses.replace(query, workloads_json=json.dumps(works))


def elsewhere(query: Query) -> Query:
    """The same on a GPU of another architecture, with the heading that imports give a reference."""
    facts = json.loads(query.gpu_facts_json) | {
        "gpu": "A100", "compute_capability": "8.0", "sm_count": 108, "bandwidth_gbs": 2039, "fp32_tflops": 19.5,
        "bf16_tflops": 312,
    }  # fmt: skip
    text = query.problem_text.replace("PyTorch reference:", "Reference:")
    return dataclasses.replace(inputs_alone(query), gpu_facts_json=json.dumps(facts), problem_text=text)


STATEMENTS: Mapping[str, Callable[[Query], Query]] = {
    "at home": lambda query: query,
    "inputs alone": inputs_alone,
    "inputs alone, another GPU": elsewhere,
    "no workloads": lambda query: dataclasses.replace(query, workloads_json="[]"),
}


def stated(corpus: Tables) -> None:
    """Skill over the kernels' own frequencies of mixtures of the trees' answer with the broad one."""
    pairs = [pair for pair in training_pairs(corpus, SPLITS[1:]) if pair[0].gpu == GPU]
    pairs = [pairs[at] for at in np.sort(np.random.default_rng(0).permutation(len(pairs))[:ASKED])]
    truth = np.array([answer.bin for _, answer in pairs])
    kinds = np.array([query.kind for query, _ in pairs], dtype=object)
    problems = np.array([query.problem_id for query, _ in pairs])
    broad = np.array([BROAD[kind] for kind in kinds])
    model, layout = StaticModel.load(MODEL_FILE), RowLayout()
    for name, change in STATEMENTS.items():
        queries = [change(query) for query, _ in pairs]
        rows = np.stack([problem_of(query) for query in queries])
        whole = np.zeros((len(rows), len(layout.names)), dtype=np.float32)
        whole[:, layout.problem] = rows
        click.echo(f"{name}: median strangeness {np.median(model.strangeness(whole)):.2f}")
        believed = dataclasses.replace(model, level=_boundless(model.level)).forecast(queries).probabilities
        for kind in np.unique(kinds.astype(str)):
            of_kind = kinds.astype(str) == kind
            own = np.bincount(truth[of_kind] - 1, minlength=bins.COUNT) / of_kind.sum()
            base = _by_problem(rps_rows(np.tile(own, (of_kind.sum(), 1)), truth[of_kind]), problems[of_kind])
            figures = {}
            for share in SHARES:
                mixed = share * believed[of_kind] + (1 - share) * broad[of_kind]
                loss = _by_problem(rps_rows(mixed, truth[of_kind]), problems[of_kind])
                figures[share] = round(1 - loss / base, 3)
            click.echo(f"  {kind}, skill by share believed: {figures}")


def _by_problem(values: Array, problems: Array) -> float:
    return float(np.mean([values[problems == one].mean() for one in np.unique(problems)]))


class _Boundless:
    """A level whose predictions stay, in a box that holds everything."""

    def __init__(self, level: Any) -> None:
        self.predict = level.predict
        self.low, self.high = np.full(len(level.low), -np.inf), np.full(len(level.high), np.inf)


def _boundless(level: Any) -> Any:
    return _Boundless(level)


if __name__ == "__main__":
    ours = Options().corpus()
    families(ours)
    authors(ours)
    stated(ours)
