"""Evaluate every built-in on the shipped dataset and put the table into docs/results/surrogates.md.

python docs/evidence/scripts/baseline_table.py            # evaluate, keep the evidence, rewrite the table
python docs/evidence/scripts/baseline_table.py --from docs/evidence/baselines.json
python docs/evidence/scripts/baseline_table.py --from docs/evidence/baselines.json --also RUN/results.json

`--also` adds what `kbench evaluate --surrogate static-compiler --out RUN` wrote: it compiles for half an hour, so it is
no part of every table.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).parents[3]
EVIDENCE = ROOT / "docs" / "evidence" / "baselines.json"
PAGE = ROOT / "docs" / "results" / "surrogates.md"
BEGIN, END = "<!-- baselines: begin -->", "<!-- baselines: end -->"
COLUMNS = {
    "forecast": ("rps_skill", "accuracy", "within_one", "log_score", "ece"),
    "select": ("aurc", "sign_coverage_at_risk_10"),
    "rank": ("regret_at_10", "spearman"),
    "search": ("gain_at_10",),
    "validity": ("auroc",),
}


def evaluated(split: str) -> dict[str, Any]:
    """The results of every built-in on one split; the static surrogate is compared with each of the others."""
    command = [sys.executable, "-m", "kbench", "evaluate", "--all-baselines", "--split", split, "--json",
               "--no-report", "--out", str(ROOT / "out" / "baselines" / split)]  # fmt: skip
    found: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return found


def cell(figure: dict[str, Any] | None) -> str:
    """A figure with its interval."""
    if figure is None or figure["value"] is None:
        return "–"
    if figure["low"] is None:
        return f"{figure['value']:.3f}"
    return f"{figure['value']:.3f} [{figure['low']:.3f}, {figure['high']:.3f}]"


def table(found: dict[str, Any]) -> list[str]:
    """Markdown: a line a surrogate, and the ceiling below."""
    columns = [(track, metric) for track, metrics in COLUMNS.items() for metric in metrics]
    lower = set(found["surrogates"][0]["lower_is_better"])
    head = [f"{metric.replace('_', ' ')} {'↓' if metric in lower else '↑'}" for _, metric in columns]
    lines = ["| surrogate | " + " | ".join(head) + " | forecasts/s |", "|---" * (len(head) + 2) + "|"]
    for entry in found["surrogates"]:
        cells = [cell(entry["tracks"].get(track, {}).get(metric)) for track, metric in columns]
        speed = entry["cost"]["forecasts_per_s"]
        lines.append(f"| `{entry['surrogate']}` | {' | '.join(cells)} | {'–' if speed is None else f'{speed:,.0f}'} |")
    tracks = found["surrogates"][0]["tracks"]
    ceilings = [tracks.get(track, {}).get(metric, {}).get("ceiling") for track, metric in columns]
    lines.append("| ceiling | " + " | ".join("–" if c is None else f"{c:.3f}" for c in ceilings) + " | |")
    return lines


def page(results: dict[str, dict[str, Any]]) -> str:
    """The part of the page between the marks."""
    lines: list[str] = []
    names = {"test": "unseen problems (`test`)", "test_seen": "unseen kernels of seen problems (`test_seen`)"}
    for split, found in results.items():
        first = found["surrogates"][0]
        made = f"dataset `{first['dataset']}`, seed {first['seed']}, {first['resamples']:,} resamples"
        lines += [f"**{names[split]}**: {first['queries']:,} queries, {made}.", "", *table(found), ""]
    return "\n".join([BEGIN, *lines, END])


@click.command()
@click.option("--from", "source", type=click.Path(exists=True, path_type=Path), help="Reuse kept evidence.")
@click.option(
    "--also", "more", multiple=True, type=click.Path(exists=True, path_type=Path), help="Further results.json."
)
def main(source: Path | None, more: tuple[Path, ...]) -> None:
    """Rewrite the table."""
    results = json.loads(source.read_text()) if source else {split: evaluated(split) for split in ("test", "test_seen")}
    for entry in (json.loads(path.read_text()) for path in more):
        kept = [one for one in results[entry["split"]]["surrogates"] if one["surrogate"] != entry["surrogate"]]
        results[entry["split"]]["surrogates"] = [*kept, entry]
    if source is None or more:
        EVIDENCE.write_text(json.dumps(results, indent=1) + "\n")
    text = PAGE.read_text()
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    PAGE.write_text(before + page(results) + after)
    click.echo(page(results))


if __name__ == "__main__":
    main()
