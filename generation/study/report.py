"""Search dynamics for people: tables as text, and the command that prints them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from kbench.generation.study.attempts import SEVERAL, attempts_in
from kbench.generation.study.dynamics import ChangeFigures, Dynamics, dynamics
from kbench.generation.study.plots import plot_edits, plot_steps
from kbench.loaders.corpus.places import shipped
from kbench.loaders.options import echo_json, json_option, out_option

SHOWN_EDITS = 3
"""Edits listed for each family."""
STEPS_SHOWN = 12
EDITS_PLOTTED = 20


@click.command(short_help="Say what steps, operators and edits gain.")
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
@out_option("Folder for report.json, report.md, steps.png and edits.png.")
@json_option
def report(paths: tuple[Path, ...], out: Path | None, as_json: bool) -> None:
    """Say what searches gain per step, operator and edit, how varied kernels stay, how soon a search is nearly done.

    PATHS are run folders or corpora; the shipped dataset when left out.
    """
    figures = dynamics(attempts_in(paths or (shipped(),)))
    text = render(figures)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "report.json").write_text(json.dumps(figures.to_json(), indent=1) + "\n", encoding="utf-8")
        (out / "report.md").write_text(text + "\n", encoding="utf-8")
        single = [one for one in figures.edits if one.name != SEVERAL and one.beat_parent is not None]
        plot_steps(figures.steps[:STEPS_SHOWN], out / "steps.png")
        plot_edits(sorted(single, key=lambda one: one.beat_parent_low or 0.0)[-EDITS_PLOTTED:], out / "edits.png")
    if as_json:
        echo_json(figures.to_json())
    else:
        click.echo(text)


def render(figures: Dynamics) -> str:
    """The figures as Markdown tables."""
    steps = [
        (str(one.step), f"{one.searches:,}", _percent(one.improved), _octaves(one.gain_octaves), f"{one.distinct:.2f}")
        for one in figures.steps[:STEPS_SHOWN]
    ]
    methods = [
        (one.method, f"{one.searches:,}", f"{one.measurements:g}", f"{one.near_after:g}", _percent(one.near_share))
        for one in figures.methods
    ]
    changes = ("attempts", "correct", "beat parent", "beat best", "median gain")
    return "\n\n".join(
        [
            f"{figures.searches:,} searches, {figures.attempts:,} measured kernels",
            table(("step", "searches", "improved", "mean gain", "distinct"), steps),
            table(("operator (proposer)", *changes), [_change(one)[1:] for one in figures.operators]),
            table(("method", "searches", "measured", "near after", "share"), methods),
            table(("family", "edit", *changes), [_change(one) for one in best_edits(figures)]),
        ]
    )


def best_edits(found: Dynamics) -> list[ChangeFigures]:
    """The edits that beat their parent most surely, a few for each family."""
    families: dict[str | None, list[ChangeFigures]] = {}
    for one in found.edits:
        families.setdefault(one.family, []).append(one)
    return [one for edits in families.values() for one in edits[:SHOWN_EDITS]]


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [f"| {' | '.join(row)} |" for row in (heads, *rows)]
    return "\n".join([lines[0], "|---" * len(heads) + "|", *lines[1:]])


def _change(one: ChangeFigures) -> tuple[str, ...]:
    parent = _percent(one.beat_parent)
    if one.beat_parent_low is not None and one.beat_parent_high is not None:
        parent += f" [{100 * one.beat_parent_low:.0f}, {100 * one.beat_parent_high:.0f}]"
    shares = (_percent(one.correct), parent, _percent(one.beat_best))
    return (one.family or "", f"`{one.name}`", f"{one.attempts:,}", *shares, _octaves(one.gain_octaves))


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f} %"


def _octaves(gain: float | None) -> str:
    return "–" if gain is None else f"{gain:+.3f}"
