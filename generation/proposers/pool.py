"""RecordedPool: measured kernels that every method can be replayed on without a GPU, and the proposer of only those.

A fresh draw is a kernel that was drawn afresh when it was recorded: those with parents are what a search found. A
mutation is a near neighbour by token counts, a crossing lies near the middle of two parents. Recorded parameter spaces,
such as Kernel Tuner's, are genome families: methods change genes as they do on a GPU. The proposer knows nothing of how
fast its kernels are: only measuring tells.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kbench.benchmark.surrogates.online import Matrix, features
from kbench.generation.proposers.genome.proposer import GenomeProposer
from kbench.generation.proposers.genome.template import Family, Gene, Genome
from kbench.generation.search.proposal import Answer, Ask, Proposal, ProposalTask, Proposer, Refusal
from kbench.generation.search.state import Operator
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import Backend, Measurement, UnknownNameError, UserError, from_dict
from kbench.schemas.ids import content_hash
from kbench.schemas.record import field_types

COLUMNS = (
    "kernel_id", "problem_id", "backend", "gpu", "proposer", "parent_id", "source", "runtime_us", "speedup", "status",
    "split",
)  # fmt: skip
LIVE, LIVE_COLUMNS = "live", (
    "kernel_id", "problem_id", "backend", "gpu", "proposer", "parent_id", "source", "speedup", "status", "split",
    "run_id", "workloads", "speedups", "gpu_seconds", "measured_at",
)  # fmt: skip
"""The config of searches made on a GPU, and what a pool takes from it."""
POOL = "pool"
NEIGHBOURS = 6
"""A mutation is drawn from so many nearest kernels not yet seen."""

SERVED = {Operator.MUTATE: "a near neighbour", Operator.CROSS: "near the middle of two parents"}
"""What an operator gets; others, which need the text to be written anew, get a near neighbour too."""

Cell = tuple[str, str, str]
"""Problem, backend and GPU."""


@dataclasses.dataclass(frozen=True, slots=True)
class RecordedPool:
    """The measured kernels of one problem and backend on one GPU."""

    problem_id: str
    backend: Backend
    sources: Mapping[str, str]
    fresh: frozenset[str]
    """Kernels that were drawn without a parent, by the proposer that drew most of them."""
    measurements: Mapping[str, Sequence[Measurement]]
    best: float
    splits: frozenset[str | None] = frozenset()
    """Those of its kernels."""

    def proposer(self) -> Proposer:
        """What proposes only kernels of the pool; a recorded parameter space is searched by its genes."""
        if self.backend is Backend.CONFIG:
            return space_proposer(self.problem_id, self.sources.values())
        return PoolProposer(self.sources, self.fresh)


def pools_in(
    path: Path,
    least: int,
    most: int,
    problems: Collection[str] = (),
    backends: Collection[str] = (),
    split: str | None = None,
    config: str = "kernels",
) -> list[RecordedPool]:
    """The pools of a corpus with at least so many measured kernels, spread evenly over problems.

    A problem and backend has one pool, on the GPU that has most of its kernels: those of the dataset, or with config
    `live` all that its searches on a GPU measured.
    """
    corpus = Corpus.open(path)
    cells = _cells(corpus, config, split=split)
    timed = [len(rows) for rows in cells.values() if any(map(_timed, rows))]
    if not timed:
        raise UserError(
            f"no kernel of corpus {str(path)!r} has a speedup on a named GPU, and a study compares speedups; "
            "an import says in import.json which figures it found"
        )
    for place, (kind, names) in enumerate((("problem", problems), ("backend", backends))):
        known = {key[place] for key in cells}
        for name in names:
            if name not in known:
                raise UnknownNameError(f"{kind} of corpus {str(path)!r}:", name, known)
        cells = {key: rows for key, rows in cells.items() if not names or key[place] in names}
    timed = [len(rows) for rows in cells.values() if any(map(_timed, rows))] or [0]
    largest = {key[:2]: key for key in sorted(cells, key=lambda key: len(cells[key]))}
    large = sorted(key for key in largest.values() if len(cells[key]) >= least and any(map(_timed, cells[key])))
    if not large:
        raise UserError(
            f"no pool is large enough for the study: the largest has {max(timed)} measured kernels; lower --least, "
            "or record more kernels"
        )
    taken = min(most, len(large))
    return [_pool(corpus, key, cells[key]) for key in (large[n * len(large) // taken] for n in range(taken))]


def pool_of(path: Path, problem_id: str, backend: Backend) -> RecordedPool:
    """The measured kernels of one problem and backend, on the GPU that has most of them."""
    corpus = Corpus.open(path)
    cells = _cells(corpus, problem=problem_id, backend=backend.value)
    if not any(_timed(row) for rows in cells.values() for row in rows):
        raise UserError(f"corpus {str(path)!r} has no measured {backend.value} kernel of {problem_id!r}; name another")
    largest = max(cells, key=lambda cell: len(cells[cell]))
    return _pool(corpus, largest, cells[largest])


def _cells(corpus: Corpus, config: str = "kernels", **filters: str | None) -> Mapping[Cell, list[dict[str, Any]]]:
    """The measured kernels of every cell."""
    rows = corpus.table(config, columns=LIVE_COLUMNS if config == LIVE else COLUMNS, **filters).to_pylist()
    if config == LIVE:
        # Several searches may have measured a kernel: one that drew it afresh counts.
        rows = list({row["kernel_id"]: row for row in sorted(rows, key=lambda row: row["parent_id"] is None)}.values())
    cells: defaultdict[Cell, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if row["status"] is not None and row["gpu"] is not None:
            cells[row["problem_id"], row["backend"], row["gpu"]].append(row)
    return cells


def live_measurements(row: Mapping[str, Any]) -> tuple[Measurement, ...]:
    """What a search was told about a kernel of config `live`: its speedup on each workload, or how it failed."""
    blank: dict[str, Any] = dict.fromkeys(field_types(Measurement))
    blank |= {name: row[name] for name in ("kernel_id", "problem_id", "gpu")} | {"started_at": row["measured_at"]}
    blank |= {"time_s": row["gpu_seconds"] / len(row["workloads"])}
    rows = []
    for workload, speedup in zip(row["workloads"], row["speedups"], strict=True):
        verdict = (
            {"status": "ok", "speedup": speedup} if speedup else {"status": row["status"], "error": "not recorded"}
        )
        place = {"measurement_id": content_hash(row["run_id"], row["kernel_id"], workload), "workload": workload}
        rows.append(from_dict(Measurement, blank | place | verdict))
    return tuple(rows)


def _timed(row: Mapping[str, Any]) -> bool:
    """Whether a pool can be searched for its like; configurations have times and no speedups."""
    return row["speedup"] is not None or (row["backend"] == Backend.CONFIG.value and row["runtime_us"] is not None)


def _pool(corpus: Corpus, cell: Cell, rows: Sequence[Mapping[str, Any]]) -> RecordedPool:
    problem_id, backend, gpu = cell
    sources: dict[str, str] = {row["kernel_id"]: row["source"] for row in rows}
    measurements: defaultdict[str, list[Measurement]] = defaultdict(list)
    if "speedups" in rows[0]:
        measurements.update((row["kernel_id"], list(live_measurements(row))) for row in rows)
    else:
        for row in corpus.table("measurements", problem=problem_id, gpu=gpu).to_pylist():
            if row["kernel_id"] in sources:
                measurements[row["kernel_id"]].append(from_dict(Measurement, row))
    if backend == Backend.CONFIG.value:
        measurements = _against_median(measurements)
    speedups = [row.speedup for rows_of in measurements.values() for row in rows_of if row.speedup is not None]
    best: float = max([row["speedup"] for row in rows if row["speedup"] is not None] or speedups)
    drawn = [row for row in rows if row["parent_id"] is None]
    most = Counter(row["proposer"] for row in drawn).most_common(1)
    fresh = frozenset(row["kernel_id"] for row in drawn if row["proposer"] == most[0][0])
    splits = frozenset(row["split"] for row in rows)
    return RecordedPool(problem_id, Backend(backend), sources, fresh, measurements, best, splits)


def _against_median(measurements: Mapping[str, list[Measurement]]) -> defaultdict[str, list[Measurement]]:
    """Measurements with speedups over the median configuration: a parameter space has no reference."""
    middle = statistics.median(row.runtime_us for rows in measurements.values() for row in rows if row.runtime_us)
    scaled: defaultdict[str, list[Measurement]] = defaultdict(list)
    for key, rows in measurements.items():
        for row in rows:
            speedup = middle / row.runtime_us if row.runtime_us else None
            figures = dict.fromkeys(("speedup", "speedup_low", "speedup_high"), speedup)
            scaled[key].append(dataclasses.replace(row, **figures))
    return scaled


class PoolProposer:
    """Proposes recorded kernels."""

    name = POOL

    def __init__(self, sources: Mapping[str, str], fresh: Collection[str]) -> None:
        """Take the pool."""
        self._ids = sorted(sources)
        self._sources, self._fresh = sources, frozenset(fresh)
        self._place = {key: place for place, key in enumerate(self._ids)}
        self._features: Matrix = features([sources[key] for key in self._ids])

    def propose(self, task: ProposalTask, asks: Sequence[Ask]) -> Iterator[Answer]:
        """One recorded kernel for each ask, until the pool is spent."""
        for ask in asks:
            yield self._answer(task, ask)

    def _answer(self, task: ProposalTask, ask: Ask) -> Answer:
        places = [place for place, key in enumerate(self._ids) if not task.seen(key)]
        if not places:
            return Refusal(reason="pool exhausted: every recorded kernel was proposed", proposer=self.name)
        if ask.operator is Operator.FRESH or ask.parent is None:
            places = [place for place in places if self._ids[place] in self._fresh]
            if not places:
                return Refusal(reason="pool exhausted: every kernel without a parent was proposed", proposer=self.name)
        else:
            center = self._features[self._place[ask.parent.kernel_id]]
            if ask.operator is Operator.CROSS and ask.other is not None:
                center = (center + self._features[self._place[ask.other.kernel_id]]) / 2
            distances: list[float] = ((self._features - center) ** 2).sum(axis=1).tolist()
            places = sorted(places, key=distances.__getitem__)[:NEIGHBOURS]
        place = ask.rng.choice(places)
        parent = ask.parent if ask.operator is not Operator.FRESH else None
        return Proposal(
            source=self._sources[self._ids[place]],
            proposer=self.name,
            edit=SERVED.get(ask.operator, f"a near neighbour in place of {ask.operator}") if parent else None,
            parent_id=parent.kernel_id if parent else None,
            other_id=ask.other.kernel_id if parent and ask.other else None,
            niche=str(int(self._features[place].sum())),
        )


def space_proposer(problem_id: str, sources: Iterable[str]) -> GenomeProposer:
    """Proposes only recorded configurations: one family whose genes are the parameters that vary."""
    configurations = {source: json.loads(source) for source in sources}
    genes = []
    for name in next(iter(configurations.values())):
        values = {configuration[name] for configuration in configurations.values()}
        genes.append(Gene(name, tuple(sorted(values, key=lambda value: (str(type(value)), value)))))

    def text(problem: str, genome: Genome) -> str:
        return json.dumps(dict(genome), sort_keys=True, ensure_ascii=True)

    def missing(problem: str, genome: Genome) -> str | None:
        return None if text(problem, genome) in configurations else "not recorded"

    family = Family("recorded", Backend.CONFIG, (problem_id,), lambda problem: tuple(genes), text, missing)
    return GenomeProposer({family.name: family})
