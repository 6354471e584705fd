"""Evaluate a surrogate: make it, build the questions, let it learn, ask, score.

The one file it writes is the store of forecasts, which makes it resumable.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import itertools
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kbench.benchmark.evaluate.external import NEED_SHAPES, PriorWithoutShapes
from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.evaluate.progress import Progress
from kbench.benchmark.metrics.registry import headline
from kbench.benchmark.questions import Questions, training_pairs
from kbench.benchmark.questions.asked import Tables
from kbench.benchmark.questions.build import TRAIN_SPLITS, VALIDATION, check_problems, training_file
from kbench.benchmark.questions.corpus_view import benchmark_of
from kbench.benchmark.questions.transfer import WithoutValidation
from kbench.benchmark.scoring.score import BootstrapSettings, Bounds, Scored, score
from kbench.benchmark.surrogates.ask import AskedSurrogate, ForecastStore, Run, run
from kbench.benchmark.surrogates.forecasts import REPEATS, ForecastTable, ensembled, from_forecasts
from kbench.benchmark.surrogates.protocol import Compiler, Surrogate, SurrogateFacts
from kbench.benchmark.surrogates.resolve import (
    SurrogateTarget,
    construct,
    imported,
    locate,
    refuse_early,
    surrogate_fingerprint,
)
from kbench.benchmark.tracks import TRACK_NAMES
from kbench.loaders.storage.janitor import make_folder
from kbench.schemas import UserError

if TYPE_CHECKING:
    from kbench.benchmark.surrogates.process import ProcessSurrogate

BUILT_IN_BATCH = 2048
"""Built-ins work on whole columns, so their batches are large."""
USER_BATCH = 64
MOST_UNANSWERED, FAILED = 0.05, 0.5
"""Shares of forecasts without an answer: above the first, figures are hardly the surrogate's; above the second the run
has failed."""
LOG = "surrogate.log"
"""What the surrogate printed in the last run."""
MINUTE_S, SLOW_FIT_S = 60.0, 20.0
CACHE = "cache"
"""Folder of what must not be asked twice."""
LIMITS_LLM = "--max-tokens and --max-cost limit the surrogate llm; others spend, and limit, on their own"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Everything known about one surrogate on one set of questions."""

    target: SurrogateTarget
    inputs: str
    questions: Questions
    run: Run
    table: ForecastTable
    scored: Scored
    options: Options
    learned_from: tuple[str, ...] | None = None
    """Splits that the surrogate learned from; None where kbench cannot know."""
    model: str | None = None
    """The language model that was asked, where the surrogate names one."""
    among_answered: Mapping[str, float] | None = None
    """Headlines over the answered queries alone, by track, where many have no answer."""

    @property
    def name(self) -> str:
        """The surrogate's short name."""
        return self.target.name

    def __repr__(self) -> str:
        """A line; the questions alone would fill a notebook's page a thousand times."""
        figures = {track: self.scored.headline(track) for track in self.scored.figures}
        named = (
            f"{headline(track).name} {headline(track).text(figure.value)}"
            for track, figure in figures.items()
            if figure
        )
        return f"<{self.name} on {len(self.questions.queries):,} queries of {self.questions.split}: {', '.join(named)}>"

    @property
    def unanswered_share(self) -> float:
        """Share of forecasts without an answer."""
        return float(self.table.failed.mean()) if self.table.failed.size else 0.0

    @property
    def answers_core_alone(self) -> bool:
        """Whether the whole split was asked and exactly the questions of core have answers."""
        asked = self.questions
        if asked.subset is not None:
            return False
        core = {*asked.pairs.query[asked.pairs.core].tolist(), *asked.pools.query[asked.pools.core].tolist()}
        every = {*asked.pairs.query.tolist(), *asked.pools.query.tolist()}
        answered = set(np.flatnonzero(~self.table.failed.any(axis=0)).tolist())
        return bool(core) and core < every and answered & every == core

    @property
    def answered(self) -> bool:
        """Whether any query has an answer; without one there is nothing to score."""
        return not bool(self.table.failed.all())


def evaluate(
    surrogate: str,
    dataset: str | None = None,
    *,
    split: str = "test",
    tracks: str | Sequence[str] = TRACK_NAMES,
    subset: str | None = None,
    problems: str | Sequence[str] = (),
    shots: int = 0,
    limit: int | None = None,
    gpu: str | None = None,
    held_out_gpu: str | None = None,
    train: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    batch_size: int | None = None,
    ensemble: bool = False,
    concurrency: int = 1,
    timeout_s: float = 120.0,
    fit_timeout_s: float = 3600.0,
    memory_gb: float | None = None,
    allow_network: bool = False,
    allow_env: str | Sequence[str] = (),
    require_isolation: bool = False,
    max_tokens: int | None = None,
    max_cost: float | None = None,
    resamples: int = 2000,
    seed: int = 0,
    out: Path | None = None,
    compiler: Compiler | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Score a surrogate, as `kbench evaluate` does.

    Args:
        surrogate: whatever `--surrogate` takes: a built-in name, an entry point, `module:attribute`,
            `path/to/file.py[:attribute]` or a forecasts file.
        dataset: a corpus folder or a Hub id; the shipped dataset by default.
        split: test (unseen problems), test_near (unseen, of a seen template), test_seen, or validation.
        tracks: tracks to score, such as `"forecast"` or `("forecast", "rank")`.
        subset: `core` for a fixed part of the split.
        problems: ask about these alone.
        shots: most measured kernels of its problem that a query shows: 0, 2 or 8.
        limit: at most this many queries.
        gpu: the GPU to ask about, or `all`; the one with the most kernels by default.
        held_out_gpu: a GPU to leave out of training and to ask about alone.
        train: a corpus to learn from instead, or `shipped`.
        arguments: of the surrogate.
        batch_size: queries per call of forecast().
        ensemble: average the repeats of a query into one forecast.
        concurrency: processes for your own surrogate.
        timeout_s: seconds one call of forecast() may take.
        fit_timeout_s: seconds fit() may take.
        memory_gb: memory of your own surrogate; most of the machine's by default.
        allow_network: let your own surrogate reach other machines.
        allow_env: environment variables that your own surrogate gets beside the usual ones.
        require_isolation: refuse your own surrogate where answers cannot be hidden from it.
        max_tokens: most tokens that a language model reads and writes in all.
        max_cost: limit on the cost of those tokens.
        resamples: of the bootstrap.
        seed: of the bootstrap, and of surrogates that take one.
        out: a folder that keeps forecasts as they arrive, so that the same call resumes an interrupted one.
        compiler: for surrogates that look at compiler output;
            `kbench.generation.executors.compiler.compiler_facts` compiles on this machine.
        progress: told what is going on.

    Returns:
        The evaluation. `.scored.scores()` gives every figure as a `Score` record.
    """
    arguments_given = locals()
    values = {field.name: arguments_given[field.name] for field in dataclasses.fields(Options)} | {
        "arguments": arguments or {}
    }
    if not isinstance(surrogate, str):
        raise UserError(
            f"surrogate {surrogate!r:.60} is no name; write it to a file and give the path: it runs in a process that "
            "cannot see the answers"
        )
    options = Options(**values)
    options.check()
    return evaluate_on(surrogate, options.corpus(), options, out=out, progress=progress, compiler=compiler)


def evaluate_on(
    spec: str,
    corpus: Tables,
    options: Options | None = None,
    *,
    out: Path | None = None,
    forecasts_folder: Path | None = None,
    questions: Questions | Callable[[], Questions] | None = None,
    progress: Progress | None = None,
    compiler: Compiler | None = None,
) -> Evaluation:
    """Score one surrogate on a corpus that is open already.

    Args:
        spec: what `--surrogate` takes.
        corpus: an opened corpus; `options` say nothing of it.
        options: settings.
        out: folder that keeps forecasts as they arrive.
        forecasts_folder: where `replay:NAME` looks.
        questions: of this corpus and these options, built before; or what builds them once the surrogate is made, so
            that a surrogate that cannot be is refused before anything is read.
        progress: told what is going on.
        compiler: asked by surrogates that look at compiler output.
    """
    options, progress = options or Options(), progress or Progress()
    target = locate(spec, forecasts_folder)
    refuse_early(target, {} if target.parts else options.arguments)
    corpus = benchmark_of(corpus)
    check_problems(corpus, options.split, options.problems)
    with contextlib.ExitStack() as stack:
        surrogates, facts = make_surrogates(target, corpus.folders, options, out, stack, compiler)
        if questions is None:
            progress.stage("reading the corpus")
            questions = options.questions(corpus)
        questions = questions() if callable(questions) else questions
        # Nothing learns from validation where that is asked about, but a map, which learns from it alone.
        splits = TRAIN_SPLITS[:1] if questions.split == VALIDATION and not target.parts else TRAIN_SPLITS
        if questions.split == VALIDATION and target.parts:
            progress.stage(f"note: {target.name} learns from validation, which is asked about; its gain shows on test")
        surrogate = surrogates[0]
        fit = functools.partial(
            fit_surrogates, surrogates, facts.fits, corpus, questions.dataset, progress, splits, target.name
        )
        # A user's surrogate learns only if there is something left to ask it.
        fits_when_asked = getattr(surrogate, "fits_from_file", False)
        if not fits_when_asked:
            fit()
        learned = learned_from(target, surrogate, facts.fits, splits)
        own_size = getattr(surrogate, "batch_size", BUILT_IN_BATCH) if target.trusted or target.parts else USER_BATCH
        batch_size = options.batch_size or int(own_size)
        if any(leaf.kind == "built_in" and leaf.location in NEED_SHAPES for leaf in target.leaves):
            surrogates = [PriorWithoutShapes(one, questions.kind_priors) for one in surrogates]
        # The same questions, answered by what has learned from them, are other answers.
        also = (*getattr(surrogate, "answers_depend_on", ()), *(() if splits == TRAIN_SPLITS else splits))
        store = stack.enter_context(ForecastStore(store_path(target, questions, options, out, also)))
        asked = {(query.query_id, repeat) for query in questions.queries for repeat in range(facts.repeats)}
        if fits_when_asked and not asked <= store.done.keys():
            fit()
        tell = stack.enter_context(progress.asking(len(questions.queries)))
        answered = run(
            questions.queries, surrogates, store=store, repeats=facts.repeats, batch_size=batch_size, progress=tell
        )
    if out is not None and answered.reused == len(questions.queries) and (out / CACHE / LOG).exists():
        (out / CACHE / LOG).replace(out / LOG)
    scored_run = _as_scored(answered, surrogate, questions, options, progress)
    table = from_forecasts(scored_run.forecasts, [query.query_id for query in questions.queries])
    scored = score(questions, table, options.bootstrap)
    return Evaluation(
        target=target,
        inputs=facts.inputs,
        questions=questions,
        run=scored_run,
        table=table,
        scored=scored,
        options=options,
        learned_from=learned,
        among_answered=among_answered(questions, table, scored),
        model=getattr(surrogate, "model_name", None),
    )


def _as_scored(answered: Run, surrogate: Surrogate, questions: Questions, options: Options, progress: Progress) -> Run:
    """The answers as they are scored, after what the surrogate remarks about them is told."""
    strays = getattr(surrogate, "strays", None)
    if strays is not None:
        answered = dataclasses.replace(answered, stray=answered.stray + strays(questions.queries))
    for remark in getattr(surrogate, "remarks", list)():
        progress.stage(remark)
    if any(forecast.failure is None for forecast in answered.forecasts):
        progress.stage("scoring")
    if options.ensemble:
        answered = dataclasses.replace(answered, forecasts=tuple(ensembled(answered.forecasts)))
    return answered


def among_answered(questions: Questions, table: ForecastTable, scored: Scored) -> Mapping[str, float] | None:
    """The headlines over the answered queries alone; None where nearly all are answered, or none is."""
    answered = np.logical_not(table.failed.any(axis=0))
    if not answered.any() or table.failed.mean() <= MOST_UNANSWERED:
        return None
    pairs, pools = questions.pairs, questions.pools
    part = dataclasses.replace(
        questions, pairs=pairs.take(answered[pairs.query]), pools=pools.take(answered[pools.query])
    )
    bounds = Bounds(scored.ceilings, scored.floors)
    whole = score(part, table, BootstrapSettings(resamples=0), sliced=False, bounds=bounds, headlines_alone=True)
    names = {track: headline(track).name for track in whole.figures}
    values = {track: whole.figures[track][name].value for track, name in names.items() if name in whole.figures[track]}
    return {track: value for track, value in values.items() if math.isfinite(value)}


def make_surrogates(
    target: SurrogateTarget,
    answers: Sequence[Path],
    options: Options,
    out: Path | None,
    stack: contextlib.ExitStack,
    compiler: Compiler | None,
) -> tuple[Sequence[Surrogate], SurrogateFacts]:
    """The surrogate, in this process when it is ours and in processes of its own otherwise.

    Of a combined surrogate the user's parts alone run apart: the map, the built-ins and forecasts files need the
    corpus, which is hidden there.
    """
    limited = options.max_tokens is not None or options.max_cost is not None
    surrogates: Sequence[Surrogate]
    confined = functools.partial(_confined, answers=answers, options=options, out=out, stack=stack)
    if limited and not target.trusted:
        raise UserError(LIMITS_LLM)
    if target.trusted or target.parts:

        def in_own_process(part: SurrogateTarget, arguments: Mapping[str, Any]) -> Surrogate:
            processes, facts = confined(part, arguments)
            return AskedSurrogate(processes, facts, USER_BATCH)

        given = dict(options.arguments)
        if target.kind == "built_in" and "seed" in inspect.signature(imported(target)).parameters:
            given.setdefault("seed", options.seed)
        surrogate = construct(target, given, compiler, in_own_process)
        keep_replies = getattr(surrogate, "keep_replies", None)
        if keep_replies is not None:
            keep_replies(None if out is None else out / CACHE, options.max_tokens, options.max_cost)
        surrogates, facts, limited = [surrogate], SurrogateFacts.of(surrogate), limited and keep_replies is None
        if limited:
            raise UserError(LIMITS_LLM)
    else:
        surrogates, facts = confined(target, options.arguments)
    if not 1 <= facts.repeats <= REPEATS:
        raise UserError(f"surrogate {target.name!r} has repeats {facts.repeats}; it must be 1 to {REPEATS}")
    return surrogates, facts


def _confined(
    target: SurrogateTarget,
    arguments: Mapping[str, Any],
    answers: Sequence[Path],
    options: Options,
    out: Path | None,
    stack: contextlib.ExitStack,
) -> tuple[Sequence[ProcessSurrogate], SurrogateFacts]:
    """A user's surrogate in processes of its own, and what it says of itself."""
    from kbench.benchmark.surrogates.process import Confinement, ProcessSurrogate

    confinement = Confinement(
        fit_s=options.fit_timeout_s,
        forecast_s=options.timeout_s,
        memory_gb=options.memory_gb,
        network=options.allow_network,
        variables=options.allow_env,
        answers=tuple(answers),
        required=options.require_isolation,
    )
    if out is not None:
        make_folder(out)
    log = None if out is None else out / LOG
    if log is not None:
        # Tracebacks of an earlier version of the surrogate would mislead; it comes back where nothing is asked anew.
        make_folder(log.parent / CACHE)
        (log.parent / CACHE / LOG).unlink(missing_ok=True)
        with contextlib.suppress(FileNotFoundError):
            log.replace(log.parent / CACHE / LOG)
    processes = [
        stack.enter_context(ProcessSurrogate(target, arguments, confinement, log))
        for _ in range(max(1, options.concurrency))
    ]
    return processes, processes[0].start()


def learned_from(
    target: SurrogateTarget, surrogate: Surrogate, fits: bool, splits: tuple[str, ...]
) -> tuple[str, ...] | None:
    """Which splits a surrogate learned from; None where kbench cannot know."""
    stated = getattr(surrogate, "learned_from", None)
    if stated is not None:
        return stated(splits)
    if fits or callable(getattr(surrogate, "fit_corpus", None)):
        return splits
    return () if target.documented else None


def fit_surrogates(
    surrogates: Sequence[Any],
    fits: bool,
    corpus: Tables,
    dataset: str,
    progress: Progress,
    splits: tuple[str, ...] = TRAIN_SPLITS,
    name: str = "",
) -> None:
    """Let surrogates learn from these splits, if they do: our own from the corpus, others from its questions."""
    first = surrogates[0]
    if hasattr(first, "check_dataset"):
        first.check_dataset(dataset)
    if hasattr(first, "tell"):
        first.tell = progress.stage
    if callable(getattr(first, "fit_corpus", None)):
        progress.stage("preparing")
        with _reminders(progress, ""):
            first.fit_corpus(corpus if VALIDATION in splits else WithoutValidation(corpus))
    elif fits:
        progress.stage(f"reading the training pairs of {' and '.join(splits)}")
        import pyarrow.compute as pc

        pairs: Any = None
        if getattr(first, "fits_from_file", False):
            pairs = training_file(corpus, splits)
        pairs = pairs or list(training_pairs(corpus, splits))
        rows = [corpus.table("questions", split=split, columns=["workload", "speedup"]) for split in splits]
        many = sum(pc.sum(pc.and_(one[0].is_null(), one[1].is_valid())).as_py() or 0 for one in rows)
        progress.stage(f"fitting {name or 'the surrogate'} on {many:,} pairs of {' and '.join(splits)}")
        begun = time.perf_counter()
        with _reminders(progress, f"; what it prints is in {LOG}"):
            for surrogate in surrogates:
                surrogate.fit(pairs)
        if getattr(first, "fits_from_file", False) and time.perf_counter() - begun > SLOW_FIT_S:
            progress.stage(
                f"fit took {time.perf_counter() - begun:.0f} s; @kbench.cached keeps slow functions' results"
            )


@contextlib.contextmanager
def _reminders(progress: Progress, more: str) -> Iterator[None]:
    """Tell each minute how long `fit` has taken, so that a slow one does not look stuck."""
    ended = threading.Event()

    def say() -> None:
        for minute in itertools.count(1):
            if ended.wait(MINUTE_S):
                return
            progress.stage(f"fitting for {minute} min{more}")

    threading.Thread(target=say, daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def store_path(
    target: SurrogateTarget, questions: Questions, options: Options, out: Path | None, also: tuple[str, ...] = ()
) -> Path | None:
    """Where forecasts are kept: another surrogate, argument or dataset has another file, so that none are mixed up.

    The questions' own fingerprint is not part of the name: a run with a larger limit reuses a smaller one's answers.
    """
    if out is None or target.kind == "forecasts":
        return None
    # An answer may depend on the known kernels that a query shows.
    shown = (f"{questions.shots} shots",) if questions.shots else ()
    made_of = surrogate_fingerprint(target, options.arguments, questions.dataset, str(options.seed), *shown, *also)
    return out / CACHE / f"{target.name}-{made_of[:16]}.jsonl"
