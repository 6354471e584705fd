"""Evaluate a surrogate: corpus, questions, forecasts, scores. Its one file is the store that makes it resumable."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from kbench.benchmark.scoring.score import BootstrapSettings, Scored, score
from kbench.benchmark.surrogates.ask import ForecastStore, Run, run
from kbench.benchmark.surrogates.forecasts import REPEATS, ForecastTable, ensembled, from_forecasts
from kbench.benchmark.surrogates.process import Confinement, ProcessSurrogate
from kbench.benchmark.surrogates.protocol import Compiler, Surrogate, SurrogateFacts
from kbench.benchmark.surrogates.resolve import SurrogateTarget, construct, locate
from kbench.benchmark.surrogates.signature import signature
from kbench.benchmark.tasks import Questions, build_questions, training_pairs
from kbench.benchmark.tasks.asked import Tables
from kbench.benchmark.tasks.few_shot import with_shots
from kbench.benchmark.tasks.versions import benchmark_of
from kbench.benchmark.tracks import TRACK_NAMES
from kbench.schemas import UserError

BUILT_IN_BATCH = 2048
"""Built-ins work on whole columns, so their batches are large."""
USER_BATCH = 64
CACHE = "cache"
"""Folder of what must not be asked twice."""
LIMITS_LLM = "--max-tokens and --max-cost limit the surrogate llm; others spend, and limit, on their own"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a user may set; every default is what the shipped table was made with."""

    split: str = "test"
    tracks: tuple[str, ...] = TRACK_NAMES
    arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    subset: str | None = None
    """`core` for a fixed part of the split; all of it by default."""
    limit: int | None = None
    problems: tuple[str, ...] = ()
    """Problems to ask about; all of the split by default."""
    shots: int = 0
    """Most measured kernels of its pool that a query names: 0, 2 or 8."""
    batch_size: int | None = None
    concurrency: int = 1
    timeout_s: float = 120.0
    fit_timeout_s: float = 3600.0
    memory_gb: float | None = None
    """Memory of a user's surrogate; most of the machine's when left out."""
    allow_network: bool = False
    """Whether a user's surrogate may reach other machines."""
    allow_env: tuple[str, ...] = ()
    """Environment variables a user's surrogate gets although they look like secrets."""
    max_tokens: int | None = None
    """Tokens a language model may read and write in all, earlier runs into the same folder included."""
    max_cost: float | None = None
    """What they may cost in all, at the prices given to the surrogate."""
    resamples: int = 2000
    seed: int = 0
    ensemble: bool = False
    """Average the repeats' distributions into one forecast."""

    @property
    def bootstrap(self) -> BootstrapSettings:
        """How intervals are made."""
        return BootstrapSettings(resamples=self.resamples, seed=self.seed)

    def questions(self, corpus: Tables) -> Questions:
        """What is asked of a corpus."""
        built = build_questions(corpus, self.split, self.tracks, self.limit, subset=self.subset, problems=self.problems)
        return with_shots(built, corpus, self.shots)

    @property
    def recorded_arguments(self) -> dict[str, Any]:
        """The arguments as files record them: without keys, which are secrets."""
        return {key: value for key, value in self.arguments.items() if "key" not in key}


class EvaluationProgress(Protocol):
    """What is told while an evaluation runs."""

    def stage(self, text: str) -> None:
        """A stage begins."""

    def asking(self, total: int) -> AbstractContextManager[Callable[[int], None]]:
        """Queries are being answered; the callable is told how many more are done."""


class SilentProgress:
    """Says nothing."""

    def stage(self, text: str) -> None:
        """A stage begins."""

    @contextlib.contextmanager
    def asking(self, total: int) -> Iterator[Callable[[int], None]]:
        """Queries are being answered."""
        yield lambda done: None


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

    @property
    def name(self) -> str:
        """The surrogate's short name."""
        return self.target.name

    @property
    def answered(self) -> bool:
        """Whether any query has an answer; without one there is nothing to score."""
        return not bool(self.table.failed.all())


def evaluate(
    spec: str,
    corpus: Tables,
    options: Options | None = None,
    *,
    out: Path | None = None,
    forecasts_folder: Path | None = None,
    questions: Questions | None = None,
    progress: EvaluationProgress | None = None,
    compiler: Compiler | None = None,
) -> Evaluation:
    """Score one surrogate.

    Args:
        spec: what `--surrogate` takes.
        corpus: an opened corpus.
        options: settings.
        out: folder that keeps forecasts as they arrive, so that the same call resumes an interrupted one.
        forecasts_folder: where `replay:NAME` looks.
        questions: reuse questions built before; they must be of this corpus and these options.
        progress: told what is going on.
        compiler: asked by surrogates that look at compiler output.
    """
    options, progress = options or Options(), progress or SilentProgress()
    target = locate(spec, forecasts_folder)
    corpus = benchmark_of(corpus)
    if questions is None:
        progress.stage("reading the corpus")
        questions = options.questions(corpus)
    with contextlib.ExitStack() as stack:
        surrogates, facts = prepare(target, corpus, questions, options, out, stack, progress, compiler)
        store = stack.enter_context(ForecastStore(store_path(target, questions, options, out)))
        tell = stack.enter_context(progress.asking(len(questions.queries)))
        finished = run(
            questions.queries,
            surrogates,
            store=store,
            repeats=facts.repeats,
            batch_size=options.batch_size or _batch_size(surrogates[0], target),
            progress=tell,
        )
    progress.stage("scoring")
    if options.ensemble:
        finished = dataclasses.replace(finished, forecasts=tuple(ensembled(finished.forecasts)))
    table = from_forecasts(finished.forecasts, [query.query_id for query in questions.queries])
    scored = score(questions, table, options.bootstrap)
    return Evaluation(
        target=target,
        inputs=facts.inputs,
        questions=questions,
        run=finished,
        table=table,
        scored=scored,
        options=options,
    )


def store_path(target: SurrogateTarget, questions: Questions, options: Options, out: Path | None) -> Path | None:
    """Where forecasts are kept: another surrogate, argument or dataset has another file, so that none are mixed up.

    The questions' own fingerprint is not part of the name: a run with a larger limit reuses a smaller one's answers.
    """
    if out is None or target.kind == "forecasts":
        return None
    made_of = signature(target, options.arguments, questions.dataset, str(options.seed), *_setting(questions))
    return out / CACHE / f"{target.name}-{made_of[:16]}.jsonl"


def _setting(questions: Questions) -> tuple[str, ...]:
    """What an answer may depend on beside the query's id: known kernels, and what was there to learn from."""
    version = () if questions.benchmark is None else (f"benchmark {questions.benchmark}",)
    return (*version, f"{questions.shots} shots") if questions.shots else version


def prepare(
    target: SurrogateTarget,
    corpus: Tables,
    questions: Questions,
    options: Options,
    out: Path | None,
    stack: contextlib.ExitStack,
    progress: EvaluationProgress,
    compiler: Compiler | None,
) -> tuple[Sequence[Surrogate], SurrogateFacts]:
    """Construct the surrogate, in this process when it is ours and in its own otherwise, and let it learn."""
    if target.trusted:
        return _prepare_built_in(target, corpus, questions, options, out, progress, compiler)
    if options.max_tokens is not None or options.max_cost is not None:
        raise UserError(LIMITS_LLM)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    log = out / "surrogate.log" if out is not None else None
    hidden = tuple(str(folder.resolve()) for folder in corpus.folders)
    confinement = Confinement(
        fit_s=options.fit_timeout_s,
        forecast_s=options.timeout_s,
        memory_gb=options.memory_gb,
        network=options.allow_network,
        variables=options.allow_env,
        hidden=hidden,
    )
    workers = [
        stack.enter_context(ProcessSurrogate(target, options.arguments, confinement, log))
        for _ in range(max(1, options.concurrency))
    ]
    facts = workers[0].start()
    _check_repeats(target, facts.repeats)
    if facts.fits:
        progress.stage("fitting on the training splits")
        train = list(training_pairs(corpus))
        for worker in workers:
            worker.fit(train)
    return workers, facts


def _prepare_built_in(
    target: SurrogateTarget,
    corpus: Tables,
    questions: Questions,
    options: Options,
    out: Path | None,
    progress: EvaluationProgress,
    compiler: Compiler | None,
) -> tuple[Sequence[Surrogate], SurrogateFacts]:
    surrogate = construct(target, _with_seed(target, options), compiler)
    keep_replies = getattr(surrogate, "keep_replies", None)
    if keep_replies is not None:
        keep_replies(None if out is None else out / CACHE, options.max_tokens, options.max_cost)
    elif options.max_tokens is not None or options.max_cost is not None:
        raise UserError(LIMITS_LLM)
    facts = SurrogateFacts.of(surrogate)
    _check_repeats(target, facts.repeats)
    if hasattr(surrogate, "check_dataset"):
        surrogate.check_dataset(questions.dataset)
    if callable(getattr(surrogate, "fit_corpus", None)):
        progress.stage("preparing")
        surrogate.fit_corpus(corpus)  # type: ignore[attr-defined]
    elif callable(getattr(surrogate, "fit", None)):
        progress.stage("fitting on the training splits")
        surrogate.fit(list(training_pairs(corpus)))  # type: ignore[attr-defined]
    return [surrogate], facts


def _batch_size(surrogate: Surrogate, target: SurrogateTarget) -> int:
    return int(getattr(surrogate, "batch_size", BUILT_IN_BATCH)) if target.trusted else USER_BATCH


def _check_repeats(target: SurrogateTarget, repeats: int) -> None:
    if not 1 <= repeats <= REPEATS:
        raise UserError(f"surrogate {target.name!r} has repeats {repeats}; it must be 1 to {REPEATS}")


def _with_seed(target: SurrogateTarget, options: Options) -> dict[str, Any]:
    """The arguments, and the seed where the built-in takes one."""
    from kbench.benchmark.surrogates.resolve import imported

    arguments = dict(options.arguments)
    if target.kind == "built_in" and "seed" in inspect.signature(imported(target)).parameters:
        arguments.setdefault("seed", options.seed)
    return arguments
