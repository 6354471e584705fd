"""How far repeats on another machine lie from the dataset's measurements, against what both intervals allow.

python docs/evidence/scripts/machine_spread.py
prints what docs/results/repeatability.md says of the dataset's repeats and of those of the language model's kernels.
"""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
import polars as pl

from kbench.generation.assembly.kernels import MACHINE_SIGMA
from kbench.harness.timing.rounds import Z95
from kbench.loaders.corpus.places import shipped

ROOT = Path(__file__).parents[3]
KEY = ["kernel_id", "gpu", "workload"]
FIGURES = {"time": ("runtime_us", "runtime_low_us", "runtime_high_us"),
           "speedup": ("speedup", "speedup_low", "speedup_high")}  # fmt: skip


def timed(path: str) -> pl.DataFrame:
    """Correct measurements of Parquet files."""
    columns = [*KEY, "status", *(name for names in FIGURES.values() for name in names)]
    return pl.read_parquet(path, columns=columns).filter(pl.col("status") == "ok").drop("status")


@click.command()
def main() -> None:
    """Compare and print."""
    first = timed(f"{shipped()}/measurements/*.parquet")
    repeats = {"release 1": f"{shipped()}/repeats/*.parquet",
               "language model": f"{ROOT}/docs/evidence/runs/repeats-llm/measurements/*.parquet"}  # fmt: skip
    for name, path in repeats.items():
        pairs = timed(path).join(first, on=KEY, suffix="_first")
        click.echo(f"{name}: {pairs['kernel_id'].n_unique()} kernels, {pairs.height} measurements")
        for low, high in ((0.0, 20.0), (20.0, np.inf)):
            tell(pairs.filter(pl.col("runtime_us").is_between(low, high, closed="left")), low)


def tell(pairs: pl.DataFrame, low: float) -> None:
    """Distances, and the share within both intervals, as they are and widened by the spread between machines."""
    for name, (value, least, most) in FIGURES.items():
        apart = (pairs[value] / pairs[f"{value}_first"]).log().abs().to_numpy()
        squares = sum(
            ((pairs[f"{most}{end}"] / pairs[f"{least}{end}"]).log().to_numpy() / 2) ** 2 for end in ("", "_first")
        )
        shares = [np.mean(apart <= np.sqrt(squares + 2 * (Z95 * sigma) ** 2)) for sigma in (0.0, MACHINE_SIGMA)]
        click.echo(
            f"  {name} from {low:g} us ({len(apart)}): median {np.median(apart):.2%}, 95th percentile "
            f"{np.quantile(apart, 0.95):.2%}; within both intervals {shares[0]:.1%}, widened {shares[1]:.1%}"
        )


if __name__ == "__main__":
    main()
