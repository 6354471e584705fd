"""How far figures measured again lie from those they replace, and repeats from either.

python docs/evidence/scripts/corrections.py [DATASET]
"""

from __future__ import annotations

from pathlib import Path

import click
import polars as pl

from kbench.generation.assembly.gather import gather

ROOT = Path(__file__).parents[3]
RUNS = ROOT / "docs/evidence/runs"
KEY = ["kernel_id", "gpu", "workload"]
RANGES = ((0.0, 8.0, "us"), (8.0, 20.0, "us"), (20.0, 1e9, "%"))
PERIODS = {"second": ("2026-11-15T05", "2026-11-15T06"), "third": ("2026-11-15T07", "2026-11-15T08"),
             "latest": ("2026-11-15T15", "2026-11-15T16")}  # fmt: skip
"""When what is in the dataset now was measured."""


def logged() -> pl.DataFrame:
    """Timed measurements of the logs, which have the figures that searches went by."""
    kernels = gather([RUNS / name for name in ("h200-1", "h200-2", "written")]).kernels
    columns = [*KEY, "runtime_us", "speedup", "started_at", "status"]
    found = [{name: getattr(row, name) for name in columns} for one in kernels for row in one.measurements]
    return pl.DataFrame(found, infer_schema_length=None).filter(pl.col("status") == "ok")


def rows(folder: Path, config: str) -> pl.DataFrame:
    """Timed measurements of a corpus."""
    columns = [*KEY, "runtime_us", "speedup", "started_at", "status"]
    found = pl.read_parquet(folder / config / "*.parquet", columns=columns)
    return found.filter(pl.col("status") == "ok")


def log_percent(one: pl.Series, other: pl.Series) -> pl.Series:
    """Logarithm of ratios, in per cent."""
    return (one / other).log() * 100


def tell(name: str, pairs: pl.DataFrame) -> None:
    """New against old: signed medians by runtime, then sizes of the differences."""
    click.echo(f"{name}: {pairs['kernel_id'].n_unique()} kernels, {pairs.height} measurements")
    for low, high, unit in RANGES:
        part = pairs.filter(pl.col("runtime_us_old").is_between(low, high, closed="left"))
        new, old = part["runtime_us"], part["runtime_us_old"]
        differences = new - old if unit == "us" else log_percent(new, old)
        click.echo(f"  from {low:g} us: {differences.median() or 0.0:+.3f} {unit} ({part.height})")
    for low, high in ((0.0, 20.0), (20.0, 1e9)):
        part = pairs.filter(pl.col("runtime_us").is_between(low, high, closed="left"))
        size = log_percent(part["runtime_us"], part["runtime_us_old"]).abs()
        speedups = log_percent(part["speedup"], part["speedup_old"])
        apart = f"median {size.median() or 0.0:.2f} %, 95th percentile {size.quantile(0.95) or 0.0:.2f} %"
        click.echo(f"  from {low:g} us: {apart}, speedups {speedups.median() or 0.0:+.2f} %")
    click.echo(f"  all speedups {log_percent(pairs['speedup'], pairs['speedup_old']).median() or 0.0:+.2f} %")


@click.command()
@click.argument("new", type=click.Path(exists=True, path_type=Path), default=ROOT / "benchmark/dataset")
def main(new: Path) -> None:
    """Print the comparisons of docs/evidence/runs/README.md."""
    before, now, again = logged(), rows(new, "measurements"), rows(new, "repeats")
    corrected = rows(RUNS / "corrections", "measurements").join(before, on=KEY, suffix="_old")
    too_fast = pl.Series((RUNS / "too-fast.txt").read_text().split())
    fast = pl.col("kernel_id").is_in(too_fast.implode())
    tell("measured again", corrected.filter(~fast))
    tell("measured again, too fast before", corrected.filter(fast))
    for name, (first, last) in PERIODS.items():
        period = now.filter(pl.col("started_at").is_between(pl.lit(first), pl.lit(last)))
        tell(f"repeats of the {name} period", again.filter(~fast).join(period, on=KEY, suffix="_old"))


if __name__ == "__main__":
    main()
