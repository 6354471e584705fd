"""Calibrated and stacked built-ins on unseen problems, compared with their parts.

PYTHONPATH=src python docs/evidence/scripts/stack.py      # writes docs/evidence/stack.json and prints the page's tables
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from kbench.benchmark.evaluate.evaluate import Evaluation, evaluate_on
from kbench.benchmark.metrics.registry import BY_NAME
from kbench.benchmark.scoring.compare import Comparison
from kbench.benchmark.surrogates.maps import Choice
from kbench.benchmark.surrogates.resolve import locate, resolve
from kbench.benchmark.surrogates.stack import CombinedSurrogate
from kbench.leaderboard.board import SUBMISSIONS
from kbench.loaders.corpus.corpus import Corpus

OUT = Path(__file__).parents[1] / "stack.json"
PARTS = ("static", "roofline", "nearest")
NAMES = ("calibrated:static", "calibrated:nearest", "stack:static+roofline", "stack:static+nearest")
SHOWN = (
    ("forecast", "skill"), ("forecast", "level_skill"), ("forecast", "log_score"), ("forecast", "ece"),
    ("forecast", "ece_per_problem"), ("select", "aurc"), ("rank", "within_05_at_10"), ("rank", "spearman"),
    ("validity", "auroc_within_proposer"),
)  # fmt: skip


def figures(done: Evaluation) -> dict[str, Any]:
    """Every figure with its interval."""
    return {
        track: {name: [figure.value, figure.low, figure.high] for name, figure in found.items()}
        for track, found in done.scored.figures.items()
    }


def line(name: str, found: dict[str, Any], sign: str = "") -> str:
    """A row of a table."""
    cells = [[BY_NAME[track, metric].text(end, sign=sign) for end in found[track][metric]] for track, metric in SHOWN]
    return " | ".join([f"| `{name}`", *(f"{value} [{low}, {high}]" for value, low, high in cells)]) + " |"


def choice(found: Choice | None) -> dict[str, Any] | None:
    """The map chosen, and how all candidates cross-validated."""
    return None if found is None else {"map": found.name, "log_scores": found.log_scores}


def main() -> None:
    """Score, compare, write."""
    corpus = Corpus.open()
    done = {name: evaluate_on(str(SUBMISSIONS / name), corpus) for name in PARTS[:1]}
    questions = done["static"].questions
    done |= {name: evaluate_on(str(SUBMISSIONS / name), corpus, questions=questions) for name in PARTS[1:]}
    done |= {name: evaluate_on(name, corpus, questions=questions) for name in NAMES}
    document: dict[str, Any] = {"dataset": corpus.fingerprint, "split": "test", "surrogates": {}, "comparisons": []}
    for name, evaluation in done.items():
        document["surrogates"][name] = {"figures": figures(evaluation)}
        click.echo(line(name, document["surrogates"][name]["figures"]))
    for name in NAMES:
        learned = resolve(name)
        assert isinstance(learned, CombinedSurrogate)
        learned.fit_corpus(corpus)
        document["surrogates"][name] |= {
            "distribution": choice(learned.chosen), "p_valid": choice(learned.chosen_valid),
            "point_weights": learned.point_weights,
        }  # fmt: skip
        for part in locate(name).parts:
            compared = Comparison.of(name, done[name].scored, part.name, done[part.name].scored).to_json()
            document["comparisons"].append(compared)
            ends = {
                track: {metric: (d["difference"], d["low"], d["high"]) for metric, d in found.items()}
                for track, found in compared["tracks"].items()
            }
            click.echo(line(f"{name} − {part.name}", ends, sign="+"))
    OUT.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
