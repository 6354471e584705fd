"""Set aside: parts of the L2 that the driver lets code reserve, where lines outlive a flush and which others then lack.

Unscreened kernels can reach the driver. With nothing reserved, asking it that lines stay does no more than a kernel's
own `evict_last`. Reserving some is noticed: the reference, which then has less, would take more than twice as long.
"""

from __future__ import annotations

import ctypes

PERSISTING_L2_CACHE_SIZE = 6
"""The driver's number for this limit of a context."""


class SetAside:
    """The limit of the current context."""

    def __init__(self) -> None:
        """Find the driver's functions, before foreign code could replace them."""
        driver = ctypes.CDLL("libcuda.so.1")
        self._get, self._set = driver.cuCtxGetLimit, driver.cuCtxSetLimit
        self._get.argtypes = [ctypes.POINTER(ctypes.c_size_t), ctypes.c_int]
        self._set.argtypes = [ctypes.c_int, ctypes.c_size_t]
        self._forbidden = False

    def forbid(self) -> None:
        """Forbid reserving; where the GPU has no such feature there is nothing to forbid."""
        self._forbidden = self._set(PERSISTING_L2_CACHE_SIZE, 0) == 0

    def changed(self) -> str | None:
        """What has been reserved since it was forbidden; None when nothing was."""
        if not self._forbidden:
            return None
        found = ctypes.c_size_t()
        if self._get(ctypes.byref(found), PERSISTING_L2_CACHE_SIZE) != 0 or not found.value:
            return None
        return f"{found.value >> 20} MiB of the L2 were set aside"
