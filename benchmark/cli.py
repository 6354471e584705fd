"""`kbench evaluate`: score a surrogate on the benchmark; `kbench surrogate new`: begin one."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kbench.benchmark.evaluate.options import MODEL, OUTPUT, GroupedCommand, GroupedOption, Options, options_of
from kbench.benchmark.surrogates.resolve import BASELINES, BUILT_IN
from kbench.loaders.options import NearGroup, echo_json, json_option
from kbench.schemas import UserError

if TYPE_CHECKING:
    from kbench.benchmark.surrogates.protocol import Compiler

TUNE = "tune"
OF_TUNE = ("tracks", "specs", "all_baselines", "dataset", "gpu", "resamples", "seed", "as_json")
"""What the track `tune` takes."""
"""The track whose questions are answered by strategies, not by forecasts."""
INTERRUPTED = "kbench: interrupted; the answers so far are kept, run the same command to go on"
FIRST_MODEL = Path(__file__).parent / "evaluate" / "my_model.py.txt"
"""The example, as `kbench surrogate new` writes it."""
FIELDS = tuple(field.name for field in dataclasses.fields(Options))


@click.command(cls=GroupedCommand)
@click.option(
    "--surrogate",
    "specs",
    multiple=True,
    cls=GroupedOption,
    group=MODEL,
    metavar="NAME",
    help=f"Built-in name ({', '.join(BUILT_IN)}), entry point, module:attribute, file.py[:attribute], a forecasts"
    " file, calibrated:NAME, or stack:NAME+NAME. Repeatable.",
)
@click.option(
    "--all-baselines",
    is_flag=True,
    cls=GroupedOption,
    group=MODEL,
    help="Every built-in that needs neither an endpoint nor a compiler, in one table.",
)
@options_of(FIELDS)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    cls=GroupedOption,
    group=OUTPUT,
    metavar="DIR",
    help="Where results go and forecasts are kept for resuming; runs/evaluate/NAME by default.",
)
@click.option(
    "--compare",
    "compare_to",
    cls=GroupedOption,
    group=OUTPUT,
    metavar="NAME",
    help="Another surrogate: show paired differences.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    cls=GroupedOption,
    group=OUTPUT,
    help="Say what would be asked and what it would cost; ask nothing.",
)
@click.option("--brief", is_flag=True, cls=GroupedOption, group=OUTPUT, help="Print the headlines alone.")
@click.option("--no-report", is_flag=True, cls=GroupedOption, group=OUTPUT, help="Skip report.html.")
@click.option(
    "--list-metrics",
    is_flag=True,
    cls=GroupedOption,
    group=OUTPUT,
    help="List every metric with its track and meaning; ask nothing.",
)
@json_option
@click.pass_obj
def evaluate(
    compiler: Compiler | None,
    /,
    specs: tuple[str, ...],
    all_baselines: bool,
    out: Path | None,
    compare_to: str | None,
    dry_run: bool,
    brief: bool,
    no_report: bool,
    list_metrics: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Score a surrogate: how good are its forecasts, where, and how sure is that?"""
    if list_metrics:
        _show_metrics(as_json)
        return
    if TUNE in given["tracks"]:
        if len(given["tracks"]) > 1:
            raise UserError(f"--tracks has {TUNE!r} beside others; strategies are scored alone: --tracks {TUNE}")
        context = click.get_current_context()
        for name in context.params:
            if name not in OF_TUNE and context.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE:
                option = next(one.opts[0] for one in context.command.params if one.name == name)
                raise UserError(
                    f"{option} does not apply to --tracks {TUNE}, which scores the built-in strategies on the tuning "
                    "table and writes nothing; leave it out"
                )
        _show_strategies(() if all_baselines else specs, given, as_json)
        return
    names = [*dict.fromkeys([*specs, *(BASELINES if all_baselines else ())])]
    if not names:
        raise UserError("no surrogate given; use --surrogate NAME (such as static) or --all-baselines")
    given |= {"arguments": parse_arguments(given["arguments"]), "problems": _problem_ids(given["problems"])}
    options = Options(**given)
    options.check()
    from kbench.benchmark.evaluate.command import EvaluateCommand
    from kbench.benchmark.evaluate.progress import TerminalProgress

    command = EvaluateCommand(
        names, options, out=out, report=not no_report, brief=brief, compare_to=compare_to, compiler=compiler,
        progress=TerminalProgress(quiet=as_json and not sys.stderr.isatty()),
    )  # fmt: skip
    if dry_run:
        plan = command.plan()
        echo_json(dataclasses.asdict(plan)) if as_json else click.echo(plan.text())
        return
    try:
        outcome = command.run()
    except KeyboardInterrupt:
        click.echo(INTERRUPTED, err=True)
        sys.exit(130)
    if as_json or outcome.text:
        echo_json(outcome.values) if as_json else click.echo(outcome.text)
    for line in outcome.unanswered:
        click.echo(f"kbench: {line}", err=True)
    if outcome.interrupted:
        click.echo(INTERRUPTED, err=True)
        sys.exit(130)
    if outcome.unanswered:
        sys.exit(1)


def _show_strategies(names: Sequence[str], given: Mapping[str, Any], as_json: bool) -> None:
    """Track tune: strategies in place of surrogates, because what is asked is an order of measurements."""
    from kbench.benchmark.evaluate.progress import TerminalProgress
    from kbench.benchmark.tuning.track import evaluate_strategies, text

    settings = {name: given[name] for name in ("gpu", "resamples", "seed")}
    progress = TerminalProgress(quiet=as_json and not sys.stderr.isatty())
    results = evaluate_strategies(given["dataset"], names, **settings, tell=progress.stage)
    echo_json([result.to_json() for result in results]) if as_json else click.echo(text(results))


@click.group(cls=NearGroup)
def surrogate() -> None:
    """Begin a surrogate of your own."""


@surrogate.command("new", short_help="Write a small model to begin with.")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@json_option
def new_surrogate(file: Path, as_json: bool) -> None:
    """Write FILE, a complete surrogate of about 100 commented lines, and say what to do with it."""
    if file.suffix != ".py" or not file.stem.isidentifier():
        raise UserError(f"FILE is {str(file)!r}; give a name that Python can import, such as my_model.py")
    if not file.parent.is_dir():
        raise UserError(f"folder {str(file.parent)!r} does not exist; make it first, or choose another")
    try:
        with file.open("x", encoding="utf-8") as written:
            written.write(FIRST_MODEL.read_text(encoding="utf-8").replace("my_model.py", file.name))
    except FileExistsError:
        raise UserError(f"{str(file)!r} exists; choose another name, or remove it") from None
    steps = {
        "try": f"kbench evaluate --surrogate {file} --split validation",
        "enter": f"kbench evaluate --surrogate {file} --out leaderboard/submissions/{file.stem}",
        "show": "kbench leaderboard build --out site",
    }
    if as_json:
        echo_json({"file": str(file)} | steps)
        return
    click.echo(f"{file} is written. Change features() and try it as often as you like; look at test once:")
    for name, line in steps.items():
        click.echo(f"  {name:<6} {line}")


def _problem_ids(names: Sequence[str]) -> tuple[str, ...]:
    """Problems by id; a file stands for the problem it defines."""
    if not any(Path(name).exists() for name in names):
        return tuple(names)
    from kbench.benchmark.problems.registry import named

    return tuple(named(name).id if Path(name).exists() else name for name in names)


def _show_metrics(as_json: bool) -> None:
    from kbench.benchmark.metrics.registry import METRICS

    if as_json:
        fields = ("name", "label", "meaning", "better", "bounds", "headline", "ceiling", "decimals")
        echo_json([{"track": m.track.name} | {field: getattr(m, field) for field in fields} for m in METRICS])
        return
    for metric in METRICS:
        mark = "*" if metric.headline else " "
        click.echo(f"{metric.track.name:<8} {mark} {metric.name:<30} {metric.arrow}  {metric.meaning}")


def parse_arguments(pairs: Sequence[str]) -> dict[str, Any]:
    """`k=v` settings; v is a number, true, false or null where it reads as one, else text."""
    arguments: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not all(name.isidentifier() for name in key.split(".")):
            raise UserError(f"--surrogate-arg is {pair!r}; it must be name=value")
        if key in arguments:
            raise UserError(f"--surrogate-arg {key} is given twice; give it once")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        arguments[key] = text if isinstance(value, dict | list) else value
    return arguments
