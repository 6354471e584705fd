"""Does `static-compiler` get better when it also learns from launch plans? Usage: plan_features.py CORPUS OUT

CORPUS has the config `plans`. Two models are trained, with and without columns made from plans, both without
instruction mixes, which few kernels have. They are compared by cross-validation over the training problems, and once on
test, where recorded compiler facts and plans stand in for a compiler. Forests are a third as large as the shipped
model's.

PYTHONPATH=src python docs/evidence/scripts/plan_features.py CORPUS docs/evidence/static-plan-features.json
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import click
import numpy as np

from kbench.benchmark.evaluate.evaluate import evaluate_on
from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.metrics.arrays import Floats
from kbench.benchmark.scoring.compare import Comparison
from kbench.benchmark.surrogates.protocol import CompilerFacts
from kbench.benchmark.surrogates.static.features import compiler as columns
from kbench.benchmark.surrogates.static.training import kernels, material
from kbench.benchmark.surrogates.static.training.fitting import Effort
from kbench.benchmark.surrogates.static.training.held_out import HeldOut
from kbench.benchmark.surrogates.static.training.train import train
from kbench.benchmark.tasks.build import build_questions
from kbench.benchmark.tasks.render import stripped
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import KernelSource

NAMES = (
    "plan_blocks_per_sm", "plan_occupancy", "plan_waves", "plan_tail", "plan_launches", "plan_all_blocks",
    "plan_allocated", "plan_fills", "plan_dynamic_shared", "plan_small_launches",
)  # fmt: skip
UNKNOWN = (-1.0,) * len(NAMES)
PROCESSORS = 132
SMALL = Effort(kernel_trees=20, boosted_trees=40, pair_trees=33, width_trees=17, valid_trees=33)
SEEDS = (0, 1)
SHOWN = {"forecast": ("rps_skill", "log_score"), "select": ("aurc",), "rank": ("regret_at_10", "spearman")}


@dataclasses.dataclass(frozen=True, slots=True)
class PlannedFacts(CompilerFacts):
    """What a compiler says, and what plans add."""

    plan: tuple[float, ...] = UNKNOWN


def plan_row(plan: Mapping[str, Any], registers: int, shared_bytes: int) -> tuple[float, ...]:
    """Logarithms of how one plan fills a GPU; the launch is the one with the most threads."""
    launches = plan["launches"]
    blocks = [math.prod(launch["grid"]) for launch in launches]
    threads = [math.prod(launch["block"]) for launch in launches]
    most = max(range(len(launches)), key=lambda at: blocks[at] * threads[at])
    warps = -(-threads[most] // 32)
    dynamic = launches[most]["shared_bytes"]
    shared = max(dynamic, shared_bytes) if len(launches) == 1 else dynamic
    fit = (65536 // (max(-(-registers // 8) * 8, 8) * 32 * warps), 64 // warps, 32, (228 << 10) // (shared + 1024))
    resident = max(min(fit), 1)
    waves = blocks[most] / (PROCESSORS * resident)
    return (
        math.log2(resident), math.log2(resident * warps / 64), math.log2(waves), math.log2(math.ceil(waves) / waves),
        math.log2(len(launches)), math.log2(sum(blocks)), math.log2(1 + plan["allocated_bytes"]), float(plan["fills"]),
        math.log2(1 + dynamic), float(sum(count < PROCESSORS for count in blocks)),
    )  # fmt: skip


class Recorded:
    """Compiler facts and plans as the corpus has them; a compiler for kernels whose text it knows."""

    def __init__(self, corpus: Corpus) -> None:
        """Read the kernels of the GPU that most were measured on."""
        main = corpus.gpus()[:1]
        self._plans: dict[str, list[dict[str, Any]]] = {}
        for row in corpus.table("plans", gpu=main).to_pylist():
            self._plans.setdefault(row["kernel_id"], []).append(row)
        wanted = ["kernel_id", "problem_id", "source", "registers", "shared_bytes", "spill_bytes"]
        rows = corpus.table("kernels", columns=wanted, split="test", gpu=main).to_pylist()
        self._by_text = {(row["problem_id"], stripped(row["source"])): self.facts(row) for row in rows}

    def facts(self, row: Mapping[str, Any], mix: object = None) -> PlannedFacts | None:
        """Of a row of kernels; None where it did not compile."""
        if row["registers"] is None:
            return None
        said = (row["registers"], row["shared_bytes"] or 0, row["spill_bytes"] or 0)
        plans = [plan for plan in self._plans.get(row["kernel_id"], ()) if plan["launches"]]
        found = [plan_row(plan, *said[:2]) for plan in plans]
        return PlannedFacts(*said, None, tuple(np.mean(found, axis=0).tolist()) if found else UNKNOWN)

    def __call__(self, asked: Sequence[KernelSource], capability: str) -> list[CompilerFacts | None]:
        """What is recorded of each kernel."""
        return [self._by_text.get((kernel.problem_id, kernel.source)) for kernel in asked]


@contextmanager
def learning_from(recorded: Recorded, *, plans: bool) -> Iterator[None]:
    """Add the columns to the compiler's; all models but validity see them, because failed kernels have no plan."""
    plain, valid = columns.compiler_rows, kernels._valid

    def rows(facts: Sequence[CompilerFacts | None], log_threads: Any) -> Any:
        more = [fact.plan if isinstance(fact, PlannedFacts) else UNKNOWN for fact in facts]
        return np.concatenate([plain(facts, log_threads), np.array(more, dtype=np.float32)], axis=1)

    def blind(known: Any, effort: Effort, seed: int) -> Any:
        at = [known.layout.names.index(f"compiler:{name}") for name in NAMES]
        kept = known.rows[:, at].copy()
        known.rows[:, at] = -1.0
        made = valid(known, effort, seed)
        known.rows[:, at] = kept
        return made

    with mock.patch.object(material, "_recorded", recorded.facts):
        if not plans:
            yield
            return
        with (
            mock.patch.object(columns, "NAMES", (*columns.NAMES, *NAMES)),
            mock.patch.object(columns, "compiler_rows", rows),
            mock.patch.object(kernels, "_valid", blind),
        ):
            yield


def ranked_scores(found: HeldOut) -> Floats:
    """Ranked probability score of every question."""
    below = np.arange(1, found.probabilities.shape[1] + 1)[None] >= found.bin[:, None]
    result: Floats = ((np.cumsum(found.probabilities, axis=1) - below)[:, :-1] ** 2).sum(axis=1)
    return result


def orders(found: HeldOut) -> Callable[[str], float]:
    """Rank correlation within a problem."""
    from scipy.stats import spearmanr

    def order(problem: str) -> float:
        rows = found.kernel_problem == problem
        return float(spearmanr(found.kernel_point[rows], -found.kernel_runtime_us[rows])[0])

    return order


def difference(values: Sequence[Sequence[float]]) -> list[float]:
    """Mean over seeds and problems, with the 95 % interval of a bootstrap over problems."""
    mean, rng = np.mean(values, axis=0), np.random.default_rng(0)
    drawn = [mean[rng.integers(0, len(mean), len(mean))].mean() for _ in range(4000)]
    return [round(float(value), 4) for value in (mean.mean(), *np.percentile(drawn, [2.5, 97.5]))]


@click.command()
@click.argument("folder", type=click.Path(exists=True, path_type=Path))
@click.argument("out", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--test", is_flag=True, help="Score both on the test split too.")
def main(folder: Path, out: Path, test: bool) -> None:
    """Train, compare, write."""
    corpus = Corpus.open(folder)
    recorded, documents = Recorded(corpus), {"corpus": corpus.fingerprint, "seeds": len(SEEDS)}
    scores: list[list[float]] = []
    correlations: list[list[float]] = []
    with tempfile.TemporaryDirectory() as scratch:
        for seed in SEEDS:
            made: dict[bool, HeldOut] = {}
            for plans in (False, True):
                with learning_from(recorded, plans=plans):
                    trained = train(corpus, SMALL, seed, compiled=True, tell=lambda text: click.echo(text, err=True))
                    trained.model.save(Path(scratch) / f"{seed}-{plans}.npz")
                made[plans] = trained.held_out
                figures = {name: trained.held_out.figures()[name] for name in ("all", "pools")}
                documents[f"seed {seed}, {'with' if plans else 'without'} plans"] = figures
                click.echo(f"{seed} {plans} {json.dumps(figures)}", err=True)
            change = ranked_scores(made[True]) - ranked_scores(made[False])
            of = made[True].problem
            scores.append([float(change[of == name].mean()) for name in sorted(set(of.tolist()))])
            pools = sorted(name for name in set(of.tolist()) if (made[True].kernel_problem == name).sum() >= 10)
            with_plans, without = orders(made[True]), orders(made[False])
            correlations.append([with_plans(name) - without(name) for name in pools])
        documents |= {"change of RPS": difference(scores), "change of Spearman": difference(correlations)}
        if test:
            documents["test"] = tested(corpus, recorded, Path(scratch))
    out.write_text(json.dumps(documents, indent=1) + "\n")
    click.echo(json.dumps({key: value for key, value in documents.items() if "seed" not in key}, indent=1))


def tested(corpus: Corpus, recorded: Recorded, scratch: Path) -> dict[str, Any]:
    """Differences on the test split, first seed: with plans less without."""
    questions, done = build_questions(corpus, "test"), {}
    for plans in (False, True):
        with learning_from(recorded, plans=plans):
            options = Options(arguments={"model": str(scratch / f"{SEEDS[0]}-{plans}.npz")})
            done[plans] = evaluate_on("static-compiler", corpus, options, questions=questions, compiler=recorded)
    found = Comparison.of("with plans", done[True].scored, "without", done[False].scored).to_json()
    return {name: found["tracks"][track][name] for track, names in SHOWN.items() for name in names}


if __name__ == "__main__":
    sys.exit(main())
