"""The `kbench` command: a lazy group; each folder keeps its own commands in its own cli.py."""

from __future__ import annotations

import difflib
import importlib
import sys
from typing import TYPE_CHECKING

import click

from kbench import __version__
from kbench.schemas.errors import KbenchError

if TYPE_CHECKING:
    from kbench.benchmark.surrogates.compiler import Compiler

# command name -> (module, attribute, one-line help). The help stands here so that `kbench --help` imports no folder.
COMMANDS: dict[str, tuple[str, str, str]] = {
    "evaluate": ("kbench.benchmark.cli", "evaluate", "Score a surrogate on the benchmark."),
    "measure": ("kbench.harness.cli", "measure", "Verify and time kernels on a local GPU."),
    "compare": ("kbench.harness.cli", "compare", "Say which of two kernels is faster, and how sure."),
    "doctor": ("kbench.harness.cli", "doctor", "Inspect GPU, driver, compilers, clocks and sandbox."),
    "generate": ("kbench.generation.cli", "generate", "Search for kernels and record a corpus."),
    "problems": ("kbench.benchmark.problems.cli", "problems", "List, show and check problems."),
    "data": (
        "kbench.loaders.cli",
        "data",
        "Inspect, query, assemble, import, export, pull and push corpora.",
    ),
    "leaderboard": ("kbench.leaderboard.cli", "leaderboard", "Check, score and publish submissions."),
}

# Commands that users look for in a group whose folder may not import theirs.
GUESTS: dict[str, tuple[tuple[str, str], ...]] = {"data": (("kbench.generation.cli", "assemble"),)}


# Commands that ask surrogates, some of which ask a compiler; the benchmark may not import the one there is.
ASKING = ("evaluate", "generate")


def _compiler() -> Compiler:
    from kbench.generation.campaign.compiler import compiler_facts

    return compiler_facts


class LazyGroup(click.Group):
    """Imports a command's folder only when that command runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            near = difflib.get_close_matches(cmd_name, COMMANDS, n=1)
            ctx.fail(f"No such command {cmd_name!r}." + (f" Did you mean {near[0]!r}?" if near else ""))
        module, attribute, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), attribute)
        if cmd_name in ASKING:
            importlib.import_module("kbench.benchmark.surrogates.compiler").provide(_compiler)
        for place, name in GUESTS.get(cmd_name, ()):
            assert isinstance(command, click.Group)
            command.add_command(getattr(importlib.import_module(place), name))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry[2]) for name, entry in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kbench")
def cli() -> None:
    """How fast will this GPU kernel run, and how sure are you?"""


def main() -> None:
    """Entry point: a KbenchError is one line on stderr and its exit code, never a traceback."""
    try:
        cli.main(prog_name="kbench")
    except KbenchError as error:
        click.echo(f"kbench: {error}", err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
