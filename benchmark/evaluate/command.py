"""The command `kbench evaluate`: one or several surrogates on one set of questions, their files and their table."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kbench.benchmark.evaluate.evaluate import FAILED, LOG, Evaluation, evaluate_on
from kbench.benchmark.evaluate.external import external_figures
from kbench.benchmark.evaluate.folder import (
    REPORT,
    RESULTS,
    SUBMISSION,
    earlier_run,
    open_fields,
    write_folder,
    write_json,
)
from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.evaluate.progress import Progress
from kbench.benchmark.evaluate.results import EvaluationResults, MetricResult, seen_before, terminal
from kbench.benchmark.llm.chat import CHARACTERS_PER_TOKEN, NOT_ASKED, WRITTEN
from kbench.benchmark.questions import Questions
from kbench.benchmark.questions.asked import Tables
from kbench.benchmark.scoring.compare import Comparison, skill_over
from kbench.benchmark.scoring.score import Bounds, Scored
from kbench.benchmark.surrogates.protocol import Compiler
from kbench.benchmark.surrogates.resolve import BUILT_IN, SurrogateTarget, construct, locate
from kbench.benchmark.tracks import EDIT, PAIR_TRACKS
from kbench.loaders.corpus.places import pulled
from kbench.loaders.storage.janitor import make_folder
from kbench.schemas import PairKind, UserError
from kbench.schemas.ids import content_hash

UNCHANGED = "transfer"
"""The built-in that stands beside every surrogate where a GPU is left out."""
UNTRAINED = (
    "baseline: the corpus has no train split, so that skill is over the uniform forecast; --train shipped takes the "
    "training frequencies of kbench's own dataset"
)
DEFAULT_OUT = Path("runs") / "evaluate"
BOARD_FOLDER = Path("leaderboard") / "submissions"
"""Where `kbench leaderboard build` finds entries of one's own."""
UNUSUAL = re.compile(r"[^A-Za-z0-9]+")
"""What a folder's name has hyphens for."""
READABLE = re.compile(r"[\w.=+-]{0,40}", re.ASCII)
"""Arguments that can be part of a folder's name."""
DEFAULTS = Options()
REQUESTS, RESPONSES = "requests_file", "responses_file"
"""Arguments of `llm`."""
MOST_LOG_CHARACTERS = 1 << 20
COMPARED = "compared"
"""Folder in --out for what a single surrogate is compared with."""


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What the command prints."""

    values: dict[str, Any]
    text: str
    interrupted: bool
    unanswered: tuple[str, ...] = ()
    """A line for each surrogate that answered nothing, which has no scores, or less than half of what was asked."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationPlan:
    """What would be asked, and what it would cost."""

    dataset: str
    split: str
    queries: int
    tracks: Mapping[str, int]
    """Queries by track."""
    fingerprints: Mapping[str, str]
    """By track."""
    input_characters: int
    input_tokens_estimate: int
    surrogates: Sequence[Mapping[str, Any]]
    """Name and kind of each surrogate, and what it estimates itself."""

    def text(self) -> str:
        """The plan for people."""
        lines = [
            f"{self.queries:,} queries on {self.split} of dataset {self.dataset[:12]}",
            *(f"  {track}: {count:,}" for track, count in self.tracks.items()),
        ]
        if not all("input_tokens_estimate" in entry for entry in self.surrogates):
            lines.append(f"about {self.input_tokens_estimate:,} tokens of queries, read once")
        for entry in self.surrogates:
            lines.append(f"{entry['surrogate']} ({entry['kind']}): {_cost(entry) or 'cost unknown before it runs'}")
            lines += [f"missing: {entry['missing']}"] if "missing" in entry else []
        return "\n".join(lines)


def _cost(entry: Mapping[str, Any]) -> str:
    """What a surrogate says that asking it would cost."""
    if "requests" not in entry:
        return ", ".join(f"{key} {value}" for key, value in entry.items() if key not in ("surrogate", "kind"))
    price = f", about {entry['price_estimate']:,.2f} US dollars" if "price_estimate" in entry else ""
    return (
        f"{entry['requests']:,} requests, about {entry['input_tokens_estimate']:,} input tokens and "
        f"{entry['output_tokens_estimate']:,} output tokens{price} "
        f"({entry['output_tokens_per_request_assumed']:,} output tokens per request assumed; models that reason write "
        "more)"
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Job:
    """A surrogate, with the settings and the folder of its evaluation."""

    spec: str
    target: SurrogateTarget
    options: Options
    folder: Path


@dataclasses.dataclass(frozen=True)
class EvaluateCommand:
    """One call of the command. What it is given is refused, where it cannot be, before anything is read."""

    names: Sequence[str]
    """Surrogates, as `--surrogate` takes them; arguments belong to the first."""
    options: Options
    out: Path | None = None
    report: bool = True
    brief: bool = False
    """Whether the table has the headlines alone."""
    compare_to: str | None = None
    """Another surrogate, whose paired differences from the first are shown."""
    compiler: Compiler | None = None
    progress: Progress = dataclasses.field(default_factory=Progress)

    @functools.cached_property
    def jobs(self) -> Mapping[str, Job]:
        """Every surrogate to evaluate by its spec: those named, those beside them."""
        self.options.check()
        if self.compare_to in self.names:
            raise UserError(
                f"--compare {self.compare_to!r} is the surrogate itself; name another, or the --out of an earlier run"
            )
        beside = [UNCHANGED] if self.options.held_out_gpu is not None else []
        beside += [self.compare_to] if self.compare_to is not None else []
        jobs: dict[str, Job] = {}
        for spec in dict.fromkeys([*self.names, *beside]):
            target = locate(spec, self._forecasts_folder)
            # Arguments belong to the surrogate that was named, not to the baselines beside it.
            options = self.options if spec == self.names[0] else dataclasses.replace(self.options, arguments={})
            job = Job(spec, target, options, self._folder_of(target, options))
            other = next((each for each in jobs.values() if each.target.name == target.name), None)
            if other is not None:
                raise UserError(
                    f"surrogates {other.spec!r} and {spec!r} are both called {target.name!r}; evaluate them one at a "
                    "time, each with its own --out, and compare with --compare FOLDER"
                )
            jobs[spec] = job
        return jobs

    @functools.cached_property
    def corpus(self) -> Tables:
        """The corpus asked for, as the benchmark sees it."""
        return self.options.corpus()

    @functools.cached_property
    def questions(self) -> Questions:
        """What is asked."""
        self.progress.stage("reading the corpus")
        folder, tracks = self._forecasts_folder, self.options.tracks
        targets = [self.jobs[name].target for name in self.names]
        if folder is not None and all(Path(target.location).parent == folder.resolve() for target in targets):
            # Forecasts that came with a dataset answer its pairs alone.
            tracks = tuple(track for track in tracks if track in PAIR_TRACKS) or tracks
        return dataclasses.replace(self.options, tracks=tracks).questions(self.corpus)

    @functools.cached_property
    def _checked_questions(self) -> Questions:
        """What is asked, once it is clear that no folder loses anything that must not be lost."""
        for job in self.jobs.values():
            earlier_run(job.folder).check(job.target, job.options, self.questions)
        return self.questions

    def plan(self) -> EvaluationPlan:
        """What would be asked, and what it would cost."""
        jobs = [self.jobs[name] for name in self.names]
        trusted = {p.spec: construct(p.target, p.options.arguments) for p in jobs if p.target.trusted}
        questions = self.questions
        entries: list[dict[str, Any]] = []
        for job in jobs:
            entry: dict[str, Any] = {"surrogate": job.target.name, "kind": job.target.kind}
            if job.spec in trusted:
                estimate = getattr(trusted[job.spec], "estimate", None)
                entry |= estimate(questions.queries) if estimate is not None else {"price": 0.0}
            entries.append(entry)
        characters = sum(
            len(q.problem_text) + len(q.anchor_source) + len(q.candidate_source) + len(q.gpu_facts_json)
            for q in questions.queries
        )
        counts = {track: len(questions.asked(track)) for track in questions.tracks}
        if EDIT.name in counts:
            # The queries are those of all pair tracks; the edits among them count.
            counts[EDIT.name] = int((questions.pairs.relation == PairKind.PARENT_EDIT).sum())
        return EvaluationPlan(
            dataset=questions.dataset,
            split=questions.split,
            queries=len(questions.queries),
            tracks=counts,
            fingerprints={track: questions.fingerprint_of(track) for track in questions.tracks},
            input_characters=characters,
            input_tokens_estimate=round(characters / CHARACTERS_PER_TOKEN),
            surrogates=entries,
        )

    def run(self) -> Outcome:
        """Evaluate every surrogate, write its files, and say what came out."""
        evaluations = {spec: self._evaluated(job) for spec, job in self.jobs.items()}
        written = [each.run.failures[WRITTEN] for each in evaluations.values() if WRITTEN in each.run.failures]
        silent = [each for each in evaluations.values() if not each.answered and WRITTEN not in each.run.failures]
        unanswered = tuple("; log: ".join(filter(None, [_silence(each), self._log(each)])) for each in silent)
        interrupted = any(each.run.interrupted for each in evaluations.values())
        unchanged = None if self.options.held_out_gpu is None else evaluations[UNCHANGED]
        answered = [evaluations[name] for name in self.names if evaluations[name].answered]
        # The baseline has a column of its own beside the others.
        answered = [each for each in answered if each is not unchanged]
        requests = ""
        if written:
            file = self.options.arguments[self._requests_argument]
            requests = f"{sum(written):,} requests written to {file}\n{self._next()}"
        if not answered:
            return Outcome({"unanswered": unanswered}, requests, interrupted, unanswered)
        probes = self._probes(answered[0].scored)
        results = {each.name: EvaluationResults.of(each, probes) for each in answered}
        values = {name: result.to_json() for name, result in results.items()}
        *others, last = results.values()
        beside = [*others, *([] if unchanged is None else [EvaluationResults.of(unchanged)])]
        text = [terminal(last, beside, self.brief)]
        if unchanged is not None:
            text.append(self._transfer(answered, unchanged, values))
        if self.questions.imported:
            text[:0] = self._external(answered, values)
        if not self.questions.trained:
            text.append(UNTRAINED)
        for value in values.values():
            value["baseline"] = "training frequencies" if self.questions.trained else "uniform"
        other = None if self.compare_to is None else evaluations[self.compare_to]
        comparison = None
        if other is not None and other.answered:
            entries = [each.target.entry or each.name for each in (answered[0], other)]
            one, against = entries if len({*entries}) == 2 else (answered[0].name, other.name)
            # A model is often compared with itself under other arguments.
            given = {} if answered[0].target.trusted else answered[0].options.recorded_arguments
            one = " ".join([one, *(f"{name}={value}" for name, value in given.items())])
            comparison = Comparison.of(one, answered[0].scored, against, other.scored)
            values[answered[0].name]["comparison"] = comparison.to_json()
            text.append(comparison.text())
            text += filter(None, [seen_before(EvaluationResults.of(other))])
        self._finish(evaluations.values(), values, answered[0], comparison)
        if self.out is not None or self.report:
            text.append(f"files: {', '.join(map(self._files, answered))}")
        if self.out is not None and len(self.names) == 1:
            text += filter(None, [self._to_enter(answered[0])])
        text += filter(None, [requests])
        unanswered += tuple(filter(None, map(_failure, answered)))
        whole = values[answered[0].name] if len(self.names) == 1 else {"surrogates": list(values.values())}
        return Outcome(whole, "\n\n".join(text), interrupted, unanswered)

    def _evaluated(self, job: Job) -> Evaluation:
        """One surrogate's evaluation, its files written."""
        if len(self.jobs) > 1:
            self.progress.stage(job.target.name)
        try:
            make_folder(job.folder)
        except OSError as error:
            folder = str(job.folder)
            raise UserError(f"--out {folder!r} cannot be written ({error.strerror}); choose another") from None
        evaluation = evaluate_on(
            job.spec, self.corpus, job.options, out=job.folder, forecasts_folder=self._forecasts_folder,
            questions=lambda: self._checked_questions, progress=self.progress, compiler=self.compiler,
        )  # fmt: skip
        if not evaluation.answered:
            return evaluation
        before = earlier_run(job.folder)
        if evaluation.run.interrupted and before.queries:
            self.progress.stage(f"interrupted: {job.folder} keeps the results of an earlier run")
            return evaluation
        write_folder(evaluation, job.folder)
        entry, asked = before.submission, len(evaluation.questions.queries)
        if self.out is not None and entry is not None and before.queries and evaluation.run.reused < asked:
            fix = f"for an entry of its own, raise version in {job.folder / SUBMISSION} and use another --out"
            self.progress.stage(f"forecasts of {entry.name} {entry.version} replaced; {fix}")
        return evaluation

    def _finish(
        self, evaluations: Iterable[Evaluation], values: Mapping[str, Any], first: Evaluation,
        comparison: Comparison | None,
    ) -> None:  # fmt: skip
        """Write the reports, and what is known only now that every surrogate is scored into results.json."""
        finished = [each for each in evaluations if each.answered and not each.run.interrupted]
        if self.report and finished:
            from kbench.benchmark.evaluate.report import write_report

            self.progress.stage("writing the report")
        for each in finished:
            folder = self._folder(each)
            compared = comparison if each is first else None
            if each.name in values:
                write_json(folder / RESULTS, values[each.name])
            if self.report:
                write_report(each, folder / REPORT, compared)

    def _probes(self, scored: Scored) -> Mapping[str, Scored]:
        """What probes score on the questions that a surrogate was scored on; a handful of them is not worth it."""
        if self.questions.limited or self.options.problems:
            return {}
        from kbench.benchmark.scoring.probes import probe_scores

        bounds = Bounds(scored.ceilings, scored.floors)
        return probe_scores(self.corpus, self.questions, self.options.bootstrap, bounds, self.progress.stage)

    def _transfer(self, shown: Sequence[Evaluation], unchanged: Evaluation, values: dict[str, dict[str, Any]]) -> str:
        """Skill on the GPU left out, over the baseline that speedups stay what they were on the others."""
        gpu = unchanged.questions.gpu
        lines = [f"Transfer to {gpu}: skill over unchanged speedups"]
        for each in shown:
            over = skill_over(each.scored, unchanged.scored)
            plain = {name: dataclasses.asdict(MetricResult.of(figure, None, None)) for name, figure in over.items()}
            values[each.name]["transfer"] = {"held_out_gpu": gpu, "baseline": UNCHANGED, "skill_over": plain}
            write_json(self._folder(each) / "transfer.json", values[each.name]["transfer"])
            figures = (f"{name} {f.value:.3f} [{f.low:.3f}, {f.high:.3f}]" for name, f in over.items())
            lines.append(f"  {each.name}: {', '.join(figures)}")
        return "\n".join(lines)

    def _external(self, shown: Sequence[Evaluation], values: dict[str, dict[str, Any]]) -> list[str]:
        """What the forecasts are worth on a corpus with frequencies of its own."""
        texts = []
        for each in shown:
            figures = external_figures(each.questions, each.table, each.options.bootstrap)
            if figures is not None:
                values[each.name]["external"] = figures.to_json()
                texts.append(f"{each.name}. {figures.text()}" if len(shown) > 1 else figures.text())
        return texts

    @property
    def _requests_argument(self) -> str:
        """The argument that names the requests file; a stack's begins with a part's name."""
        return next(name for name in self.options.arguments if name.rpartition(".")[2] == REQUESTS)

    def _next(self) -> str:
        """What to do once requests are written."""
        given = self.options.recorded_arguments
        argument = self._requests_argument.removesuffix(REQUESTS) + RESPONSES
        given.setdefault(argument, str(Path(given.pop(self._requests_argument)).with_name("responses.jsonl")))
        pairs = [f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in given.items()]
        words = ["kbench", "evaluate", *(word for name in self.names for word in ("--surrogate", name))]
        words += [word for pair in pairs for word in ("--surrogate-arg", pair)]
        words += [*self.options.words(), *(() if self.out is None else ("--out", str(self.out)))]
        return f"have them answered, put the answers into {given[argument]}, and score them with\n  {shlex.join(words)}"

    def _folder(self, evaluation: Evaluation) -> Path:
        return next(job.folder for job in self.jobs.values() if job.target == evaluation.target)

    def _files(self, evaluation: Evaluation) -> str:
        """The folder of an evaluation, and what in it is for reading."""
        log = self._log(evaluation)
        names = ", ".join([*([REPORT] if self.report else []), *([LOG + _warnings(log)] if log else [])])
        return f"{self._folder(evaluation)} ({names})" if names else str(self._folder(evaluation))

    def _log(self, evaluation: Evaluation) -> str:
        """The file with what the surrogate printed; empty where it printed nothing."""
        file = self._folder(evaluation) / LOG
        return str(file) if file.is_file() and file.stat().st_size else ""

    def _to_enter(self, evaluation: Evaluation) -> str | None:
        """The next steps to an entry, where the questions of a board were asked."""
        folder, asked = self._folder(evaluation), evaluation.questions
        entry = earlier_run(folder).submission
        if entry is None or asked.split != DEFAULTS.split or asked.limited or asked.imported or self.options.problems:
            return None
        left = open_fields(entry)
        file = folder / SUBMISSION
        todo = [f"fill in {', '.join(left)}, and correct kind and open_weights, in {file}"] if left else []
        words = [str(folder), *Options(dataset=self.options.dataset, subset=asked.subset, shots=asked.shots).words()]
        shown = BOARD_FOLDER.resolve() in folder.resolve().parents
        score = "build --out site" if shown else f"score {shlex.join(words)}"
        steps = [*todo, f"kbench leaderboard check {shlex.join(words)}", f"kbench leaderboard {score}"]
        return "\n  ".join(["next:", *steps])

    def _folder_of(self, target: SurrogateTarget, options: Options) -> Path:
        name = target.name
        if self.out is None:
            # A file of one's own may have a built-in's name, whose results stay.
            name += f"-{target.kind}" if name in BUILT_IN and target.kind != "built_in" else ""
            # Of one's own model, variants by argument; requests to a language model and their answers share a folder.
            given = {} if target.trusted or target.parts else options.recorded_arguments
            variant = "-".join(f"{key}={given[key]}" for key in sorted(given))
            variant = variant if READABLE.fullmatch(variant) else content_hash("arguments", variant)[:8]
            return DEFAULT_OUT / "-".join(filter(None, [name, variant, *self._asked_for()]))
        if len(self.names) > 1:
            return self.out / name
        # What it is compared with is no part of its submission.
        first = locate(self.names[0], self._forecasts_folder).name
        return self.out if name == first else self.out / COMPARED / name

    def _asked_for(self) -> Iterator[str]:
        """What is unusual about the questions: each kind of run has a default folder of its own."""
        options = self.options
        if options.split != DEFAULTS.split:
            yield options.split
        if options.subset is not None:
            yield options.subset
        if options.shots:
            yield f"{options.shots}-shots"
        if options.problems:
            yield _plain(options.problems[0]) if len(options.problems) == 1 else f"{len(options.problems)}-problems"
        if options.limit is not None:
            yield f"limit-{options.limit}"
        for how, gpu in {"on": options.gpu, "held-out": options.held_out_gpu}.items():
            if gpu is not None:
                yield f"{how}-{_plain(gpu)}"

    @functools.cached_property
    def _forecasts_folder(self) -> Path | None:
        """Forecasts that came with the dataset; a pulled dataset's name finds it in the data folder."""
        dataset = self.options.dataset
        if dataset is None:
            return None
        folder = Path(dataset) if Path(dataset).exists() else pulled(dataset)
        return folder / "forecasts" if folder is not None and (folder / "forecasts").is_dir() else None


def _warnings(log: str) -> str:
    """How many warnings a log holds, where it holds any."""
    with open(log, encoding="utf-8", errors="replace") as lines:
        # The surrogate writes it, as long a line as it likes.
        count = sum("Warning: " in line for line in lines.read(MOST_LOG_CHARACTERS).splitlines())
    return f" with {count:,} warning{'s' if count > 1 else ''}" if count else ""


def _plain(text: str) -> str:
    """A text as part of a folder's name."""
    return UNUSUAL.sub("-", text).strip("-").lower()


def _failure(evaluation: Evaluation) -> str | None:
    """One line on a surrogate that answered too little; queries whose requests were written did not fail."""
    made, failed = evaluation.table.failed.size, int(evaluation.table.failed.sum())
    if (failed - evaluation.run.failures[WRITTEN]) / max(made, 1) <= FAILED:
        return None
    return f"{evaluation.name} gave {made - failed:,} of {made:,} forecasts; its scores are not its own"


def _silence(evaluation: Evaluation) -> str:
    """One line on a surrogate that answered nothing."""
    reasons = evaluation.run.failures
    reason = next((each for each in reasons if not each.startswith(NOT_ASKED)), next(iter(reasons)))
    return f"{evaluation.name} answered none of {len(evaluation.questions.queries):,} queries: {reason}"
