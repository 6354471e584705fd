"""Command-line options that choose questions, shared by evaluate and the leaderboard."""

from __future__ import annotations

import click

subset_option = click.option("--subset", type=click.Choice(["core"]), help="A fixed part of the split; all by default.")
