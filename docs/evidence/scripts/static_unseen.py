"""How `static` compares with the other built-ins on unseen problems, and its regret pool by pool.

All from the forecasts of the leaderboard's entries, so that these figures and the leaderboard's are of one run.

PYTHONPATH=src python docs/evidence/scripts/static_unseen.py      # writes docs/evidence/static-unseen-problems.json
PYTHONPATH=src python docs/evidence/scripts/static_unseen.py --name static-compiler
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from kbench.benchmark.evaluation.run import Evaluation, Options, evaluate
from kbench.benchmark.metrics.bootstrap import Bootstrap
from kbench.benchmark.metrics.registry import figures
from kbench.benchmark.metrics.rows import Pool, PoolRows
from kbench.benchmark.scoring.compare import Comparison
from kbench.benchmark.scoring.rows import LEAST_RANKED, pool_scores
from kbench.leaderboard.board import SUBMISSIONS
from kbench.loaders.corpus.corpus import Corpus

OUT = Path(__file__).parents[1]
OTHERS = ("uniform", "prior", "length", "roofline", "nearest")
SHOWN = {"forecast": ("rps_skill", "ece"), "select": ("aurc",), "rank": ("regret_at_10", "within_20_at_10", "spearman")}


def pools(done: Evaluation) -> list[dict[str, Any]]:
    """Size and figures of every pool."""
    labels = done.questions.pools
    scores = pool_scores(labels, done.table, weigh_validity=False)[0]
    found = []
    for rows in labels.pools():
        valid = rows[labels.valid[rows]]
        if len(valid) >= LEAST_RANKED:
            pool = PoolRows((Pool(scores[valid], labels.runtime_us[valid]),))
            values = {name: figure.value for name, figure in figures("rank", Bootstrap(["pool"]), pool).items()}
            found.append({"problem": str(labels.problem[valid[0]]), "kernels": len(valid)} | values)
    return sorted(found, key=lambda pool: -pool["regret_at_10"])


@click.command()
@click.option("--name", default="static", show_default=True, help="Whose figures they are.")
def main(name: str) -> None:
    """Score, compare, write."""
    corpus = Corpus.open()
    mine = evaluate(str(SUBMISSIONS / "benchmark-1" / name), corpus, Options(benchmark=1))
    compared = []
    for against in (*OTHERS, *(["static"] if name != "static" else [])):
        other = evaluate(str(SUBMISSIONS / "benchmark-1" / against), corpus, questions=mine.questions)
        found = Comparison.of(name, mine.scored, against, other.scored).to_json()
        compared.append(found)
        for track, metrics in SHOWN.items():
            for metric in metrics:
                figure = found["tracks"][track][metric]
                low, high = figure["low"], figure["high"]
                click.echo(f"{against:9} {metric:16} {figure['difference']:+.3f} [{low:+.3f}, {high:+.3f}]")
    listed = pools(mine)
    document = {
        "dataset": corpus.fingerprint, "split": "test", "surrogate": name, "pools": listed, "comparisons": compared
    }  # fmt: skip
    (OUT / f"{name}-unseen-problems.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    for pool in listed:
        click.echo(f"{pool['problem']:40} {pool['kernels']:4} {pool['regret_at_10']:.3f} {pool['spearman']:.2f}")


if __name__ == "__main__":
    main()
