"""A process to be run under a profiler: calls planned kernels once each between the profiler's start and stop.

python -m kbench.harness.worker.profiled BATCH ORDER GPU

BATCH is a JSON list of kernels with their plans and machine code (see `kbench.harness.commands.counters`). To ORDER it
writes one line for every call whose launches the profiler saw, in their order.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbench.benchmark.problems import problem
from kbench.harness.bench.context import ContextCache, context_bytes
from kbench.harness.device.device import CudaDevice
from kbench.harness.device.driver import DriverError
from kbench.harness.device.gpu import Gpu
from kbench.harness.plan.replay import Replay
from kbench.harness.worker.replay_runner import PlannedKernel
from kbench.schemas.records.launch_plan import StepKind

if TYPE_CHECKING:
    from torch import Tensor

SEEDS = (0,)


class Profiled:
    """A GPU on which single calls are profiled."""

    def __init__(self, gpu: Gpu) -> None:
        """Open a GPU."""
        import torch

        self.device = CudaDevice(gpu)
        self.contexts = ContextCache(self.device, context_bytes(None), SEEDS)
        self._profiler: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call]
        words = max(2 * self.device.l2_bytes, 32 << 20) // 4
        self._clean: Tensor = torch.zeros(words, dtype=torch.int32, device=self.device.torch_name)

    def calls(self, entry: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Call a kernel once on each of its workloads; what was called."""
        kernel = PlannedKernel(entry["plans"], entry["code"])
        sizes = {size.name: size for size in problem(entry["problem_id"]).sizes}
        try:
            for name in (name for name in sizes if name in entry["plans"]):
                context = self.contexts.get(entry["problem_id"], sizes[name])
                replay = kernel.only(context, self.device)
                self.call(replay)
                launches = [step.function for step in replay.plan.steps if step.kind is StepKind.LAUNCH]
                yield {"kernel_id": entry["kernel_id"], "workload": name, "functions": launches}
        finally:
            kernel.unload()

    def call(self, replay: Replay) -> None:
        """One profiled call, after one that is not."""
        for profiled in (False, True):
            replay.prepare(0)
            self.device.flush()
            # Lines that are only read are clean: writing them back is not added to what the kernel writes.
            self._clean.sum()
            self.device.synchronize()
            if profiled:
                self._profiler.cudaProfilerStart()
            replay.call(0)
            self.device.synchronize()
        self._profiler.cudaProfilerStop()


def main(batch: Path, order: Path, gpu: Gpu) -> None:
    """Call every kernel of a batch; one that fails is left out."""
    profiled = Profiled(gpu)
    with order.open("w") as lines:
        for entry in json.loads(batch.read_text()):
            try:
                for called in profiled.calls(entry):
                    lines.write(json.dumps(called) + "\n")
                    lines.flush()
            except DriverError as error:
                sys.stderr.write(f"{entry['kernel_id']}: {error}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), Gpu.parse(sys.argv[3]))
