"""Command-line options that choose questions, shared by evaluate and the leaderboard."""

from __future__ import annotations

import click

benchmark_option = click.option(
    "--benchmark",
    type=click.Choice(["1", "2"]),
    callback=lambda context, parameter, value: None if value is None else int(value),
    help="Version of the benchmark; by default the newest one that the dataset has splits for.",
)
subset_option = click.option("--subset", type=click.Choice(["core"]), help="A fixed part of the split; all by default.")
