"""`kbench generate status`: what the runs of a folder have found and spent."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from kbench.generation.campaign.campaign import counted, failed_forecasts
from kbench.generation.campaign.drive import open_requests
from kbench.generation.log import LIVE_NAME, LogEntry, by_run, found_files, read_log
from kbench.generation.search.methods.method import LLM
from kbench.generation.search.reducer import replay
from kbench.generation.search.state import RunState
from kbench.loaders.options import echo_json, json_option
from kbench.loaders.storage.lock import in_use
from kbench.schemas import UserError

Row = Mapping[str, Any]
"""Where a run stands, as `--json` prints it."""


@click.command()
@click.argument("run", type=click.Path(exists=True, path_type=Path))
@json_option
def status(run: Path, as_json: bool) -> None:
    """Show what the runs in a folder have found and spent."""
    rows = summaries(run)
    echo_json(rows) if as_json else click.echo(render(rows))


def summaries(folder: Path) -> list[Row]:
    """One row for every run of a folder; without a log, those of the folders in it that have one."""
    folder = folder.parent if folder.is_file() else folder
    if not found_files(folder):
        below = sorted({path.parent for depth in ("*", "*/*") for path in folder.glob(f"{depth}/events*.jsonl*")})
        if rows := [row for one in below if found_files(one) for row in summaries(one)]:
            return rows
        raise UserError(
            f"no search log in {str(folder)!r}; name a run folder, or start one with kbench generate --out FOLDER"
        )
    waiting, live = open_requests(folder), in_use(folder / LIVE_NAME)
    return [
        _summary(state, waiting.get(state.run_id), entries) | {"live": live and not state.stopped}
        for state, entries in recorded_runs(folder)
    ]


def recorded_runs(folder: Path) -> Iterator[tuple[RunState, Sequence[LogEntry]]]:
    """The state and log of every run of a folder, without the texts of its kernels."""
    # Figures need no kernel's text, which shipped logs leave out.
    entries = (
        dataclasses.replace(entry, payload={**entry.payload, "source": ""}) if "source" in entry.payload else entry
        for entry in read_log(folder)
    )
    for own in by_run(entries).values():
        if state := replay(own):
            yield state, own


def _summary(state: RunState, waiting: Sequence[str] | None, entries: Sequence[LogEntry]) -> dict[str, Any]:
    best, settings, charge = state.best(), state.settings, state.charge
    open_slots = len(state.requests) - len(state.answered) if settings.proposer == LLM else 0
    # What was noted of a search before it stopped nobody waits for.
    still_open = 0 if state.stopped else open_slots if waiting is None else len(waiting)
    answers = (entry.payload for entry in entries if entry.kind in ("candidate_proposed", "proposal_failed"))
    answered = sum("model" in (answer.get("recipe") or {}) for answer in answers)
    return {
        "run_id": state.run_id, "problem": settings.problem_id, "backend": settings.backend.value,
        "method": settings.search_method, "step": state.step,
        "surrogate": settings.filter and settings.filter.surrogate,
        # Of its step, without a response yet, and what they ask for; of all steps, answered with a kernel or without.
        "open_requests": still_open, "asked_for": "response" if open_slots else "forecast", "answered": answered,
        "measurements": charge.measurements, "measurements_left": settings.budget.measurements_left(charge),
        "gpu_seconds": charge.gpu_seconds, "tokens": charge.tokens,
        "best_speedup": best.reward if best else None, "best_kernel": best.kernel_id if best else None,
        "kernels_per_s": charge.measurements / charge.wall_seconds if charge.wall_seconds else None,
        "statuses": {status.value: count for status, count in sorted(state.statuses().items())},
        "proposal_failures": dict(state.proposal_failures), "failed_forecasts": state.failed_forecasts,
        "forecast_failure": state.forecast_failure, "lost": sum(node.lost is not None for node in state.nodes.values()),
        "unmeasured": sum(not state.nodes[key].settled for key in state.open), "halted": state.halted,
        "stopped": state.stopped,
    }  # fmt: skip


def render(rows: Sequence[Row]) -> str:
    """The rows as text, with a line of totals."""
    if not rows:
        return "no run has begun yet"
    width = max(len(row["run_id"]) for row in rows)
    lines = [f"{'run':{width}}  step  measured  left  best      GPU s  state"]
    for row in rows:
        best = f"{row['best_speedup']:.3f}x" if row["best_speedup"] else "-"
        left = "-" if row["measurements_left"] is None else str(row["measurements_left"])
        halted = f"halted, run the same command again: {row['halted']}" if row["halted"] else None
        proposed = f"{counted(row['unmeasured'], 'kernel')} proposed, not measured" if row["unmeasured"] else None
        asked = f"waits for {counted(row['open_requests'], row['asked_for'])}" if row["open_requests"] else None
        waits = asked if row["asked_for"] == "forecast" else None
        idle = f"{waits or proposed or asked or 'stopped'}; the same command resumes it"
        course = row["stopped"] or halted or ("live" if row["live"] else idle)
        if row["surrogate"]:
            course += f"; filtered by {row['surrogate']}"
        if row["lost"]:
            course += f"; {counted(row['lost'], 'kernel')} lost"
        if row["failed_forecasts"]:
            course += f"; {failed_forecasts(row['failed_forecasts'], row['forecast_failure'])}"
        lines.append(
            f"{row['run_id']:{width}}  {row['step']:4d}  {row['measurements']:8d}  {left:>4}  {best:8}  "
            f"{row['gpu_seconds']:5.1f}  {course}"
        )
    measured, refused = Counter[str](), Counter[str]()
    for row in rows:
        measured.update(row["statuses"])
        refused.update(row["proposal_failures"])
    waiting, answered = (sum(row[name] for row in rows) for name in ("open_requests", "answered"))
    total = [f"{counted(waiting, 'request')} open, {answered} answered"] if waiting or answered else []
    total += [f"no kernel: {_counts(refused)}"] if refused else []
    total.append(f"measured: {_counts(measured) or 'nothing measured'}")
    return "\n".join([*lines, f"{counted(len(rows), 'run')}: {'; '.join(total)}"])


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())
