"""What an evaluation leaves behind: results as JSON, forecasts as Parquet, a submission, and the terminal's table."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kbench import __version__
from kbench.benchmark.evaluation.folder import FORECASTS, RESULTS, SUBMISSION, UNKNOWN, earlier
from kbench.benchmark.evaluation.published_edges import is_published, submission_facts
from kbench.benchmark.evaluation.run import Evaluation
from kbench.benchmark.metrics.metric import Better, Metric, Shown
from kbench.benchmark.metrics.registry import METRICS, headline, of_track
from kbench.benchmark.scoring.score import finite
from kbench.benchmark.surrogates.forecasts.table import write_forecasts
from kbench.benchmark.tracks import TRACK_NAMES
from kbench.loaders.storage.atomic import write_atomically
from kbench.schemas import Submission, to_dict

SCHEMA_VERSION = "1.0.0"
KNOWN_TO_AUTHORS = (
    "never fitted, calibrated or selected on test kernels; but its authors knew the test problems' names and ranges of "
    "speedup, and the test scores of earlier models, pool by pool, when they chose its features"
)
CONTAMINATION = {"static": KNOWN_TO_AUTHORS, "static-compiler": KNOWN_TO_AUTHORS}
"""What may be said against a built-in that learns; the others look at nothing that could leak."""


def results(evaluation: Evaluation) -> dict[str, Any]:
    """The whole result as plain values; the schema is in docs/evaluate.md."""
    scored, questions = evaluation.scored, evaluation.questions
    tracks: dict[str, dict[str, Any]] = {}
    for track, figures in scored.figures.items():
        ceilings = scored.ceilings.get(track, {})
        tracks[track] = {
            metric: {
                "value": finite(figure.value),
                "low": finite(figure.low),
                "high": finite(figure.high),
                "ceiling": finite(ceilings[metric]) if metric in ceilings else None,
            }
            for metric, figure in figures.items()
        }
    return {
        "schema_version": SCHEMA_VERSION,
        "kbench_version": __version__,
        "surrogate": evaluation.name,
        "found_at": evaluation.target.found_at,
        "arguments": evaluation.options.recorded_arguments,
        "inputs": evaluation.inputs,
        "dataset": questions.dataset,
        "split": questions.split,
        "edges": evaluation.options.edges,
        "questions": questions.fingerprint,
        "queries": len(questions.queries),
        "limited": questions.limited,
        "repeats": evaluation.table.repeats,
        "seed": evaluation.options.seed,
        "resamples": evaluation.options.resamples,
        "headlines": {track: headline(track).name for track in TRACK_NAMES},
        "lower_is_better": sorted({m.name for m in METRICS if m.better is Better.LOW}),
        "tracks": tracks,
        "slices": [to_dict(score) for score in scored.slices],
        "failures": {"count": int(evaluation.table.failed.sum()), "reasons": dict(_reasons(evaluation))},
        "stray_answers": evaluation.run.stray,
        "cost": cost(evaluation),
    }


def _reasons(evaluation: Evaluation) -> list[tuple[str, int]]:
    found = dict(evaluation.run.failures) or dict(evaluation.table.reasons)
    return sorted(found.items(), key=lambda item: -item[1])[:20]


def cost(evaluation: Evaluation) -> dict[str, Any]:
    """Seconds and tokens, in all and a forecast."""
    table = evaluation.table
    made = int(table.failed.size)
    fresh = made - evaluation.run.reused * table.repeats
    seconds, tokens = float(np.nansum(table.elapsed_s)), table.tokens
    total_tokens = int(np.nansum(tokens)) if np.any(~np.isnan(tokens)) else None
    return {
        "forecasts": made,
        "reused": evaluation.run.reused * table.repeats,
        "wall_s": evaluation.run.seconds,
        "forecasts_per_s": fresh / evaluation.run.seconds if fresh and evaluation.run.seconds > 0 else None,
        "total_s": seconds,
        "total_tokens": total_tokens,
        "tokens_per_forecast": None if total_tokens is None else total_tokens / max(made, 1),
    }


def submission(evaluation: Evaluation) -> Submission:
    """Metadata of a leaderboard entry, complete but for what only its author knows."""
    kinds = dict.fromkeys(("static", "static-compiler", "nearest"), "statistical") | {"llm": "language_model"}
    built_in = evaluation.target.kind == "built_in"
    known = evaluation.target.documented
    spent = cost(evaluation)
    made = Submission(
        schema_version=Submission.VERSION,
        name=evaluation.name.replace("_", "-")[:64] or "surrogate",
        version=__version__ if built_in else "1",
        authors=("The kbench authors",) if built_in else (f"{UNKNOWN}name the authors",),
        organisation=None,
        license="Apache-2.0" if built_in else f"{UNKNOWN}state the licence",
        links=(),
        kind=kinds.get(evaluation.name, "baseline" if built_in else "statistical"),
        open_weights=known,
        inputs=evaluation.inputs,
        hardware="CPU" if known else f"{UNKNOWN}state the hardware",
        training_data=_training_data(evaluation),
        contamination=CONTAMINATION.get(evaluation.name, "none known")
        if known
        else f"{UNKNOWN}state what it may have seen",
        total_seconds=spent["total_s"],
        total_tokens=spent["total_tokens"],
        dataset_fingerprint=evaluation.questions.dataset,
        tracks=evaluation.questions.tracks,
        repeats=evaluation.table.repeats,
        created_at=datetime.datetime.now(datetime.UTC).date().isoformat(),
    )
    return dataclasses.replace(made, **submission_facts(evaluation)) if is_published(evaluation) else made


def _training_data(evaluation: Evaluation) -> str:
    if evaluation.target.kind == "built_in" and evaluation.name not in ("uniform", "llm"):
        return "the dataset's training and validation splits"
    return "none" if evaluation.name == "uniform" else f"{UNKNOWN}state the training data"


def write(evaluation: Evaluation, out: Path) -> dict[str, Path]:
    """Write results.json, forecasts.parquet and submission.json; the folder is then a submission.

    What an author wrote into submission.json since the last run of the same surrogate stays.
    """
    out.mkdir(parents=True, exist_ok=True)
    files = {name: out / name for name in (RESULTS, FORECASTS, SUBMISSION)}
    kept = earlier(out).kept(evaluation.target, evaluation.options)
    write_forecasts(files[FORECASTS], evaluation.run.forecasts, evaluation.questions.dataset)
    _write_json(files[SUBMISSION], to_dict(dataclasses.replace(submission(evaluation), **kept)))
    _write_json(files[RESULTS], results(evaluation))
    return files


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    write_atomically(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def terminal(found: Mapping[str, Any], others: Sequence[Mapping[str, Any]] = ()) -> str:
    """The table people read: a line a metric, with interval, ceiling, and the baselines beside it."""
    names = [other["surrogate"] for other in others]
    head = ["", found["surrogate"], "95 % interval", "ceiling", *names]
    lines: list[list[str]] = []
    for track, metrics in found["tracks"].items():
        lines.append([track.upper(), "", "", "", *[""] * len(names)])
        for metric in of_track(track):
            if metric.shown >= Shown.TERMINAL and metric.name in metrics:
                lines.append(_line(metric, metrics[metric.name], others))
    widths = [max(len(row[i]) for row in [head, *lines]) for i in range(len(head))]
    text = [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in [head, *lines]
    ]
    return "\n".join([_title(found), "", *(row.rstrip() for row in text), "", *_notes(found)])


def _line(metric: Metric, value: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> list[str]:
    mark = "*" if metric.headline else " "
    interval = "" if value["low"] is None else f"[{metric.text(value['low'])}, {metric.text(value['high'])}]"
    beside = [metric.text(o["tracks"].get(metric.track.name, {}).get(metric.name, {}).get("value")) for o in others]
    name = f" {mark} {metric.name} {metric.arrow}"
    return [name, metric.text(value["value"]), interval, metric.text(value["ceiling"]), *beside]


def _title(found: Mapping[str, Any]) -> str:
    limited = ", limited" if found["limited"] else ""
    return (
        f"{found['surrogate']} on {found['split']} of dataset {found['dataset'][:12]}: "
        f"{found['queries']:,} queries{limited}, inputs: {found['inputs']}"
    )


def _notes(found: Mapping[str, Any]) -> list[str]:
    spent = found["cost"]
    speed = "" if spent["forecasts_per_s"] is None else f", {spent['forecasts_per_s']:,.0f} forecasts/s"
    tokens = "" if spent["total_tokens"] is None else f", {spent['total_tokens']:,} tokens"
    notes = [f"{spent['forecasts']:,} forecasts ({spent['reused']:,} reused) in {spent['wall_s']:.1f} s{speed}{tokens}"]
    count = found["failures"]["count"]
    if count:
        notes.append(f"{count:,} without an answer, scored as the uniform forecast and a forced deferral:")
        notes += [f"  {number:,} × {reason}" for reason, number in list(found["failures"]["reasons"].items())[:5]]
    if found["stray_answers"]:
        notes.append(f"{found['stray_answers']:,} answers to questions nobody asked were ignored")
    notes.append("* headline of its track; ↑ higher is better, ↓ lower is better")
    return notes
