"""A closed season's skill on pairs with and without a kernel of the language model: python season.py 2026-november"""

from __future__ import annotations

import json
import sys

import numpy as np

from kbench.benchmark.metrics.bootstrap import Bootstrap
from kbench.benchmark.metrics.forecast import skill_over_problems
from kbench.benchmark.scoring.rows import pair_rows
from kbench.benchmark.surrogates.forecasts import align
from kbench.leaderboard.season.life import ENTRIES, KERNELS, LABELS, QUERIES, SEASONS
from kbench.leaderboard.submission.check import check
from kbench.leaderboard.submission.labels import read_labels, read_queries
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.source.strip import stripped


def main() -> None:
    """Print value and interval of every entry, by kind of pair."""
    folder = SEASONS / sys.argv[1]
    questions = read_labels(folder / LABELS)
    rows = Corpus.open(folder / KERNELS).table("kernels", columns=["source", "proposer"]).to_pylist()
    written = {stripped(row["source"]) for row in rows if row["proposer"] == "llm"}
    texts = {query.query_id: query for found in read_queries(folder / QUERIES)[0].values() for query in found}
    asked = [texts[questions.queries[at].query_id] for at in questions.pairs.query.tolist()]
    model = np.array([bool(written & {query.anchor_source, query.candidate_source}) for query in asked])
    level = questions.pairs.kind == "reference"
    parts = {"all": ~level, "without": ~level & ~model, "with": ~level & model}
    found: dict[str, object] = {"pairs": {name: int(mask.sum()) for name, mask in parts.items()}}
    bootstrap = Bootstrap(questions.pairs.problem)
    for path in sorted((folder / ENTRIES).iterdir()):
        table = align(check(path).forecasts, [query.query_id for query in questions.queries])
        figures = {name: skill_over_problems(bootstrap, pair_rows(questions, table), m) for name, m in parts.items()}
        found[path.name] = {name: [round(end, 3) for end in (f.value, f.low, f.high)] for name, f in figures.items()}
    sys.stdout.write(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
