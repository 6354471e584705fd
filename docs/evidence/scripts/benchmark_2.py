"""Evaluate every built-in on benchmark 2 of the shipped dataset, and print the tables of docs/results/benchmark-2.md.

python docs/evidence/scripts/benchmark_2.py                      # the tables, from the evidence
python docs/evidence/scripts/benchmark_2.py --out figures.json   # evaluate again: two hours on two cores,
                                                                 # most of them for static-compiler; resumes
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from kbench.benchmark.evaluate.evaluate import evaluate_on
from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.evaluate.results import EvaluationResults
from kbench.benchmark.questions.versions import benchmark_of
from kbench.benchmark.scoring.compare import Comparison
from kbench.benchmark.surrogates.resolve import BASELINES
from kbench.generation.executors.compiler import compiler_facts
from kbench.loaders.corpus.corpus import Corpus

ROOT = Path(__file__).parents[3]
EVIDENCE = ROOT / "docs" / "evidence" / "benchmark-2.json"
EXAMPLE = str(ROOT / "examples" / "my_model.py")
COMPILED = "static-compiler"
SETS: Mapping[str, tuple[Options, Sequence[str]]] = {
    "test": (Options(), (*BASELINES, COMPILED, EXAMPLE)),
    "near": (Options(split="test_near"), (*BASELINES, COMPILED)),
    "core": (Options(subset="core"), (*BASELINES, COMPILED)),
    "seen": (Options(split="test_seen"), ("lookup", "nearest", "static", COMPILED)),
    "shots2": (Options(shots=2), ("static", COMPILED, "nearest", "online")),
    "shots8": (Options(shots=8), ("static", COMPILED, "nearest", "online")),
}
HEADLINES = {
    "skill": "forecast", "aurc": "select", "within_05_at_10": "rank", "attained_at_10": "search",
    "auroc_within_proposer": "validity",
}  # fmt: skip
QUOTED = {
    *HEADLINES, "level_skill", "rps", "log_score", "ece", "accuracy", "sign_accuracy", "spearman",
    "regret_at_10", "auroc",
}  # fmt: skip
KEPT = ("queries", "split", "subset", "shots", "seed", "resamples", "dataset")


@click.command()
@click.option("--out", type=click.Path(path_type=Path), help="Evaluate what this file lacks, and add it.")
def main(out: Path | None) -> None:
    """Print the tables, from the evidence or from figures made again."""
    source = out or EVIDENCE
    found: dict[str, Any] = json.loads(source.read_text("utf-8")) if source.exists() else {}
    corpus = Corpus.open(verified=True)
    found = {name: entry for name, entry in found.items() if entry["dataset"] == corpus.fingerprint}
    for name, (options, surrogates) in SETS.items() if out else ():
        asked = benchmark_of(corpus)
        questions = options.questions(asked)
        for surrogate in surrogates:
            key = f"{Path(surrogate).stem}-{name}"
            if key not in found:
                click.echo(key, err=True)
                made = evaluate_on(surrogate, asked, options, questions=questions, compiler=compiler_facts)
                shown = EvaluationResults.of(made).to_json()
                found[key] = plain({field: shown[field] for field in KEPT} | {"tracks": quoted(shown["tracks"])})
                if surrogate == EXAMPLE:
                    floor = evaluate_on("prior", asked, options, questions=questions)
                    paired = Comparison.of(made.name, made.scored, floor.name, floor.scored)
                    found[key]["minus_prior"] = plain(quoted(paired.to_json()["tracks"]))
                out.write_text(json.dumps(found, allow_nan=False, separators=(",", ":")) + "\n", "utf-8")
    for name in SETS:
        click.echo(f"\n**{name}**\n\n" + "\n".join(table(name, found)))


def quoted(tracks: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The metrics that pages quote."""
    return {
        track: {metric: figure for metric, figure in metrics.items() if metric in QUOTED}
        for track, metrics in tracks.items()
    }


def plain(value: Any) -> Any:
    """As JSON has it: five decimals, and null for what is not a number."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, float):
        return round(value, 5) if math.isfinite(value) else None
    return value


def table(name: str, found: Mapping[str, Any]) -> list[str]:
    """One set's rows: headlines with their intervals, and the ceiling."""
    rows = {key.removesuffix(f"-{name}"): entry for key, entry in found.items() if key.endswith(f"-{name}")}
    columns = {
        metric: track for metric, track in HEADLINES.items() if any(track in row["tracks"] for row in rows.values())
    }
    lines = [
        "| surrogate | " + " | ".join(f"`{metric}`" for metric in columns) + " |",
        "|---" * (len(columns) + 1) + "|",
    ]
    for surrogate, entry in rows.items():
        cells = [cell(entry["tracks"].get(track, {}).get(metric)) for metric, track in columns.items()]
        lines.append(
            f"| `{surrogate}` | " + " | ".join(cells) + f" | level {cell(entry['tracks']['forecast']['level_skill'])}"
        )
    return lines


def cell(figure: Mapping[str, Any] | None) -> str:
    """A value with its interval, as the page writes it."""
    if figure is None or figure["value"] is None:
        return "–"
    text = f"{figure['value']:.3f}"
    if figure["low"] is not None and figure["low"] != figure["high"]:
        text += f" [{figure['low']:.3f}, {figure['high']:.3f}]"
    return text.replace("-", "−")


if __name__ == "__main__":
    main()
