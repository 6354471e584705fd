"""The plan of `kbench generate`: which runs its options or a campaign file describe, and what measures for them."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import click
from click.core import ParameterSource

from kbench.benchmark.problems.registry import listed, named, problems, users
from kbench.benchmark.surrogates.protocol import Compiler
from kbench.generation.campaign.campaign import ORDERS, ROUNDS, CampaignProgress, Drive
from kbench.generation.executors.executor import Executor
from kbench.generation.executors.local import LocalExecutor, open_harness
from kbench.generation.executors.ray import RayExecutor
from kbench.generation.executors.replay import open_facts, open_recording, recorded_references
from kbench.generation.log import found_files
from kbench.generation.proposers.folder import folder_runs
from kbench.generation.proposers.genome.template import families_for
from kbench.generation.proposers.mixed import checked
from kbench.generation.proposers.mixed import proposer as proposer_named
from kbench.generation.proposers.pool import POOL, pool_of
from kbench.generation.search.guide import ONLINE, guide_named
from kbench.generation.search.methods.catalogue import filter_of, searchable, with_hash
from kbench.generation.search.proposal import Proposer
from kbench.generation.search.settings import (
    SURROGATE,
    Budget,
    FilterSettings,
    RunSettings,
    changes,
    defaults_for,
    in_file,
    parse_budget,
    settings_from_json,
)
from kbench.harness.commands.doctor import require_gpus
from kbench.harness.device.gpu import Gpu
from kbench.loaders.corpus.places import shipped
from kbench.schemas import Backend, DataError, UnknownNameError, UserError, from_dict, to_dict
from kbench.schemas.record import Record

WITHOUT_GPU = "`kbench generate study CORPUS --out FOLDER` replays every method on measurements made before"
SEARCHED = (Backend.TRITON, Backend.CUDA, Backend.CONFIG)
OF_A_SEARCH = ("backend", "method", "proposer", "budget", "batch", "seed", "surrogate")
UNUSED_BY_MODE: Mapping[str, tuple[str, ...]] = {
    "campaign": (*OF_A_SEARCH, "variants"),
    "from_folder": tuple(name for name in OF_A_SEARCH if name not in ("method", "proposer")),
    "problem_id": ("variants",),
}
"""What the runs come from, and the options that do not apply to them."""
UNUSED_BY_EXECUTOR: Mapping[str, tuple[str, ...]] = {
    "local": ("recorded",),
    "ray": ("recorded", "gpu"),
    "replay": ("gpu", "half_width"),
    "none": ("gpu", "half_width"),
}


def refuse_unused(ctx: click.Context, options: SimpleNamespace) -> None:
    """Refuse options that were given and change nothing: the user expects that they do."""
    modes = [name for name in UNUSED_BY_MODE if getattr(options, name) is not None]
    if len(modes) != 1:
        raise UserError("give exactly one of --problem, --campaign or --from-folder")
    mode = modes[0]
    flags = {str(param.name): param.opts[0] for param in ctx.command.params}
    reasons = dict.fromkeys(UNUSED_BY_MODE[mode], f"with {flags[mode]}")
    reasons |= dict.fromkeys(UNUSED_BY_EXECUTOR[options.executor], f"with --executor {options.executor}")
    if mode == "from_folder" and not options.variants:
        reasons["method"] = "without --variants"
    for name, reason in reasons.items():
        if ctx.get_parameter_source(name) not in (None, ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP):
            where = "; the campaign file sets it" if mode == "campaign" and name in OF_A_SEARCH else ""
            replay = ", or add --executor replay" if name == "recorded" else ""
            raise UserError(f"{flags[name]} changes nothing {reason}{where}; leave it out{replay}")


def planned(
    options: SimpleNamespace, compiler: Compiler | None, report: Callable[[CampaignProgress], None]
) -> tuple[list[RunSettings], Drive]:
    """The runs that the options describe, and how they are driven.

    Raises:
        UserError: names the option or field that is missing or wrong, or there is no such recording.
        InfrastructureError: this machine has no GPU.
    """
    proposer_for, order = None, ROUNDS
    replayed = options.recorded if options.executor == "replay" else None
    if options.campaign is not None:
        spec = read_spec(options.campaign)
        runs, uncovered = runs_of(spec)
        if uncovered:
            click.echo(f"no genome family for {len(uncovered)} cells, left out: {', '.join(uncovered)}", err=True)
        if not runs:
            raise UserError(
                "the campaign has no runs; name problems that a genome family covers, methods and random_seeds"
            )
        order = spec.order
    elif options.from_folder is not None:
        writer = options.proposer or "human"
        runs, proposer_for = folder_runs(options.from_folder, writer, options.method, options.variants)
    else:
        for name in ("backend", "budget"):
            if getattr(options, name) is None:
                raise UserError(f"--{name} is missing; a search needs it")
        runs = [single_run(
            options.problem_id or "", options.backend or "", options.method, options.budget or "",
            proposer=options.proposer or ("genome" if replayed is None or _is_log(replayed) else POOL),
            seed=options.seed,
            guide=None if options.surrogate is None else FilterSettings(surrogate=options.surrogate),
            batch=options.batch,
        )]  # fmt: skip
    surrogate_for = functools.partial(guide_named, compiler=compiler)
    if options.from_folder is None:
        refuse_unrecorded(runs[0].proposer, replayed)
        if replayed and runs[0].proposer == POOL:
            proposer_for = _pool_proposers(replayed)
    # What is missing or wrong is said before the GPU is looked for.
    if proposer_for is None:
        proposer_named(runs[0].proposer)
    for name in {chosen.surrogate for run in runs if (chosen := filter_of(run))}:
        surrogate_for(name)
    return runs, Drive(
        executor=_executor(options, runs), deadline_s=options.deadline,
        proposer_for=proposer_for, surrogate_for=surrogate_for, report=report,
        order=order, measure=options.executor != "none",
        references=recorded_references(options.recorded) if options.executor == "none" and options.recorded else (),
    )  # fmt: skip


def refuse_unrecorded(proposer: str, recorded: Path | None) -> None:
    """Refuse a proposer whose kernels a recording cannot have.

    Args:
        proposer: its name.
        recorded: the run folder or corpus that answers; None where a GPU does.

    Raises:
        UserError: names the proposer that fits.
    """
    if recorded is None or _is_log(recorded):
        if proposer == POOL:
            other = f", and {str(recorded)!r} is a log: name the corpus that its search drew from" if recorded else ""
            raise UserError(
                f"proposer {POOL!r} draws kernels of a corpus{other}; give --executor replay --recorded CORPUS"
            )
        return
    written_anew = "llm" in proposer.split("+") or recorded.resolve() == shipped().resolve()
    if written_anew and proposer != POOL:
        raise UserError(
            f"{str(recorded)!r} cannot answer proposer {proposer!r}, whose kernels are not recorded there; replay a "
            f"run folder, or take proposer {POOL!r}"
        )


def _is_log(recorded: Path) -> bool:
    """Whether a recording is a search's log rather than a corpus."""
    return recorded.is_file() or bool(found_files(recorded))


def _pool_proposers(corpus: Path) -> Callable[[RunSettings], Proposer]:
    """Proposers of recorded kernels."""

    @functools.cache
    def of_cell(problem_id: str, backend: Backend) -> Proposer:
        return pool_of(corpus, problem_id, backend).proposer()

    return lambda settings: of_cell(settings.problem_id, settings.backend)


def single_run(
    problem: str, backend: str, method: str, budget: str, *,
    proposer: str, seed: int, guide: FilterSettings | None, **more: int,
) -> RunSettings:  # fmt: skip
    """One search, its names and amounts checked.

    Raises:
        UserError: names what is wrong.
    """
    if backend not in SEARCHED:
        raise UnknownNameError("backend", backend, SEARCHED)
    # Configurations are of problems that were imported, which the benchmark does not have.
    problem_id = problem if backend == Backend.CONFIG else listed(named(problem).id).id
    settings = RunSettings(
        problem_id=problem_id, backend=Backend(backend), method=searchable(method), proposer=checked(proposer),
        seed=seed, filter=guide, budget=parse_budget(budget), **{**defaults_for(proposer), **more},
    )  # fmt: skip
    # Written and read, so that amounts are checked as those of a log are.
    try:
        return settings_from_json(settings.to_json(), "settings")
    except DataError as error:
        raise UserError(str(error).removeprefix("settings.")) from None


def _executor(options: SimpleNamespace, runs: Sequence[RunSettings]) -> Executor:
    if options.executor == "ray":
        if users():
            raise UserError("--executor ray searches problems of the benchmark; other machines do not have your file")
        # Ray shows an actor its own GPU alone.
        return RayExecutor(functools.partial(open_harness, 0, options.half_width))
    if options.executor == "local":
        gpu = Gpu.parse(options.gpu)
        require_gpus([gpu], WITHOUT_GPU)
        return LocalExecutor(lambda: open_harness(gpu, options.half_width))
    if options.recorded is None:
        raise UserError(f"--executor {options.executor} needs --recorded: a run folder or a corpus with measurements")
    if options.executor == "none":
        return open_facts(options.recorded)
    executor = open_recording(options.recorded, sorted({run.problem_id for run in runs}))
    searches = [settings_from_json(one, f"{options.recorded}: settings") for one in executor.started]
    # Of the first run, and the recorded search that is most like it.
    differences = min((changes(one, with_hash(run)) for run in runs[:1] for one in searches), key=len, default={})
    if differences:
        said = ", ".join(f"{name} {before!r} and not {after!r}" for name, (before, after) in differences.items())
        executor.other = f"{str(options.recorded)!r} was recorded with {said}; "
    return executor


EVERY = "*"
TWELVE = Budget(measurements=12)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CampaignSpec(Record):
    """One search for every problem, backend, method and seed."""

    TYPE: ClassVar[str] = "campaign"
    VERSION: ClassVar[str] = "1.0.0"

    label: str = ""
    independent: bool = False
    """Whether every search measures for itself, from the same first kernels as the others of its cell and seed.
    Otherwise those of a cell avoid and learn from each other's kernels."""
    problems: tuple[str, ...] = (EVERY,)
    """Problem ids, or `*` for all."""
    backends: tuple[str, ...] = ("triton", "cuda")
    methods: tuple[str, ...] = ("random", "hill_climb", "evolve", "puct", "puct+surrogate")
    """Methods; `+surrogate` adds the filter."""
    proposer: str = "genome+rewrite"
    random_seeds: tuple[int, ...] = (0,)
    seeds: int = 4
    batch: int = 4
    parents: int | None = None
    patience: int | None = None
    exploration: float | None = None
    """Settings of the methods; by default those of the proposer."""
    budget: Budget = TWELVE
    surrogate: str = ONLINE
    draw: int = 4
    unsure_share: float = 0.25
    confidence: float = 0.5
    against_parent: bool = False
    order: str = ROUNDS
    """`rounds` advances all searches evenly; `problems` measures all seeds and then one problem after another."""


def read_spec(path: Path) -> CampaignSpec:
    """Read a campaign file."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"campaign file {str(path)!r} cannot be read ({error.strerror}); name a JSON file") from None
    except ValueError as error:
        raise DataError(f"{path}: not JSON: {error}") from None
    return from_dict(CampaignSpec, data, "campaign")


def runs_of(spec: CampaignSpec) -> tuple[list[RunSettings], list[str]]:
    """The campaign's runs, and the cells left out because no genome family covers them.

    Raises:
        UserError: names the problem, backend, method, proposer or setting that cannot be.
    """
    runs: list[RunSettings] = []
    uncovered: list[str] = []
    problem_ids = list(problems()) if EVERY in spec.problems else [listed(one).id for one in spec.problems]
    if spec.order not in ORDERS:
        raise DataError(f"campaign.order is {spec.order!r}; it must be one of {', '.join(ORDERS)}")
    checked(spec.proposer)
    filtered = [name for name in spec.methods if "+" in name and not in_file(name)]
    if other := next((name for name in filtered if not name.endswith(SURROGATE)), None):
        plain, _, surrogate = other.partition("+")
        raise DataError(f"campaign names method {other!r}; name '{plain}{SURROGATE}', and {surrogate!r} as surrogate")
    if spec.surrogate != ONLINE and not any(name.endswith(SURROGATE) for name in spec.methods):
        raise DataError(f"campaign.surrogate changes nothing without a method such as 'evolve{SURROGATE}'")
    for name in spec.backends:
        if name not in ("triton", "cuda"):
            raise DataError(f"campaign names backend {name!r}; it must be triton or cuda")
    for problem_id, backend in itertools.product(problem_ids, map(Backend, spec.backends)):
        if spec.proposer in ("llm", POOL) or families_for(problem_id, backend):
            runs.extend(_cell(spec, problem_id, backend))
        else:
            uncovered.append(f"{problem_id}/{backend.value}")
    return runs, uncovered


def _cell(spec: CampaignSpec, problem_id: str, backend: Backend) -> Iterator[RunSettings]:
    stated = {name: getattr(spec, name) for name in ("parents", "patience", "exploration")}
    shared = {
        "proposer": spec.proposer, "seeds": spec.seeds, "batch": spec.batch, "label": spec.label,
        "budget": to_dict(spec.budget), **defaults_for(spec.proposer),
        **{name: value for name, value in stated.items() if value is not None},
    }  # fmt: skip
    forecasts = FilterSettings(
        surrogate=spec.surrogate, draw=spec.draw, unsure_share=spec.unsure_share, confidence=spec.confidence,
        against_parent=spec.against_parent,
    )  # fmt: skip
    for name, seed in itertools.product(spec.methods, spec.random_seeds):
        plain = searchable(name.removesuffix(SURROGATE))
        chosen = to_dict(forecasts) if name.endswith(SURROGATE) else None
        cell = {"problem_id": problem_id, "backend": backend.value, "method": plain, "seed": seed, "filter": chosen}
        if spec.independent:
            own = in_file(plain)
            # By the name alone: a method's file may move.
            word = f"{own[2] or own[1]}{SURROGATE if chosen else ''}" if own else name
            cell |= {"label": f"{spec.label}/{word}/{seed}", "first": f"{spec.label}/{seed}"}
        yield settings_from_json(shared | cell, "campaign")
