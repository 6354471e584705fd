"""The same kernels by this harness and by the path KernelBench takes. Usage: kernelbench_path.py OUT [--each=N]

The other path: a CUDA kernel is a torch extension compiled by load_inline when it is imported, a Triton kernel is
compiled at its first call; five correctness trials against the reference; a hundred trials timed one by one with CUDA
events, the L2 cleared before and a synchronisation after each. It is given its best: extensions are built by as many
processes as there are cores but one, while the last measures what is ready, Triton kernels first. Every kernel goes
through both paths once, on every timed workload, with nothing built before. Writes kernelbench_path.json.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from extension import ExtensionModule
from pool import make_harness, out_folder, pool, say, write

from kbench.benchmark.problems import ProblemDefinition, Size, problem
from kbench.benchmark.problems.definition import as_tuple
from kbench.schemas import Backend, KernelSource, Measurement, to_dict

CORRECTNESS_TRIALS, WARM_UP_CALLS, TRIALS = 5, 3, 100
CLEARED_BYTES = 256 << 20
TOLERANCE = 1e-2


def load(kernel: KernelSource, folder: Path) -> Callable[..., Any]:
    """Import a kernel as a submission is imported, CUDA compiled by torch."""
    from kbench.harness import cuda

    cuda.CudaModule = ExtensionModule  # type: ignore[misc,assignment]
    path = folder / f"kernel_{kernel.kernel_id}.py"
    path.write_text(kernel.source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    run: Callable[..., Any] = module.run
    return run


def build(kernel: KernelSource, folder: Path) -> tuple[KernelSource, float]:
    """Compile a kernel's extension, in a process without a GPU context; the seconds it took."""
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    began = time.perf_counter()
    load(kernel, folder)
    return kernel, time.perf_counter() - began


def ready(kernels: Sequence[KernelSource], folder: Path) -> Iterator[tuple[KernelSource, float | None, str | None]]:
    """Kernels that can be measured, with the seconds their extension took or why there is none."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max(1, (os.cpu_count() or 2) - 1), mp_context=context) as builders:
        compiled = [k for k in kernels if k.backend is Backend.CUDA]
        building: dict[Future[tuple[KernelSource, float]], KernelSource] = {
            builders.submit(build, k, folder): k for k in compiled
        }
        yield from ((k, None, None) for k in kernels if k.backend is not Backend.CUDA)
        for done in as_completed(building):
            error = done.exception()
            if error is not None:
                yield building[done], None, f"{type(error).__name__}: {error}"[-600:]
            else:
                yield *done.result(), None


def right(run: Callable[..., Any], definition: ProblemDefinition, size: Size) -> bool:
    """Whether all correctness trials pass."""
    import torch

    for seed in range(CORRECTNESS_TRIALS):
        inputs = definition.draw(size, seed, "cuda:0")
        want = as_tuple(definition.reference(*inputs))
        have = as_tuple(run(*inputs))
        torch.cuda.synchronize()
        for one, other in zip(have, want, strict=True):
            if one.shape != other.shape or not torch.allclose(one.double(), other.double(), TOLERANCE, TOLERANCE):
                return False
    return True


def trials_us(run: Callable[..., Any], inputs: tuple[Any, ...]) -> list[float]:
    """A hundred calls, timed one by one."""
    import torch

    for _ in range(WARM_UP_CALLS):
        run(*inputs)
    torch.cuda.synchronize()
    times = []
    for _ in range(TRIALS):
        torch.empty(CLEARED_BYTES, dtype=torch.uint8, device="cuda").fill_(42)
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        run(*inputs)
        end.record()
        torch.cuda.synchronize()
        times.append(1e3 * start.elapsed_time(end))
    return times


def measure(kernel: KernelSource, folder: Path) -> list[dict[str, Any]]:
    """One kernel by the other path, on every timed workload."""
    began = time.perf_counter()
    definition, run = problem(kernel.problem_id), load(kernel, folder)
    rows = []
    for size in definition.sizes:
        correct = right(run, definition, size)
        checked = time.perf_counter()
        times = trials_us(run, definition.draw(size, 0, "cuda:0"))
        done = time.perf_counter()
        rows.append(
            {"kernel_id": kernel.kernel_id, "workload": size.name, "right": correct, "mean_us": statistics.fmean(times),
             "std_us": statistics.stdev(times), "load_and_verify_s": checked - began, "time_s": done - checked}
        )  # fmt: skip
        began = done
    return rows


def other_path(kernels: Sequence[KernelSource]) -> dict[str, Any]:
    """All kernels by KernelBench's path."""
    import torch

    with tempfile.TemporaryDirectory() as place:
        major, minor = torch.cuda.get_device_capability()
        os.environ |= {
            "TORCH_EXTENSIONS_DIR": f"{place}/extensions", "TRITON_CACHE_DIR": f"{place}/triton", "MAX_JOBS": "1",
            "TORCH_CUDA_ARCH_LIST": f"{major}.{minor}" + ("a" if major >= 9 else ""),
        }  # fmt: skip
        began, rows, failed, build_s = time.perf_counter(), [], {}, 0.0
        for kernel, spent, error in ready(kernels, Path(place)):
            build_s += spent or 0.0
            if error is not None:
                failed[kernel.kernel_id] = error
                continue
            rows += measure(kernel, Path(place))
            say(f"{time.perf_counter() - began:6.1f} s  {len(rows)} measurements, {len(failed)} failed")
    total = time.perf_counter() - began
    return {"total_s": total, "extension_process_s": build_s, "failed": failed, "rows": rows}


def this_harness(kernels: Sequence[KernelSource]) -> dict[str, Any]:
    """All kernels by the harness, its opening included."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as place, make_harness(cache=Path(place), second_clock_share=0.0) as harness:
        rows: list[Measurement] = list(harness.measure(kernels))
        environment = to_dict(harness.environment())
    total = time.perf_counter() - began
    kept = ("kernel_id", "problem_id", "workload", "status", "error", "runtime_us", "runtime_low_us",
            "runtime_high_us", "build_s", "verify_s", "time_s")  # fmt: skip
    plain = [{name: to_dict(row)[name] for name in kept} for row in rows]
    return {"environment": environment, "total_s": total, "rows": plain}


def main() -> None:
    folder = out_folder()
    each = next((int(a.removeprefix("--each=")) for a in sys.argv if a.startswith("--each=")), 17)
    kernels = pool(each=each)
    ours = this_harness(kernels)
    say(f"this harness: {len(kernels)} kernels, {len(ours['rows'])} measurements in {ours['total_s']:.1f} s")
    other = other_path(kernels)
    verified = {"ours": sum(r["status"] == "ok" for r in ours["rows"]), "other": sum(r["right"] for r in other["rows"])}
    summary = {
        "kernels": len(kernels),
        "verified": verified,
        "total_s": {"ours": ours["total_s"], "other": other["total_s"]},
        "seconds_a_verified_measurement": {
            "ours": ours["total_s"] / verified["ours"], "other": other["total_s"] / max(1, verified["other"]),
        },
        "ratio": other["total_s"] / max(1, verified["other"]) / (ours["total_s"] / verified["ours"]),
    }  # fmt: skip
    write(folder, "kernelbench_path.json", {"summary": summary, "this_harness": ours, "other_path": other})
    say(str(summary))


if __name__ == "__main__":
    main()
