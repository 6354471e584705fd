"""What commands share: options, JSON, tables, a progress bar, and a group that says "did you mean"."""

from __future__ import annotations

import difflib
import importlib
import io
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
corpus_argument = click.argument("path", nargs=-1)
"""Corpus folders, Hub ids or Parquet files; none means the shipped dataset."""
dataset_option = click.option(
    "--dataset", metavar="PATH", help="Corpus folder or Hub id; the shipped dataset by default."
)


class CorpusPath(click.Path):
    """A path, or the word `shipped`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from kbench.loaders.corpus.places import located

        return super().convert(located(value), param, ctx)


def out_option(help: str, *, required: bool = False, file: bool = False) -> Callable[[F], F]:
    """`--out`, also `-o`: the folder that a command writes, or else the file, as a Path."""
    kind = click.Path(file_okay=file, dir_okay=not file, path_type=Path)
    return click.option("--out", "-o", required=required, type=kind, help=help)


def echo_json(value: Any) -> None:
    """Print a value as JSON."""
    click.echo(json.dumps(value, indent=1, ensure_ascii=False))


def progress(length: int, label: str) -> Any:
    """A progress bar on stderr, as a context; silent when stderr is not a terminal."""
    # click prints the label even where it shows no bar.
    return click.progressbar(length=length, label=label, file=sys.stderr if sys.stderr.isatty() else io.StringIO())


def layout(rows: list[dict[str, Any]], width: int = 36) -> list[str]:
    """Rows as lines of aligned columns; long and many-lined values are cut."""
    if not rows:
        return []
    table = [list(rows[0]), *([_short(value, width) for value in row.values()] for row in rows)]
    widths = [max(len(row[position]) for row in table) for position in range(len(table[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]


def _short(value: Any, width: int) -> str:
    text = "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
    first = text.splitlines()[0] if text else ""
    return first if first == text and len(text) <= width else first[: width - 1] + "…"


class NearGroup(click.Group):
    """A group that offers the nearest command for one it lacks, and imports lazy commands only when they run."""

    def __init__(self, *args: Any, lazy: Mapping[str, str] | None = None, **attributes: Any) -> None:
        """Make a group; a lazy command is given as `module:attribute`."""
        super().__init__(*args, **attributes)
        self._lazy = dict(lazy or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), *self._lazy]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._lazy:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self._lazy[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names = self.list_commands(ctx)
        if args and args[0] not in names and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0][:100], names, n=1)
            ctx.fail(f"No such command {args[0]!r}." + (f" Did you mean {near[0]!r}?" if near else ""))
        return super().resolve_command(ctx, args)
