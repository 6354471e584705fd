"""`kbench train`: prompts of a corpus, a run over them, and curves of runs."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import click

from kbench.benchmark.surrogates.language.local.prompt import SOURCE_TOKENS
from kbench.benchmark.training.lm.settings import BASELINES, OBJECTIVES, Settings
from kbench.loaders.options import NearGroup, corpus_argument, echo_json, json_option, out_option, progress

DEFAULTS = {field.name: field.default for field in Settings.__dataclass_fields__.values()}
SPLITS = ("train", "validation", "test")


@click.group(cls=NearGroup)
def train() -> None:
    """Train a local language model to forecast speedups."""


@train.command()
@corpus_argument
@click.option("--model", required=True, help="Whose tokenizer: a folder, a .gguf file or a Hub id.")
@out_option("File to write; .npz.xz.", required=True)
@click.option("--split", "splits", multiple=True, default=SPLITS, show_default=True, help="Repeatable.")
@click.option("--source-tokens", type=click.IntRange(min=1), default=SOURCE_TOKENS, show_default=True,
              help="Most tokens of a source.")  # fmt: skip
@json_option
def prompts(
    path: tuple[str, ...],
    model: str,
    out: Path,
    splits: tuple[str, ...],
    source_tokens: int,
    as_json: bool,
) -> None:
    """Write the questions of a corpus as tokens: all that training needs, on a machine that has torch alone."""
    found = _prompts(path, model, splits, source_tokens)
    found.write(out)
    if as_json:
        echo_json({"prompts": len(found.ends), "tokens": len(found.tokens), "path": str(out)})
    else:
        click.echo(f"{len(found.ends):,} prompts of {len(found.tokens):,} tokens written to {out}")


def _prompts(path: tuple[str, ...], model: str, splits: tuple[str, ...], most: int) -> Any:
    from kbench.benchmark.surrogates.language.local.weights import digit_tokens, load_tokenizer
    from kbench.benchmark.tasks.versions import benchmark_of
    from kbench.benchmark.training.lm.prompts import tokenized
    from kbench.loaders.corpus.corpus import Corpus

    tokenizer = load_tokenizer(model)
    corpus = benchmark_of(Corpus.open(list(path) or None))
    encode = functools.partial(tokenizer.encode, add_special_tokens=False)
    return tokenized(corpus, encode, digit_tokens(tokenizer, model), splits, most)


@train.command()
@corpus_argument
@click.option("--model", required=True, help="Weights to start from: a folder, a .gguf file or a Hub id.")
@click.option("--objective", type=click.Choice(OBJECTIVES), required=True, help="What is learnt.")
@out_option("Folder of the run; the same command resumes a stopped run.", required=True)
@click.option("--prompts", "prompts_file", type=click.Path(path_type=Path), metavar="FILE",
              help="What `kbench train prompts` wrote; made from the corpus by default.")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--steps", type=int, default=DEFAULTS["steps"], show_default=True)
@click.option("--batch", type=int, default=DEFAULTS["batch"], show_default=True, help="Prompts per step.")
@click.option("--group", type=int, default=DEFAULTS["group"], show_default=True, help="Answers sampled per prompt.")
@click.option("--baseline", type=click.Choice(BASELINES), default=BASELINES[0], show_default=True,
              help="What a reward is compared with.")  # fmt: skip
@click.option("--learning-rate", type=float, default=DEFAULTS["learning_rate"], show_default=True)
@click.option("--warm-up-pairs", type=int, default=DEFAULTS["warm_up_pairs"], show_default=True,
              help="Training pairs set apart for the warm-up.")  # fmt: skip
@click.option("--batch-tokens", type=int, default=DEFAULTS["batch_tokens"], show_default=True,
              help="Most tokens read at once; less takes less memory.")  # fmt: skip
@click.option("--validate-every", type=int, default=DEFAULTS["validate_every"], show_default=True, metavar="STEPS")
@click.option("--save-every", type=click.IntRange(min=1), default=50, show_default=True, metavar="STEPS")
@click.option("--deadline", "deadline_s", type=float, metavar="SECONDS",
              help="Save and stop after this time; the same command resumes.")  # fmt: skip
@click.option("--forecast", "splits", multiple=True, default=("validation", "test"), show_default=True,
              metavar="SPLIT", help="Splits to answer at the end. Repeatable.")  # fmt: skip
@click.option("--repeats", type=click.IntRange(min=1), default=4, show_default=True,
              help="Sampled answers per question at the end.")  # fmt: skip
@click.option("--device", default="auto", show_default=True, help="cpu, cuda, or auto.")
@click.option("--no-weights", is_flag=True, help="Keep forecasts and the log, but not the trained weights.")
@json_option
def lm(
    path: tuple[str, ...],
    prompts_file: Path | None,
    out: Path,
    save_every: int,
    deadline_s: float | None,
    splits: tuple[str, ...],
    repeats: int,
    device: str,
    no_weights: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Train a model and forecast with it."""
    from kbench.benchmark.training.lm.command import Command
    from kbench.benchmark.training.lm.prompts import Prompts
    from kbench.benchmark.training.lm.trainer import Pace

    settings = Settings(**options)
    file = prompts_file or out / "prompts.npz.xz"
    if prompts_file is None and not file.is_file():
        _prompts(path, settings.model, ("train", *splits), SOURCE_TOKENS).write(file)
    command = Command(settings, Prompts.open(file), out, Pace(save_every, deadline_s), splits, repeats, device)
    with progress(settings.steps, settings.objective, quiet=as_json) as bar:
        result = command.run(bar.update, keep_weights=not no_weights)
    if as_json:
        echo_json(result or {"finished": False})
    elif result is None:
        click.echo(f"stopped at the deadline; run the same command to go on with {out}")
    else:
        click.echo(f"trained in {result['seconds']:.0f} s; forecasts, log and weights are in {out}")


@train.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@out_option("Picture to write.", required=True)
@json_option
def plot(runs: tuple[Path, ...], out: Path, as_json: bool) -> None:
    """Draw reward, RPS and ECE of runs over their steps."""
    from kbench.benchmark.training.lm.curves import draw

    draw(runs, out)
    if as_json:
        echo_json({"runs": len(runs), "path": str(out)})
    else:
        click.echo(f"curves of {len(runs)} runs written to {out}")
