"""What a user may set, each setting declared once: `kbench.evaluate` takes them as keywords, the command as options."""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click

from kbench.benchmark.questions.build import SUBSETS, build_questions, check_selection
from kbench.benchmark.tracks import SHOTS, TRACK_NAMES
from kbench.schemas import UserError

if typing.TYPE_CHECKING:
    from kbench.benchmark.questions.answers import Answers
    from kbench.benchmark.questions.asked import Tables
    from kbench.benchmark.questions.questions import Questions
    from kbench.benchmark.scoring.score import BootstrapSettings

ASK, MODEL, LIMITS, LANGUAGE, OUTPUT = "What to ask", "Your model", "Limits", "Language model", "Output"
GROUPS = (ASK, MODEL, LIMITS, LANGUAGE, OUTPUT)
"""Headings of the command's help."""
SHIPPED = "shipped"
"""What `--train` calls kbench's own dataset."""
COUNT, POSITIVE = click.IntRange(min=1), click.FloatRange(min=0, min_open=True)


def setting(group: str, help: str, value: Any = None, **option: Any) -> Any:
    """A field of Options: its option's heading and help, its default, and what else click is told.

    `flags` are the option's names where they are not the field's.
    """
    metadata = {"group": group, "help": help, "option": option}
    if isinstance(value, Mapping):
        return dataclasses.field(default_factory=dict, metadata=metadata)
    return dataclasses.field(default=value, metadata=metadata)


SECRET = re.compile("key|token$|secret|passw", re.IGNORECASE)
"""Names of arguments whose values no file records."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a user may set; every default is what the shipped table was made with."""

    dataset: str | None = setting(
        ASK, "Corpus folder or Hub id to ask about; the shipped dataset by default.", flags=("--dataset", "--test"),
        metavar="PATH",
    )  # fmt: skip
    split: str = setting(
        ASK, "test (unseen problems), test_near (unseen, of a seen template), test_seen, or validation.", "test"
    )
    tracks: tuple[str, ...] = setting(
        ASK, "Tracks to score, comma-separated; `tune` alone scores strategies (no name: all).", TRACK_NAMES,
        default=",".join(TRACK_NAMES), show_default=True,
        callback=lambda context, option, text: tuple(name.strip() for name in text.split(",") if name.strip()),
    )  # fmt: skip
    subset: str | None = setting(ASK, "A fixed part of the split; all by default.", type=click.Choice(SUBSETS))
    problems: tuple[str, ...] = setting(
        ASK, "Ask about this problem alone: an id, or a file. Repeatable.", (), flags=("--problem",)
    )
    shots: int = setting(
        ASK, "How many measured kernels of its problem each query shows, with their speedups.", 0,
        type=click.Choice([str(number) for number in SHOTS]), default="0",
        callback=lambda context, option, text: int(text),
    )  # fmt: skip
    limit: int | None = setting(ASK, "At most N queries.", type=int, metavar="N")
    gpu: str | None = setting(
        ASK, "Ask about this GPU, or all; the one with the most kernels by default.", metavar="GPU"
    )
    held_out_gpu: str | None = setting(
        ASK, "Leave this GPU (any unambiguous part of its name) out of training and ask about it alone: scores "
        "transfer between GPUs, with the baseline `transfer` (speedups stay what they were) beside every surrogate.",
        metavar="GPU",
    )  # fmt: skip
    train: str | None = setting(
        ASK, f"Learn from this corpus instead (or `{SHIPPED}`); the score then measures transfer.", metavar="PATH"
    )
    arguments: Mapping[str, Any] = setting(
        MODEL, "Argument of the surrogate. Repeatable.", {}, flags=("--surrogate-arg",), multiple=True, metavar="K=V"
    )
    batch_size: int | None = setting(MODEL, "Queries per call of forecast(); 64 for your own model.", type=COUNT)
    ensemble: bool = setting(MODEL, "Average the repeats of a query into one forecast.", False)
    concurrency: int = setting(LIMITS, "Processes for your own surrogate.", 1, type=COUNT)
    timeout_s: float = setting(
        LIMITS, "Seconds one call of forecast() may take.", 120.0, flags=("--timeout",), type=POSITIVE
    )
    fit_timeout_s: float = setting(LIMITS, "Seconds fit() may take.", 3600.0, flags=("--fit-timeout",), type=POSITIVE)
    memory_gb: float | None = setting(
        LIMITS, "Memory of your own surrogate; most of the machine's by default.", type=POSITIVE
    )
    allow_network: bool = setting(LIMITS, "Let your own surrogate reach other machines.", False)
    allow_env: tuple[str, ...] = setting(
        LIMITS, "Environment variable your own surrogate gets beside the usual ones. Repeatable.", (), metavar="NAME"
    )
    require_isolation: bool = setting(
        LIMITS, "Refuse your own surrogate where this system cannot hide the answers from it.", False
    )
    max_tokens: int | None = setting(
        LANGUAGE, "Most tokens read and written in all, earlier runs into the same folder included.", type=COUNT,
        metavar="N",
    )  # fmt: skip
    max_cost: float | None = setting(
        LANGUAGE,
        "Limit on the total cost of tokens, in US dollars, at the arguments price_in and price_out (US dollars per "
        "million tokens).",
        type=POSITIVE,
        metavar="X",
    )
    resamples: int = setting(OUTPUT, "Bootstrap resamples.", 2000, type=click.IntRange(min=0))
    seed: int = setting(
        OUTPUT, "Seed of the bootstrap, and of surrogates that take one.", 0, type=click.IntRange(0, 2**32 - 1)
    )

    def __post_init__(self) -> None:
        """In Python a single name may stand for a tuple of one; iterated, it would be letters."""
        for name in ("tracks", "problems", "allow_env"):
            given = getattr(self, name)
            names = given.split(",") if isinstance(given, str) else given
            object.__setattr__(self, name, tuple(each.strip() for each in names))

    def check(self) -> None:
        """Refuse what can be refused before anything is read."""
        check_selection(self.tracks, self.split, self.limit, self.subset, self.shots)
        if self.gpu is not None and self.held_out_gpu is not None:
            raise UserError("--held-out-gpu asks about the GPU it names; leave --gpu out")

    def words(self) -> list[str]:
        """The options that make the command ask the same, without defaults and arguments of the surrogate."""
        words = []
        for field in dataclasses.fields(self):
            value, flags = getattr(self, field.name), field.metadata["option"].get("flags")
            if field.name == "arguments" or value == field.default:
                continue
            flag = flags[0] if flags else f"--{field.name.replace('_', '-')}"
            if field.metadata["option"].get("callback") is not None and isinstance(value, tuple):
                words += [flag, ",".join(value)]
            elif isinstance(value, tuple):
                words += [word for each in value for word in (flag, str(each))]
            else:
                words += [flag] if value is True else [flag, str(value)]
        return words

    @property
    def bootstrap(self) -> BootstrapSettings:
        """How intervals are made."""
        from kbench.benchmark.scoring.score import BootstrapSettings

        return BootstrapSettings(resamples=self.resamples, seed=self.seed)

    @property
    def recorded_arguments(self) -> dict[str, Any]:
        """The arguments as files record them: without keys, which are secrets, in addresses too."""
        open_ones = {name: value for name, value in self.arguments.items() if not SECRET.search(name)}
        if not open_ones:
            return {}
        from kbench.benchmark.llm.scrub import Scrubber

        plain = Scrubber.of(None)
        return {name: plain.text(value) if isinstance(value, str) else value for name, value in open_ones.items()}

    def corpus(self, answers: Answers | None = None) -> Tables:
        """What is asked about and learnt from, as the benchmark sees it; a private edition's answers come apart."""
        from kbench.benchmark.questions.corpus_view import benchmark_of
        from kbench.loaders.corpus.corpus import Corpus

        corpus = benchmark_of(Corpus.open(self.dataset, verified=True), self.gpu, answers)
        if self.train is not None:
            from kbench.benchmark.questions.transfer import TrainedOn

            learnt = Corpus.open(None if self.train == SHIPPED else self.train, verified=True)
            corpus = TrainedOn(corpus, benchmark_of(learnt))
        if self.held_out_gpu is not None:
            from kbench.benchmark.questions.transfer import HeldOutGpu

            corpus = HeldOutGpu(corpus, self.held_out_gpu)
        return corpus

    def questions(self, corpus: Tables) -> Questions:
        """What is asked of a corpus."""
        return build_questions(
            corpus, self.split, self.tracks, self.limit, subset=self.subset, problems=self.problems, shots=self.shots
        )


def options_of(names: Iterable[str]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The command-line options of these fields of Options, in this order, as a decorator."""
    field_of = {each.name: each for each in dataclasses.fields(Options)}
    kinds = typing.get_type_hints(Options)

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        for field in reversed([field_of[name] for name in names]):
            settings = {"help": field.metadata["help"], **field.metadata["option"]}
            if kinds[field.name] is bool:
                settings["is_flag"] = True
            elif typing.get_origin(kinds[field.name]) is tuple and "default" not in settings:
                settings["multiple"] = True
            elif field.default not in (None, dataclasses.MISSING):
                settings = {"default": field.default, "show_default": True} | settings
            flags = settings.pop("flags", (f"--{field.name.replace('_', '-')}",))
            option = click.option(*flags, field.name, cls=GroupedOption, group=field.metadata["group"], **settings)
            command = option(command)
        return command

    return decorated


class GroupedOption(click.Option):
    """An option that stands under a heading in the command's help."""

    def __init__(self, *given: Any, group: str, **told: Any) -> None:
        super().__init__(*given, **told)
        self.group = group


class GroupedCommand(click.Command):
    """A command on surrogates whose help lists its options by heading; options without one come last."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line; a word by itself is most likely a surrogate."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if "extra argument" in error.message:
                raise click.UsageError(f"{error.message}; name a surrogate with --surrogate", ctx) from None
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under their headings."""
        records_of: dict[str, list[tuple[str, str]]] = {group: [] for group in (*GROUPS, "Options")}
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx)
            if record is not None:
                records_of[getattr(option, "group", "Options")].append(record)
        for group, records in records_of.items():
            if records:
                with formatter.section(group):
                    formatter.write_dl(records)
