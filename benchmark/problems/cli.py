"""`kbench problems list|show|check`."""

from __future__ import annotations

import dataclasses
import json
import random
import sys

import click

from kbench.benchmark.problems import registry
from kbench.benchmark.problems.check import check
from kbench.benchmark.problems.definition import ProblemDefinition
from kbench.benchmark.problems.registry import RETIRED
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.options import NearGroup, json_option
from kbench.schemas import UnknownNameError
from kbench.schemas.convert import to_dict


@click.group(cls=NearGroup)
def problems() -> None:
    """List, show and check problems.

    PROBLEM is an id, or a problem of your own: a KernelBench file, a GPU MODE task folder, or a file with a PROBLEM.
    Its code runs.
    """


@problems.command("list")
@click.option("--family", help="Only this family of operations.")
@click.option(
    "--retired", is_flag=True, help="The retired problems instead, with the reason and the nearest listed one."
)
@json_option
def list_problems(family: str | None, retired: bool, as_json: bool) -> None:
    """List problems: id, family, how many kernels the dataset has of it, workloads, title."""
    known = (registry.retired() if retired else registry.problems()).values()
    listed = [p for p in known if family in (None, p.family)]
    if not listed:
        raise UnknownNameError("problem family", family, {p.family for p in known})
    rows = Corpus.open(None).table(columns=("problem_id", "kernel_id"))
    counts = rows.group_by("problem_id").aggregate([("kernel_id", "count_distinct")]).to_pylist()
    kernels = {row["problem_id"]: row["kernel_id_count_distinct"] for row in counts}
    if as_json:
        click.echo(json.dumps([_summary(p) | {"kernels": kernels.get(p.id, 0)} for p in listed], indent=2))
        return
    width = max(len(p.id) for p in listed)
    for p in listed:
        end = f"like {RETIRED[p.id].like}: {RETIRED[p.id].reason}" if retired else p.title
        sizes = ", ".join(s.name for s in p.sizes)
        click.echo(f"{p.id:<{width}}  {p.family:<22}  {kernels.get(p.id, 0):>4} kernels  {sizes:<24}  {end}")
    hidden = sum(family in (None, p.family) for p in registry.retired().values())
    others = f"; {hidden} retired: --retired" if hidden and not retired else ""
    click.echo(f"{len(listed)} problems{others}", err=True)


def _summary(p: ProblemDefinition) -> dict[str, object]:
    retirement = RETIRED.get(p.id)
    return {
        "problem_id": p.id,
        "family": p.family,
        "title": p.title,
        "aliases": list(p.aliases),
        "workloads": [size.name for size in p.sizes],
        "models": {size.name: size.model for size in p.sizes if size.model},
        "retired": retirement and retirement._asdict(),
    }


@problems.command("show")
@click.argument("problem")
@json_option
def show(problem: str, as_json: bool) -> None:
    """Show one problem as a kernel writer sees it."""
    definition = registry.named(problem)
    if as_json:
        cases = {case.name: case.stresses for case in definition.every_case}
        shown = to_dict(definition.record()) | {"cases": cases, "judges_ends": definition.judges_ends}
        click.echo(json.dumps(shown, indent=2))
    else:
        click.echo(f"{definition.prompt()}\n{definition.adversarial()}", nl=False)


@problems.command("check")
@click.argument("names", nargs=-1, metavar="[PROBLEM]...")
@click.option("--seed", type=click.IntRange(min=0), help="Of the adversarial inputs, as a run before has told it.")
@json_option
def check_problems(names: tuple[str, ...], seed: int | None, as_json: bool) -> None:
    """Run references on their tiny workloads on the CPU; all problems unless some are named. Exit 1 if one fails.

    Adversarial inputs are new ones each time, of a seed that is told.
    """
    seed = random.SystemRandom().getrandbits(31) if seed is None else seed
    chosen = tuple(map(registry.named, names)) or tuple(registry.problems().values())
    results = []
    with click.progressbar(chosen, label="checking", file=sys.stderr, hidden=as_json) as bar:
        for one in bar:
            results.append(check(one, seed))
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(r) | {"ok": r.ok, "seed": seed} for r in results], indent=2))
    else:
        for r in results:
            for line in (*r.failures, *([r.tolerance] if names else [])):
                click.echo(f"{r.problem_id}: {line}")
        shown = f"adversarial inputs of seed {seed}" if any(p.every_case for p in chosen) else "no adversarial inputs"
        click.echo(f"{sum(r.ok for r in results)} of {len(results)} problems pass, {shown}")
    if not all(r.ok for r in results):
        sys.exit(1)
