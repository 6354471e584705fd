"""Loaded code: a plan's machine code in the device's memory, and its variables as they were when it was loaded."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kbench.harness.device.driver import DriverError, Function, Queue, bound, call, pointer, stream_handle
from kbench.harness.plan.resources import Variable, read_variables

if TYPE_CHECKING:
    from torch import Tensor

    from kbench.harness.device.device import CudaDevice

FEW_VARIABLES = 16
"""Variables that are restored by a copy each, where their sections cannot be restored whole. A header such as
cooperative_groups.h brings hundreds; as many copies before every call would fill the driver's launch queue, and the
host could not stay ahead of the device."""


@dataclasses.dataclass(frozen=True, slots=True)
class Snapshot:
    """Variables of loaded machine code, with what lies between them, or one of them."""

    address: int
    copy: Tensor
    """The bytes that lay there when the code was loaded."""
    constant: bool
    """Whether it lies in constant memory, whose caches only the driver's own copies keep in step."""


def snapshot(address: int, nbytes: int, constant: bool) -> Snapshot:
    """A stretch of device memory as it is now.

    Raises:
        DriverError: it cannot be read.
    """
    import torch

    copy = torch.empty(nbytes, dtype=torch.uint8, device="cuda")
    call("cuMemcpyDtoD", copy.data_ptr(), address, nbytes)
    return Snapshot(address, copy, constant)


class LoadedCode:
    """Machine code in the device's memory, with its variables as they were when it was loaded."""

    def __init__(self, cubins: Mapping[str, bytes]) -> None:
        """Load machine code by hash."""
        self._modules = {sha: call("cuModuleLoadData", cubin) for sha, cubin in cubins.items()}
        self._functions: dict[tuple[str, str], Function] = {}
        self._variables: list[Snapshot] = []
        self._table: Tensor | None = None
        """Where variables lie and what they held, for the function that restores many at once."""
        self._sums: list[int] | None = None
        self.not_restored: list[str] = []
        """Memory that keeps its contents: variables whose address the driver does not disclose, and what lies between
        variables that are not placed as the machine code says."""
        for sha, cubin in cubins.items():
            sections: dict[str, list[Variable]] = {}
            for variable in read_variables(cubin):
                sections.setdefault(variable.section, []).append(variable)
            for variables in sections.values():
                self._keep(self._modules[sha], variables)

    def _keep(self, module: Any, variables: Sequence[Variable]) -> None:
        """Take a snapshot of a section's variables."""
        placed: list[tuple[Variable, int, int]] = []
        lost: list[str] = []
        for variable in variables:
            try:
                address, nbytes = call("cuModuleGetGlobal", module, variable.name.encode())
                placed.append((variable, int(address), int(nbytes)))
            except DriverError:
                lost.append(variable.name)
        whole = self._whole(placed) if placed else []
        self._variables += whole or [snapshot(address, nbytes, one.constant) for one, address, nbytes in placed]
        if whole:
            return
        if len({address for _, address, _ in placed}) < len(placed):
            # Two of them are in one place, so that one is where nobody looks.
            lost = [variable.name for variable in variables]
        padded = sum(variable.nbytes for variable in variables) < variables[0].section_bytes
        self.not_restored += [f"variable {name}" for name in lost] + ["memory between variables"] * padded

    @staticmethod
    def _whole(placed: Sequence[tuple[Variable, int, int]]) -> list[Snapshot]:
        """One snapshot of a whole section, padding included, where a note would fit; none if it is not contiguous."""
        starts = {address - variable.offset for variable, address, _ in placed}
        first = placed[0][0]
        ends = max(variable.offset + nbytes for variable, _, nbytes in placed)
        if len(starts) > 1 or ends > first.section_bytes:
            return []
        try:
            return [snapshot(starts.pop(), first.section_bytes, first.constant)]
        except DriverError:
            return []

    def function(self, sha: str, name: str) -> Function:
        """A function by its symbol.

        Raises:
            DriverError: there is no such function.
        """
        if (sha, name) not in self._functions:
            self._functions[sha, name] = Function(self._modules[sha], name)
        return self._functions[sha, name]

    def restore(self, device: CudaDevice) -> list[Queue]:
        """Operations that reset every variable to its initial value."""
        import torch

        many = [one for one in self._variables if not one.constant]
        single = [one for one in self._variables if one.constant]
        if len(many) <= FEW_VARIABLES:
            single, many = self._variables, []
        handle = stream_handle(device.stream)
        copies = [
            bound("cuMemcpyDtoDAsync", pointer(one.address), pointer(one.copy.data_ptr()), one.copy.numel(), handle)
            for one in single
        ]
        if not many:
            return copies
        if self._table is None:
            # Once: operations made for an earlier replay of this code hold its address.
            rows = [(one.address, one.copy.data_ptr(), one.copy.numel()) for one in many]
            self._table = torch.tensor(rows, dtype=torch.int64, device=device.torch_name)
        return [*copies, device.scrubber.copying(self._table.data_ptr(), len(many))]

    @property
    def restored_bytes(self) -> list[int]:
        """Size of each stretch that is reset before a call."""
        return [one.copy.numel() for one in self._variables]

    def seal(self, device: CudaDevice) -> None:
        """Remember sums over what variables are reset from: it lies in memory that machine code can reach."""
        if self._sums is None:
            self._sums = device.sums(self._own())

    def damaged(self, device: CudaDevice) -> str | None:
        """Why the code is not as it was sealed; None when it is."""
        same = self._sums is None or device.sums(self._own()) == self._sums
        return None if same else "wrote to memory of the harness, from which variables are reset"

    def _own(self) -> list[Tensor]:
        return [one.copy for one in self._variables] + ([] if self._table is None else [self._table])

    def unload(self) -> None:
        """Free it."""
        for module in self._modules.values():
            call("cuModuleUnload", module)
        self._modules = {}
