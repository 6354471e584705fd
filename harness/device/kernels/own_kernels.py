"""Own kernels: CUDA source of the harness itself, compiled and loaded for one device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kbench.harness.cuda import CudaModule, architecture
from kbench.harness.device.driver import Function, LaunchShape, call

THREADS, BYTES_PER_THREAD, MOST_BLOCKS = 256, 64, 1024


class OwnKernels:
    """The functions of a source."""

    def __init__(self, source: str, properties: Any, templates: Sequence[str] = ()) -> None:
        """Compile and load.

        Args:
            source: CUDA C++.
            properties: the device's, as torch reports them.
            templates: instances of templates among its functions.
        """
        made = CudaModule(source, names=list(templates))
        CudaModule.declared.pop()
        code = made.compiled(architecture(int(properties.major), int(properties.minor)))
        self._module, self._symbols = call("cuModuleLoadData", code.cubin), code.symbols

    def function(self, name: str) -> Function:
        """A function by its name in the source."""
        return Function(self._module, self._symbols.get(name, name))


def as_word(value: int) -> bytes:
    """An argument of eight bytes."""
    return value.to_bytes(8, "little")


def over_rows(sizes: Sequence[int]) -> LaunchShape:
    """A grid over some stretches of memory of so many bytes: one row of blocks for each."""
    blocks = max(1, min(-(-max(sizes) // (THREADS * BYTES_PER_THREAD)), MOST_BLOCKS))
    return LaunchShape((blocks, len(sizes), 1), (THREADS, 1, 1))
