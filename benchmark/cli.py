"""`kbench evaluate`: score a surrogate on the benchmark."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kbench.benchmark.evaluation.options import subset_option
from kbench.benchmark.surrogates.resolve import BUILT_IN
from kbench.benchmark.tracks import SHOTS, TRACK_NAMES
from kbench.loaders.options import echo_json, json_option
from kbench.schemas import UserError

if TYPE_CHECKING:
    from kbench.benchmark.surrogates.protocol import Compiler

shots_option = click.option(
    "--shots",
    type=click.Choice([str(number) for number in SHOTS]),
    callback=lambda ctx, parameter, value: int(value),
    default=str(SHOTS[0]),
    show_default=True,
    help="How many measured kernels of its problem each query shows, with their speedups.",
)


@click.command()
@click.option(
    "--surrogate",
    "specs",
    multiple=True,
    metavar="NAME",
    help=f"Built-in name ({', '.join(BUILT_IN)}), entry point, module:attribute, file.py[:attribute], a forecasts"
    " file, calibrated:NAME, or stack:NAME+NAME. Repeatable.",
)
@click.option(
    "--all-baselines", is_flag=True, help="Every built-in that needs neither an endpoint nor a compiler, in one table."
)
@click.option(
    "--dataset", "--test", metavar="PATH", help="Corpus folder or Hub id to ask about; the shipped dataset by default."
)
@click.option(
    "--train", metavar="PATH", help="Learn from this corpus instead (or `shipped`); the score then measures transfer."
)
@click.option(
    "--held-out-gpu",
    metavar="GPU",
    help="Leave this GPU (any unambiguous part of its name) out of training and ask about it alone: scores transfer "
    "between GPUs, with the baseline `transfer` (speedups stay what they were) beside every surrogate.",
)
@click.option("--gpu", metavar="GPU", help="Ask about this GPU, or all; the one with the most kernels by default.")
@click.option(
    "--split",
    default="test",
    show_default=True,
    help="test (unseen problems), test_near (unseen, of a seen template), test_seen, or validation.",
)
@subset_option
@click.option("--tracks", default=",".join(TRACK_NAMES), show_default=True, help="Tracks to score, comma-separated.")
@click.option(
    "--surrogate-arg", "arguments", multiple=True, metavar="K=V", help="Argument of the surrogate. Repeatable."
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where results go and forecasts are kept for resuming; runs/evaluate/NAME by default.",
)
@click.option(
    "--problem", "problems", multiple=True, help="Ask about this problem alone: an id, or a file. Repeatable."
)
@click.option("--limit", type=int, metavar="N", help="At most N queries.")
@shots_option
@click.option("--batch-size", type=click.IntRange(min=1), help="Queries per call of forecast().")
@click.option(
    "--concurrency", type=click.IntRange(min=1), default=1, show_default=True, help="Processes for your own surrogate."
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=120.0,
    show_default=True,
    help="Seconds one call of forecast() may take.",
)
@click.option(
    "--fit-timeout",
    "fit_timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=3600.0,
    show_default=True,
    help="Seconds fit() may take.",
)
@click.option(
    "--memory-gb",
    type=click.FloatRange(min=0, min_open=True),
    help="Memory of your own surrogate; most of the machine's by default.",
)
@click.option("--allow-network", is_flag=True, help="Let your own surrogate reach other machines.")
@click.option(
    "--allow-env",
    multiple=True,
    metavar="NAME",
    help="Environment variable your own surrogate gets although it looks like a secret. Repeatable.",
)
@click.option("--max-tokens", type=click.IntRange(min=1), metavar="N", help="llm: most tokens read and written in all.")
@click.option(
    "--max-cost",
    type=click.FloatRange(min=0, min_open=True),
    metavar="X",
    help="llm: limit on the total cost of tokens, at price_in and price_out.",
)
@click.option("--resamples", type=click.IntRange(min=0), default=2000, show_default=True, help="Bootstrap resamples.")
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    show_default=True,
    help="Seed of the bootstrap, and of surrogates that take one.",
)
@click.option("--ensemble", is_flag=True, help="Average the repeats of a query into one forecast.")
@click.option("--compare", "compare_to", metavar="NAME", help="Another surrogate: show paired differences.")
@click.option("--dry-run", is_flag=True, help="Say what would be asked and what it would cost; ask nothing.")
@click.option("--no-report", is_flag=True, help="Skip report.html.")
@click.option("--list-metrics", is_flag=True, help="List every metric with its track and meaning; ask nothing.")
@json_option
@click.pass_obj
def evaluate(
    compiler: Compiler | None,
    /,
    specs: tuple[str, ...],
    all_baselines: bool,
    dataset: str | None,
    train: str | None,
    held_out_gpu: str | None,
    gpu: str | None,
    tracks: str,
    arguments: tuple[str, ...],
    problems: tuple[str, ...],
    out: Path | None,
    compare_to: str | None,
    dry_run: bool,
    no_report: bool,
    list_metrics: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Score a surrogate: how good are its forecasts, where, and how sure is that?"""
    from kbench.benchmark.evaluation.command import Command
    from kbench.benchmark.evaluation.run import Options
    from kbench.benchmark.problems.registry import named
    from kbench.benchmark.surrogates.resolve import BASELINES

    if list_metrics:
        _show_metrics(as_json)
        return
    names = [*specs, *(name for name in BASELINES if all_baselines and name not in specs)]
    if not names:
        raise UserError("no surrogate given; use --surrogate NAME (such as static) or --all-baselines")
    if gpu is not None and held_out_gpu is not None:
        raise UserError("--held-out-gpu asks about the GPU it names; leave --gpu out")
    asked = tuple(track.strip() for track in tracks.split(",") if track.strip())
    ids = tuple(named(name).id if Path(name).exists() else name for name in problems)
    given = Options(tracks=asked, arguments=parse_arguments(arguments), problems=ids, **options)
    command = Command(
        names=names, dataset=dataset, train=train, held_out_gpu=held_out_gpu, gpu=gpu, options=given, out=out,
        report=not no_report, compiler=compiler,
    )  # fmt: skip
    shown = TerminalProgress(quiet=as_json and not sys.stderr.isatty())
    if dry_run:
        plan = command.plan(shown)
        echo_json(dataclasses.asdict(plan)) if as_json else click.echo(plan.text())
        return
    answer = command.run(shown, compare_to)
    if as_json or answer.text:
        echo_json(answer.values) if as_json else click.echo(answer.text)
    for line in answer.unanswered:
        click.echo(f"kbench: {line}", err=True)
    if answer.interrupted:
        click.echo("kbench: interrupted; the answers so far are kept, run the same command to go on", err=True)
        sys.exit(130)
    if answer.unanswered:
        sys.exit(1)


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
    """`k=v` settings; v is a number, true, false or null where it reads as one, else text.

    Raises:
        UserError: a setting without `=`, or one given twice.
    """
    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not all(name.isidentifier() for name in key.split(".")):
            raise UserError(f"--surrogate-arg is {pair!r}; it must be name=value")
        if key in found:
            raise UserError(f"--surrogate-arg {key} is given twice; give it once")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        found[key] = text if isinstance(value, dict | list) else value
    return found


class TerminalProgress:
    """Stages and a bar on stderr, so that stdout stays clean for results."""

    def __init__(self, quiet: bool = False) -> None:
        self._quiet = quiet

    def stage(self, text: str) -> None:
        """Say what begins."""
        if not self._quiet:
            click.echo(f"{text} …", err=True)

    @contextlib.contextmanager
    def asking(self, total: int) -> Iterator[Callable[[int], None]]:
        """A bar over queries."""
        with click.progressbar(
            length=total, label="forecasting", file=sys.stderr, hidden=self._quiet, show_pos=True
        ) as bar:
            yield lambda done: bar.update(done)
