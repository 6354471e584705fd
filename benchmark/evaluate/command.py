"""The command `kbench evaluate`: one or several surrogates on one set of questions, their files and their table."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kbench.benchmark.evaluate.evaluate import Evaluation, EvaluationProgress, SilentProgress, evaluate_on
from kbench.benchmark.evaluate.external import external_figures
from kbench.benchmark.evaluate.folder import earlier, write_folder, write_json
from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.evaluate.results import EvaluationResults, MetricResult, terminal
from kbench.benchmark.llm.chat import CHARACTERS_PER_TOKEN, WRITTEN
from kbench.benchmark.questions import Questions
from kbench.benchmark.questions.asked import Tables
from kbench.benchmark.scoring.compare import Comparison, skill_over
from kbench.benchmark.scoring.score import Bounds, Scored
from kbench.benchmark.surrogates.protocol import Compiler
from kbench.benchmark.surrogates.resolve import SurrogateTarget, construct, locate
from kbench.benchmark.tracks import PAIR_TRACKS
from kbench.loaders.corpus.places import pulled
from kbench.loaders.storage.janitor import make_folder
from kbench.schemas import UserError

UNCHANGED = "transfer"
"""The built-in that stands beside every surrogate where a GPU is left out."""
UNTRAINED = (
    "baseline: the corpus has no train split, so that skill is over the uniform forecast; --train shipped takes the "
    "training frequencies of kbench's own dataset"
)
DEFAULT_OUT = Path("runs") / "evaluate"
UNUSUAL = re.compile(r"[^A-Za-z0-9]+")
"""What a folder's name has hyphens for."""
COMPARED = "compared"
"""Folder in --out for what a single surrogate is compared with."""


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What the command prints."""

    values: dict[str, Any]
    text: str
    interrupted: bool
    unanswered: tuple[str, ...] = ()
    """Surrogates that answered nothing, each with the most frequent reason; they have no scores."""


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
            f"about {self.input_tokens_estimate:,} tokens of queries, read once",
        ]
        for entry in self.surrogates:
            facts = ", ".join(f"{key} {value}" for key, value in entry.items() if key not in ("surrogate", "kind"))
            lines.append(f"{entry['surrogate']} ({entry['kind']}): {facts or 'cost unknown before it runs'}")
        return "\n".join(lines)


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """A surrogate, with the settings and the folder of its evaluation."""

    spec: str
    target: SurrogateTarget
    options: Options
    folder: Path


@dataclasses.dataclass(frozen=True)
class Command:
    """One call of the command. What it is given is refused, where it cannot be, before anything is read."""

    names: Sequence[str]
    """Surrogates, as `--surrogate` takes them; arguments belong to the first."""
    options: Options
    out: Path | None = None
    report: bool = True
    compare_to: str | None = None
    """Another surrogate, whose paired differences from the first are shown."""
    compiler: Compiler | None = None
    progress: EvaluationProgress = dataclasses.field(default_factory=SilentProgress)

    @functools.cached_property
    def places(self) -> Mapping[str, Place]:
        """Every surrogate to evaluate by its spec: those named, those beside them.

        Raises:
            UserError: there is no such surrogate, or two would share a folder.
        """
        self.options.check()
        beside = [UNCHANGED] if self.options.held_out_gpu is not None else []
        beside += [self.compare_to] if self.compare_to is not None else []
        places: dict[str, Place] = {}
        for spec in dict.fromkeys([*self.names, *beside]):
            target = locate(spec, self._forecasts_folder)
            place = Place(spec, target, self._options_of(spec), self._folder_of(target.name))
            other = next((each for each in places.values() if each.folder == place.folder), None)
            if other is not None:
                raise UserError(
                    f"surrogates {other.spec!r} and {spec!r} would both be written to {str(place.folder)!r}; "
                    "evaluate them one at a time, each with its own --out"
                )
            places[spec] = place
        return places

    @functools.cached_property
    def corpus(self) -> Tables:
        """The corpus asked for, as the benchmark sees it."""
        return self.options.corpus()

    @functools.cached_property
    def questions(self) -> Questions:
        """What is asked."""
        self.progress.stage("reading the corpus")
        folder, tracks = self._forecasts_folder, self.options.tracks
        targets = [self.places[name].target for name in self.names]
        if folder is not None and all(Path(target.location).parent == folder.resolve() for target in targets):
            # Forecasts that came with a dataset answer its pairs alone.
            tracks = tuple(track for track in tracks if track in PAIR_TRACKS) or tracks
        return dataclasses.replace(self.options, tracks=tracks).questions(self.corpus)

    @functools.cached_property
    def _checked_questions(self) -> Questions:
        """What is asked, once it is clear that no folder loses anything that must not be lost."""
        for place in self.places.values():
            earlier(place.folder).check(place.target, place.options, self.questions)
        return self.questions

    def plan(self) -> EvaluationPlan:
        """What would be asked, and what it would cost."""
        places = [self.places[name] for name in self.names]
        trusted = {p.spec: construct(p.target, p.options.arguments) for p in places if p.target.trusted}
        questions = self.questions
        entries: list[dict[str, Any]] = []
        for place in places:
            entry: dict[str, Any] = {"surrogate": place.target.name, "kind": place.target.kind}
            if place.spec in trusted:
                estimate = getattr(trusted[place.spec], "estimate", None)
                entry |= estimate(questions.queries) if estimate is not None else {"price": 0.0}
            entries.append(entry)
        characters = sum(
            len(q.problem_text) + len(q.anchor_source) + len(q.candidate_source) + len(q.gpu_facts_json)
            for q in questions.queries
        )
        tasks = questions.tasks()
        return EvaluationPlan(
            dataset=questions.dataset,
            split=questions.split,
            queries=len(questions.queries),
            tracks={track: len(task.query_ids) for track, task in tasks.items()},
            fingerprints={track: task.fingerprint for track, task in tasks.items()},
            input_characters=characters,
            input_tokens_estimate=round(characters / CHARACTERS_PER_TOKEN),
            surrogates=entries,
        )

    def run(self) -> Answer:
        """Evaluate every surrogate, write its files, and say what came out."""
        evaluations = {spec: self._evaluated(place) for spec, place in self.places.items()}
        written = [each.run.failures[WRITTEN] for each in evaluations.values() if WRITTEN in each.run.failures]
        silent = [each for each in evaluations.values() if not each.answered and WRITTEN not in each.run.failures]
        unanswered = tuple(_silence(each) for each in silent)
        interrupted = any(each.run.interrupted for each in evaluations.values())
        unchanged = None if self.options.held_out_gpu is None else evaluations[UNCHANGED]
        answered = [evaluations[name] for name in self.names if evaluations[name].answered]
        # The baseline has a column of its own beside the others.
        answered = [each for each in answered if each is not unchanged]
        if not answered:
            requests = f"{sum(written):,} requests written" if written else ""
            return Answer({"unanswered": unanswered}, requests, interrupted, unanswered)
        probes = self._probes(answered[0].scored)
        results = {each.name: EvaluationResults.of(each, probes) for each in answered}
        values = {name: result.to_json() for name, result in results.items()}
        *others, last = results.values()
        text = [terminal(last, [*others, *([] if unchanged is None else [EvaluationResults.of(unchanged)])])]
        if unchanged is not None:
            text.append(self._transfer(answered, unchanged, values))
        if self.questions.imported:
            text[:0] = self._external(answered, values)
        if not self.questions.trained:
            text.append(UNTRAINED)
        for value in values.values():
            value["baseline"] = "training frequencies" if self.questions.trained else "uniform"
        other = None if self.compare_to is None else evaluations[self.compare_to]
        if other is not None and other.answered:
            comparison = Comparison.of(answered[0].name, answered[0].scored, other.name, other.scored)
            values[answered[0].name]["comparison"] = comparison.to_json()
            text.append(comparison.text())
        if self.out is not None or self.report:
            text.append(f"files: {', '.join(str(self._folder(each)) for each in answered)}")
        whole = values[answered[0].name] if len(self.names) == 1 else {"surrogates": list(values.values())}
        return Answer(whole, "\n\n".join(text), interrupted, unanswered)

    def _evaluated(self, place: Place) -> Evaluation:
        """One surrogate's evaluation, its files written."""
        if len(self.names) > 1:
            self.progress.stage(place.target.name)
        try:
            make_folder(place.folder)
        except OSError as error:
            folder = str(place.folder)
            raise UserError(f"--out {folder!r} cannot be written ({error.strerror}); choose another") from None
        evaluation = evaluate_on(
            place.spec, self.corpus, place.options, out=place.folder, forecasts_folder=self._forecasts_folder,
            questions=lambda: self._checked_questions, progress=self.progress, compiler=self.compiler,
        )  # fmt: skip
        if not evaluation.answered:
            return evaluation
        if evaluation.run.interrupted and earlier(place.folder).queries:
            self.progress.stage(f"interrupted: {place.folder} keeps the results of an earlier run")
            return evaluation
        write_folder(evaluation, place.folder)
        if self.report and not evaluation.run.interrupted:
            from kbench.benchmark.evaluate.report import write_report

            self.progress.stage("writing the report")
            write_report(evaluation, place.folder / "report.html")
        return evaluation

    def _probes(self, scored: Scored) -> Mapping[str, Scored]:
        """What probes score on the questions that a surrogate was scored on; a handful of them is not worth it."""
        if self.questions.limited or self.options.problems:
            return {}
        from kbench.benchmark.scoring.probes import probe_scores

        self.progress.stage("probes")
        bounds = Bounds(scored.ceilings, scored.floors)
        return probe_scores(self.corpus, self.questions, self.options.bootstrap, bounds)

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

    def _folder(self, evaluation: Evaluation) -> Path:
        return next(place.folder for place in self.places.values() if place.target == evaluation.target)

    def _options_of(self, spec: str) -> Options:
        """Arguments belong to the surrogate that was named, not to the baselines beside it."""
        return self.options if spec == self.names[0] else dataclasses.replace(self.options, arguments={})

    def _folder_of(self, name: str) -> Path:
        if self.out is None:
            # Another GPU has a folder of its own: what was forecast before stays.
            gpus = {"on": self.options.gpu, "held-out": self.options.held_out_gpu}
            about = (f"-{how}-{UNUSUAL.sub('-', gpu).strip('-').lower()}" for how, gpu in gpus.items() if gpu)
            return DEFAULT_OUT / f"{name}{''.join(about)}"
        if len(self.names) > 1:
            return self.out / name
        # What it is compared with is no part of its submission.
        first = locate(self.names[0], self._forecasts_folder).name
        return self.out if name == first else self.out / COMPARED / name

    @functools.cached_property
    def _forecasts_folder(self) -> Path | None:
        """Forecasts that came with the dataset; a pulled dataset's name finds it in the data folder."""
        dataset = self.options.dataset
        if dataset is None:
            return None
        folder = Path(dataset) if Path(dataset).exists() else pulled(dataset)
        return folder / "forecasts" if folder is not None and (folder / "forecasts").is_dir() else None


def _silence(evaluation: Evaluation) -> str:
    """One line on a surrogate that answered nothing."""
    ((reason, _),) = evaluation.run.failures.most_common(1)
    return f"{evaluation.name} answered none of {len(evaluation.questions.queries):,} queries: {reason}"
