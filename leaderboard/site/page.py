"""What the page draws from, and the page itself."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kbench import __version__
from kbench.benchmark.evaluate.folder import UNKNOWN
from kbench.benchmark.metrics.bootstrap import RESAMPLES, Figure, interval_level
from kbench.benchmark.metrics.metric import Metric, Shown
from kbench.benchmark.metrics.registry import METRICS, headline, sign_of
from kbench.benchmark.scoring.compare import Difference, headlines, strongest
from kbench.benchmark.scoring.score import Scored
from kbench.benchmark.tracks import OVERALL, TRACK_NAMES, TRACKS, Track
from kbench.leaderboard.scoring.rank import OVERALL_RULE, Contest, Headline, Place
from kbench.leaderboard.scoring.results import Results, each_figure
from kbench.leaderboard.scoring.score import PAGE_FACETS, PAGE_RESAMPLES
from kbench.leaderboard.site.shards import compact, packed, shortened
from kbench.loaders.card.provenance import SHEET
from kbench.schemas import Forecast, Submission, json_schema

HERE = Path(__file__).parent
PREVIEW = HERE / "preview.png"
DIGITS = 5
"""Significant digits on the page and in its JSON files: intervals are wider than the third."""
METADATA = (
    "name", "version", "authors", "organisation", "license", "links", "kind", "inputs", "hardware", "training_data",
    "contamination", "created_at",
)  # fmt: skip
"""What the page shows of a submission's metadata."""
SCRIPTS = ("base", "charts", "code", "board", "home", "entry", "compare", "problem", "kernel", "browse", "route")
"""The page's script in parts; each uses those before it."""
ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Crect width='16' height='16' "
    "rx='3' fill='%230b66c3'/%3E%3Cpath d='M3 12V8h2v4zm4 0V5h2v7zm4 0V2h2v10z' fill='white'/%3E%3C/svg%3E"
)
PAPER = "https://arxiv.org/abs/2605.31464"
"""The work this benchmark follows."""
COLUMNS: tuple[Metric, ...] = tuple(metric for metric in METRICS if metric.shown is Shown.BOARD)
"""The metrics the page shows."""


KEYS = (*((metric.track.name, metric.name) for metric in COLUMNS), (OVERALL, OVERALL))
"""Track and metric of every figure of the page."""


def page_data(
    results: Sequence[Results], dataset: Mapping[str, Any], probes: Mapping[str, Scored] | None = None
) -> dict[str, Any]:
    """Everything the page draws from, rounded as shown.

    Args:
        results: scored entries.
        dataset: what `dataset_facts` says of it.
        probes: what needs no understanding of a kernel scores on the same questions.
    """
    entries = [entry_data(result) for result in results]
    headlines = {track: _headlines(results, track, dataset) for track in (*TRACK_NAMES, OVERALL)}
    places, power = {}, {}
    for track, of_track in headlines.items():
        # One at a time: each compares all entries with all others.
        contest = Contest(of_track)
        places[track], power[track] = contest.places(), dataclasses.asdict(contest.power())
    names = {result.entry_id: result.submission.name for result in results}
    data = {
        "version": __version__,
        "seed": results[0].seed if results else 0,
        "dataset": dict(dataset),
        "tracks": [_track(track) for track in TRACKS if headlines[track.name] or not results],
        "level": _level(dataset, "all"),
        "page_resamples": PAGE_RESAMPLES,
        "resamples": RESAMPLES,
        "columns": [f"{track}.{metric}" for track, metric in KEYS],
        "metrics": {
            f"{m.track.name}.{m.name}": {
                "label": m.label,
                "better": m.better,
                "meaning": m.meaning,
                "decimals": m.decimals,
            }
            for m in COLUMNS
        }
        | {f"{OVERALL}.{OVERALL}": {"label": "Overall", "better": "high", "meaning": OVERALL_RULE, "decimals": 3}},
        "facets": _facets(dataset["slices"])
        | {name: values for name, values in dataset["facets"].items() if len(values) == 1},
        "places": {
            track: [_place(place, names, sign_of(track)) for place in of_track] for track, of_track in places.items()
        },
        "power": power,
        "probes": {track: found for track in headlines if (found := _probe(track, headlines[track], probes or {}))},
        "citation": SHEET.citation,
        "paper": PAPER,
        "rule": OVERALL_RULE,
        "entries": entries,
    }
    return _rounded(data)


def render_page(data: Mapping[str, Any], preview: str = PREVIEW.name) -> str:
    """The page's HTML: style and script inline, each allowed by its hash and nothing else allowed.

    Args:
        data: what the page draws from.
        preview: address of the image that stands for the page where it is linked to.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    parts = "\n".join((HERE / "js" / f"{name}.js").read_text("utf-8") for name in SCRIPTS)
    script, style = f'(async () => {{\n"use strict";\n{parts}}})();\n', (HERE / "style.css").read_text("utf-8")
    counts, queries = data["dataset"]["counts"], data["dataset"]["scope"]["queries"]
    held = ""
    if counts:
        held = f"{counts['kernels']:,} measured CUDA and Triton kernels of {counts['problems']} problems; "
    environment = Environment(loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined)
    return environment.get_template("page.html.jinja").render(
        data=data,
        payload=packed(compact(data)),
        script=script,
        style=style,
        script_hash=_csp_hash(script),
        icon=ICON,
        preview=preview,
        description=f"{held}forecasters of GPU kernel speed, scored on {queries:,} queries with intervals.",
        style_hash=_csp_hash(style),
        submission_fields=_fields(json_schema(Submission)),
        forecast_fields=_fields(json_schema(Forecast)),
    )


def entry_data(result: Results) -> dict[str, Any]:
    """What the page and its JSON file hold of an entry, rounded as shown."""
    meta = result.submission
    return _rounded({
        "id": result.entry_id,
        **{name: _stated(getattr(meta, name)) for name in METADATA},
        "open": meta.open_weights,
        "cost": result.cost,
        "answered_share": result.answered_share,
        "flags": list(result.flags),
        "curves": result.curves,
        "scores": (scores := _scores_by_slice(result)),
        "part": None if "all" in scores or not scores else next(iter(scores)),
    })  # fmt: skip


def _stated(value: Any) -> Any:
    """A field as its author stated it; what `kbench evaluate` left open says so."""
    if isinstance(value, tuple):
        return tuple(map(_stated, value))
    return "not stated" if isinstance(value, str) and value.startswith(UNKNOWN) else value


def _scores_by_slice(result: Results) -> dict[str, list[list[float | None]]]:
    """Per slice, a list in the order of `columns`: [value, low, high, ceiling], shortened where only the value counts.

    Intervals are kept for every metric over all queries and, in slices, for the headlines that ranks are made of.
    """
    position = {key: i for i, key in enumerate(KEYS)}
    headlines = {(metric.track.name, metric.name) for metric in COLUMNS if metric.headline} | {(OVERALL, OVERALL)}
    # What answers a part alone has figures nowhere else.
    on_part = all(score.slice != "all" for score in result.scores)
    table: dict[str, list[list[float | None]]] = {}
    for score in result.scores:
        key = (score.track, score.metric)
        facets = {part.split("=", 1)[0] for part in score.slice.split("&")}
        if key not in position or ("=" in score.slice and not facets <= set(PAGE_FACETS)):
            continue
        row = table.setdefault(score.slice, [[] for _ in position])
        full = [score.value, score.low, score.high, score.ceiling]
        if score.slice != "all" and not on_part:
            full = [shortened(value) for value in (full[:3] if key in headlines else full[:1])]
        row[position[key]] = full
    return table


def _headlines(results: Sequence[Results], track: str, dataset: Mapping[str, Any]) -> dict[str, Headline]:
    """A track's headline, or overall, of every entry that answers all questions, or core."""
    metric, sign = OVERALL if track == OVERALL else headline(track).name, sign_of(track)

    def figure(result: Results, part: str, draws: Mapping[str, Sequence[float]]) -> Figure | None:
        value = result.value(track, metric, part)
        if value is None or not draws.get(track):
            return None
        return Figure(sign * value, sign * np.asarray(draws[track]), _level(dataset, part))

    return {
        result.entry_id: Headline(figure(result, "all", result.draws), figure(result, "core", result.core_draws))
        for result in results
    }


def _level(dataset: Mapping[str, Any], part: str) -> float:
    """Share of the draws that an interval takes, by the problems of the part."""
    sizes = dataset["slices"].get(part, {})
    return interval_level(max((size[1] for size in sizes.values()), default=0))


def _probe(track: str, entries: Mapping[str, Headline], probes: Mapping[str, Scored]) -> dict[str, Any] | None:
    """The strongest probe of a track, and whether it comes as far as the best entry does."""
    sign, known = sign_of(track), headlines(track, probes)
    whole = [one.whole for one in entries.values() if one.whole is not None]
    if not known or not whole:
        return None
    name = strongest(track, known)
    best = max(whole, key=lambda figure: figure.value)
    probe = Figure(sign * known[name].value, sign * known[name].draws[: len(best.draws)])
    low, high = sorted((known[name].low, known[name].high))
    reached = Difference.of(1.0, best, probe).verdict != "better"
    return {"probe": name, "value": known[name].value, "low": low, "high": high, "reached": reached}


def _track(track: Track) -> dict[str, Any]:
    return {
        "id": track.name,
        "title": track.title,
        "question": track.question,
        "scale": track.scale,
        "asks_about": track.asks_about,
        "headline": headline(track.name).name,
        "headline_label": headline(track.name).label,
        "metrics": [metric.name for metric in COLUMNS if metric.track is track],
    }


def _facets(slices: Iterable[str]) -> dict[str, list[str]]:
    facets: dict[str, list[str]] = {facet: [] for facet in PAGE_FACETS}
    for text in sorted({part for key in slices for part in key.split("&") if "=" in part}):
        facet, value = text.split("=", 1)
        if facet in facets:
            facets[facet].append(value)
    return facets


def _place(place: Place, names: Mapping[str, str], sign: float = 1.0) -> dict[str, Any]:
    return {
        "id": place.entry_id,
        "name": names[place.entry_id],
        "rank": place.rank,
        "rank_low": place.rank_low,
        "rank_high": place.rank_high,
        "figure": sign * place.figure,
    }


def _fields(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {"name": name, "type": _words(spec), "description": spec["description"], "required": name in schema["required"]}
        for name, spec in schema["properties"].items()
    ]


def _words(spec: Mapping[str, Any]) -> str:
    """A field's type for people. Patterns hold invisible and direction-changing characters, which are spelt out."""
    kind = spec["type"]
    text = " or ".join(kind) if isinstance(kind, list) else str(kind)
    if "items" in spec:
        return f"{text} of {_words(spec['items'])}"
    pattern = str(spec.get("pattern", ""))
    if pattern.startswith("^("):
        return "one of " + ", ".join(pattern[2:-2].replace("\\", "").split("|"))
    if free := re.fullmatch(r"\^\[\^.*\]\{(\d+),(\d+)\}\$", pattern):
        return f"{text} of {free[1]} to {int(free[2]):,} characters, no control characters"
    spelt = "".join(c if " " <= c <= "~" else f"\\u{ord(c):04x}" for c in pattern)
    return f"{text} like {spelt}" if spelt else text


def _rounded(value: dict[str, Any]) -> dict[str, Any]:
    rounded: dict[str, Any] = each_figure(value, lambda figure: shortened(figure, DIGITS))
    return rounded


def _csp_hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
