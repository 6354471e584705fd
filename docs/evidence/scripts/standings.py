"""Score what `kbench evaluate` shows beside a surrogate: `python standings.py > benchmark/evaluate/standings.json`.

Built-ins and the language model come from the leaderboard's submissions; the first model is fitted here, in minutes.
Run it again for every release of the dataset and whenever a headline changes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from kbench.benchmark.evaluate.evaluate import evaluate_on
from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.evaluate.standing import FIRST
from kbench.benchmark.evaluate.standing import LANGUAGE_MODEL as MODEL
from kbench.benchmark.metrics.registry import headline
from kbench.benchmark.questions import Questions
from kbench.benchmark.scoring.score import BootstrapSettings, score
from kbench.benchmark.surrogates.forecasts import ForecastTable, from_forecasts
from kbench.benchmark.surrogates.resolve import BUILT_IN
from kbench.leaderboard.board import expected_of, read_entries

ROOT = Path(__file__).parents[3]
SUBMISSIONS = ROOT / "leaderboard" / "submissions"
LANGUAGE_MODEL = "claude-zero-shot"


def headlines(questions: Questions, table: ForecastTable) -> dict[str, dict[str, float]]:
    """The headline of each track; nothing is said here of how sure it is."""
    figures = score(questions, table, BootstrapSettings(resamples=1), sliced=False).figures
    return {track: {headline(track).name: round(figures[track][headline(track).name].value, 4)} for track in figures}


def main() -> None:
    corpus = Options().corpus()
    whole = Options(resamples=1).questions(corpus)
    first = evaluate_on(str(ROOT / "examples" / "my_model.py"), corpus, Options(resamples=1), questions=whole)
    entries: dict[str, dict[str, Any]] = {}
    for part, questions in (("test", whole), ("core", Options(subset="core").questions(corpus))):
        # A language model answered the core alone, built-ins the whole split.
        paths = [path for path in sorted((SUBMISSIONS / "benchmark-2").iterdir()) if path.name in BUILT_IN]
        paths += [SUBMISSIONS / "benchmark-2-core" / LANGUAGE_MODEL] if part == "core" else []
        tables = {
            entry.submission.name: entry.table
            for entry in read_entries(paths, questions, expected=expected_of(questions, whole))
        }
        asked = [query.query_id for query in questions.queries]
        wanted = set(asked)
        tables[FIRST] = from_forecasts([one for one in first.run.forecasts if one.query_id in wanted], asked)
        for name, table in tables.items():
            shown = name if name in (*BUILT_IN, FIRST) else MODEL
            entries.setdefault(shown, {})[part] = headlines(questions, table)
    click.echo(json.dumps({"dataset": whole.dataset, "entries": entries}, indent=1))


if __name__ == "__main__":
    main()
