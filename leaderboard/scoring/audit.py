"""Audit: every headline beside what needs no understanding, and what difference between two entries it can tell."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from kbench.benchmark.metrics.bootstrap import Figure
from kbench.benchmark.metrics.registry import headline, sign_of
from kbench.benchmark.questions.asked import Tables
from kbench.benchmark.questions.questions import Questions
from kbench.benchmark.scoring.compare import Power, beside_probes, headlines
from kbench.benchmark.scoring.probes import probe_scores
from kbench.benchmark.scoring.score import BootstrapSettings, Bounds, finite, score
from kbench.benchmark.surrogates.forecasts import ForecastTable
from kbench.benchmark.tracks import OVERALL


def audited(corpus: Tables, questions: Questions, entries: Mapping[str, ForecastTable]) -> dict[str, Any]:
    """By track, and overall: every probe and entry, how entries differ from the strongest probe, and the power.

    Args:
        corpus: that states the questions.
        questions: what is asked.
        entries: forecasts by name.
    """
    settings = BootstrapSettings()
    bounds = Bounds.of(questions, settings)
    probes = probe_scores(corpus, questions, settings, bounds)
    scored = {
        name: score(questions, table, settings, sliced=False, bounds=bounds, headlines_alone=True)
        for name, table in entries.items()
    }
    beside = {name: beside_probes(one, probes) for name, one in scored.items()}
    report: dict[str, Any] = {}
    for track in (*questions.tracks, OVERALL):
        figures = headlines(track, scored)
        report[track] = {
            "metric": OVERALL if track == OVERALL else headline(track).name,
            "probes": {name: _plain(figure) for name, figure in headlines(track, probes).items()},
            "entries": {
                name: dataclasses.asdict(against) | {"probe_value": against.value} | _plain(figure)
                for name, figure in figures.items()
                if (against := beside[name].get(track)) is not None
            },
            "power": dataclasses.asdict(Power.among(list(figures.values()))),
        }
    return report


def _plain(figure: Figure) -> dict[str, float | None]:
    return {"value": finite(figure.value), "low": finite(figure.low), "high": finite(figure.high)}


def audit_text(report: Mapping[str, Mapping[str, Any]]) -> str:
    """The audit for people."""
    lines = []
    for track, part in report.items():
        sign = sign_of(track)
        lines.append(f"{track.upper()} {part['metric']} {'↑' if sign > 0 else '↓'}")
        if part["entries"] and all(one["value"] is None for one in part["entries"].values()):
            lines.append("   –: these questions cannot score it")
            continue
        for name, one in sorted(part["probes"].items(), key=lambda item: -sign * (item[1]["value"] or 0.0)):
            lines.append(f"   probe {name}: {_with_interval(one)}")
        for name, one in part["entries"].items():
            mark = "~" if one["reached"] else " "
            lines.append(
                f" {mark} {name}: {_with_interval(one)}; against probe {one['probe']}: {one['over_probe']['verdict']}"
            )
        if part["power"]["pairs"]:
            lines.append(f"   {power_text(part['power'])}")
    return "\n".join([*lines, "~ no headline: a probe that understands nothing comes as far, within the interval"])


def power_text(power: Mapping[str, Any]) -> str:
    """One line on what a headline tells apart."""
    share = power["decided"] / power["pairs"]
    least = power["least_difference"]
    return (
        f"{power['decided']} of {power['pairs']} pairs of entries decided ({share:.0%}); "
        f"two entries must differ by {least:.3f} for four of five samples of problems to decide"
    )


def _with_interval(one: Mapping[str, Any]) -> str:
    value, low, high = ("–" if one[end] is None else f"{one[end]:.3f}" for end in ("value", "low", "high"))
    return f"{value} [{low}, {high}]"
