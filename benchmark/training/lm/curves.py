"""Curves of training runs: reward, RPS and ECE over steps, on training batches and on validation problems."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kbench.loaders.storage.lines import parse_json
from kbench.schemas import UserError

PANELS = ("reward", "rps", "ece")


def draw(runs: Sequence[Path], out: Path) -> None:
    """Draw the logs of runs into one picture.

    Raises:
        UserError: a folder holds no log.
        DataError: a log holds a line that is no JSON.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 3.5), layout="constrained")
    for axis, name in zip(figure.subplots(1, len(PANELS)), PANELS, strict=True):
        for run in runs:
            lines = _lines(run)
            trained = [(line["step"], line[name]) for line in lines if name in line]
            checked = [(line["step"], line["validation"][f"stated_{name}"]) for line in lines
                       if f"stated_{name}" in line.get("validation", {})]  # fmt: skip
            drawn = axis.plot(*zip(*trained, strict=True), alpha=0.5, label=run.name) if trained else None
            if checked:
                color = drawn[0].get_color() if drawn else None
                axis.plot(*zip(*checked, strict=True), "o--", color=color, label=f"{run.name}, validation")
        axis.set(title=name, xlabel="step")
    axis.legend(fontsize="small")
    figure.savefig(out, dpi=120)


def _lines(run: Path) -> list[dict[str, Any]]:
    file = run / "log.jsonl"
    if not file.is_file():
        raise UserError(f"{run} holds no log.jsonl; give the folder of a run of kbench train lm")
    return [parse_json(text, f"{file}:{at}") for at, text in enumerate(file.read_text().splitlines(), 1)]
