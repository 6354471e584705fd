"""Judge: compares a kernel's outputs with the expected ones, in this process or in one that runs no kernel."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kbench.benchmark.problems import ProblemDefinition, Size
from kbench.benchmark.problems.compare import Comparison, compare
from kbench.harness.bench.reference_inputs import Drawing, ReferenceInputs
from kbench.harness.device.device import POISON_BYTE
from kbench.harness.device.driver import DriverError, call
from kbench.harness.isolate.protocol import Channel, ClosedError, ProtocolError
from kbench.schemas import InfrastructureError

if TYPE_CHECKING:
    from torch import Tensor

ALIGNMENT = 256
"""Outputs begin at multiples of this in the exchange buffer, as every element type needs."""


Answer = tuple[ReferenceInputs, "tuple[Tensor, ...]"]
"""Inputs, and what a kernel returned for them."""
AWAKE_S = 0.003
"""Most comparisons take less."""
LEAST_EXCHANGE = 64 << 20
"""Bytes of the smallest exchange buffer."""


class Judge:
    """Knows the answers."""

    kept_bytes = 4 << 30
    """Outputs that may be kept to be judged together, as far as one answer does not need more."""

    def foresee(self, definition: ProblemDefinition, size: Size, drawings: Sequence[Drawing]) -> None:
        """Begin to compute the answers for some inputs, where that can go on beside other work."""

    def settle(self) -> None:
        """Wait until no answer is being computed: nothing is timed meanwhile."""

    def expect(self, definition: ProblemDefinition, size: Size, references: Sequence[ReferenceInputs]) -> None:
        """Have the answers for some inputs ready."""
        raise NotImplementedError

    def compare(self, definition: ProblemDefinition, size: Size, answers: Sequence[Answer]) -> list[Comparison]:
        """Whether each answer is correct."""
        raise NotImplementedError


class LocalJudge(Judge):
    """Keeps answers in this process: for dry runs, and for kernels that run beside their judge anyway."""

    def expect(self, definition: ProblemDefinition, size: Size, references: Sequence[ReferenceInputs]) -> None:
        for reference in references:
            reference.expected()

    def compare(self, definition: ProblemDefinition, size: Size, answers: Sequence[Answer]) -> list[Comparison]:
        specs = definition.outputs(size.params)
        return [
            compare(tuple(outputs), reference.expected(), reference.drawing.tolerance(definition), specs)
            for reference, outputs in answers
        ]


class RemoteJudge(Judge):
    """Asks the process that holds the answers; outputs go there through GPU memory that both have mapped.

    A kernel's machine code can reach all memory of its own process, so that process never holds an answer.
    """

    def __init__(self, address: str, key: bytes) -> None:
        """Connect.

        Args:
            address: path of the socket the oracle listens on.
            key: authenticates both sides.

        Raises:
            InfrastructureError: no process listens there.
        """
        end = socket.socket(socket.AF_UNIX)
        try:
            end.connect(address)
        except OSError as error:
            end.close()
            raise InfrastructureError(f"the process that holds the answers cannot be reached: {error}") from error
        self._channel = Channel(end, key)
        self._exchange, self._size, self._handle = 0, 0, ""
        self._unheard = 0
        """Requests whose answers nobody has waited for."""

    def foresee(self, definition: ProblemDefinition, size: Size, drawings: Sequence[Drawing]) -> None:
        with oracle_reachable():
            self._channel.send(expecting(definition, size, drawings))
        self._unheard += 1

    def settle(self) -> None:
        with oracle_reachable():
            # What could not be foreseen is asked for again where it is needed.
            while self._unheard:
                self._channel.receive()
                self._unheard -= 1

    def expect(self, definition: ProblemDefinition, size: Size, references: Sequence[ReferenceInputs]) -> None:
        self._ask(expecting(definition, size, [reference.drawing for reference in references]))

    def compare(self, definition: ProblemDefinition, size: Size, answers: Sequence[Answer]) -> list[Comparison]:
        comparisons: list[Comparison] = []
        # Answers are compared as numbers of eight bytes.
        each = sum(
            -(-max(spec.nbytes, 8 * spec.numel) // ALIGNMENT) * ALIGNMENT for spec in definition.outputs(size.params)
        )
        count = max(1, self.kept_bytes // max(each, 1))
        for start in range(0, len(answers), count):
            comparisons += self._compare(definition, size, answers[start : start + count])
        return comparisons

    def _compare(self, definition: ProblemDefinition, size: Size, answers: Sequence[Answer]) -> list[Comparison]:
        import torch

        places: list[list[int]] = []
        end = 0
        for _, outputs in answers:
            places.append([])
            for output in outputs:
                places[-1].append(end)
                end += -(-output.numel() * output.element_size() // ALIGNMENT) * ALIGNMENT
        self._reserve(end)
        for (_, outputs), offsets in zip(answers, places, strict=True):
            for output, offset in zip(outputs, offsets, strict=True):
                if output.numel():
                    nbytes = output.numel() * output.element_size()
                    call("cuMemcpyDtoD", self._exchange + offset, output.data_ptr(), nbytes)
        torch.cuda.synchronize()
        items = [
            {"seed": reference.drawing.seed, "case": reference.drawing.case, "offsets": offsets}
            for (reference, _), offsets in zip(answers, places, strict=True)
        ]
        request = {"op": "compare", "problem_id": definition.id, "size": size.name, "items": items}
        try:
            answer = self._ask(request | {"handle": self._handle, "bytes": self._size})
        finally:
            # Most outputs are correct answers, and a kernel may guess where they lie.
            call("cuMemsetD8", self._exchange, POISON_BYTE, end)
        return [Comparison(**fields) for fields in answer["comparisons"]]

    def _reserve(self, nbytes: int) -> None:
        if nbytes <= self._size:
            return
        freed, self._exchange, self._size = self._exchange, 0, 0
        if freed:
            call("cuMemFree", freed)
        size = max(nbytes, LEAST_EXCHANGE)
        self._exchange = whole_allocation(size)
        self._handle = bytes(call("cuIpcGetMemHandle", self._exchange).reserved).hex()
        self._size = size

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        self.settle()
        with oracle_reachable():
            self._channel.send(request)
            answer = self._channel.receive(awake_s=AWAKE_S)
        if "broken" in answer:
            raise InfrastructureError(str(answer["broken"]))
        return answer


def whole_allocation(nbytes: int) -> int:
    """Address of memory that another process can map: not torch's, which keeps several tensors in one allocation.

    Raises:
        InfrastructureError: there is too little, even without what torch keeps for later.
    """
    import torch

    try:
        return int(call("cuMemAlloc", nbytes))
    except DriverError as error:
        if "OUT_OF_MEMORY" not in str(error):
            raise
    torch.cuda.empty_cache()
    try:
        return int(call("cuMemAlloc", nbytes))
    except DriverError as error:
        raise InfrastructureError(f"no {nbytes >> 20} MiB of GPU memory for comparing answers: {error}") from error


def expecting(definition: ProblemDefinition, size: Size, drawings: Sequence[Drawing]) -> dict[str, Any]:
    """The request to have some answers ready."""
    items = [{"seed": drawing.seed, "case": drawing.case} for drawing in drawings]
    return {"op": "expect", "problem_id": definition.id, "size": size.name, "items": items}


@contextlib.contextmanager
def oracle_reachable() -> Iterator[None]:
    """Say that a channel that fails is the machine's fault.

    Raises:
        InfrastructureError: the process at its other end does not answer.
    """
    try:
        yield
    except (ClosedError, ProtocolError) as error:
        raise InfrastructureError(f"the process that holds the answers is gone: {error}") from error
