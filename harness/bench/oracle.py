"""Oracle: the process that holds expected answers and runs no kernel.

It draws the same inputs from the same seeds as the process that runs kernels, computes answers in higher precision,
and compares outputs that it reads from memory the other process shares. Nothing of its own is shared.
"""

from __future__ import annotations

import dataclasses
import select
import socket
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kbench.benchmark.problems import ProblemDefinition, Size, TensorSpec, problem
from kbench.benchmark.problems.inputs import ITEM_BYTES
from kbench.harness.bench import fused_compare
from kbench.harness.bench.fused_compare import Judged, compare_together
from kbench.harness.bench.reference_inputs import Drawing, nbytes
from kbench.harness.device.driver import call
from kbench.harness.device.gpu import Gpu, usable_bytes
from kbench.harness.isolate.protocol import Channel, ClosedError, ProtocolError
from kbench.schemas import InfrastructureError

if TYPE_CHECKING:
    from torch import Tensor

ANSWER_BYTES, ANSWER_SHARE = 24 << 30, 1 / 6
"""Answers kept on the GPU, and at most this share of its memory; the least recently used are dropped first."""
IDLE_BYTES, IDLE_SHARE = 4 << 30, 1 / 16
"""Memory that torch may hold for its next tensors: the process that runs kernels needs the rest."""
RETRY_S = 0.05
"""Rest after a connection could not be taken, which would be tried again at once."""
SILENT = 64
"""Most connections kept that have not shown to know the key; a device never has as many workers waiting."""
Key = tuple[str, str, Drawing]


class Oracle:
    """Answers of all problems, by inputs."""

    def __init__(self, gpu: Gpu, limit_bytes: int | None = None) -> None:
        """Use a GPU, and all of it whatever the partition: nothing is timed while it works.

        Args:
            gpu: the GPU.
            limit_bytes: its memory that may be used by all processes together; None for all of it.

        Raises:
            InfrastructureError: it cannot be used.
        """
        import torch

        torch.set_grad_enabled(False)
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        index = gpu.visible_index()
        try:
            torch.cuda.set_device(index)
            torch.zeros(1, device="cuda")
        except (RuntimeError, AssertionError) as error:
            raise InfrastructureError(f"GPU {gpu} cannot be used: {error}") from error
        self._device = f"cuda:{index}"
        total_bytes = usable_bytes(limit_bytes)
        self._kept_bytes = min(ANSWER_BYTES, int(ANSWER_SHARE * total_bytes))
        self._idle_bytes = min(IDLE_BYTES, int(IDLE_SHARE * total_bytes))
        # Now, while no kernel waits.
        fused_compare.make_ready(self._device)
        self._answers: OrderedDict[Key, tuple[Tensor, ...]] = OrderedDict()
        self._held_bytes = 0
        self._mapped: dict[str, Tensor] = {}

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer one request: make answers ready, or compare outputs with them."""
        definition = problem(request["problem_id"])
        size, specs = definition.size(request["size"]), definition.outputs(definition.size(request["size"]).params)
        drawings = [Drawing(int(item["seed"]), item["case"]) for item in request["items"]]
        if request["op"] != "compare":
            for drawing in drawings:
                # One after another: together they may be more than is kept.
                self._expected(definition, size, drawing)
            return {}
        expected = [self._expected(definition, size, drawing) for drawing in drawings]
        answers = [
            Judged(self._outputs(specs, item["offsets"], request), wanted, drawing.tolerance(definition))
            for item, wanted, drawing in zip(request["items"], expected, drawings, strict=True)
        ]
        return {"comparisons": [dataclasses.asdict(one) for one in compare_together(answers, specs)]}

    def _expected(self, definition: ProblemDefinition, size: Size, drawing: Drawing) -> tuple[Tensor, ...]:
        """The answer to some inputs; the one used last is kept longest."""
        import torch

        key = (definition.id, size.name, drawing)
        answer = self._answers.pop(key, None)
        if answer is not None:
            self._answers[key] = answer
            return answer
        answer = definition.expected(drawing.inputs(definition, size, self._device))
        torch.cuda.synchronize()
        self._held_bytes += nbytes(answer)
        while self._answers and self._held_bytes > self._kept_bytes:
            _, dropped = self._answers.popitem(last=False)
            self._held_bytes -= nbytes(dropped)
        # Answers are made in higher precision, whose intermediate tensors are many times the answer.
        if torch.cuda.memory_reserved() - torch.cuda.memory_allocated() > self._idle_bytes:
            torch.cuda.empty_cache()
        self._answers[key] = answer
        return answer

    def forget(self) -> None:
        """Drop every answer."""
        self._answers.clear()
        self._held_bytes = 0

    def _outputs(
        self, specs: Sequence[TensorSpec], offsets: Sequence[int], request: Mapping[str, Any]
    ) -> tuple[Tensor, ...]:
        import torch

        shared = self._map(str(request["handle"]), int(request["bytes"]))
        outputs = []
        for spec, offset in zip(specs, offsets, strict=True):
            end = int(offset) + spec.numel * ITEM_BYTES[spec.dtype]
            if end > shared.numel():
                raise ValueError(f"output {spec.name!r} ends at byte {end} of {shared.numel()}")
            outputs.append(shared[int(offset) : end].view(getattr(torch, spec.dtype)).view(spec.shape))
        return tuple(outputs)

    def _map(self, handle: str, size: int) -> Tensor:
        """The bytes that another process shares."""
        import torch
        from cuda.bindings import driver

        if handle not in self._mapped:
            for mapped in self._mapped.values():
                call("cuIpcCloseMemHandle", mapped.data_ptr())
            shared = driver.CUipcMemHandle()
            shared.reserved = bytes.fromhex(handle)
            lazily = driver.CUipcMem_flags.CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS.value
            address = int(call("cuIpcOpenMemHandle", shared, lazily))
            self._mapped = {handle: torch.as_tensor(_Shared(address, size), device=self._device)}
        return self._mapped[handle]


class _Shared:
    """Bytes at an address, as torch takes memory from elsewhere."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (address, False), "version": 3}


def serve(oracle: Oracle, listener: socket.socket, parent: socket.socket, key: bytes) -> None:
    """Answer any process that connects with the key, until the parent hangs up."""
    channels: dict[int, Channel] = {}
    while True:
        # Not select, which knows no descriptor beyond 1,023.
        poller = select.poll()
        for descriptor in (listener.fileno(), parent.fileno(), *channels):
            poller.register(descriptor, select.POLLIN)
        ready = [descriptor for descriptor, _ in poller.poll()]
        if parent.fileno() in ready:
            for channel in channels.values():
                channel.close()
            return
        for descriptor in [fd for fd in ready if fd in channels]:
            if not _hear(oracle, channels[descriptor]):
                channels.pop(descriptor).close()
        if listener.fileno() in ready:
            _accept(listener, channels, key)


def _accept(listener: socket.socket, channels: dict[int, Channel], key: bytes) -> None:
    """Take a connection in; of those that have not shown to know the key, the oldest make room."""
    silent = [descriptor for descriptor, channel in channels.items() if not channel.proven]
    for descriptor in silent[: max(0, len(silent) + 1 - SILENT)]:
        channels.pop(descriptor).close()
    try:
        end, _ = listener.accept()
    except OSError:
        # It has hung up, or there are no descriptors left: those that are connected get their answers still.
        time.sleep(RETRY_S)
        return
    channels[end.fileno()] = Channel(end, key)


def _hear(oracle: Oracle, channel: Channel) -> bool:
    """Answer what has arrived on a channel; False when it is of no further use."""
    try:
        for request in channel.drain():
            try:
                answer = oracle.answer(request)
            except Exception as error:  # noqa: BLE001 - the process boundary: the asker says that the machine failed
                oracle.forget()
                answer = {"broken": f"the answer cannot be computed: {type(error).__name__}: {error}"}
            channel.send(answer)
    except (ClosedError, ProtocolError):
        return False
    return True
