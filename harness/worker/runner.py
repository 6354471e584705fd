"""Runner: the half of a worker that holds a device, whatever kind of kernel it runs."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

from kbench.harness.bench.context import ContextCache
from kbench.harness.device.device import CudaDevice, Device
from kbench.harness.device.environment import device_facts
from kbench.harness.device.floor import Ceilings
from kbench.harness.device.nvml import ConditionsReader
from kbench.harness.isolate.protocol import Channel
from kbench.harness.timing.batch import Sampler
from kbench.harness.timing.ceilings import measure_ceilings
from kbench.harness.worker.execute import Bench, PoisonedError
from kbench.schemas import InfrastructureError

PREPARING = "prepare"
"""The stage before any kernel has arrived: a failure in it is the machine's fault."""


class Runner:
    """Answers one parent's requests on one device."""

    def __init__(
        self,
        channel: Channel,
        request: dict[str, Any],
        device: Device,
        reader: ConditionsReader,
        contexts: ContextCache,
    ) -> None:
        """Set torch up for references."""
        import torch

        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        torch.set_grad_enabled(False)
        self.channel, self.device = channel, device
        self.bench = Bench(device, contexts, Sampler(device), reader)
        if request.get("ceilings"):
            self.bench.ceilings = Ceilings(**request["ceilings"])

    def facts(self) -> dict[str, Any]:
        """What the parent needs to know of the device."""
        return device_facts(self.device)

    def operations(self) -> dict[str, Callable[[dict[str, Any]], bool]]:
        """What a parent may ask for, by name; False from one means that this process must end."""
        return {"ceilings": self._ceilings}

    def answer(self, message: dict[str, Any]) -> bool:
        """Answer one request; False when this process must end."""
        return self.operations()[message["op"]](message)

    def report(self, stage: str) -> None:
        """Tell the parent which stage begins."""
        self.channel.send({"stage": stage})

    def _ceilings(self, message: dict[str, Any]) -> bool:
        self.bench.ceilings = measure_ceilings(self.device, self.bench.sampler)
        self.channel.send({"ceilings": dataclasses.asdict(self.bench.ceilings)})
        return True

    def measured(self, action: Callable[[], list[dict[str, Any]]], message: dict[str, Any]) -> bool:
        """Send the results of a kernel, or how it broke the device; False when this process must end."""
        if message.get("ceilings") and self.bench.ceilings is None:
            self.bench.ceilings = Ceilings(**message["ceilings"])
        started = time.perf_counter()
        try:
            results = action()
            if isinstance(self.device, CudaDevice):
                self.device.check_partition()
        except PoisonedError as error:
            status, reason = error.args
            self.channel.send({"poisoned": True, "status": status.value, "error": reason})
            return False
        except InfrastructureError as error:
            self.channel.send({"broken": str(error)})
            return False
        self.channel.send({"results": results, "busy_s": time.perf_counter() - started})
        return True
