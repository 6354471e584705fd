"""The tuning table: from what runs measured to a corpus's table, and what forecasts and the hook are worth.

    python docs/evidence/scripts/tuning.py OUT ROWS.jsonl.xz ...       # rows that runs measured
    python docs/evidence/scripts/tuning.py count COUNTS.jsonl          # all processors; called again it goes on
    python docs/evidence/scripts/tuning.py known                       # shapes at which two measurements suffice
    python docs/evidence/scripts/tuning.py unseen [COUNTS.jsonl]       # `static`, and with counts `static-compiler`
    python docs/evidence/scripts/tuning.py live                        # what the hook saved
    python docs/evidence/scripts/tuning.py rounds                      # and a Gaussian process on the same times

OUT is a corpus, new or not, whose other tables, fingerprint and earlier rows stay, or a file .jsonl.xz that a recipe
names as `tuning`. `kbench evaluate --tracks tune --dataset OUT` then scores strategies. `count` and `unseen` are about
kernels of `test` in the shipped dataset.
"""

from __future__ import annotations

import functools
import itertools
import json
import lzma
import math
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from kbench.benchmark.metrics.arrays import Floats
from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure
from kbench.benchmark.problems.registry import problem
from kbench.benchmark.problems.tuned import PREFIX
from kbench.benchmark.questions.render import gpu_facts, render_query, workload_facts
from kbench.benchmark.surrogates.counted.model import CountedModel, kernel_row
from kbench.benchmark.surrogates.protocol import Surrogate
from kbench.benchmark.surrogates.static.static import StaticSurrogate
from kbench.benchmark.tuning.strategies import (
    STRATEGIES,
    Strategy,
    TunedKernel,
    by_forecast,
    gaussian_process,
    interpolated,
    kernels_of,
    random_order,
)
from kbench.benchmark.tuning.track import KNOWN, UNSEEN, by_kernel, evaluate_strategy, outcome, outcomes_at, text
from kbench.benchmark.work.gpus import gpu_named
from kbench.benchmark.work.table import read_work
from kbench.generation.proposers.genome.template import GENOMES, families, read_file
from kbench.harness.plan.cache import Build
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.manifest import NAME
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.loaders.source.normalise import normalised
from kbench.schemas import KernelSource, TuningTime, from_dict, to_dict
from kbench.schemas.ids import content_hash
from kbench.schemas.record import field_types

LIVE = Path(__file__).parents[1] / "tuning-live.json.xz"
RIGHT = 0.5
"""Share of its configurations that must work somewhere, or the kernel is wrong and nothing is asked about it."""
MISSING = 0.1
"""Share of the configurations at a shape that may lack a count."""
HELD_OUT = (
    "adamw", "attention_backward", "chunk_scan", "conv1d", "grouped_wgrad", "int4", "log_probs", "lora", "mla",
    "rms_backward", "rope", "states",
)  # fmt: skip
"""Templates whose kernels nothing is fitted to. All kernels of a template lie in one split: they share their text."""
FEWEST = 2
"""Measurements at a shape of a known kernel: below 5 % of 48."""
ROUNDS = (9, 14, 20, 28, 40)
"""Measurements of a Gaussian process per shape; the hook makes 8.4 of 56."""
SHOWN = (1 / 6, 1 / 2, 5 / 6)
"""Where in the order of a kernel's shapes those lie whose times are shown in questions about the others. They are few:
between two neighbours of a dense list, the best of one is nearly the best of the other."""


@functools.cache
def templates() -> Mapping[str, str]:
    """The template of each tuned family."""
    files = sorted((GENOMES / "tuned").glob("*.py"))
    return {family.name: path.stem for path in files for family in read_file(path)}


@functools.cache
def space(name: str) -> Mapping[str, Any]:
    """The configurations that a tuned family can have, as its template declares them."""
    family = families()[name]
    genes = {gene.name: gene.choices for gene in family.genes(family.problems[0])}
    every = (dict(zip(genes, choices, strict=True)) for choices in itertools.product(*genes.values()))
    count = sum(family.invalid(family.problems[0], genome) is None for genome in every)
    lines = (GENOMES / "tuned" / f"{templates()[name]}.py").read_text().splitlines()
    refused = [line.removeprefix("# refuse ") for line in lines if line.startswith("# refuse ")]
    return {"genes": genes, "refused": refused, "configurations": count}


def table_rows(measured: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of the dataset's table from what runs measured: for each kernel and GPU all configurations at all shapes.

    A run that was cut off leaves shapes that some configurations lack: those are left out, and so are configurations of
    another space than the kernel has now.
    """
    cells: dict[tuple[str, str], dict[tuple[str, str], Mapping[str, Any]]] = defaultdict(dict)
    for row in measured:
        if json.loads(row["config_json"]).keys() == space(row["kernel"])["genes"].keys():
            cells[row["kernel"], row["gpu"]][row["shape_json"], row["config_json"]] = row
    names = [name for name in field_types(TuningTime) if name not in ("split", "shown", "space_json")]
    rows: list[dict[str, Any]] = []
    for (kernel, _), found in sorted(cells.items()):
        per_shape = Counter(shape for shape, _ in found)
        whole = [shape for shape, count in per_shape.items() if count >= 0.9 * max(per_shape.values())]
        shapes = sorted(whole, key=lambda text: sorted(json.loads(text).items()))
        configs = [c for c in sorted({c for _, c in found}) if all((shape, c) in found for shape in shapes)]
        if sum(row["status"] == "ok" for row in found.values()) < RIGHT * len(found):
            continue
        shown = {shapes[int(share * len(shapes))] for share in SHOWN}
        split = "test" if templates()[kernel] in HELD_OUT else "train"
        for shape, config in itertools.product(shapes, configs):
            row = {name: found[shape, config].get(name) for name in names}
            rows.append(row | {"split": split, "shown": shape in shown, "space_json": json.dumps(space(kernel))})
    return rows


def main(out: Path, *files: str) -> None:
    """Write the table as a file, or add to that of a corpus."""
    texts = [lzma.decompress(Path(file).read_bytes()).decode() for file in files]
    earlier = Corpus.open(out) if (out / NAME).exists() else None
    kept = earlier.table("tuning").to_pylist() if earlier and "tuning" in earlier.configs else []
    rows = table_rows([*kept, *(json.loads(line) for text in texts for line in text.splitlines())])
    if out.suffix == ".xz":
        out.write_bytes(lzma.compress("".join(json.dumps(row) + "\n" for row in rows).encode(), preset=9))
        return
    with CorpusWriter(out) as writer:
        release = writer.release
        if earlier:
            machines = earlier.table("environments").to_pylist() if "environments" in earlier.configs else []
            ids = {machine["env_id"] for machine in machines}
            rows = [row | {"env_id": row["env_id"] if row["env_id"] in ids else None} for row in rows]
        writer.replace("tuning", [from_dict(TuningTime, row) for row in rows])
        writer.release = release  # it names what scores are computed from, and this table is no part of that


def tuned_kernels() -> list[TunedKernel]:
    """All kernels of the shipped table."""
    return kernels_of(Corpus.open().table("tuning").to_pylist())


def unseen_kernels() -> list[TunedKernel]:
    """Kernels of `test`."""
    return [kernel for kernel in tuned_kernels() if kernel.split == "test"]


def known() -> None:
    """At how many shapes two measurements reach 0.97, where the hook does not measure everything."""
    outcomes = [outcome(k, at, interpolated, FEWEST, KNOWN) for k in tuned_kernels() for at in k.working]
    few = [one.reached for one in outcomes if one.cost < 1]
    click.echo(
        f"{FEWEST} measured at {len(few)} of {len(outcomes)} shapes, 0.97 reached at {statistics.fmean(few):.1%} of "
        f"these, so at {sum(few) / len(outcomes):.1%} of all"
    )


def sources(kernel: TunedKernel) -> list[KernelSource]:
    """The text of each configuration."""
    family = families()[kernel.family]
    (name,) = family.problems
    return [KernelSource(PREFIX + name, family.backend, family.render(name, config)) for config in kernel.configs]


def workloads(kernel: TunedKernel) -> list[str]:
    """The name of each shape."""
    sizes = problem(PREFIX + families()[kernel.family].problems[0]).sizes
    return [next(size.name for size in sizes if dict(size.params) == shape) for shape in kernel.shapes]


def forecast_times(kernel: TunedKernel, surrogate: Surrogate) -> Floats:
    """What a surrogate forecasts each configuration to take at each shape, the first taking 1."""
    (name,), places = families()[kernel.family].problems, workloads(kernel)
    row = to_dict(problem(PREFIX + name).record()) | {"problem_id": name}
    texts = [normalised(source.source) for source in sources(kernel)]
    queries = [
        render_query(
            query_id=content_hash(kernel.family, workload, text), problem=row, backend="triton", kind="sibling",
            candidate_source=text, anchor_source=texts[0], gpu=kernel.gpu, gpu_facts_json=gpu_facts(kernel.gpu),
            workloads_json=workload_facts(row, workload), shown=str,
        )
        for text in texts for workload in places
    ]  # fmt: skip
    speedups = [forecast.speedup or math.nan for forecast in surrogate.forecast(queries)]
    return 1.0 / np.array(speedups).reshape(len(texts), len(places))


def count(out: Path) -> None:
    """Write what `static-compiler` forecasts: a line for each configuration, with log2 us by GPU and workload."""
    from totals import count_all

    model, kernels = CountedModel.load(), unseen_kernels()
    gpus = {kernel.gpu: gpu_named(kernel.gpu) for kernel in kernels}
    counted = {one.kernel_id: one for kernel in kernels for one in sources(kernel)}

    def line(kernel_id: str, build: Build | str) -> dict[str, Any]:
        if isinstance(build, str) or build.error is not None or not build.work:
            return {"kernel_id": kernel_id, "error": build if isinstance(build, str) else build.error or "no work"}
        times: dict[str, dict[str, float]] = defaultdict(dict)
        definition = problem(counted[kernel_id].problem_id)
        min_bytes = {size.name: definition.workload(size).min_bytes for size in definition.sizes}
        for workload, several in build.work.items():
            work = [read_work(one) for one in several]
            for name, gpu in gpus.items():
                row = kernel_row({workload: work}, gpu, model.fitted, min_bytes)
                if row is not None:
                    times[name][workload] = round(float(model.times(row[None])[0]), 4)
        return {"kernel_id": kernel_id, "error": None, "log2_us": times}

    count_all(out, list(counted.values()), line)


def counted_times(kernel: TunedKernel, counted: Mapping[str, Mapping[str, Any]]) -> Floats:
    """What was counted, as times; NaN where nothing could be."""
    each = [counted.get(source.kernel_id, {}).get("log2_us", {}).get(kernel.gpu, {}) for source in sources(kernel)]
    return np.array([[one.get(workload, math.nan) for workload in workloads(kernel)] for one in each])


def counted_part(kernel: TunedKernel, counted: Mapping[str, Mapping[str, Any]]) -> TunedKernel | None:
    """A kernel at the shapes that were counted; None where too few configurations were."""
    missing = np.isnan(counted_times(kernel, counted)).mean(axis=0)
    there = missing <= MISSING
    if not there.any():
        return None
    shapes = tuple(shape for shape, kept in zip(kernel.shapes, there, strict=True) if kept)
    return replace(kernel, shapes=shapes, times_us=kernel.times_us[:, there], shown=kernel.shown[there])


def unseen(counts: Path | None) -> None:
    """How much of the best speed is reached on unseen kernels by measuring in the order of a forecast.

    With counts it is asked about what was counted alone.
    """
    kernels, surrogate, times = unseen_kernels(), StaticSurrogate(), {}
    if counts:
        raw = counts.read_bytes()
        lines = (lzma.decompress(raw) if counts.suffix == ".xz" else raw).decode().splitlines()
        counted = {one["kernel_id"]: one for one in map(json.loads, lines)}
        kernels = [part for kernel in kernels if (part := counted_part(kernel, counted)) is not None]
        times["static-compiler"] = {(one.family, one.gpu): counted_times(one, counted) for one in kernels}
    times["static"] = {(kernel.family, kernel.gpu): forecast_times(kernel, surrogate) for kernel in kernels}
    strategies = {name: STRATEGIES[name] for name in ("random", "gaussian_process")}
    strategies |= {name: by_forecast(forecasts) for name, forecasts in times.items()}
    click.echo(text([evaluate_strategy(name, how, UNSEEN, kernels) for name, how in strategies.items()]))
    for name, how in strategies.items():
        for budget in (1, 4) if name == "static-compiler" else ():
            figure = gain(kernels, how, random_order, budget)
            click.echo(
                f"{name} minus random, {budget} measured: {figure.value:.3f} [{figure.low:.3f}, {figure.high:.3f}]"
            )


def gain(kernels: Sequence[TunedKernel], one: Strategy, other: Strategy, budget: int) -> Figure:
    """How much more of the best speed one strategy reaches than another, every kernel alike."""
    asked = [(kernel, shape) for kernel in kernels for shape in kernel.asked]
    mine, theirs = (
        by_kernel([outcome(kernel, shape, how, budget, UNSEEN) for kernel, shape in asked], "share")
        for how in (one, other)
    )
    return Bootstrap([family for family, _ in mine]).mean(np.array([mine[name] - theirs[name] for name in mine]))


def live() -> None:
    """What tuning with the hook saved and lost, by kernel and in all."""
    found = json.loads(lzma.decompress(LIVE.read_bytes()))["kernels"]
    full_s = hook_s = 0.0
    losses: list[float] = []
    for name, kernel in found.items():
        own = [math.log(hook / full) for full, hook in kernel["again_ms"].values()]
        full_s, hook_s, losses = full_s + kernel["full_s"], hook_s + kernel["hook_s"], losses + own
        click.echo(f"{name}: {kernel['hook_s'] / kernel['full_s']:.1%} of {kernel['full_s']:.1f} s, {loss(own)}")
    click.echo(f"all: {hook_s / full_s:.1%} of {full_s:.1f} s, {loss(losses)}")


def rounds() -> None:
    """What a Gaussian process, in rounds, would have lost on the times of the live run."""
    runs = json.loads(lzma.decompress(LIVE.read_bytes()))["kernels"]
    kernels = [live_kernel(name, run["times_ms"]) for name, run in runs.items()]
    shapes = [outcomes_at(k, at, gaussian_process, ROUNDS, UNSEEN) for k in kernels for at in range(len(k.shapes))]
    for at, budget in enumerate(ROUNDS):
        logs = [-math.log(outcomes[at].share) for outcomes in shapes]
        click.echo(f"Gaussian process, {budget} of {len(kernels[0].configs)} measured: {loss(logs)}")


def live_kernel(name: str, times_ms: Mapping[str, Mapping[str, float]]) -> TunedKernel:
    """A kernel of the live run, with the times that full tuning measured."""
    configs = list(next(iter(times_ms.values())))
    genes = [dict(gene.split(": ") for gene in config.split(", ")) for config in configs]
    numbers = tuple({gene: int(value) for gene, value in config.items() if value != "None"} for config in genes)
    times = np.array([[1e3 * of_shape[config] for of_shape in times_ms.values()] for config in configs])
    shapes = tuple({"M": int(m)} for m in times_ms)
    return TunedKernel(name, "", "", shapes, numbers, times, np.zeros(len(shapes), dtype=np.bool_))


def loss(logs: Sequence[float]) -> str:
    """How much slower the hook's choices are than those of full tuning."""
    return f"slower by {math.expm1(statistics.fmean(logs)):.2%}, at most {math.expm1(max(logs)):.1%}"


if __name__ == "__main__":
    job, *rest = sys.argv[1:] or [""]
    if job in ("known", "live", "rounds"):
        {"known": known, "live": live, "rounds": rounds}[job]()
    elif job == "count" and rest:
        count(Path(rest[0]))
    elif job == "unseen":
        unseen(Path(rest[0]) if rest else None)
    elif rest:
        main(Path(job), *rest)
    else:
        sys.exit(__doc__)
