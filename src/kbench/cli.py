"""The `kbench` command: a lazy group; each folder keeps its own commands in its own cli.py."""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import json
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kbench import __version__
from kbench.loaders.options import NearGroup
from kbench.schemas.errors import KbenchError

if TYPE_CHECKING:
    from kbench.benchmark.surrogates.protocol import CompilerFacts
    from kbench.schemas import KernelSource


@dataclasses.dataclass(frozen=True, slots=True)
class CommandEntry:
    """Where a command is; its help is here so that `kbench --help` imports no folder."""

    place: str
    """module:attribute."""
    help: str
    adds: tuple[str, ...] = ()
    """Commands that users look for in this group although its folder may not import theirs."""


COMMANDS = {
    "evaluate": CommandEntry("kbench.benchmark.cli:evaluate", "Score a surrogate on the benchmark."),
    "surrogate": CommandEntry("kbench.benchmark.cli:surrogate", "Begin a surrogate of your own."),
    "measure": CommandEntry("kbench.harness.cli:measure", "Verify and time kernels on a local GPU."),
    "compare": CommandEntry("kbench.harness.cli:compare", "Say which of two kernels is faster, and how sure."),
    "explain": CommandEntry(
        "kbench.generation.explain:command", "Say what a kernel does and what bounds it, without a GPU."
    ),
    "doctor": CommandEntry("kbench.harness.cli:doctor", "Inspect GPU, driver, compilers, clocks and sandbox."),
    "contribute": CommandEntry("kbench.harness.cli:contribute", "Measure 200 kernels on your GPU, to send them in."),
    "generate": CommandEntry("kbench.generation.cli:generate", "Search for kernels and record a corpus."),
    "problems": CommandEntry(
        "kbench.benchmark.problems.cli:problems",
        "List, show, check and time problems.",
        adds=("kbench.harness.cli:references",),
    ),
    "kernels": CommandEntry(
        "kbench.loaders.summary.commands:kernels",
        "Find the fastest kernels, show one, and read hardware counters.",
        adds=("kbench.harness.cli:counters",),
    ),
    "data": CommandEntry(
        "kbench.loaders.cli:data",
        "Inspect, query, assemble, import, export, fetch and push corpora.",
        adds=("kbench.benchmark.training.cli:export", "kbench.generation.assembly.assemble:command"),
    ),
    "leaderboard": CommandEntry("kbench.leaderboard.cli:leaderboard", "Check, score and publish submissions."),
}


PATH_ERRORS = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError)
"""Of the system: a path that the user can choose anew."""


def _imported(place: str) -> Any:
    module, _, attribute = place.partition(":")
    return getattr(importlib.import_module(module), attribute)


class KbenchGroup(NearGroup):
    """Imports a command's folder only when that command runs."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = super().get_command(ctx, cmd_name)
        if isinstance(command, click.Group) and cmd_name in COMMANDS:
            for place in COMMANDS[cmd_name].adds:
                command.add_command(_imported(place))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])


def harness_compiler(kernels: Sequence[KernelSource], capability: str) -> Sequence[CompilerFacts | None]:
    """The compiler for surrogates that look at compiler output, imported when one asks.

    It reaches commands as the context's object: the benchmark may not import the harness.
    """
    found: Sequence[CompilerFacts | None] = _imported("kbench.generation.executors.compiler:compiler_facts")(
        kernels, capability
    )
    return found


@click.group(
    cls=KbenchGroup,
    lazy={name: entry.place for name, entry in COMMANDS.items()},
    context_settings={"help_option_names": ["-h", "--help"], "obj": harness_compiler},
)
@click.version_option(__version__, prog_name="kbench")
def cli() -> None:
    """How fast will this GPU kernel run, and how sure are you?"""
    _imported("kbench.loaders.storage.scratch:settle_temporary_folder")()


def main() -> int:
    """Run the command; what goes wrong is one line on stderr and an exit code, never a traceback.

    With --json that line is JSON. A defect of kbench itself is told in a line too; $KBENCH_TRACEBACK shows where it is.

    Raises:
        KeyboardInterrupt: for whoever started it to tell.
    """
    for argument in sys.argv[1:]:
        if not argument.isascii() and argument != argument.encode("utf-8", "replace").decode():
            # Tables, JSON and terminals hold UTF-8 alone, and would fail one by one.
            return _told(f"argument {ascii(argument)[:200]} is not UTF-8; rename the file or folder", 2)
    try:
        code = cli.main(prog_name="kbench", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.Abort:
        raise KeyboardInterrupt from None
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        if isinstance(error, click.NoSuchOption):
            # The dashes that all options share make any two look alike.
            name, known = error.option_name.lstrip("-"), [one.lstrip("-") for one in error.possibilities or ()]
            near = [f"--{one}" for one in difflib.get_close_matches(name, known)]
            error = click.NoSuchOption(error.option_name, possibilities=near, ctx=error.ctx)
        where = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "kbench"
        return _told(f"{error.format_message().rstrip('.')} (see {where} --help)", error.exit_code)
    except KbenchError as error:
        return _told(str(error), error.exit_code)
    except BrokenPipeError:
        # Whoever read the output has read enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        if where and isinstance(error, PATH_ERRORS):
            first = "make its folder first, or " if isinstance(error, FileNotFoundError) else ""
            return _told(f"{where}{error.strerror}; {first}choose another path", 2)
        return _told(f"{where}{error.strerror or error}; the system refused it, nothing half-written is kept", 1)
    except MemoryError:
        return _told("out of memory; close other programs, or ask for less at once", 1)
    except Exception as error:
        if os.environ.get("KBENCH_TRACEBACK"):
            raise
        at = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(at.filename).name}:{at.lineno}"
        return _told(f"internal error ({type(error).__name__} at {place}: {error}); please report it", 70)


def _told(message: str, code: int) -> int:
    """Say it in one line whatever the message holds: texts of others may carry escapes and line breaks."""
    shown = " ".join("".join(each if each.isprintable() else " " for each in message).split())
    as_json = json.dumps({"error": shown, "exit_code": code}, ensure_ascii=False)
    click.echo(as_json if "--json" in sys.argv else f"kbench: {shown}", err=True)
    return code
