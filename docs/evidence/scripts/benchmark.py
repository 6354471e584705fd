"""Score the shipped entries beside probes, and print the tables of docs/results/benchmark.md.

python docs/evidence/scripts/benchmark.py           # the tables, from docs/evidence/benchmark.json
python docs/evidence/scripts/benchmark.py --score   # scores again, and writes it and benchmark/evaluate/standings.json

The first model is fitted here, in minutes. Score again for every release, entry and change of a headline.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from kbench.benchmark.evaluate.evaluate import evaluate_on
from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.evaluate.results import ASKED_MODEL, CORE_SHOTS, FIRST, LANGUAGE_MODEL, STANDINGS, VALIDATION_CORE
from kbench.benchmark.metrics.registry import headline
from kbench.benchmark.questions import Questions
from kbench.benchmark.questions.build import VALIDATION
from kbench.benchmark.scoring.compare import Comparison
from kbench.benchmark.scoring.score import BootstrapSettings, Bounds, Scored, finite, score
from kbench.benchmark.surrogates.forecasts import ForecastTable, from_forecasts
from kbench.benchmark.surrogates.resolve import BASELINES
from kbench.benchmark.tracks import OVERALL, TRACK_NAMES
from kbench.leaderboard.board import expected_of, read_entries, shipped
from kbench.leaderboard.scoring.audit import audited, power_text
from kbench.leaderboard.scoring.rank import Contest, Headline

ROOT = Path(__file__).parents[3]
EVIDENCE = ROOT / "docs" / "evidence" / "benchmark.json"
PARTS = {"test": Options(), "core": Options(subset="core")}
WITH_SHOTS = {CORE_SHOTS: Options(subset="core", shots=8)}
"""What has a board of its own, where no entry without known kernels stands."""
LEARN_FROM_TRAIN: dict[str, dict[str, Any]] = {name: {} for name in (*BASELINES, FIRST)} | {"static": {"retrain": True}}
"""Who is asked about validation, with arguments."""
LOOKED_INTO = ("claude with facts", "claude zero-shot", "static-compiler", "static")
"""Entries that are compared in pairs, and by who wrote the kernels."""


def scored() -> dict[str, Any]:
    """Every entry, the first model and the probes on `test` and on its core."""
    corpus = Options().corpus()
    whole = PARTS["test"].questions(corpus)
    first = evaluate_on(str(ROOT / "examples" / "my_model.py"), corpus, Options(resamples=1), questions=whole)
    found: dict[str, Any] = {"dataset": whole.dataset}
    on_board: dict[str, dict[str, Scored]] = {}
    for part, options in PARTS.items():
        questions = options.questions(corpus)
        bounds = Bounds.of(questions, BootstrapSettings())
        ids = [query.query_id for query in questions.queries]
        entries = list(read_entries(shipped(questions), questions, expected=expected_of(questions, whole)))
        tables = {one.submission.name: one.table for one in entries}
        tables[FIRST] = from_forecasts([one for one in first.run.forecasts if one.query_id in set(ids)], ids)
        answered = {one.submission.name for one in entries}
        inside = {name: tables[name] for name in LOOKED_INTO if name in answered}
        settings = BootstrapSettings()
        on_board[part] = {
            name: score(questions, tables[name], settings, sliced=False, bounds=bounds, headlines_alone=True)
            for name in sorted(answered)
        }
        found[part] = (
            audited(corpus, questions, tables)
            | looked_into(questions, inside)
            | {
                "questions": len(ids),
                "problems": len(set(questions.pairs.problem)),
                "ceilings": {track: finite(of[headline(track).name]) for track, of in bounds.ceilings.items()},
                "language_models": [one.submission.name for one in entries if one.submission.kind == "language_model"],
            }
        )
    found["board"] = board_power(on_board["test"], on_board["core"])
    return found | {part: with_shots(options) for part, options in WITH_SHOTS.items()} | on_validation()


def board_power(whole: Mapping[str, Scored], core: Mapping[str, Scored]) -> dict[str, Any]:
    """What each headline tells apart among the entries of the board, any two compared on what both answered."""
    power = {}
    for track in (*TRACK_NAMES, OVERALL):
        parts = [{name: one.headline(track) for name, one in part.items()} for part in (whole, core)]
        contest = Contest({name: Headline(*(part.get(name) for part in parts)) for name in {**whole, **core}})
        power[track] = dataclasses.asdict(contest.power())
    return power


def looked_into(questions: Questions, tables: Mapping[str, ForecastTable]) -> dict[str, Any]:
    """Skill by class of author, and paired differences of the headlines."""
    of = {name: score(questions, table, BootstrapSettings()) for name, table in tables.items()}
    skill = headline("forecast").name
    by_author = {
        name: {
            one.slice.removeprefix("author="): {key: getattr(one, key) for key in ("value", "low", "high", "rows")}
            for one in found.slices
            if one.slice.startswith("author=") and one.metric == skill
        }
        for name, found in of.items()
    }
    pairs = {}
    for one, other in itertools.combinations(of, 2):
        tracks = Comparison.of(one, of[one], other, of[other]).tracks
        differences = {track: tracks[track][headline(track).name] for track in TRACK_NAMES}
        pairs[f"{one} - {other}"] = {
            track: {"value": it.difference, "low": it.low, "high": it.high} for track, it in differences.items()
        }
    return {"by_author": by_author, "paired": pairs}


def with_shots(options: Options) -> dict[str, Any]:
    """The headlines of the entries and of the first model where queries show measured kernels."""
    corpus = options.corpus()
    questions = options.questions(corpus)
    ids = [query.query_id for query in questions.queries]
    entries = list(read_entries(shipped(questions), questions))
    tables = {one.submission.name.removesuffix(f"-{options.shots}-shots"): one.table for one in entries}
    first = evaluate_on(str(ROOT / "examples" / "my_model.py"), corpus, options, questions=questions)
    tables[FIRST] = from_forecasts(first.run.forecasts, ids)
    settings = BootstrapSettings(resamples=0)
    figures = {name: score(questions, table, settings, sliced=False).figures for name, table in tables.items()}
    models = [one.submission.name for one in entries if one.submission.kind == "language_model"]
    return headlines(questions, figures, models)


def on_validation() -> dict[str, Any]:
    """The headlines of the first model and of built-ins on validation, all with what they learn from train alone.

    Of the whole split and of its core.
    """
    options = Options(split=VALIDATION, resamples=0)
    corpus = options.corpus()
    questions = options.questions(corpus)
    core = dataclasses.replace(options, subset="core").questions(corpus)
    asked = [query.query_id for query in core.queries]
    figures, of_core = {}, {}
    for name, arguments in LEARN_FROM_TRAIN.items():
        settings = dataclasses.replace(options, arguments=arguments)
        spec = str(ROOT / "examples" / "my_model.py") if name == FIRST else name
        evaluation = evaluate_on(spec, corpus, settings, questions=questions)
        figures[name] = evaluation.scored.figures
        of_core[name] = score(core, from_forecasts(evaluation.run.forecasts, asked), options.bootstrap).figures
    return {VALIDATION: headlines(questions, figures, []), VALIDATION_CORE: headlines(core, of_core, [])}


def headlines(questions: Questions, figures: Mapping[str, Any], models: list[str]) -> dict[str, Any]:
    """Each entry's headlines by track."""
    return {"questions": len(questions.queries), "language_models": models} | {
        track: {"entries": {name: {"value": finite(of[track][headline(track).name].value)}
                            for name, of in figures.items() if headline(track).name in of.get(track, {})}}
        for track in TRACK_NAMES
    }  # fmt: skip


def standings(found: dict[str, Any]) -> dict[str, Any]:
    """What `kbench evaluate` shows beside a surrogate: each entry's headlines; of language models ASKED_MODEL's."""
    entries: dict[str, Any] = {}
    for part in (*PARTS, *WITH_SHOTS, VALIDATION, VALIDATION_CORE):
        models = found[part]["language_models"]
        for track in TRACK_NAMES:
            for name, one in found[part][track]["entries"].items():
                shown = LANGUAGE_MODEL if name == ASKED_MODEL else name
                if shown not in models and one["value"] is not None:
                    of_track = entries.setdefault(shown, {}).setdefault(part, {}).setdefault(track, {})
                    of_track[headline(track).name] = round(one["value"], 4)
    return {"dataset": found["dataset"], "entries": entries}


def tables(found: dict[str, Any]) -> Iterator[str]:
    """The tables of each part: entries and probes by headline, and what the headlines tell apart."""
    tracks = (*TRACK_NAMES, OVERALL)
    for part in PARTS:
        of_part = found[part]
        yield f"{part}: {of_part['questions']:,} questions about {of_part['problems']} problems\n"
        arrows = ["↑" if track == OVERALL else headline(track).arrow for track in tracks]
        heads = [f"`{of_part[track]['metric']}` {arrow}" for track, arrow in zip(tracks, arrows, strict=True)]
        yield f"| | {' | '.join(heads)} |\n|{'---|' * (len(tracks) + 1)}"
        rows = [(f"`{name}`", "entries", name) for name in of_part["forecast"]["entries"]]
        rows += [(f"probe: {name}", "probes", name) for name in of_part["forecast"]["probes"]]
        for label, kind, name in rows:
            cells = [with_interval(of_part[track][kind].get(name)) for track in tracks]
            yield f"| {label} | {' | '.join(cells)} |"
        ceilings = [1.0 if track == OVERALL else of_part["ceilings"][track] for track in tracks]
        yield f"| ceiling | {' | '.join('–' if one is None else f'{one:.3f}' for one in ceilings)} |\n"
        told = {track: of_part[track]["power"] for track in tracks if of_part[track]["power"]["pairs"]}
        yield from (f"{track}: {power_text(power)}" for track, power in told.items())
        for name, figures in (*of_part["by_author"].items(), *of_part["paired"].items()):
            yield f"{name}: {', '.join(f'{key} {with_interval(one)}' for key, one in figures.items())}"
        yield ""
    yield from (f"board, {track}: {power_text(power)}" for track, power in found["board"].items() if power["pairs"])


def with_interval(one: dict[str, Any] | None) -> str:
    """A figure as the page shows it."""
    return "–" if one is None or one["value"] is None else f"{one['value']:.3f} [{one['low']:.3f}, {one['high']:.3f}]"


@click.command()
@click.option("--score", "again", is_flag=True)
def main(again: bool) -> None:
    if again:
        found = scored()
        EVIDENCE.write_text(json.dumps(found, indent=1) + "\n")
        STANDINGS.write_text(json.dumps(standings(found), indent=1) + "\n")
    click.echo("\n".join(tables(json.loads(EVIDENCE.read_text()))))


if __name__ == "__main__":
    main()
