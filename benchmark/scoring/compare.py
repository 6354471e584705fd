"""Two surrogates on the same questions: paired differences, and a verdict with its reason."""

from __future__ import annotations

from typing import Any

from kbench.benchmark.scoring.score import HEADLINES, Scored, finite, lower_is_better


def comparison(name: str, one: Scored, other_name: str, other: Scored) -> dict[str, Any]:
    """Difference of every metric both have, with the interval of the paired bootstrap.

    Both must have been scored on the same questions with the same seed, so that draw i drew the same problems twice.
    """
    tracks: dict[str, dict[str, Any]] = {}
    for track, figures in one.figures.items():
        shared = [metric for metric in figures if metric in other.figures.get(track, {})]
        tracks[track] = {}
        for metric in shared:
            difference = figures[metric].minus(other.figures[track][metric])
            low, high = finite(difference.low), finite(difference.high)
            tracks[track][metric] = {
                "difference": finite(difference.value),
                "low": low,
                "high": high,
                "verdict": _verdict(metric, low, high),
            }
    return {"surrogate": name, "against": other_name, "tracks": tracks}


def _verdict(metric: str, low: float | None, high: float | None) -> str:
    """better, worse, or undecided when the interval holds zero or there is none."""
    if low is None or high is None or low <= 0.0 <= high:
        return "undecided"
    return "better" if (high < 0.0) == lower_is_better(metric) else "worse"


def comparison_text(found: dict[str, Any]) -> str:
    """Headlines of a comparison, a line each."""
    lines = [f"{found['surrogate']} minus {found['against']}, paired by problem"]
    for track, metrics in found["tracks"].items():
        entry = metrics.get(HEADLINES[track])
        if entry is None or entry["difference"] is None:
            continue
        interval = "" if entry["low"] is None else f" [{entry['low']:+.3f}, {entry['high']:+.3f}]"
        lines.append(f"  {track} {HEADLINES[track]}: {entry['difference']:+.3f}{interval} {entry['verdict']}")
    return "\n".join(lines)
