"""`kbench generate corpus`: one recipe, from searches to an assembled dataset.

A recipe becomes a row of kbench's own commands, each in a process of its own. They are printed, so that each can be run
by hand. Every one of them goes on from what it finds in its folder, and so does the whole after a stop.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

import click

from kbench.benchmark.llm.batch import WaitingForResponsesError
from kbench.generation.assembly.assemble import Ledger, Recipe, assemble
from kbench.generation.campaign.drive import REFERENCES
from kbench.generation.campaign.plan import CampaignSpec, refuse_unrecorded, runs_of
from kbench.generation.cli import INTERRUPTED
from kbench.generation.proposers.llm.llm import BATCH_VARIABLE, ENDPOINT_VARIABLE, MODEL_VARIABLE
from kbench.generation.search.settings import SURROGATE, in_file
from kbench.harness.commands.doctor import require_gpus
from kbench.harness.device.gpu import Gpu
from kbench.loaders.corpus.places import located
from kbench.loaders.options import echo_json, json_option, out_option
from kbench.loaders.storage.atomic import write_atomically
from kbench.schemas import DataError, KbenchError, from_dict, require_package, to_dict
from kbench.schemas.record import Limit, Record

Command = Sequence[str]
Runner = Callable[[Command, Mapping[str, str]], int]
"""Runs a command of kbench with further variables of the environment, and says its exit code."""
NONE: Mapping[str, str] = MappingProxyType({})
Count = Annotated[int, Limit(minimum=0)]
CORRECT = "status == 'ok'"
WAITING = WaitingForResponsesError.exit_code
WITHOUT_GPU = "a recipe whose field `recorded` names a run folder or corpus is answered from that"


@click.command(short_help="Make a dataset by a recipe, from searches to tables.")
@click.argument("recipe", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@out_option("Work folder; an unfinished one goes on. Its folder `dataset` is the result.", required=True)
@json_option
def command(recipe: Path, out: Path, as_json: bool) -> None:
    """Search, time references, measure again, count and assemble, as a TOML file says."""
    chosen = read_corpus_recipe(recipe)
    if chosen.recorded is None:
        # Before the folder is made: the first stage would fail in it.
        require_gpus([Gpu.parse(one) for one in chosen.devices], WITHOUT_GPU)
        require_package("torch", "gpu", "measuring")
    try:
        ledger = make_corpus(chosen, out, run_process)
    except KeyboardInterrupt:
        click.echo(INTERRUPTED, err=True)
        click.get_current_context().exit(130)
    echo_json(dataclasses.asdict(ledger)) if as_json else click.echo(ledger.text())


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Stage(CampaignSpec):
    """One campaign of a recipe."""

    model: str | None = None
    """The language model's name; its requests are exchanged as files unless an endpoint is named."""
    endpoint: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CorpusRecipe(Record):
    """The searches that a corpus is made by, and what is measured beside them."""

    TYPE: ClassVar[str] = "recipe"
    VERSION: ClassVar[str] = "1.0.0"

    campaigns: tuple[Stage, ...]
    devices: tuple[str, ...] = ("0",)
    """GPUs or partitions; searches run on the first, and their correct kernels are measured on the others too."""
    recorded: str | None = None
    """Run folder or corpus that answers in place of a GPU."""
    references: bool = False
    """Whether references are timed; a language model is then told of the best ones."""
    repeats: Count = 0
    """Kernels measured again."""
    counters: Count = 0
    """Kernels run under the profiler."""


def read_corpus_recipe(path: Path) -> CorpusRecipe:
    """Read a recipe; all its campaigns are checked before the first begins."""
    try:
        recipe = from_dict(CorpusRecipe, tomllib.loads(path.read_text(encoding="utf-8")))
    except DataError:
        raise
    except ValueError as error:
        raise DataError(f"{path}: not TOML: {error}") from None
    if recipe.recorded is not None:
        if recipe.references or recipe.repeats or recipe.counters or len(recipe.devices) > 1:
            raise DataError(f"{path}: 'recorded' answers searches alone; leave out what else is to be measured")
        recorded = (path.parent / located(recipe.recorded)).resolve()
        if not recorded.exists():
            raise DataError(f"{path}: field 'recorded' names {str(recorded)!r}, which does not exist")
        recipe = dataclasses.replace(recipe, recorded=str(recorded))
    campaigns = [
        dataclasses.replace(stage, methods=tuple(_beside(path, name) for name in stage.methods))
        for stage in recipe.campaigns
    ]
    recipe = dataclasses.replace(recipe, campaigns=tuple(campaigns))
    labels: set[str] = set()
    for number, stage in enumerate(recipe.campaigns):
        where = f"recipe.campaigns[{number}]"
        if not stage.label or stage.label in labels or not stage.label.replace("-", "").replace("_", "").isalnum():
            raise DataError(f"{where}.label is {stage.label!r}; give each campaign a short name of its own")
        if "llm" in stage.proposer.split("+") and not stage.model:
            raise DataError(f"{where}.model is missing; name the language model that proposer {stage.proposer!r} asks")
        runs_of(stage)
        refuse_unrecorded(stage.proposer, None if recipe.recorded is None else Path(recipe.recorded))
        labels.add(stage.label)
    return recipe


def _beside(recipe: Path, method: str) -> str:
    """A method whose file lies relative to the recipe by its full path; others as they are named."""
    stem, _, attribute = method.partition(".py")
    file = (recipe.parent / f"{stem}.py").resolve()
    return f"{file}{attribute}" if in_file(method.removesuffix(SURROGATE)) and file.is_file() else method


def make_corpus(recipe: CorpusRecipe, folder: Path, run: Runner) -> Ledger:
    """Carry a recipe out as far as it goes.

    Returns:
        what the corpus holds and what it cost.
    """
    folder.mkdir(parents=True, exist_ok=True)
    dataset, references = folder / "dataset", folder / REFERENCES
    if recipe.references:
        chosen = sorted({settings.problem_id for stage in recipe.campaigns for settings in runs_of(stage)[0]})
        named = [word for problem in chosen for word in ("--problem", problem)]
        _run(run, ["problems", "references", *named, "--out", str(references), "--gpu", _index(recipe.devices[0])])
    waiting = [stage.label for stage in recipe.campaigns if not _search(run, stage, recipe, folder)]
    if waiting:
        raise StageError(
            f"searches of {', '.join(waiting)} wait for responses; put them there and run this again", WAITING
        )
    runs = tuple(folder / "runs" / stage.label for stage in recipe.campaigns)
    assembly = Recipe(runs=runs, references=(references,) if references.is_file() else ())
    ledger = assemble(assembly, dataset, replace=True)
    further = list(_further(recipe, folder))
    for name, out, words in further:
        _run(run, [*words, "--corpus", str(dataset), "--where", CORRECT, "--out", str(out)])
        further_inputs: dict[str, Any] = {name: (*getattr(assembly, name), out)}
        assembly = dataclasses.replace(assembly, **further_inputs)
    return assemble(assembly, dataset, replace=True) if further else ledger


def _further(recipe: CorpusRecipe, folder: Path) -> Iterator[tuple[str, Path, Command]]:
    """What is measured of the searches' kernels: the field of the assembly it goes to, its place and its command."""
    first = recipe.devices[0]
    if recipe.repeats:
        yield "repeats", folder / "repeats", ["measure", "--gpu", first, "--limit", str(recipe.repeats)]
    for device in recipe.devices[1:]:
        yield "other_gpus", folder / "devices" / device.replace(":", "-"), ["measure", "--gpu", device]
    if recipe.counters:
        words = ["kernels", "counters", "--gpu", _index(first), "--limit", str(recipe.counters)]
        yield "counters", folder / "counters.jsonl", words


def _index(device: str) -> str:
    """The whole GPU that a partition belongs to."""
    return device.partition(":")[0]


def _search(run: Runner, stage: Stage, recipe: CorpusRecipe, folder: Path) -> bool:
    """Carry a campaign forward; whether it is done, not waiting for responses."""
    out = folder / "runs" / stage.label
    campaign = folder / f"{stage.label}.json"
    spec = {name: value for name, value in to_dict(stage).items() if name not in ("model", "endpoint")}
    write_atomically(campaign, (json.dumps(spec, indent=1) + "\n").encode())
    place = ["--gpu", recipe.devices[0]]
    if recipe.recorded is not None:
        place = ["--executor", "replay", "--recorded", recipe.recorded]
    variables = {}
    if stage.model is not None:
        exchange = {BATCH_VARIABLE: str(folder / "batch" / stage.label)}
        variables = {MODEL_VARIABLE: stage.model} | (
            exchange if stage.endpoint is None else {ENDPOINT_VARIABLE: stage.endpoint, BATCH_VARIABLE: ""}
        )
    if (folder / REFERENCES).is_file():
        out.mkdir(parents=True, exist_ok=True)
        write_atomically(out / REFERENCES, (folder / REFERENCES).read_bytes())
    words = ["generate", "--campaign", str(campaign), "--out", str(out), *place]
    return _run(run, words, variables, accepted=(0, WAITING)) == 0


class StageError(KbenchError):
    """A recipe cannot go on; the exit code is that of the command that stopped it."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.exit_code = code


def _run(run: Runner, words: Command, variables: Mapping[str, str] = NONE, accepted: Sequence[int] = (0,)) -> int:
    assignments = "".join(f"{name}={shlex.quote(value)} " for name, value in variables.items())
    click.echo(f"$ {assignments}kbench {shlex.join(words)}", err=True)
    code = run(words, variables)
    if code not in accepted:
        raise StageError(f"`kbench {shlex.join(words)}` failed as said above; fix it and run the recipe again", code)
    return code


def run_process(words: Command, variables: Mapping[str, str]) -> int:
    """Run a command of kbench in a process of its own: what it holds of the GPU is free when it ends."""
    process = [sys.executable, "-m", "kbench", *words]
    # What it prints is progress; the result is this command's.
    return subprocess.run(process, env={**os.environ, **variables}, stdout=sys.stderr, check=False).returncode
