"""Fence: device memory with nothing mapped right after a tensor, so that a kernel that goes past its end fails.

torch's allocator puts tensors side by side into large mappings. There a kernel that reads or writes past one finds
other memory, and may still give the correct answer. Here each tensor ends where its mapping ends.
"""

from __future__ import annotations

import ctypes
import dataclasses
from typing import Any

ALIGNMENT = 16
"""Alignment of a tensor's address in bytes, as vector loads need it; up to one byte less may follow its end."""

_Allocate = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
_Release = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
_KEPT: list[Any] = []
"""Functions torch calls, which Python must not collect."""


@dataclasses.dataclass(slots=True)
class Fence:
    """Hands out memory that ends at the end of a mapping. Mappings are reused: making one is slow."""

    pages: DevicePages
    """Where mappings come from."""
    exhausted: bool = False
    """Whether an allocation failed: torch then continues with a null address."""
    _held: dict[int, tuple[int, int]] = dataclasses.field(default_factory=dict)
    """Mappings in use, address and pages, by the address handed out."""
    _free: dict[int, list[int]] = dataclasses.field(default_factory=dict)
    """Addresses of unused mappings by their number of pages, the latest last."""

    def allocate(self, nbytes: int) -> int:
        """The address of this many bytes, rounded up to the alignment, at a mapping's end; 0 when there is none."""
        wanted = -(-max(nbytes, 1) // ALIGNMENT) * ALIGNMENT
        count = -(-wanted // self.pages.page_bytes)
        try:
            start = self._mapping(count)
        except MemoryError:
            self.exhausted = True
            return 0
        address = start + count * self.pages.page_bytes - wanted
        self._held[address] = (start, count)
        return address

    def release(self, address: int) -> None:
        """Take memory back."""
        start, count = self._held.pop(address)
        self._free.setdefault(count, []).append(start)

    def _mapping(self, count: int) -> int:
        if self._free.get(count):
            return self._free[count].pop()
        try:
            return self.pages.map(count)
        except MemoryError:
            self.forget()
            return self.pages.map(count)

    def forget(self) -> None:
        """Give all unused mappings back."""
        for count, starts in self._free.items():
            for start in starts:
                self.pages.unmap(start, count)
        self._free.clear()


class DevicePages:
    """Pages of one GPU's memory, through the driver."""

    def __init__(self, index: int) -> None:
        """Use a GPU; its context need not exist yet."""
        from cuda.bindings import driver

        self._driver: Any = driver
        self._call(driver.cuInit(0))
        place = driver.CUmemLocation()
        place.type, place.id = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, index
        self._properties = driver.CUmemAllocationProp()
        self._properties.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        self._properties.location = place
        self._access = driver.CUmemAccessDesc()
        self._access.location = place
        self._access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        least = driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM
        self.page_bytes = int(self._call(driver.cuMemGetAllocationGranularity(self._properties, least)))

    def _call(self, answer: tuple[Any, ...]) -> Any:
        error, *values = answer
        if error != self._driver.CUresult.CUDA_SUCCESS:
            raise MemoryError(f"the driver says {error!r}")
        return values[0] if values else None

    def map(self, count: int) -> int:
        """The address of this many pages with none mapped after them; MemoryError when there are none."""
        size = count * self.page_bytes
        handle = self._call(self._driver.cuMemCreate(size, self._properties, 0))
        try:
            # One page more than is mapped: what follows is not anybody else's either.
            address = self._call(self._driver.cuMemAddressReserve(size + self.page_bytes, 0, 0, 0))
            self._call(self._driver.cuMemMap(address, size, 0, handle, 0))
            self._call(self._driver.cuMemSetAccess(address, size, [self._access], 1))
        finally:
            # The mapping keeps the memory.
            self._call(self._driver.cuMemRelease(handle))
        return int(address)

    def unmap(self, address: int, count: int) -> None:
        """Give pages back once all work that may use them is done."""
        size = count * self.page_bytes
        self._call(self._driver.cuCtxSynchronize())
        self._call(self._driver.cuMemUnmap(address, size))
        self._call(self._driver.cuMemAddressFree(address, size + self.page_bytes))


def fence_torch(index: int) -> Fence:
    """Have torch take all its memory on a GPU from a fence, for as long as this process lives.

    Must come before torch has touched the GPU.
    """
    import torch

    fence = Fence(DevicePages(index))
    callbacks = (
        _Allocate(lambda nbytes, _device, _stream: fence.allocate(nbytes)),
        _Release(lambda address, _nbytes, _device, _stream: fence.release(address)),
    )
    _KEPT.extend(callbacks)
    # torch's own wrapper reads the two functions from a library file.
    functions: Any = [ctypes.cast(one, ctypes.c_void_p).value for one in callbacks]
    torch._C._cuda_changeCurrentAllocator(torch._C._cuda_customAllocator(*functions))
    return fence
