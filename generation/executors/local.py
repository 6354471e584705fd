"""The local executor: one GPU of this machine through the harness, fed from a queue in its own thread."""

from __future__ import annotations

import collections
import contextlib
import functools
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

from kbench.benchmark.problems.registry import problem
from kbench.generation.executors.executor import THRESHOLD, Pair, Result, result_of
from kbench.harness.commands.compare import Comparison, compare_pairs
from kbench.harness.harness import GpuChoice, Harness
from kbench.harness.timing.second_clock import SecondTimes
from kbench.schemas import Environment, InfrastructureError, KernelSource, Measurement

CLOSE_S = 3.0
"""How long closing waits for the current kernel; what is unfinished then is measured again on resume."""


class ClosingError(Exception):
    """Ends the harness's loop from within: the executor is being closed."""


BUILD_TIMEOUT_S = 15.0
"""A search has many candidates: one that takes longer to compile is not worth the wait."""


def open_harness(gpu: GpuChoice, half_width: float) -> Harness:
    """The harness on one GPU."""
    return Harness(gpu=gpu, half_width=half_width, build_timeout_s=BUILD_TIMEOUT_S)


@functools.cache
def workload_count(problem_id: str) -> int:
    """Number of timed workloads of a problem: so many measurements complete a kernel."""
    return len(problem(problem_id).sizes)


class LocalExecutor:
    """Measures on one local GPU. The harness runs in a thread and pulls kernels when it can take more."""

    def __init__(self, make: Callable[[], Harness], workloads: Callable[[str], int] = workload_count) -> None:
        self._make, self._workloads = make, workloads
        self._queue: queue.Queue[KernelSource] = queue.Queue()
        self._done: queue.Queue[Result | BaseException] = queue.Queue()
        self._closing = threading.Event()
        self._environments: list[Environment] = []
        self._thread = threading.Thread(target=self._work, name="kbench-local-executor", daemon=True)
        self._harness: Harness | None = None
        self._unfinished = 0
        """Kernels that were submitted and are not done."""

    def __enter__(self) -> Self:
        self._harness = self._make().__enter__()
        self._environments = [self._harness.environment()]
        self._thread.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self._closing.set()
        self._thread.join(timeout=CLOSE_S)
        if self._harness is not None:
            # Ends the workers, and with them what the thread may still be waiting for.
            self._harness.__exit__(*error)
        self._thread.join(timeout=CLOSE_S)

    def submit(self, kernels: Sequence[KernelSource]) -> None:
        """Queue kernels."""
        self._unfinished += len(kernels)
        for kernel in kernels:
            self._queue.put(kernel)

    def collect(self, timeout_s: float) -> list[Result]:
        """Finished kernels."""
        results: list[Result] = []
        with contextlib.suppress(queue.Empty):
            while True:
                first = not results and timeout_s > 0
                outcome = self._done.get(timeout=timeout_s) if first else self._done.get_nowait()
                if isinstance(outcome, BaseException):
                    raise InfrastructureError(f"the harness failed: {type(outcome).__name__}: {outcome}") from outcome
                self._unfinished -= 1
                results.append(outcome)
        return results

    def second_clock(self, kernels: Sequence[KernelSource]) -> Mapping[str, SecondTimes]:
        """What the profiler says of kernels."""
        return dict(self._idle_harness().second_clock(kernels))

    def compare(self, pairs: Sequence[Pair]) -> list[list[Comparison]]:
        """Kernels against each other."""
        return compare_pairs(self._idle_harness(), pairs, THRESHOLD)

    def _idle_harness(self) -> Harness:
        """The harness, which measures nothing any more; a new one where kernels were left over."""
        assert self._harness is not None
        self._closing.set()
        self._thread.join(timeout=CLOSE_S)
        if self._unfinished or self._thread.is_alive():
            self._harness.__exit__(None, None, None)
            self._thread.join()
            self._harness, self._unfinished = self._make().__enter__(), 0
        return self._harness

    def environments(self) -> list[Environment]:
        """This machine."""
        return self._environments

    def _feed(self) -> Iterator[KernelSource | None]:
        while not self._closing.is_set():
            try:
                kernel: KernelSource | None = self._queue.get_nowait()
            except queue.Empty:
                kernel = None  # the harness works on what it has and asks again
            yield kernel
        raise ClosingError

    def _lose(self, kernel: KernelSource, reason: str) -> None:
        # The harness has already tried again as often as it is allowed to.
        self._done.put(Result(kernel.kernel_id, lost=reason, final=True))

    def _work(self) -> None:
        assert self._harness is not None
        parts: collections.defaultdict[str, list[Measurement]] = collections.defaultdict(list)
        try:
            for measurement in self._harness.measure(self._feed(), on_lost=self._lose):
                rows = parts[measurement.kernel_id]
                rows.append(measurement)
                if len(rows) == self._workloads(measurement.problem_id):
                    self._done.put(result_of(measurement.kernel_id, parts.pop(measurement.kernel_id)))
                if self._closing.is_set():
                    return
        except ClosingError:
            return
        except BaseException as error:  # noqa: BLE001 - handed to the collecting thread, which raises it
            self._done.put(error)
