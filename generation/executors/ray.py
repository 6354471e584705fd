"""The Ray executor: one actor per GPU on any number of machines; idle actors take work, lost ones return it."""

from __future__ import annotations

import collections
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from kbench.generation.executors.executor import THRESHOLD, Pair, Result, result_of
from kbench.harness.commands.compare import Comparison, compare_pairs
from kbench.harness.harness import Harness
from kbench.harness.timing.second_clock import SecondTimes
from kbench.schemas import Environment, InfrastructureError, KernelSource, Measurement, MissingDependencyError

BATCH = 8
"""Kernels handed to an actor at once: enough for its builds to run ahead, few enough that losing it costs little."""
BATCHES_EACH = 2
"""Batches an actor holds, so that it never waits for the next."""
MOST_DEATHS = 3
"""Actors that may end under a kernel before it is given up: one that ends every actor would be queued for ever."""
SILENCE_S = 10.0
"""Time without a result after which the cluster is asked whether it is still there."""
ANSWER_S = 30.0
"""How long it may take to say so."""
LONGEST_WAIT_S = 120.0
"""How long to wait at the start for the actors' environments."""

Maker = Callable[[], Harness]


def _gone(reason: str) -> InfrastructureError:
    return InfrastructureError(
        f"the Ray cluster is gone ({reason}); start it and run the same command again: it goes on from its log"
    )


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise MissingDependencyError("ray", "ray", "measuring on several machines") from None
    return ray


class MeasuringActor:
    """What runs inside an actor: a harness and nothing else."""

    def __init__(self, make: Maker) -> None:
        self._harness = make().__enter__()

    def environment(self) -> Environment:
        """The machine the actor is on."""
        return self._harness.environment()

    def measure(self, kernels: list[KernelSource]) -> tuple[Environment, list[Result]]:
        """The machine, and every kernel's result, with the reason where the machine lost it."""
        lost: dict[str, Result] = {}
        rows: collections.defaultdict[str, list[Measurement]] = collections.defaultdict(list)

        def lose(kernel: KernelSource, reason: str) -> None:
            lost[kernel.kernel_id] = Result(kernel.kernel_id, lost=reason)

        for measurement in self._harness.measure(kernels, on_lost=lose):
            rows[measurement.kernel_id].append(measurement)
        results = [lost.get(one.kernel_id) or result_of(one.kernel_id, rows[one.kernel_id]) for one in kernels]
        return self.environment(), results

    def second_clock(self, kernels: list[KernelSource]) -> dict[str, SecondTimes]:
        """What the profiler says of kernels."""
        return dict(self._harness.second_clock(kernels))

    def compare(self, pairs: list[Pair]) -> list[list[Comparison]]:
        """Kernels against each other."""
        return compare_pairs(self._harness, pairs, THRESHOLD)


class RayExecutor:
    """Measures on every GPU of a Ray cluster."""

    def __init__(self, make: Maker, *, actors: int | None = None, gpus_each: float = 1.0) -> None:
        self._make, self._wanted, self._gpus_each = make, actors, gpus_each
        self._queue: collections.deque[KernelSource] = collections.deque()
        self._busy: dict[Any, tuple[Any, list[KernelSource]]] = {}
        """The actor and the kernels of each batch that is being measured."""
        self._actors: list[Any] = []
        self._environments: dict[str, Environment] = {}
        self._own_cluster = False
        self._deaths: collections.Counter[str] = collections.Counter()
        """Actors that ended under a kernel."""
        self._heard = time.monotonic()
        """When the cluster last gave a sign of life."""
        self.lost_actors = 0

    def __enter__(self) -> Self:
        ray = _ray()
        if not ray.is_initialized():
            ray.init(log_to_driver=False, include_dashboard=False)
            self._own_cluster = True
        wanted = int(ray.cluster_resources().get("GPU", 0)) if self._wanted is None else self._wanted
        if wanted < 1:
            raise InfrastructureError("the Ray cluster has no GPU; start its nodes with GPUs, or use --executor local")
        self._actors = [self._start() for _ in range(wanted)]
        # The environments of actors that start later come with their first results.
        answers = [actor.environment.remote() for actor in self._actors]
        ready, _ = ray.wait(answers, num_returns=len(answers), timeout=LONGEST_WAIT_S)
        for answer in ready:
            try:
                environment = ray.get(answer)
                self._environments[environment.env_id] = environment
            except ray.exceptions.RayError as error:
                raise InfrastructureError(f"an actor could not open its GPU: {error}") from error
        return self

    def _start(self) -> Any:
        return _ray().remote(MeasuringActor).options(num_gpus=self._gpus_each, num_cpus=1).remote(self._make)

    def __exit__(self, *error: Any) -> None:
        ray = _ray()
        for actor in self._actors:
            ray.kill(actor)
        if self._own_cluster:
            ray.shutdown()

    def submit(self, kernels: Sequence[KernelSource]) -> None:
        """Queue kernels; idle actors take them at once."""
        self._queue.extend(kernels)
        self._hand_out()

    def _hand_out(self) -> None:
        held = collections.Counter(id(actor) for actor, _ in self._busy.values())
        for _ in range(BATCHES_EACH):
            for actor in sorted(self._actors, key=lambda one: held[id(one)]):
                if not self._queue:
                    return
                if held[id(actor)] < BATCHES_EACH:
                    batch = self._next_batch()
                    self._busy[actor.measure.remote(batch)] = (actor, batch)
                    held[id(actor)] += 1

    def _next_batch(self) -> list[KernelSource]:
        """The next kernels; one under which an actor ended goes alone, so that it is blamed for nobody else's fault."""
        batch: list[KernelSource] = []
        while self._queue and len(batch) < BATCH:
            suspect = self._deaths[self._queue[0].kernel_id] > 0
            if suspect and batch:
                break
            batch.append(self._queue.popleft())
            if suspect:
                break
        return batch

    def collect(self, timeout_s: float) -> list[Result]:
        """Results of batches that finished.

        Raises:
            InfrastructureError: the cluster is gone; what is not measured yet is measured on resume.
        """
        ray, results = _ray(), []
        try:
            if not self._busy:
                time.sleep(timeout_s if self._queue else 0.0)
            else:
                ready, _ = ray.wait(list(self._busy), num_returns=1, timeout=timeout_s)
                if ready:
                    self._heard = time.monotonic()
                    results = self._finished(ray, ready[0])
                else:
                    self._check_cluster(ray)
            self._hand_out()
        except (ray.exceptions.RaySystemError, ConnectionError) as error:
            raise _gone(f"{type(error).__name__}: {error}") from error
        return results

    def _finished(self, ray: Any, done: Any) -> list[Result]:
        """The results of a batch whose measuring has ended, one way or another."""
        actor, batch = self._busy.pop(done)
        try:
            environment, results = ray.get(done)
            self._environments[environment.env_id] = environment
        except ray.exceptions.RayActorError:
            return self._lose(actor, batch)
        except ray.exceptions.RayTaskError as error:
            return [Result(kernel.kernel_id, lost=f"harness failed: {error}") for kernel in batch]
        return list(results)

    def _check_cluster(self, ray: Any) -> None:
        """Ask a cluster that has been silent for a while whether it is still there."""
        if time.monotonic() - self._heard < SILENCE_S:
            return
        answer: queue.SimpleQueue[float | Exception] = queue.SimpleQueue()

        def ask() -> None:
            try:
                answer.put(sum(1.0 for node in ray.nodes() if node.get("Alive")))
            except Exception as error:  # noqa: BLE001 - handed to the collecting thread
                answer.put(error)

        # In a thread: a cluster that is gone may never answer.
        threading.Thread(target=ask, daemon=True).start()
        try:
            alive = answer.get(timeout=ANSWER_S)
        except queue.Empty:
            raise _gone(f"no answer within {ANSWER_S:g} s") from None
        if isinstance(alive, Exception):
            raise _gone(f"{type(alive).__name__}: {alive}") from alive
        if not alive:
            raise _gone("none of its nodes is alive")
        self._heard = time.monotonic()

    def _lose(self, actor: Any, batch: list[KernelSource]) -> list[Result]:
        """An actor is gone: its kernels go back to the front of the queue, and a new one starts.

        Returns:
            Kernels under which too many have ended, as lost for good.
        """
        # An actor holds two batches and works on the older one: the other is not to blame.
        if actor in self._actors:
            self._deaths.update(kernel.kernel_id for kernel in batch)
            self.lost_actors += 1
            self._actors.remove(actor)
            self._actors.append(self._start())
        given_up = [kernel for kernel in batch if len(batch) == 1 and self._deaths[kernel.kernel_id] >= MOST_DEATHS]
        self._queue.extendleft(reversed([kernel for kernel in batch if kernel not in given_up]))
        reason = f"its actor ended {MOST_DEATHS} times while measuring it"
        return [Result(kernel.kernel_id, lost=reason, final=True) for kernel in given_up]

    def second_clock(self, kernels: Sequence[KernelSource]) -> Mapping[str, SecondTimes]:
        """What the profiler says of kernels, on one GPU."""
        return _ray().get(self._actors[0].second_clock.remote(list(kernels)))

    def compare(self, pairs: Sequence[Pair]) -> list[list[Comparison]]:
        """Kernels against each other, on one GPU."""
        return _ray().get(self._actors[0].compare.remote(list(pairs)))

    def environments(self) -> list[Environment]:
        """The machines known so far, among them all that sent results."""
        return list(self._environments.values())
