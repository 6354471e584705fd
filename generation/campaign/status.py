"""`kbench generate status`: what the runs of a folder have found and spent."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from kbench.generation.campaign.campaign import failed_forecasts
from kbench.generation.campaign.drive import recorded_states
from kbench.generation.search.state import RunState
from kbench.loaders.options import echo_json, json_option
from kbench.schemas import UserError


@click.command()
@click.argument("run", type=click.Path(exists=True, path_type=Path))
@json_option
def status(run: Path, as_json: bool) -> None:
    """Show what the runs in a folder have found and spent."""
    rows = summaries(run)
    echo_json([dataclasses.asdict(row) for row in rows]) if as_json else click.echo(render(rows))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """Where a run stands."""

    run_id: str
    problem: str
    backend: str
    method: str
    step: int
    open_requests: int
    """Requests of its step that have no answer yet."""
    answered: int
    """Requests answered so far, with a kernel or without."""
    measurements: int
    measurements_left: int | None
    gpu_seconds: float
    tokens: int
    best_speedup: float | None
    best_kernel: str | None
    kernels_per_s: float | None
    statuses: Mapping[str, int]
    proposal_failures: Mapping[str, int]
    failed_forecasts: int
    forecast_failure: str | None
    halted: str | None
    stopped: str | None

    @property
    def course(self) -> str:
        """Where the run stands, in words."""
        halted = f"halted, run the same command again: {self.halted}" if self.halted else None
        course = self.stopped or halted or "live"
        if self.failed_forecasts:
            course += f"; {failed_forecasts(self.failed_forecasts, self.forecast_failure)}"
        return course


def summaries(folder: Path) -> list[RunSummary]:
    """One row for every run.

    Raises:
        UserError: the folder holds no log.
    """
    states = recorded_states(folder)
    if not states:
        raise UserError(f"no search log in {str(folder)!r}; start one with kbench generate --out {folder}")
    return [_summary(state) for state in states.values()]


def _summary(state: RunState) -> RunSummary:
    best = state.best()
    settings, charge = state.settings, state.charge
    return RunSummary(
        run_id=state.run_id, problem=settings.problem_id, backend=settings.backend.value,
        method=settings.search_method, step=state.step,
        open_requests=len(state.requests) - len(state.answered) if state.requests else 0,
        answered=len(state.nodes) + sum(state.proposal_failures.values()), measurements=charge.measurements,
        measurements_left=settings.budget.measurements_left(charge), gpu_seconds=charge.gpu_seconds,
        tokens=charge.tokens, best_speedup=best.reward if best else None, best_kernel=best.kernel_id if best else None,
        kernels_per_s=charge.measurements / charge.wall_seconds if charge.wall_seconds else None,
        statuses={status.value: count for status, count in sorted(state.statuses().items())},
        proposal_failures=dict(state.proposal_failures), failed_forecasts=state.failed_forecasts,
        forecast_failure=state.forecast_failure, halted=state.halted, stopped=state.stopped,
    )  # fmt: skip


def render(rows: Sequence[RunSummary]) -> str:
    """The rows as text, with a line of totals."""
    width = max(len(row.run_id) for row in rows)
    lines = [f"{'run':{width}}  step  measured  left  best      GPU s  state"]
    for row in rows:
        best = f"{row.best_speedup:.3f}x" if row.best_speedup else "-"
        left = "-" if row.measurements_left is None else str(row.measurements_left)
        lines.append(
            f"{row.run_id:{width}}  {row.step:4d}  {row.measurements:8d}  {left:>4}  {best:8}  "
            f"{row.gpu_seconds:5.1f}  {row.course}"
        )
    statuses = sum((Counter(row.statuses) for row in rows), Counter[str]())
    counted = ", ".join(f"{name} {count}" for name, count in statuses.most_common()) or "nothing measured"
    asked = f"{sum(row.open_requests for row in rows)} requests open, {sum(row.answered for row in rows)} answered"
    refused = sum((Counter(row.proposal_failures) for row in rows), Counter[str]())
    if refused:
        asked += " (no kernel: " + ", ".join(f"{name} {count}" for name, count in refused.most_common()) + ")"
    return "\n".join([*lines, f"{len(rows)} runs: {asked}; measured: {counted}"])
