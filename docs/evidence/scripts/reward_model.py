"""A reward model of preferences: pairwise accuracy on unseen problems, and what best-of-n gains with it.

A small scorer on the features of `static` learns from the `trl-preference` export of the train split, with the loss of
TRL's RewardTrainer. It has no setting that was chosen by its results. The same scorer can learn from what a small
language model makes of the kernels, and surrogates can be scored beside both by name.

PYTHONPATH=src python docs/evidence/scripts/reward_model.py OUT.json [--surrogate NAME …] [--embeddings FILE]
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from sklearn.tree import DecisionTreeRegressor

import kbench
from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure, divide
from kbench.benchmark.questions.asked import known_problems
from kbench.benchmark.questions.build import problems_of
from kbench.benchmark.questions.render import gpu_facts, reference_query_id, render_query
from kbench.benchmark.questions.versions import benchmark_of
from kbench.benchmark.surrogates.resolve import resolve
from kbench.benchmark.surrogates.static.features.rows import KernelPool, RowLayout
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.splits import problem_groups
from kbench.loaders.splits.lineage import lineages
from kbench.schemas import Query

GPU = "NVIDIA H200"
SPLITS = ("train", "validation", "test", "test_near")
TREES, LEAVES, RATE, COLUMNS, FOLDS = 200, 16, 0.08, 0.3, 5
"""As for the boosted trees of `static`."""
SIZES = (4, 8, 16)
DRAWS = 64
"""Random sets of n kernels per cell, where it has more than n."""


@dataclasses.dataclass(frozen=True, slots=True)
class Judged:
    """A measured kernel."""

    kernel_id: str
    problem_id: str
    backend: str
    proposer: str
    source: str
    model: str | None
    """The language model that proposed it inside a search."""
    speedup: float | None
    """None when it failed."""


def of_corpus(corpus: Any) -> Iterator[Judged]:
    """Every measured kernel of the dataset."""
    names = [field.name for field in dataclasses.fields(Judged)]
    for row in corpus.table("kernels", columns=[*names, "status", "gpu"], gpu=GPU).to_pylist():
        if row["status"]:
            yield Judged(**{name: row[name] for name in names})


def queries(kernels: Sequence[Judged], corpus: Any) -> list[Query]:
    """Each kernel asked against the reference."""
    problems = known_problems() | problems_of(corpus)
    facts = gpu_facts(GPU, corpus.table("environments").to_pylist())
    return [
        render_query(
            query_id=reference_query_id(kernel.kernel_id, GPU), problem=problems[kernel.problem_id],
            backend=kernel.backend, kind="reference", candidate_source=kernel.source, gpu=GPU, gpu_facts_json=facts,
        )
        for kernel in kernels
    ]  # fmt: skip


def fitted(rows: Any, chosen: Any, rejected: Any, margin: Any, seed: int = 0) -> list[DecisionTreeRegressor]:
    """Trees boosted on −log σ(score of chosen − score of rejected − margin), one Newton step each."""
    scores, trees, random = np.zeros(len(rows)), [], np.random.RandomState(seed)
    seen = np.unique(np.concatenate([chosen, rejected]))
    for _ in range(TREES):
        doubt = 1.0 / (1.0 + np.exp(scores[chosen] - scores[rejected] - margin))
        slope, curve = np.zeros(len(rows)), np.full(len(rows), 1e-3)
        for side, sign in ((chosen, 1.0), (rejected, -1.0)):
            np.add.at(slope, side, sign * doubt)
            np.add.at(curve, side, doubt * (1.0 - doubt))
        tree = DecisionTreeRegressor(
            max_leaf_nodes=LEAVES, min_samples_leaf=15, max_features=COLUMNS, random_state=random
        )
        # Weighted by curvature, a leaf's mean is its Newton step.
        tree.fit(rows[seen], np.clip(slope / curve, -8, 8)[seen], sample_weight=curve[seen])
        scores += RATE * tree.predict(rows)
        trees.append(tree)
    return trees


def scored(trees: Sequence[DecisionTreeRegressor], rows: Any) -> Any:
    """What a model gives kernels; higher is faster."""
    return RATE * sum(tree.predict(rows) for tree in trees)


def folds_of(corpus: Corpus, problems: Sequence[str]) -> dict[str, int]:
    """Training problems in folds of about the same size; those that share a genome family stay together."""
    table = corpus.table("kernels", columns=["kernel_id", "problem_id"]).to_pylist()
    families = lineages(corpus)
    groups = problem_groups(
        [(row["problem_id"], families.get(row["kernel_id"], row["problem_id"])) for row in table]
    )  # fmt: skip
    sizes = Counter(groups[problem] for problem in problems)
    filled, place = [0] * FOLDS, {}
    for group, size in sorted(sizes.items(), key=lambda item: (-item[1], item[0])):
        place[group] = min(range(FOLDS), key=filled.__getitem__)
        filled[place[group]] += size
    return {problem: place[groups[problem]] for problem in problems}


class Pairs:
    """The preference export of one split, as places of kernels."""

    def __init__(self, split: str, at: Mapping[str, int]) -> None:
        rows = list(kbench.training_rows("trl-preference", split, gpu=GPU))
        self.chosen = np.array([at[row.chosen_id] for row in rows])
        self.rejected = np.array([at[row.rejected_id] for row in rows])
        self.margin = np.array([row.margin for row in rows])
        self.problem = np.array([row.problem_id for row in rows])

    def accuracy(self, scores: Any) -> dict[str, Any]:
        """Share of pairs ordered as measured, ties half; with the share among clear pairs."""
        ahead = scores[self.chosen] - scores[self.rejected]
        right = np.where(ahead == 0, 0.5, (ahead > 0).astype(float))
        boot = Bootstrap(self.problem)
        clear = np.where(self.margin >= 1, right, np.nan)
        return {
            "pairs": len(right), "accuracy": shown(boot.mean(right)),
            "clear_pairs": int((self.margin >= 1).sum()), "clear_accuracy": shown(boot.mean(clear)),
        }  # fmt: skip


def cross_fitted(rows: Any, train: Pairs, fold: Any) -> Any:
    """Scores of all kernels by models that saw no pair of their fold; problems not trained on are in fold −1."""
    scores = scored(fitted(rows, train.chosen, train.rejected, train.margin), rows)
    for number in range(FOLDS):
        others = fold[train.chosen] != number
        trees = fitted(rows, train.chosen[others], train.rejected[others], train.margin[others])
        scores[fold == number] = scored(trees, rows[fold == number])
    return scores


def shown(figure: Figure) -> list[float]:
    """Value and ends of the interval."""
    return [figure.value, figure.low, figure.high]


def best_of(n: int, cells: Mapping[tuple[str, str], Sequence[int]], value: Any, scores: Any) -> dict[str, Any] | None:
    """Speedup of the pick among n kernels of a cell, against a random pick and the best; None without cells.

    Args:
        n: how many kernels there are to pick from.
        cells: places of each cell's kernels.
        value: log2 speedup of each kernel, NaN for one that failed: it counts as 0, because PyTorch runs in its stead.
        scores: of each kernel.
    """
    rng = np.random.default_rng(0)
    found: list[tuple[str, float, float, float, float]] = []
    for (problem, _), places in sorted(cells.items()):
        if len(places) < n:
            continue
        draws = 1 if len(places) == n else DRAWS
        sets = np.array([rng.permutation(places)[:n] for _ in range(draws)])
        worth = np.nan_to_num(value[sets])
        picked = scores[sets].argmax(axis=1)[:, None]
        at_pick = np.take_along_axis(sets, picked, axis=1)[:, 0]
        means = (np.nan_to_num(value[at_pick]).mean(), worth.mean(), worth.max(axis=1).mean())
        found.append((problem, *means, np.isnan(value[at_pick]).mean()))
    if not found:
        return None
    problem, picked, random, oracle, failed = (np.array(column) for column in zip(*found, strict=True))
    boot = Bootstrap(problem)
    share = divide(boot.totals(picked - random), boot.totals(oracle - random))[:, 0]

    def speedup(column: Any) -> list[float]:
        return [2.0**end for end in shown(boot.mean(column))]

    return {
        "cells": len(found), "problems": len(set(problem.tolist())), "picked": speedup(picked),
        "random": speedup(random), "oracle": speedup(oracle), "gain": speedup(picked - random),
        "share_of_attainable": shown(Figure.of(share)), "failed_picks": shown(boot.mean(failed)),
    }  # fmt: skip


def origins(cells: Mapping[tuple[str, str], Sequence[int]], value: Any, length: Any, searched: Any) -> dict[str, float]:
    """How kernels of searches differ from those written outside of them, in cells with enough for the smallest n.

    Args:
        cells: places of each cell's kernels.
        value: log2 speedup, NaN for a kernel that failed.
        length: of each kernel's source.
        searched: whether a kernel was proposed inside a search.
    """
    worth = np.nan_to_num(value)
    chosen = [np.array(places) for places in cells.values() if len(places) >= SIZES[0]]
    mixed = [(places[searched[places]], places[~searched[places]]) for places in chosen]
    mixed = [(new, old) for new, old in mixed if len(new) and len(old)]
    older = [old for _, old in mixed if len(old) > 1]
    return {
        "share_of_kernels": float(np.mean([searched[places].mean() for places in chosen])),
        "share_of_longest": float(np.mean([searched[places[length[places].argmax()]] for places in chosen])),
        "faster_log2": float(np.mean([worth[new].mean() - worth[old].mean() for new, old in mixed])),
        "longer": float(np.median([length[new].mean() / length[old].mean() for new, old in mixed])),
        "longest_of_older_gains_log2": float(
            np.mean([worth[old[length[old].argmax()]] - worth[old].mean() for old in older])
        ),
    }


def surrogate_scores(name: str, asked: Sequence[Query], wanted: Any, corpus: Any) -> Any:
    """Point forecasts of a surrogate where they are wanted, as log2; NaN elsewhere."""
    made = resolve(name)
    if hasattr(made, "fit_corpus"):
        made.fit_corpus(corpus)
    scores = np.full(len(asked), np.nan)
    places = np.flatnonzero(wanted)
    for at, said in zip(places, made.forecast([asked[place] for place in places]), strict=True):
        scores[at] = math.log2(said.speedup) if said.speedup else 0.0
    return scores


def embeddings(path: Path, kernels: Sequence[Judged]) -> Any:
    """A language model's numbers for each kernel."""
    found = np.load(path)
    at = {key: place for place, key in enumerate(found["kernel_id"].tolist())}
    return found["embedding"][[at[kernel.kernel_id] for kernel in kernels]].astype(np.float32)


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--surrogate", "surrogates", multiple=True, default=("static",), show_default=True)
@click.option("--embeddings", "embedded", type=click.Path(exists=True, path_type=Path))
def main(out: Path, surrogates: tuple[str, ...], embedded: Path | None) -> None:
    """Train, score, write."""
    stated = Corpus.open()
    corpus = benchmark_of(stated)
    # Of all kernels, since benchmark 2 leaves out those that held-out problems gained after its first release.
    kernels = list(of_corpus(stated))
    at = {kernel.kernel_id: place for place, kernel in enumerate(kernels)}
    asked = queries(kernels, corpus)
    pool, layout = KernelPool(asked), RowLayout()
    rows = layout.rows(pool)[:, layout.compact][pool.candidate]
    pairs = {split: Pairs(split, at) for split in SPLITS}
    train = pairs["train"]
    problem = np.array([kernel.problem_id for kernel in kernels])
    folds = folds_of(stated, sorted(set(train.problem.tolist())))
    fold = np.array([folds.get(name, -1) for name in problem])
    held_out = np.isin(problem, [*pairs["test"].problem, *pairs["test_near"].problem])
    length = np.array([float(len(one.candidate_source)) for one in asked])
    models = {"reward model": cross_fitted(rows, train, fold), "longest source": length, "shortest source": -length}
    if embedded is not None:
        states = embeddings(embedded, kernels)
        models["reward model on a language model"] = cross_fitted(states, train, fold)
        models["reward model on both"] = cross_fitted(np.hstack([rows, states]), train, fold)
    models |= {name: surrogate_scores(name, asked, held_out, corpus) for name in surrogates}
    value = np.array([math.nan if kernel.speedup is None else math.log2(kernel.speedup) for kernel in kernels])
    written: dict[tuple[str, str], list[int]] = defaultdict(list)
    everyone: dict[tuple[str, str], list[int]] = defaultdict(list)
    for place, kernel in enumerate(kernels):
        if kernel.proposer == "llm":
            written[kernel.problem_id, kernel.backend].append(place)
        if held_out[place]:
            everyone[kernel.problem_id, kernel.backend].append(place)
    unseen = {cell: places for cell, places in written.items() if held_out[places[0]]}
    document = {
        "dataset": corpus.fingerprint,
        "train_pairs": len(train.margin),
        "llm_kernels": sum(map(len, written.values())),
        "llm_failed": int(sum(np.isnan(value[places]).sum() for places in written.values())),
        "llm_cells_by_size": dict(sorted(Counter(map(len, written.values())).items())),
        "searched_against_written": origins(
            written, value, length, np.array([one.model is not None for one in kernels])
        ),
        "accuracy": {
            name: {
                split: pairs[split].accuracy(given)
                for split in ("test", "test_near", "train")
                if not np.isnan(given[pairs[split].chosen]).any()
            }
            for name, given in models.items()
        },
        "best_of_n": {
            where: {
                name: {str(n): best_of(n, cells, value, given) for n in SIZES}
                for name, given in models.items()
                if not any(np.isnan(given[places]).any() for places in cells.values())
            }
            for where, cells in (("llm, all cells", written), ("llm, test cells", unseen), ("any proposer", everyone))
        },
    }
    out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    click.echo(json.dumps(document))


if __name__ == "__main__":
    main()
