"""The look at `test`: `static-compiler` on the pairs of benchmark 2 whose kernels' work is counted.

    python docs/evidence/scripts/work_test.py TOTALS...

TOTALS are Parquet files of counted work, so that nothing is compiled here. Beside it stands what the same pairs get
from entries of the board. No choice may rest on what this prints.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from kbench.benchmark.metrics.forecast import rps_rows
from kbench.benchmark.questions.build import build_questions
from kbench.benchmark.questions.versions import benchmark_of
from kbench.benchmark.surrogates.counted.columns import TIME, kernel_row
from kbench.benchmark.surrogates.counted.fit import GPU, read_works, skill
from kbench.benchmark.surrogates.counted.model import CountedModel
from kbench.benchmark.surrogates.counted.surrogate import CountedSurrogate
from kbench.benchmark.surrogates.protocol import CompilerFacts
from kbench.benchmark.work.gpus import gpu_named
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.source.strip import stripped
from kbench.schemas import Forecast, KernelSource, PairKind
from kbench.schemas.bins import bin_of

BOARD = Path(__file__).parents[3] / "leaderboard" / "submissions" / "benchmark-2"
ENTRIES = ("static", "static-compiler")


def auroc(difference: np.ndarray[Any, Any], faster: np.ndarray[Any, Any]) -> float:
    """Chance that a faster candidate is forecast above a slower one."""
    wins = [(a > b) + (a == b) / 2 for a in difference[faster] for b in difference[~faster]]
    return round(float(np.mean(wins)), 3)


def distances(given: Sequence[Forecast], rows: dict[str, Any]) -> np.ndarray[Any, Any]:
    """Mean RPS of every problem."""
    shares = np.array([answer.probabilities for answer in given], dtype=np.float64)
    _, group = np.unique(rows["problem"], return_inverse=True)
    truth = np.array([bin_of(2.0**value) for value in rows["target"]])
    return np.bincount(group, rps_rows(shares, truth)) / np.bincount(group)


def gain(given: Sequence[Forecast], other: Sequence[Forecast], rows: dict[str, Any]) -> dict[str, Any]:
    """How much more skill one has than the other on the same pairs, with an interval over problems."""
    prior = [Forecast(query_id=answer.query_id, probabilities=tuple(rows["prior"])) for answer in given]
    own, theirs, base = (distances(each, rows) for each in (given, other, prior))
    draws = np.random.default_rng(0).integers(0, len(own), (2000, len(own)))
    spread = (theirs - own)[draws].mean(axis=1) / base[draws].mean(axis=1)
    interval = np.quantile(spread, [0.025, 0.975]).round(3).tolist()
    return {"skill": round(float((theirs - own).mean() / base.mean()), 3), "interval_95": interval}


def figures(given: Sequence[Forecast], rows: dict[str, Any]) -> dict[str, Any]:
    """Skill over the kind's frequencies in training, by relation, and whether edits are faster."""
    shares = np.array([answer.probabilities for answer in given], dtype=np.float64)
    points = np.array([np.log2(answer.speedup or 1.0) for answer in given])
    prior = np.tile(rows["prior"], (len(shares), 1))
    edit = rows["edit"]
    decided = edit & (np.abs(rows["target"]) > np.log2(1.02))
    found = {"all": skill(shares, prior, rows["target"], rows["problem"])}
    for name, kept in (("edits", edit), ("unrelated", ~edit)):
        found[name] = skill(shares[kept], prior[kept], rows["target"][kept], rows["problem"][kept])
    return found | {
        "edit_auroc": auroc(points[decided], rows["target"][decided] > 0),
        "decided_edits": int(decided.sum()),
    }


def main() -> None:
    """Print the figures as JSON."""
    works = read_works([Path(name) for name in sys.argv[1:]])
    corpus = benchmark_of(Corpus.open())
    kernels = corpus.table("kernels", split="test", columns=["kernel_id", "source", "runtime_us"], gpu=GPU).to_pylist()
    counted = {stripped(row["source"]): works[row["kernel_id"]] for row in kernels if row["kernel_id"] in works}
    questions = build_questions(corpus, "test", ("forecast",))
    labels, queries = questions.pairs, questions.queries
    kept = [
        at
        for at, place in enumerate(labels.query.tolist())
        if queries[place].kind is not PairKind.REFERENCE
        and {queries[place].anchor_source, queries[place].candidate_source} <= counted.keys()
    ]
    asked = [queries[place] for place in labels.query[kept].tolist()]

    def compiler(sources: Sequence[KernelSource], _: str) -> list[CompilerFacts | None]:
        return [CompilerFacts(0, 0, 0, counted[kernel.source]) for kernel in sources]

    rows = {
        "target": np.log2(labels.speedup[kept]),
        "problem": labels.problem[kept],
        "edit": np.array([relation == PairKind.PARENT_EDIT for relation in labels.relation[kept]]),
        "prior": questions.kind_priors[PairKind.SIBLING],
    }
    answers = CountedSurrogate(compiler=compiler).forecast(asked)
    report: dict[str, Any] = {"pairs": len(kept), "kernels": len(counted), "problems": len(set(rows["problem"]))}
    report["uncounted"] = sum(answer.speedup is None for answer in answers)
    report["counted"] = figures(answers, rows)
    model, gpu = CountedModel.load(), gpu_named(GPU)
    measured = {row["kernel_id"]: math.log2(row["runtime_us"]) for row in kernels if row["kernel_id"] in works}
    found = {name: kernel_row(works[name], gpu, model.fitted) for name in measured}
    error = [abs(row[TIME] - measured[name]) for name, row in found.items() if row is not None]
    report["white_box_median_log2_error"] = round(float(np.median(error)), 3)
    for entry in ENTRIES:
        stored = {row["query_id"]: row for row in pq.read_table(BOARD / entry / "forecasts.parquet").to_pylist()}
        taken = [stored[query.query_id] for query in asked]
        given = [Forecast(query_id=row["query_id"], probabilities=tuple(row["probabilities"]), speedup=row["speedup"])
                 for row in taken]  # fmt: skip
        report[f"board_{entry}"] = figures(given, rows) | {"counted_gains": gain(answers, given, rows)}
    sys.stdout.write(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
