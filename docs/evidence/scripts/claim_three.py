"""Do calibration rewards make a language model's stated confidence reliable, and correctness alone not?

Reads the runs of train_lm.py, scores every arm on unseen problems, and compares arms of one seed, paired by problem.

PYTHONPATH=src python docs/evidence/scripts/claim_three.py runs/lm     # writes docs/evidence/train-lm.json
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from kbench.benchmark.evaluate.evaluate import Evaluation, evaluate_on
from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.scoring.compare import Comparison
from kbench.benchmark.tasks.questions import Questions
from kbench.loaders.corpus.corpus import Corpus

OUT = Path(__file__).parents[1] / "train-lm.json"
ARMS = {
    "warm-up": ("warm-up", "stated"), "correctness": ("correctness", "stated"), "brier": ("brier", "stated"),
    "crps": ("crps", "stated"), "warm-up, implied": ("warm-up", "implied"),
    "correctness, implied": ("correctness", "implied"), "crps, implied": ("crps", "implied"),
    "cross-entropy": ("cross-entropy", "implied"), "rps": ("rps", "implied"),
}  # fmt: skip
"""Run and file of each arm: what the model states, or what its first digit implies."""
CALIBRATED = "warm-up, calibrated"
"""What the warm-up implies, calibrated on validation problems as `calibrated:` does, without further training."""
CLAIMED = {"warm-up", "correctness", "brier", "crps"}
"""What the claim is about."""
SHOWN = (
    ("forecast", "skill"),
    ("forecast", "rps"),
    ("forecast", "ece"),
    ("forecast", "accuracy"),
    ("rank", "spearman"),
)
PAIRS = (("brier", "correctness"), ("crps", "correctness"), ("brier", "warm-up"), ("crps", "warm-up"),
         ("correctness", "warm-up"), (CALIBRATED, "warm-up"), ("crps", CALIBRATED), ("crps", "rps"),
         ("crps", "brier"))  # fmt: skip


def scored(
    folder: Path, seed: int, corpus: Corpus, questions: Questions | None, resamples: int
) -> dict[str, Evaluation]:
    """Every finished arm of one seed, and the calibrated warm-up."""
    done: dict[str, Evaluation] = {}
    for arm, (name, kind) in (*ARMS.items(), (CALIBRATED, ("warm-up", "implied"))):
        run = folder / f"{name}-{seed}"
        if not (run / "result.json").is_file():
            click.echo(f"{arm}, seed {seed}: not finished", err=True)
            continue
        spec, arguments = str(run / f"test-{kind}.parquet"), {}
        if arm == CALIBRATED:
            spec, arguments = f"calibrated:{spec}", {"validation_forecasts": str(run / f"validation-{kind}.parquet")}
        options = Options(tracks=("forecast", "rank"), arguments=arguments, resamples=resamples)
        done[arm] = evaluate_on(spec, corpus, options, questions=questions)
        questions = done[arm].questions
    return done


def holds(found: dict[tuple[str, str], dict[str, Any]]) -> dict[str, bool]:
    """The three parts of the claim in one seed."""

    def better(one: str, other: str, track: str, metric: str) -> bool:
        return bool(found[one, other][track][metric]["verdict"] == "better")

    rewarded = ("brier", "crps")
    calibration = (("forecast", "ece"), ("forecast", "rps"))
    return {
        "rewards beat correctness on ECE and RPS": all(
            better(arm, "correctness", *metric) for arm in rewarded for metric in calibration
        ),
        "rewards order better than the warm-up": all(better(arm, "warm-up", "rank", "spearman") for arm in rewarded),
        "correctness does neither": not any(
            better("correctness", "warm-up", *metric) for metric in (*calibration, ("rank", "spearman"))
        ),
    }


def told(name: str, rows: dict[str, Any]) -> str:
    """A row of a table: values or differences, with intervals."""
    cells = []
    for track, metric in SHOWN:
        value, low, high = rows[track][metric]
        cells.append("–" if value is None or low is None else f"{value:.3f} [{low:.3f}, {high:.3f}]")
    return " | ".join([f"| {name}", *cells]) + " |"


@click.command()
@click.argument("folder", type=click.Path(exists=True, path_type=Path))
@click.option("--seeds", default="0,1,2", show_default=True)
@click.option("--resamples", default=2000, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=OUT)
def main(folder: Path, seeds: str, resamples: int, out: Path) -> None:
    """Score, compare, judge, write."""
    corpus, questions = Corpus.open(), None
    document: dict[str, Any] = {"dataset": corpus.fingerprint, "split": "test", "seeds": {}}
    for seed in map(int, seeds.split(",")):
        done = scored(folder, seed, corpus, questions, resamples)
        if not done.keys() >= CLAIMED:
            click.echo(f"seed {seed}: left out, because not all rewarded arms are finished", err=True)
            continue
        questions = next(iter(done.values())).questions
        arms = {
            arm: {
                track: {name: [figure.value, figure.low, figure.high] for name, figure in found.items()}
                for track, found in one.scored.figures.items()
            }
            for arm, one in done.items()
        }
        compared = {
            pair: Comparison.of(pair[0], done[pair[0]].scored, pair[1], done[pair[1]].scored).to_json()["tracks"]
            for pair in PAIRS
            if done.keys() >= set(pair)
        }
        for arm, figures in arms.items():
            click.echo(told(f"{arm}, seed {seed}", figures))
        for (one, other), tracks in compared.items():
            rows = {t: {m: [d["difference"], d["low"], d["high"]] for m, d in f.items()} for t, f in tracks.items()}
            click.echo(told(f"{one} − {other}, seed {seed}", rows))
        document["seeds"][seed] = {
            "arms": arms,
            "differences": [
                {"arm": one, "against": other, "tracks": found} for (one, other), found in compared.items()
            ],
            "holds": holds(compared),
        }
    if not document["seeds"]:
        raise click.ClickException("no seed has all its rewarded arms")
    parts = [found["holds"] for found in document["seeds"].values()]
    document["reproduced"] = {name: sum(part[name] for part in parts) for name in parts[0]}
    click.echo(json.dumps({"seeds in which it holds": document["reproduced"], "of": len(parts)}, indent=1))
    out.write_text(json.dumps(document, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
