"""Curves of training runs: reward, RPS and ECE over steps, on training batches and on validation problems."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kbench.loaders.storage.lines import parse_json
from kbench.schemas import UserError

PANELS = {"reward": "reward", "rps": "RPS", "ece": "ECE"}


def draw(runs: Sequence[Path], out: Path) -> None:
    """Draw the logs of runs into one picture: thin lines are training batches, dots validation problems.

    Raises:
        UserError: a folder holds no log.
        DataError: a log holds a line that is no JSON.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 3.8), layout="constrained")
    axes = figure.subplots(1, len(PANELS))
    for at, run in enumerate(runs):
        lines = _lines(run)
        # A rewarded run learns what it states, a supervised one what its first digit implies.
        kind = "stated" if any("reward" in line for line in lines) else "implied"
        for axis, name in zip(axes, PANELS, strict=True):
            trained = [(line["step"], line[name]) for line in lines if name in line]
            checks = [(line["step"], line.get("validation", {}).get(f"{kind}_{name}")) for line in lines]
            checked = [(step, value) for step, value in checks if value is not None]
            if trained:
                axis.plot(*zip(*trained, strict=True), color=f"C{at}", alpha=0.35, linewidth=0.9)
            axis.plot(*(zip(*checked, strict=True) if checked else ([], [])), "o-", color=f"C{at}", label=run.name)
    for axis, title in zip(axes, PANELS.values(), strict=True):
        axis.set(title=title, xlabel="step")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(runs), 7), frameon=False)
    figure.savefig(out, dpi=120)


def _lines(run: Path) -> list[dict[str, Any]]:
    file = run / "log.jsonl"
    if not file.is_file():
        raise UserError(f"{run} holds no log.jsonl; give the folder of a run of kbench train lm")
    lines = [parse_json(text, f"{file}:{at}") for at, text in enumerate(file.read_text().splitlines(), 1)]
    # The last validation stands with the result.
    if (result := run / "result.json").is_file():
        found = parse_json(result.read_text(), str(result))
        lines.append({"step": found["steps"], "validation": found["validation"]})
    return lines
