"""Curves of training runs: reward, RPS and ECE over steps, on training batches and on validation problems."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kbench.loaders.storage.lines import parse_json
from kbench.schemas import UserError

MARKERS = "os^Dv"
PANELS = {"reward": "reward", "rps": "RPS", "ece": "ECE"}


def draw(runs: Sequence[Path], out: Path) -> None:
    """Draw the logs of runs into one picture: thin lines are training batches, marks validation problems.

    Runs of one objective share a color and differ in their marks.

    Raises:
        UserError: a folder holds no log.
        DataError: a log holds a line that is no JSON.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 3.8), layout="constrained")
    axes = figure.subplots(1, len(PANELS))
    alike: dict[str, list[Path]] = {}
    for run in runs:
        alike.setdefault(_objective(run), []).append(run)
    for at, (objective, group) in enumerate(alike.items()):
        for number, run in enumerate(group):
            label = run.name if len(group) == 1 else objective
            _draw_run(_lines(run), axes, f"C{at}", MARKERS[number % len(MARKERS)], label if number == 0 else None)
    for axis, title in zip(axes, PANELS.values(), strict=True):
        axis.set(title=title, xlabel="step")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(alike), 7), frameon=False)
    figure.savefig(out, dpi=120)


def _draw_run(lines: Sequence[dict[str, Any]], axes: Sequence[Any], color: str, marker: str, label: str | None) -> None:
    # A rewarded run learns what it states, a supervised one what its first digit implies.
    kind = "stated" if any("reward" in line for line in lines) else "implied"
    for axis, name in zip(axes, PANELS, strict=True):
        trained = [(line["step"], line[name]) for line in lines if name in line]
        checks = [(line["step"], line.get("validation", {}).get(f"{kind}_{name}")) for line in lines]
        checked = [(step, value) for step, value in checks if value is not None]
        if trained:
            axis.plot(*zip(*trained, strict=True), color=color, alpha=0.3, linewidth=0.8)
        given = zip(*checked, strict=True) if checked else ([], [])
        axis.plot(*given, color=color, marker=marker, markersize=5, label=label)


def _objective(run: Path) -> str:
    """What a run learned; runs of one objective share a color."""
    file = run / "settings.json"
    return str(parse_json(file.read_text(), str(file))["objective"]) if file.is_file() else run.name


def _lines(run: Path) -> list[dict[str, Any]]:
    file = run / "log.jsonl"
    if not file.is_file():
        raise UserError(f"{run} holds no log.jsonl; give the folder of a run of kbench train lm")
    # A line without an end was being written when the run was killed.
    texts = file.read_text().rpartition("\n")[0].splitlines()
    lines = [parse_json(text, f"{file}:{at}") for at, text in enumerate(texts, 1)]
    # The last validation stands with the result.
    if (result := run / "result.json").is_file():
        found = parse_json(result.read_text(), str(result))
        lines.append({"step": found["steps"], "validation": found["validation"]})
    return lines
