"""Own kernels: CUDA source of the harness itself, compiled and loaded for one device."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbench.harness.cuda import CudaModule, architecture
from kbench.harness.device.driver import Function, Launch, LaunchShape, Parameters, call

if TYPE_CHECKING:
    from torch import Tensor

ROWS, THREADS, BYTES_PER_THREAD, MOST_BLOCKS = 24, 256, 64, 1024


def cuda_source(name: str) -> str:
    """The text of kernels of the harness's own, from a file beside this one."""
    return Path(__file__).with_name(f"{name}.cu").read_text(encoding="utf-8")


class OwnKernels:
    """The functions of a source."""

    def __init__(self, source: str, properties: Any, templates: Sequence[str] = ()) -> None:
        """Compile and load.

        Args:
            source: CUDA C++.
            properties: the device's, as torch reports them.
            templates: instances of templates among its functions.
        """
        module = CudaModule(source, names=list(templates))
        code = module.compiled(architecture(int(properties.major), int(properties.minor)))
        self._module, self._symbols = call("cuModuleLoadData", code.cubin), code.symbols

    def function(self, name: str) -> Function:
        """A function by its name in the source."""
        return Function(self._module, self._symbols.get(name, name))


def as_word(value: int) -> bytes:
    """An argument of eight bytes."""
    return value.to_bytes(8, "little")


class RowsFunction:
    """A function over rows of facts, each about a stretch of memory, perhaps with results. Many rows are one launch."""

    def __init__(self, source: str, name: str, properties: Any, stream: int) -> None:
        """Compile it.

        Args:
            source: CUDA C++ that may use the constant ROWS, the most rows of a launch.
            name: of the function. It takes a struct of ROWS rows, and where results go if it has any; blockIdx.y is
                the row.
            properties: the device's, as torch reports them.
            stream: handle of the stream everything is queued on.
        """
        self._function = OwnKernels(f"constexpr int ROWS = {ROWS};{source}", properties).function(name)
        self._stream = stream
        # Made once: the copies of many timed calls are sealed, and each of these would take as long as a launch.
        self._given = Parameters(self._function, [bytes(size) for size in self._function.parameter_bytes])
        self._launches: dict[tuple[int, int, int], Launch] = {}
        """By blocks for each row, and rows."""

    def queue(self, rows: Sequence[bytes], sizes: Sequence[int], results: Tensor | None = None) -> None:
        """Queue it.

        Args:
            rows: the facts, of one length.
            sizes: bytes of each row's memory.
            results: one element per row.
        """
        for at in range(0, len(rows), ROWS):
            some, part = rows[at : at + ROWS], sizes[at : at + ROWS]
            blocks = max(1, min(-(-max(part) // (THREADS * BYTES_PER_THREAD)), MOST_BLOCKS))
            self._given.set(0, b"".join(some))
            if results is not None:
                self._given.set(1, as_word(results.data_ptr() + at * results.element_size()))
            grid = blocks, len(some), 1
            if grid not in self._launches:
                shape = LaunchShape(grid, (THREADS, 1, 1))
                self._launches[grid] = Launch(self._function, shape, self._given, self._stream)
            self._launches[grid].queue()
