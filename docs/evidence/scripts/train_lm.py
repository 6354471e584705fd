"""Train a small language model under every objective and seed: do calibration rewards improve what it states?

Every arm is one `kbench train lm` command, printed before it runs. A finished arm is not run again and a stopped one
goes on, so the same command works through all arms under any --deadline.

Usage: python docs/evidence/scripts/train_lm.py --model WEIGHTS --prompts prompts.npz.xz --out runs/lm [--parallel 2]
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import click

SETTINGS = {
    "warm-up": {"steps": 125, "learning-rate": 1e-4},
    "cross-entropy": {"steps": 150, "learning-rate": 5e-5},
    "rps": {"steps": 150, "learning-rate": 5e-5},
    "correctness": {"steps": 150, "learning-rate": 2e-5},
    "+brier": {"steps": 150, "learning-rate": 2e-5},
    "+crps": {"steps": 150, "learning-rate": 2e-5},
}
ORDER = (("+crps", "+brier", "correctness"), ("rps", "cross-entropy"))
"""After the warm-up: what the question is about comes first, for every seed."""
FORECAST_S = 90.0
"""Kept free at the end, for the forecasts of an arm that just finished its steps."""
KEPT = ("*.parquet", "log.jsonl", "result.json", "settings.json")


@dataclasses.dataclass(frozen=True)
class Arm:
    """One run."""

    objective: str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.objective.lstrip('+')}-{self.seed}"


@dataclasses.dataclass(frozen=True)
class Plan:
    """Where the arms find their weights and put their results."""

    model: Path
    prompts: Path
    out: Path
    more: tuple[str, ...]

    def finished(self, arm: Arm) -> bool:
        return (self.out / arm.name / "result.json").is_file()

    def ready(self, arm: Arm) -> bool:
        """Whether the weights it starts from are there."""
        return arm.objective == "warm-up" or self.finished(Arm("warm-up", arm.seed))

    def command(self, arm: Arm, deadline_s: float) -> list[str]:
        first = arm.objective == "warm-up"
        start = self.model if first else self.out / Arm("warm-up", arm.seed).name / "model"
        given = {"model": start, "prompts": self.prompts, "objective": arm.objective, "seed": arm.seed}
        given |= SETTINGS[arm.objective] | {"out": self.out / arm.name, "deadline": round(deadline_s)}
        options = [str(each) for name, value in given.items() for each in (f"--{name}", value)]
        weights = [] if first else ["--no-weights"]
        return [sys.executable, "-m", "kbench", "train", "lm", *options, *weights, *self.more]


def run(plan: Plan, arms: list[Arm], parallel: int, deadline_s: float) -> None:
    """Run arms, several at a time, until all are finished or the time is up."""
    begun = time.monotonic()
    running: dict[Arm, subprocess.Popen[bytes]] = {}
    ended: set[Arm] = set()
    while True:
        for arm in [arm for arm, process in running.items() if process.poll() is not None]:
            click.echo(f"{time.monotonic() - begun:6.0f} s  {arm.name} exit {running.pop(arm).returncode}")
            ended.add(arm)
        left = deadline_s - (time.monotonic() - begun)
        waiting = [arm for arm in arms if arm not in running and arm not in ended and not plan.finished(arm)]
        for arm in [arm for arm in waiting if plan.ready(arm)][: parallel - len(running)]:
            if left > 2 * FORECAST_S:
                command = plan.command(arm, left - FORECAST_S)
                click.echo(f"{time.monotonic() - begun:6.0f} s  {' '.join(command[1:])}")
                running[arm] = subprocess.Popen(command)
        if not running:
            return
        if left <= 0:
            for process in running.values():
                process.terminate()
        time.sleep(0.5)


def collect(out: Path, file: Path) -> None:
    """Everything but weights in one file, forecasts to four decimals."""
    with tempfile.TemporaryDirectory() as folder, tarfile.open(file, "w:xz", preset=9) as archive:
        for path in sorted(path for pattern in KEPT for path in out.glob(f"*/{pattern}")):
            kept = rounded(path, Path(folder) / path.name) if path.suffix == ".parquet" else path
            archive.add(kept, path.relative_to(out))


def rounded(path: Path, to: Path) -> Path:
    """Write forecasts to four decimals, each row still adding up to 1, and leave compression to the archive."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    found = np.array(table.column("probabilities").to_pylist()) * 10_000
    whole = np.floor(found)
    ranks = np.argsort(np.argsort(whole - found, axis=1), axis=1)
    whole += ranks < np.rint(10_000 - whole.sum(axis=1))[:, None]
    column = pa.array(list(whole / 10_000), type=table.schema.field("probabilities").type)
    table = table.set_column(table.schema.get_field_index("probabilities"), "probabilities", column)
    pq.write_table(table, to, compression="none", use_dictionary=False)
    return to


@click.command()
@click.option("--model", required=True, type=click.Path(path_type=Path), help="Weights of the small model.")
@click.option("--prompts", required=True, type=click.Path(path_type=Path), help="From `kbench train prompts`.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder with one folder per arm.")
@click.option("--seeds", default="0,1,2", show_default=True)
@click.option("--parallel", default=1, show_default=True, help="Arms at a time: small ones leave a GPU idle.")
@click.option("--deadline", "deadline_s", default=1e9, help="Seconds after which nothing runs any more.")
@click.option("--collect", "archive", type=click.Path(path_type=Path), help="Pack all but weights into this .tar.xz.")
@click.argument("more", nargs=-1)
def main(
    model: Path, prompts: Path, out: Path, seeds: str, parallel: int, deadline_s: float, archive: Path | None,
    more: tuple[str, ...],
) -> None:  # fmt: skip
    """Run every arm of every seed; MORE goes to each `kbench train lm`."""
    numbers = [int(seed) for seed in seeds.split(",")]
    arms = [Arm("warm-up", seed) for seed in numbers]
    arms += [Arm(objective, seed) for group in ORDER for seed in numbers for objective in group]
    plan = Plan(model, prompts, out, more)
    run(plan, arms, parallel, deadline_s)
    if archive is not None:
        collect(out, archive)
    for arm in arms:
        result = json.loads((out / arm.name / "result.json").read_text()) if plan.finished(arm) else None
        told = "not finished" if result is None else json.dumps(result["validation"])
        click.echo(f"{arm.name:16} {told}")
    sys.exit(not all(map(plan.finished, arms)))


if __name__ == "__main__":
    main()
