"""The command `kbench evaluate`: one or several surrogates on one set of questions, their files and their table."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kbench.benchmark.evaluation.folder import earlier, write_folder, write_json
from kbench.benchmark.evaluation.results import EvaluationResults, MetricResult
from kbench.benchmark.evaluation.run import Evaluation, EvaluationProgress, Options, evaluate
from kbench.benchmark.evaluation.submission import is_published
from kbench.benchmark.evaluation.terminal import terminal
from kbench.benchmark.llm.chat import CHARACTERS_PER_TOKEN
from kbench.benchmark.scoring.compare import Comparison, skill_over
from kbench.benchmark.scoring.score import score
from kbench.benchmark.surrogates.llm import WRITTEN
from kbench.benchmark.surrogates.protocol import Compiler
from kbench.benchmark.surrogates.resolve import SurrogateTarget, construct, locate
from kbench.benchmark.tasks import Questions
from kbench.benchmark.tasks.asked import Tables, version_of
from kbench.benchmark.tasks.questions import PROMPT_EDGES_NAME, with_prompt_edges
from kbench.benchmark.tasks.trained import TrainedOn
from kbench.benchmark.tasks.transfer import HeldOutGpu
from kbench.benchmark.tasks.versions import benchmark_of
from kbench.benchmark.tracks import PAIR_TRACKS
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.places import pulled
from kbench.schemas import UserError

SHIPPED = "shipped"
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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One call of the command."""

    names: Sequence[str]
    dataset: str | None
    options: Options
    out: Path | None
    report: bool = True
    compiler: Compiler | None = None
    train: str | None = None
    """A corpus whose training splits stand in for those of `dataset`; SHIPPED for the shipped one."""
    held_out_gpu: str | None = None
    """A GPU that is left out of training, and that alone is asked about; any unambiguous part of its name."""
    gpu: str | None = None
    """The GPU that is asked about; the one with the most kernels by default."""

    def corpus(self) -> Tables:
        """The corpus asked for, as the benchmark sees it; a pulled dataset's name finds it in the data folder."""
        asked = benchmark_of(Corpus.open(self.dataset, verified=True), self.gpu)
        if self.train is not None:
            learnt = Corpus.open(None if self.train == SHIPPED else self.train, verified=True)
            asked = TrainedOn(asked, learnt if version_of(asked) is None else benchmark_of(learnt))
        return asked if self.held_out_gpu is None else HeldOutGpu(asked, self.held_out_gpu)

    def questions(self, corpus: Tables, progress: EvaluationProgress) -> Questions:
        """What is asked."""
        progress.stage("reading the corpus")
        return dataclasses.replace(self.options, tracks=self._tracks()).questions(corpus)

    def plan(self, progress: EvaluationProgress) -> EvaluationPlan:
        """What would be asked, and what it would cost."""
        targets = [self._located(name) for name in self.names]
        questions = self.questions(self.corpus(), progress)
        tasks = questions.tasks()
        characters = sum(
            len(q.problem_text) + len(q.anchor_source) + len(q.candidate_source) + len(q.gpu_facts_json)
            for q in questions.queries
        )
        return EvaluationPlan(
            dataset=questions.dataset,
            split=questions.split,
            queries=len(questions.queries),
            tracks={track: len(task.query_ids) for track, task in tasks.items()},
            fingerprints={track: task.fingerprint for track, task in tasks.items()},
            input_characters=characters,
            input_tokens_estimate=round(characters / CHARACTERS_PER_TOKEN),
            surrogates=[self._plan_one(target, questions) for target in targets],
        )

    def _plan_one(self, target: SurrogateTarget, questions: Questions) -> dict[str, Any]:
        entry: dict[str, Any] = {"surrogate": target.name, "kind": target.kind}
        if target.trusted:
            surrogate = construct(target, self.options.arguments)
            estimate = getattr(surrogate, "estimate", None)
            entry |= estimate(questions.queries) if estimate is not None else {"price": 0.0}
        return entry

    def run(self, progress: EvaluationProgress, compare_to: str | None) -> Answer:
        """Evaluate every surrogate named, write its files, and say what came out."""
        corpus = self.corpus()
        questions = self.questions(corpus, progress)
        self._check_folders(compare_to, questions)
        unchanged = None if self.held_out_gpu is None else self._one(UNCHANGED, corpus, questions, progress)
        names = [name for name in self.names if unchanged is None or name != UNCHANGED]
        done = [self._one(name, corpus, questions, progress) for name in names]
        other = None if compare_to is None else self._one(compare_to, corpus, questions, progress)
        asked = done if other is None else [*done, other]
        interrupted = any(evaluation.run.interrupted for evaluation in asked)
        written = [evaluation for evaluation in asked if WRITTEN in evaluation.run.failures]
        unanswered = tuple(_silence(each) for each in asked if not each.answered and each not in written)
        done = [evaluation for evaluation in done if evaluation.answered]
        if not done:
            text = [f"{sum(each.run.failures[WRITTEN] for each in written):,} requests written"] if written else []
            return Answer({"unanswered": unanswered}, "".join(text), interrupted, unanswered)
        found = [EvaluationResults.of(evaluation) for evaluation in done]
        values = [one.to_json() for one in found]
        beside = [EvaluationResults.of(unchanged)] if unchanged is not None else []
        text = [terminal(found[-1], [*found[:-1], *beside])]
        text += [] if unchanged is None else self._transfer(done, unchanged, values)
        text += self._prompt_edges(done, values)
        trained = corpus.table("pairs", split="train", columns=["pair_id"]).num_rows > 0
        text += [] if trained else [UNTRAINED]
        for one in values:
            one["baseline"] = "training frequencies" if trained else "uniform"
        if other is not None and other.answered:
            comparison = Comparison.of(done[0].name, done[0].scored, other.name, other.scored)
            values[0]["comparison"] = comparison.to_json()
            text.append(comparison.text())
        if self.out is not None or self.report:
            text.append(f"files: {', '.join(str(self._folder_of(e.name)) for e in done)}")
        whole = values[0] if len(self.names) == 1 else {"surrogates": values}
        return Answer(whole, "\n\n".join(text), interrupted, unanswered)

    def _transfer(self, done: Sequence[Evaluation], unchanged: Evaluation, values: list[dict[str, Any]]) -> list[str]:
        """Skill on the GPU left out, over the baseline that speedups stay what they were on the others."""
        gpu = unchanged.questions.gpu
        lines = [f"Transfer to {gpu}: skill over unchanged speedups"]
        for evaluation, found in zip(done, values, strict=True):
            over = skill_over(evaluation.scored, unchanged.scored)
            plain = {name: dataclasses.asdict(MetricResult.of(figure, None, None)) for name, figure in over.items()}
            found["transfer"] = {"held_out_gpu": gpu, "baseline": UNCHANGED, "skill_over": plain}
            write_json(self._folder_of(evaluation.name) / "transfer.json", found["transfer"])
            shown = (f"{name} {f.value:.3f} [{f.low:.3f}, {f.high:.3f}]" for name, f in over.items())
            lines.append(f"  {evaluation.name}: {', '.join(shown)}")
        return ["\n".join(lines)]

    def _prompt_edges(self, done: Sequence[Evaluation], values: list[dict[str, Any]]) -> list[str]:
        """Published forecasts scored a second time, against the edges their prompt described."""
        text = []
        for evaluation, found in zip(done, values, strict=True):
            if is_published(evaluation):
                again = EvaluationResults.of(_rescored(evaluation))
                shown = {name: again.to_json()[name] for name in ("tracks", "slices")}
                found["published_prompt"] = {"edges": PROMPT_EDGES_NAME} | shown
                write_json(self._folder_of(evaluation.name) / "published_prompt.json", found["published_prompt"])
                text.append(f"The same forecasts, answers cut at the edges of their prompt:\n\n{terminal(again)}")
        return text

    def _tracks(self) -> tuple[str, ...]:
        """The tracks asked; forecasts that came with a dataset answer its pairs alone."""
        targets = [self._located(name) for name in self.names]
        folder = self._forecasts_folder()
        if folder is None or not all(Path(target.location).parent == folder.resolve() for target in targets):
            return self.options.tracks
        return tuple(track for track in self.options.tracks if track in PAIR_TRACKS) or self.options.tracks

    def _one(self, name: str, corpus: Tables, questions: Questions, progress: EvaluationProgress) -> Evaluation:
        target = self._located(name)
        folder = self._folder_of(target.name)
        if len(self.names) > 1:
            progress.stage(f"{target.name}")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"--out {str(folder)!r} cannot be written ({error.strerror}); choose another") from None
        evaluation = evaluate(
            name, corpus, self._options_of(name), out=folder, forecasts_folder=self._forecasts_folder(),
            questions=questions, progress=progress, compiler=self.compiler,
        )  # fmt: skip
        if not evaluation.answered:
            return evaluation
        if evaluation.run.interrupted and earlier(folder).queries:
            progress.stage(f"interrupted: {folder} keeps the results of an earlier run")
            return evaluation
        write_folder(evaluation, folder)
        if self.report and not evaluation.run.interrupted:
            from kbench.benchmark.evaluation.report import write_report

            progress.stage("writing the report")
            write_report(evaluation, folder / "report.html")
        return evaluation

    def _check_folders(self, compare_to: str | None, questions: Questions) -> None:
        """Refuse, before any surrogate is asked, what would replace something that must not be lost."""
        beside = [compare_to] if compare_to is not None and compare_to not in self.names else []
        beside += [UNCHANGED] if self.held_out_gpu is not None and UNCHANGED not in (*self.names, *beside) else []
        owners: dict[Path, str] = {}
        for name in [*self.names, *beside]:
            target = self._located(name)
            folder = self._folder_of(target.name)
            if folder in owners:
                raise UserError(
                    f"surrogates {owners[folder]!r} and {name!r} would both be written to {str(folder)!r}; "
                    "evaluate them one at a time, each with its own --out"
                )
            owners[folder] = name
            earlier(folder).check(target, self._options_of(name), questions)

    def _located(self, name: str) -> SurrogateTarget:
        return locate(name, self._forecasts_folder())

    def _options_of(self, name: str) -> Options:
        """Arguments belong to the surrogate that was named, not to the baselines beside it."""
        return self.options if name == self.names[0] else dataclasses.replace(self.options, arguments={})

    def _folder_of(self, name: str) -> Path:
        if self.out is None:
            return DEFAULT_OUT / f"{name}{self._about}"
        if len(self.names) > 1:
            return self.out / name
        # What it is compared with is no part of its submission.
        return self.out if self._located(self.names[0]).name == name else self.out / COMPARED / name

    @property
    def _about(self) -> str:
        """End of a folder's name where another GPU is asked about than usual: what was forecast before stays."""
        asked = {"on": self.gpu, "held-out": self.held_out_gpu}
        return "".join(f"-{how}-{UNUSUAL.sub('-', gpu).strip('-').lower()}" for how, gpu in asked.items() if gpu)

    def _forecasts_folder(self) -> Path | None:
        if self.dataset is None:
            return None
        folder = Path(self.dataset) if Path(self.dataset).exists() else pulled(self.dataset)
        return folder / "forecasts" if folder is not None and (folder / "forecasts").is_dir() else None


def _silence(evaluation: Evaluation) -> str:
    """One line on a surrogate that answered nothing."""
    ((reason, _),) = evaluation.run.failures.most_common(1)
    return f"{evaluation.name} answered none of {len(evaluation.questions.queries):,} queries: {reason}"


def _rescored(evaluation: Evaluation) -> Evaluation:
    """The same forecasts against the prompt's edges; only the tracks about pairs change."""
    questions = with_prompt_edges(evaluation.questions)
    # The ceiling is drawn with our edges, and the release states no intervals to draw it from.
    scored = dataclasses.replace(score(questions, evaluation.table, evaluation.options.bootstrap), ceilings={})
    return dataclasses.replace(evaluation, questions=questions, scored=scored)
