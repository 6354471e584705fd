"""The replay executor: answers from recorded measurements and charges what they cost when they were made."""

from __future__ import annotations

import collections
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from kbench.generation.executors.executor import Pair, Result, result_of
from kbench.generation.log import found_files, read_environments, read_log
from kbench.harness.record import refereed
from kbench.harness.timing.second_clock import SecondTimes
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import Environment, KernelSource, Measurement, ReferenceTime, UserError, from_dict

NAMED = 3
"""Kernels that were not found and are named."""
ENOUGH, NEARLY_ALL = 8, 0.9
"""A replay is given up once so many kernels were asked for and this share of them is lost."""

if TYPE_CHECKING:
    from kbench.harness.commands.compare import Comparison


class ReplayExecutor:
    """Measurements by kernel id; a kernel that was not recorded is lost with that reason."""

    def __init__(self, recorded: Mapping[str, Sequence[Measurement]], environments: Sequence[Environment] = ()) -> None:
        self._recorded, self._answered = recorded, 0
        self.started: list[Any] = []
        """The settings of the searches that recorded them, where that is known."""
        self.other = ""
        """In what these differ from the searches that ask, in words."""
        self._environments = list(environments)
        self._queue: collections.deque[str] = collections.deque()
        self.missing: list[str] = []
        """Kernels that were asked for and not recorded."""

    def submit(self, kernels: Sequence[KernelSource]) -> None:
        """Queue kernels."""
        self._queue.extend(kernel.kernel_id for kernel in kernels)

    def collect(self, timeout_s: float) -> list[Result]:
        """Everything queued, in order.

        Raises:
            UserError: nearly all kernels so far were not recorded.
        """
        results = [self._result(key) for key in self._queue]
        self._queue.clear()
        asked = self._answered + len(self.missing)
        if results and asked >= ENOUGH and len(self.missing) > NEARLY_ALL * asked:
            self.refuse_another_search()
        return results

    def _result(self, key: str) -> Result:
        if key not in self._recorded:
            self.missing.append(key)
            return Result(key, lost="not among the recorded measurements", final=True)
        self._answered += 1
        return result_of(key, self._recorded[key])

    def refuse_another_search(self) -> str | None:
        """Say which kernels were not recorded, if any were not."""
        if not self.missing:
            return None
        named = ", ".join(self.missing[:NAMED]) + (", …" if len(self.missing) > NAMED else "")
        lacks = f"{len(self.missing)} kernels are not among the {len(self._recorded)} recorded ones: {named}"
        if len(self.missing) > self._answered:
            lost = "most kernels were lost" if self._answered else "nothing was replayed"
            raise UserError(
                f"{lost}: {self.other}{lacks}. A replay needs a log of the same search: its problem, "
                "backend, method, proposer and seed, recorded with the same version; with a corpus, proposer 'pool' "
                "draws its kernels. The run folder keeps the log of this attempt: name another one for the next"
            )
        return lacks

    def second_clock(self, kernels: Sequence[KernelSource]) -> Mapping[str, SecondTimes]:
        """Nothing: the recording has what was asked then."""
        return {}

    def compare(self, pairs: Sequence[Pair]) -> list[list[Comparison]]:
        """Nothing: a recording runs no kernel."""
        return []

    def environments(self) -> list[Environment]:
        """The recording's environments."""
        return self._environments

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._queue.clear()


def open_facts(path: Path) -> ReplayExecutor:
    """An executor that knows the GPU of a run folder or corpus and no measurements, for searches that only ask."""
    environments = read_environments(path)
    if not environments and not found_files(path):
        environments = _environments(Corpus.open(path))
    if not environments:
        raise UserError(f"{str(path)!r} records no environment; name a run folder or corpus that was measured on a GPU")
    return ReplayExecutor({}, environments[:1])


def recorded_references(path: Path) -> list[ReferenceTime]:
    """The reference times of a corpus; none of a run folder, whose own lie beside its log."""
    if found_files(path) or read_environments(path):
        return []
    return [from_dict(ReferenceTime, row) for row in Corpus.open(path).table("references").to_pylist()]


def open_recording(path: Path, problems: Sequence[str] | None = None) -> ReplayExecutor:
    """An executor that answers from a run folder, a log file, or a corpus and the GPU that has most of its kernels.

    Args:
        path: where they lie.
        problems: those whose measurements are read of a corpus; all by default.
    """
    started: list[Any] = []
    recorded: collections.defaultdict[str, list[Measurement]] = collections.defaultdict(list)
    if path.is_file() or found_files(path):
        for entry in read_log(path):
            if entry.kind == "run_started":
                started.append(entry.payload["settings"])
            elif entry.kind == "kernel_measured":
                rows = [from_dict(Measurement, row) for row in entry.payload["measurements"]]
                recorded[entry.payload["kernel_id"]] = rows
            elif entry.kind == "kernel_refereed":
                key = entry.payload["kernel_id"]
                recorded[key] = refereed(recorded[key], entry.payload["error"] or entry.payload["second_clock_us"])
        executor = ReplayExecutor(recorded, read_environments(path))
        executor.started = started
        return executor
    corpus = Corpus.open(path)
    known = corpus.manifest.values("measurements", "problem_id") or ()
    own = [name for name in known if problems and name in problems] or None
    for row in corpus.table("measurements", gpu=corpus.gpus()[:1] or None, problem=own).to_pylist():
        recorded[row["kernel_id"]].append(from_dict(Measurement, row))
    return ReplayExecutor(recorded, _environments(corpus))


def _environments(corpus: Corpus) -> list[Environment]:
    """Those of the GPU that has most of the kernels: a replay is one of searches on one GPU."""
    main = corpus.gpus()[:1]
    rows = [from_dict(Environment, row) for row in corpus.table("environments").to_pylist()]
    return [row for row in rows if row.gpu in main] or rows
