"""Evaluate a surrogate: corpus, questions, forecasts, scores. Files are written by evaluate_output."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kbench.benchmark.progress import Progress
from kbench.benchmark.scoring.score import Scored, Settings, score
from kbench.benchmark.surrogates.process import ProcessSurrogate
from kbench.benchmark.surrogates.protocol import INPUTS
from kbench.benchmark.surrogates.resolve import Target, construct, locate
from kbench.benchmark.surrogates.runner import Answers, Run, run
from kbench.benchmark.surrogates.store import ForecastStore
from kbench.benchmark.surrogates.table import ForecastTable, from_forecasts
from kbench.benchmark.tasks import TRACKS, Questions, build_questions, training_pairs
from kbench.benchmark.tasks.build import Tables
from kbench.benchmark.tasks.published import with_prompt_edges
from kbench.schemas import UserError

BUILT_IN_BATCH = 2048
"""Built-ins work on whole columns, so their batches are large."""
USER_BATCH = 64


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a user may set; every default is what the shipped table was made with."""

    split: str = "test"
    tracks: tuple[str, ...] = TRACKS
    arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    limit: int | None = None
    batch_size: int | None = None
    concurrency: int = 1
    timeout_s: float = 120.0
    resamples: int = 2000
    seed: int = 0
    ensemble: bool = False
    """Average the repeats' distributions into one forecast."""
    edges: str = "bins"
    """Which edges cut the answers: bins, or published-prompt for forecasts made under the release's prompt."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Everything known of one surrogate on one set of questions."""

    target: Target
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


def evaluate(
    spec: str,
    corpus: Tables,
    options: Options | None = None,
    *,
    out: Path | None = None,
    forecasts_folder: Path | None = None,
    questions: Questions | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Score one surrogate.

    Args:
        spec: what `--surrogate` takes.
        corpus: an opened corpus.
        options: settings.
        out: folder that keeps forecasts as they come, so that the same call later goes on where this one stopped.
        forecasts_folder: where `replay:NAME` looks.
        questions: reuse questions built before; they must be of this corpus and these options.
        progress: told what is going on.
    """
    options, progress = options or Options(), progress or Progress()
    target = locate(spec, forecasts_folder)
    if questions is None:
        progress.stage("reading the corpus")
        questions = build_questions(corpus, options.split, options.tracks, options.limit)
    with contextlib.ExitStack() as stack:
        surrogates, facts = prepare(target, corpus, questions, options, out, stack, progress)
        store = stack.enter_context(ForecastStore(store_path(target, questions, options, out)))
        tell = stack.enter_context(progress.asking(len(questions.queries)))
        finished = run(
            questions.queries,
            surrogates,
            store=store,
            repeats=facts["repeats"],
            batch_size=options.batch_size or facts.get("batch_size", USER_BATCH),
            progress=tell,
        )
    progress.stage("scoring")
    table = from_forecasts(finished.forecasts, [query.query_id for query in questions.queries])
    table = ensembled(table) if options.ensemble else table
    if options.edges == "published-prompt":
        questions = with_prompt_edges(questions)
    scored = score(questions, table, Settings(resamples=options.resamples, seed=options.seed))
    return Evaluation(
        target=target,
        inputs=facts["inputs"],
        questions=questions,
        run=finished,
        table=table,
        scored=scored,
        options=options,
    )


def store_path(target: Target, questions: Questions, options: Options, out: Path | None) -> Path | None:
    """Where forecasts are kept: another surrogate text, argument or dataset is another file, so none is mixed up.

    The questions' own fingerprint is not part of the name: a run with a larger limit reuses a smaller one's answers.
    """
    if out is None or target.kind == "forecasts":
        return None
    signature = target.signature(dict(options.arguments) | {"dataset": questions.dataset, "seed": options.seed})
    return out / "cache" / f"{target.name}-{signature[:16]}.jsonl"


def prepare(
    target: Target,
    corpus: Tables,
    questions: Questions,
    options: Options,
    out: Path | None,
    stack: contextlib.ExitStack,
    progress: Progress,
) -> tuple[Sequence[Answers], dict[str, Any]]:
    """Construct the surrogate, in this process when it is ours and in its own otherwise, and let it learn."""
    if target.trusted:
        return _prepare_built_in(target, corpus, questions, options, progress)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    log = out / "surrogate.log" if out is not None else None
    workers = [
        stack.enter_context(ProcessSurrogate(target, options.arguments, options.timeout_s, log))
        for _ in range(max(1, options.concurrency))
    ]
    facts = workers[0].start()
    if facts["fits"]:
        progress.stage("fitting on the training splits")
        train = list(training_pairs(corpus))
        for worker in workers:
            worker.fit(train)
    return workers, facts


def _prepare_built_in(
    target: Target, corpus: Tables, questions: Questions, options: Options, progress: Progress
) -> tuple[Sequence[Answers], dict[str, Any]]:
    surrogate = construct(target, _with_seed(target, options))
    if hasattr(surrogate, "check_dataset"):
        surrogate.check_dataset(questions.dataset)
    if callable(getattr(surrogate, "fit_corpus", None)):
        progress.stage("preparing")
        surrogate.fit_corpus(corpus)  # type: ignore[attr-defined]
    elif callable(getattr(surrogate, "fit", None)):
        progress.stage("fitting on the training splits")
        surrogate.fit(list(training_pairs(corpus)))  # type: ignore[attr-defined]
    facts = {
        "inputs": getattr(surrogate, "inputs", INPUTS[0]),
        "repeats": getattr(surrogate, "repeats", 1),
        "batch_size": getattr(surrogate, "batch_size", BUILT_IN_BATCH),
    }
    return [surrogate], facts


def _with_seed(target: Target, options: Options) -> dict[str, Any]:
    """The arguments, and the seed where the built-in takes one."""
    from kbench.benchmark.surrogates.resolve import imported

    arguments = dict(options.arguments)
    if target.kind == "built_in" and "seed" in inspect.signature(imported(target)).parameters:
        arguments.setdefault("seed", options.seed)
    return arguments


def ensembled(table: ForecastTable) -> ForecastTable:
    """One forecast a query: the mean over the repeats that answered."""
    answered = np.logical_not(table.failed)[:, :, None]
    count = answered.sum(axis=0)
    summed = np.where(answered, table.probabilities, 0.0).sum(axis=0)
    probabilities = np.where(count > 0, summed / np.maximum(count, 1), table.probabilities[0])[None]
    failed = np.atleast_2d(table.failed.all(axis=0))
    return ForecastTable(
        probabilities=probabilities,
        failed=failed,
        speedup=_mean(np.log(table.speedup), np.exp),
        p_valid=_mean(table.p_valid),
        confidence=np.where(failed, 0.0, probabilities.max(axis=-1)),
        tokens=np.nansum(table.tokens, axis=0)[None],
        elapsed_s=np.nansum(table.elapsed_s, axis=0)[None],
        reasons=table.reasons,
    )


def _mean(values: Any, transform: Callable[[Any], Any] = lambda value: value) -> Any:
    known = ~np.isnan(values)
    total = np.where(known, values, 0.0).sum(axis=0)
    return transform(np.where(known.any(axis=0), total / np.maximum(known.sum(axis=0), 1), np.nan))[None]


def parse_arguments(pairs: Sequence[str]) -> dict[str, Any]:
    """`k=v` settings; v is a number, true, false or null where it reads as one, else text.

    Raises:
        UserError: a setting without `=`, or one given twice.
    """
    import json

    found: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.isidentifier():
            raise UserError(f"--surrogate-arg is {pair!r}; it must be name=value")
        if key in found:
            raise UserError(f"--surrogate-arg {key} is given twice; give it once")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        found[key] = text if isinstance(value, dict | list) else value
    return found
