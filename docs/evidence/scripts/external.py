"""Surrogates on kernels of other people: what they answer, and how good that is.

kbench data fetch SET --out FOLDER                              # for each set
python docs/evidence/scripts/external.py requests FOLDER FILE   # a language model's sample, without answers
python docs/evidence/scripts/external.py ask NAME FOLDER OUT    # answers of a built-in surrogate; resumes
python docs/evidence/scripts/external.py score OUT FOLDER...    # the tables; writes docs/evidence/external.json
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt
from external_questions import EDIT, REFERENCE, Asked, asked_of_all, opened, sample

from kbench.benchmark.evaluate.evaluate import fit_surrogates, make_surrogates
from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.evaluate.progress import Progress
from kbench.benchmark.llm.batch import read_responses
from kbench.benchmark.metrics.forecast import rps_rows
from kbench.benchmark.metrics.rank import spearman
from kbench.benchmark.scoring.rows import rank_scores
from kbench.benchmark.surrogates.llm import LlmSurrogate, parse
from kbench.benchmark.surrogates.resolve import locate
from kbench.generation.executors.compiler import compiler_facts
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import KbenchError, bins, to_dict
from kbench.schemas.bins import bin_of

Array = npt.NDArray[Any]

BATCH = 32
NAMES = ("uniform", "prior", "length", "roofline", "static", "static-compiler")
RESAMPLES, LEAST_ORDERED = 2000, 5
NOTHING = math.log2(1.02)
"""Edits that change less are not asked whether they are faster."""


def requests(folder: str, file: str, model: str = "any") -> None:
    """Write a language model's requests."""
    one, every = opened(folder)
    chosen = sample(every)
    LlmSurrogate(model=model, requests_file=file).forecast([one.query(asked) for asked in chosen])
    kinds = {kind: sum(asked.kind == kind for asked in chosen) for kind in {asked.kind for asked in chosen}}
    click.echo(f"{file}: {len(chosen)} of {len(every)} questions, {kinds}, {len({a.problem for a in chosen})} problems")


def ask(name: str, folder: str, out: str) -> None:
    """Ask a surrogate that learns from nothing but the shipped dataset; keep its answers."""
    one, every = opened(folder)
    path = Path(out) / f"{one.name}-{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = {line.split('"', 4)[3] for line in path.read_text().splitlines()} if path.is_file() else set()
    first = {asked.query_id for asked in sample(every)}
    waiting = [asked for asked in asked_of_all(every) if asked.query_id not in kept]
    waiting.sort(key=lambda asked: asked.query_id not in first)
    with contextlib.ExitStack() as stack, path.open("a") as file:
        surrogates, facts = make_surrogates(locate(name), [], Options(), None, stack, compiler_facts)
        if name != "static-compiler":
            corpus = Corpus.open(None)
            fit_surrogates(surrogates, facts.fits, corpus, corpus.fingerprint, Progress())
        for start in range(0, len(waiting), BATCH):
            for answer in surrogates[0].forecast([one.query(asked) for asked in waiting[start : start + BATCH]]):
                fields = {"query_id": answer.query_id, **{k: v for k, v in to_dict(answer).items() if v is not None}}
                file.write(json.dumps(fields) + "\n")
            file.flush()
            click.echo(f"{one.name} {name}: {min(start + BATCH, len(waiting))} of {len(waiting)}")


def answers(folder: Path, one: str, name: str, asked: Sequence[Asked]) -> dict[str, dict[str, Any]]:
    """Kept answers by question."""
    if name == "llm":
        read = read_responses(folder / f"responses-{one.removeprefix('c-')}.jsonl")
        told = {key.partition(":")[0]: reply.text for key, reply in read.replies.items()}
        found = [parse(told[each.query_id], each.query_id) for each in asked if each.query_id in told]
        if not found:
            raise KbenchError("no responses yet")
        return {each.query_id: to_dict(each) for each in found if each.failure is None}
    lines = (folder / f"{one}-{name}.jsonl").read_text().splitlines()
    if not lines:
        raise KbenchError(f"{name} was not asked about {one}")
    return {row["query_id"]: row for row in map(json.loads, lines) if row.get("failure") is None}


@dataclasses.dataclass(frozen=True, slots=True)
class Given:
    """Answered questions with what a surrogate said of them."""

    asked: Sequence[Asked]
    probabilities: Array
    score: Array
    """What kernels are ordered by."""

    @property
    def truth(self) -> Array:
        """Bins that were measured."""
        return np.array([bin_of(one.speedup) for one in self.asked])


def given(
    asked: Sequence[Asked], said: Mapping[str, Mapping[str, Any]], other: Mapping[str, Mapping[str, Any]]
) -> Given:
    """The answers to timed questions; a question without one gets the other's."""
    timed = [one for one in asked if one.speedup is not None]
    rows = [said.get(one.query_id) or other[one.query_id] for one in timed]
    shares = np.array([row["probabilities"] for row in rows], dtype=np.float64)
    points = np.array([row.get("speedup") or math.nan for row in rows], dtype=np.float64)
    return Given(timed, shares, rank_scores(shares, points))


def own_frequencies(asked: Sequence[Asked], truth: Array) -> Array:
    """Of each question the frequencies of the bins among the set's questions of its kind."""
    kinds = np.array([one.kind for one in asked])
    table = {kind: np.bincount(truth[kinds == kind] - 1, minlength=bins.COUNT) for kind in set(kinds.tolist())}
    return np.array([table[kind] / table[kind].sum() for kind in kinds.tolist()])


def interval(values: Mapping[str, Sequence[float]], ratio: bool = False) -> dict[str, Any] | None:
    """Mean over problems of the means within them, with a bootstrap over problems; 1 − a ratio of two such means."""
    if not values:
        return None
    means = np.array([np.mean(np.asarray(rows, dtype=np.float64), axis=0) for rows in values.values()])
    draws = np.random.default_rng(0).integers(0, len(means), (RESAMPLES, len(means)))

    def figure(rows: Array) -> Array:
        mean = rows.mean(axis=-2) if ratio else rows.mean(axis=-1)
        return 1 - mean[..., 0] / mean[..., 1] if ratio else mean

    low, high = np.quantile(figure(means[draws]), [0.025, 0.975])
    return {"value": round(float(figure(means)), 3), "interval_95": [round(float(low), 3), round(float(high), 3)],
            "problems": len(means)}  # fmt: skip


def by_problem(asked: Sequence[Asked], values: Iterable[Any]) -> dict[str, list[Any]]:
    """Values of questions by problem."""
    found: defaultdict[str, list[Any]] = defaultdict(list)
    for one, value in zip(asked, values, strict=True):
        found[one.problem].append(value)
    return found


def order(asked: Sequence[Asked], score: Array) -> dict[str, Any] | None:
    """Rank correlation of scores with speedups within author and backend, mean over pools of a problem."""
    pools: defaultdict[str, list[int]] = defaultdict(list)
    for at, one in enumerate(asked):
        if one.kind != EDIT:
            pools[one.pool].append(at)
    speed = np.array([one.speedup for one in asked], dtype=np.float64)
    found: defaultdict[str, list[float]] = defaultdict(list)
    for pool, places in pools.items():
        if len(places) >= LEAST_ORDERED:
            # Of references every pool is over all problems, so that it stands for itself.
            name = pool if asked[places[0]].kind == REFERENCE else asked[places[0]].problem
            found[name].append(spearman(score[places], speed[places]))
    return interval(found)


def edits(asked: Sequence[Asked], score: Array) -> dict[str, Any] | None:
    """Chance that a faster edit is scored above a slower one of its problem, where the change is more than 2 %."""
    found: dict[str, list[float]] = {}
    decided = [at for at, one in enumerate(asked) if one.kind == EDIT and abs(math.log2(one.speedup or 1)) > NOTHING]
    for problem in {asked[at].problem for at in decided}:
        own = [at for at in decided if asked[at].problem == problem]
        faster, slower = ([score[at] for at in own if (asked[at].speedup > 1) == up] for up in (True, False))
        if faster and slower:
            found[problem] = [float(np.mean([(a > b) + (a == b) / 2 for a in faster for b in slower]))]
    return interval(found)


def figures(one: Given) -> dict[str, Any]:
    """All figures of one surrogate on some questions."""
    truth = one.truth
    own = rps_rows(own_frequencies(one.asked, truth), truth)
    pairs = np.stack([rps_rows(one.probabilities, truth), own], axis=1)
    return {
        "over_own": interval(by_problem(one.asked, pairs), ratio=True),
        "spearman": order(one.asked, one.score),
        "edit_auroc": edits(one.asked, one.score),
    }


def score(out: str, *folders: str) -> None:
    """Print and write the tables."""
    evidence: dict[str, Any] = {}
    for folder in folders:
        one, every = opened(folder)
        asked = asked_of_all(every)
        prior = answers(Path(out), one.name, "prior", asked)
        chosen = {each.query_id for each in sample(every)}
        evidence[one.name] = {"questions": len(asked), "timed": sum(each.speedup is not None for each in asked)}
        for part, some in (("all", asked), ("sample", [each for each in asked if each.query_id in chosen])):
            table: dict[str, Any] = {}
            for name in NAMES if part == "all" else (*NAMES, "llm"):
                try:
                    said = answers(Path(out), one.name, name, some)
                except (OSError, KbenchError):
                    continue
                made = given(some, said, prior)
                known = [said[each.query_id].get("confidence") != 0.0 for each in made.asked if each.query_id in said]
                table[name] = figures(made) | {"answered": round(sum(known) / len(made.asked), 3)}
            timed = [each for each in some if each.speedup is not None]
            length = [len(one.kernels[each.candidate_id, each.gpu]["source"]) for each in timed]
            for name, values in (("order", [each.order for each in timed]), ("characters", length)):
                values = np.array(values, dtype=np.float64)
                table[name] = {"spearman": order(timed, values), "edit_auroc": edits(timed, values)}
            evidence[one.name][part] = table
            for name, row in table.items():
                click.echo(f"{one.name} {part} {name} {json.dumps(row)}")
    Path(out, "external.json").write_text(json.dumps(evidence, indent=1) + "\n")


if __name__ == "__main__":
    command = {"requests": requests, "ask": ask, "score": score}.get("".join(sys.argv[1:2]))
    sys.exit(__doc__) if command is None else command(*sys.argv[2:])
