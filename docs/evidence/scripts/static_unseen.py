"""How `static` compares with the other built-ins on unseen problems, and its regret pool by pool.

python docs/evidence/scripts/static_unseen.py      # writes docs/evidence/static-unseen-problems.json
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from kbench.benchmark.evaluate import Evaluation, evaluate
from kbench.benchmark.scoring.compare import comparison
from kbench.benchmark.scoring.rank import LEAST, pool_values
from kbench.benchmark.scoring.score import pool_scores
from kbench.loaders.corpus import Corpus

OUT = Path(__file__).parents[1] / "static-unseen-problems.json"
OTHERS = ("uniform", "prior", "length", "roofline", "nearest")
SHOWN = {"forecast": ("rps_skill", "ece"), "select": ("aurc",), "rank": ("regret_at_10", "within_20_at_10", "spearman")}


def pools(done: Evaluation) -> list[dict[str, Any]]:
    """Size and figures of every pool."""
    labels = done.questions.pools
    scores = pool_scores(labels, done.table, weigh_validity=False)[0]
    found = []
    for rows in labels.pools():
        valid = rows[labels.valid[rows]]
        if len(valid) >= LEAST:
            values = pool_values(scores[valid], labels.runtime_us[valid])
            found.append({"problem": str(labels.problem[valid[0]]), "kernels": len(valid)} | values)
    return sorted(found, key=lambda pool: -pool["regret_at_10"])


def main() -> None:
    """Evaluate, compare, write."""
    corpus = Corpus.open()
    mine = evaluate("static", corpus)
    compared = []
    for name in OTHERS:
        other = evaluate(name, corpus, questions=mine.questions)
        found = comparison("static", mine.scored, name, other.scored)
        compared.append(found)
        for track, metrics in SHOWN.items():
            for metric in metrics:
                figure = found["tracks"][track][metric]
                low, high = figure["low"], figure["high"]
                click.echo(f"{name:9} {metric:16} {figure['difference']:+.3f} [{low:+.3f}, {high:+.3f}]")
    listed = pools(mine)
    document = {
        "dataset": corpus.fingerprint, "split": "test", "surrogate": "static", "pools": listed, "comparisons": compared
    }  # fmt: skip
    OUT.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    for pool in listed:
        click.echo(f"{pool['problem']:40} {pool['kernels']:4} {pool['regret_at_10']:.3f} {pool['spearman']:.2f}")


if __name__ == "__main__":
    main()
