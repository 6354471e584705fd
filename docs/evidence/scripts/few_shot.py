"""Built-ins after 0, 2 and 8 kernels of the pool were measured, on the same queries: python few_shot.py OUT.json"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

from kbench.benchmark.evaluate.evaluate import evaluate_on
from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.tasks import build_questions
from kbench.benchmark.tasks.few_shot import with_shots
from kbench.loaders.corpus.corpus import Corpus

ASKED = {"static": (0, 2, 8), "online": (2, 8)}
SHOWN = {"forecast": ("skill", "level_skill", "ece"), "select": ("aurc",), "rank": ("within_05_at_10", "spearman")}


def main() -> None:
    """Score each and write value and interval."""
    corpus = Corpus.open(None)
    whole = build_questions(corpus)
    eight = with_shots(whole, corpus, 8)
    found: dict[str, object] = {"dataset": corpus.fingerprint, "queries": len(eight.queries), "of": len(whole.queries)}
    for name, numbers in ASKED.items():
        for shots in numbers:
            known = [query.known[:shots] for query in eight.queries]
            queries = [dataclasses.replace(q, known=k) for q, k in zip(eight.queries, known, strict=True)]
            questions = dataclasses.replace(eight, queries=tuple(queries), shots=shots)
            figures = evaluate_on(name, corpus, Options(shots=shots), questions=questions).scored.figures
            found[f"{name} {shots}"] = {
                metric: [round(getattr(figures[track][metric], end), 4) for end in ("value", "low", "high")]
                for track, metrics in SHOWN.items()
                for metric in metrics
            }
    Path(sys.argv[1]).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
