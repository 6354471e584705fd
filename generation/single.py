"""One search from Python: what `kbench generate --problem` does, on a GPU or on recorded kernels."""

from __future__ import annotations

import contextlib
import functools
from pathlib import Path

from kbench.generation.campaign.campaign import Drive
from kbench.generation.campaign.drive import drive, recorded_states, run_key
from kbench.generation.campaign.plan import single_run
from kbench.generation.executors.compiler import compiler_facts
from kbench.generation.executors.executor import Executor
from kbench.generation.executors.local import LocalExecutor, open_harness
from kbench.generation.executors.replay import ReplayExecutor
from kbench.generation.proposers.mixed import checked
from kbench.generation.proposers.pool import POOL, pool_of
from kbench.generation.search.guide import guide_named
from kbench.generation.search.settings import FilterSettings
from kbench.generation.search.state import RunState
from kbench.harness.commands.doctor import require_gpus
from kbench.harness.device.gpu import Gpu
from kbench.loaders.corpus.places import located
from kbench.loaders.storage.scratch import temporary_folder
from kbench.schemas import Backend, UserError


def search(
    problem: str, backend: str, method: str = "evolve", budget: int | str = 64, *,
    out: str | Path | None = None, recorded: str | Path | None = None, proposer: str = "genome",
    surrogate: str | None = None, draw: int = 4, seed: int = 0, seeds: int = 8, batch: int = 8,
    gpu: int | str = 0, half_width: float = 0.01,
) -> RunState:  # fmt: skip
    """Search for a fast kernel, or resume a search.

    Args:
        problem: a problem id, or a file or folder that defines a problem.
        backend: triton or cuda; with `recorded` also config, an imported parameter space.
        method: random, hill_climb, evolve, puct or bayes, or `path/to/file.py[:NAME]` with a method of yours.
        budget: measurements, or text such as `600s` that `--budget` takes.
        out: folder for the run's log; an existing one is resumed. By default the log is not kept.
        recorded: a corpus, or the word shipped, whose measured kernels stand in for the GPU: only they are proposed.
        proposer: genome, rewrite, llm, genome+rewrite, genome+llm or genome+rewrite+llm; unused with `recorded`.
        surrogate: forecasts choose which candidates are measured.
        draw: candidates drawn for each one measured, with a surrogate.
        seed: random seed.
        seeds: fresh candidates of the first step.
        batch: candidates measured in each later step.
        gpu: GPU index, or a partition such as "0:64".
        half_width: relative half-width of a measurement's interval.

    Returns:
        What the run knows: `.best()` is the fastest correct candidate, `.nodes` are all, and `.curve()` has the best
        speedup after each measurement.

    Raises:
        UserError: a name or value is wrong, or the folder holds a search with other settings.
        InfrastructureError: there is no GPU, and no recording was given.
    """
    if not isinstance(method, str):
        raise UserError(f"method is {method!r:.80}; give a name, or a file with a Method as 'path/to/file.py[:NAME]'")
    if surrogate is None and draw != 4:
        raise UserError(f"draw is {draw!r} and changes nothing without surrogate; leave it out, or name a surrogate")
    checked(proposer)
    settings = single_run(
        problem, backend, method, str(budget), proposer=proposer if recorded is None else POOL, seed=seed,
        guide=None if surrogate is None else FilterSettings(surrogate=surrogate, draw=draw), seeds=seeds, batch=batch,
    )  # fmt: skip
    if recorded is None:
        if settings.backend is Backend.CONFIG:
            raise UserError("backend 'config' is a parameter space that was imported; give recorded=CORPUS")
        device = Gpu.of(gpu)
        require_gpus([device], "give recorded=CORPUS to search among recorded kernels")
        executor: Executor = LocalExecutor(lambda: open_harness(device, half_width))
        proposer_for = None
    else:
        pool = pool_of(located(str(recorded)), settings.problem_id, settings.backend)
        executor, proposer_for = ReplayExecutor(pool.measurements), lambda settings: pool.proposer()
    surrogates = functools.partial(guide_named, compiler=compiler_facts)
    how = Drive(executor=executor, proposer_for=proposer_for, surrogate_for=surrogates)
    with contextlib.ExitStack() as stack:
        folder = Path(out) if out is not None else stack.enter_context(temporary_folder())
        drive(folder, [settings], how)
        states = recorded_states(folder).values()
        return next(state for state in states if run_key(state.settings) == run_key(settings))
