"""A kernel's CUDA source as the torch extension a KernelBench submission would make of it."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from kbench.harness.cuda import Extent
from kbench.schemas.ids import content_hash

DECLARATION = (
    "void launch(const std::string& name, std::vector<int64_t> words, std::vector<int64_t> shape, int64_t shared);"
)
HOST = """
#include <stdexcept>
#include <string>
#include <vector>
void launch(const std::string& name, std::vector<int64_t> words, std::vector<int64_t> shape, int64_t shared) {
    const void* entry = nullptr;
ENTRIES
    if (entry == nullptr) throw std::runtime_error("no function " + name);
    std::vector<void*> arguments;
    for (int64_t& word : words) arguments.push_back(&word);
    if (shared > 48 * 1024) cudaFuncSetAttribute(entry, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    const dim3 grid(shape[0], shape[1], shape[2]), block(shape[3], shape[4], shape[5]);
    const cudaError_t error = cudaLaunchKernel(entry, grid, block, arguments.data(), shared, 0);
    if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}
"""
ENTRY = '    if (name == "{0}") {{ auto function = {0}; entry = (const void*)function; }}'
FUNCTION = re.compile(r'extern\s+"C"\s+__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s+)?(\w+)\s*\(')


def host_code(source: str, names: Sequence[str]) -> str:
    """A function that launches any of a source's kernels by name."""
    known = (*FUNCTION.findall(source), *names)
    return HOST.replace("ENTRIES", "\n".join(ENTRY.format(name) for name in known))


class ExtensionModule:
    """Takes the place of CudaModule in a kernel: the same source, compiled by load_inline when it is imported."""

    def __init__(
        self, source: str, *, names: Sequence[str] = (), fast_math: bool = False, max_registers: int | None = None
    ) -> None:
        """Build the extension, or find it built."""
        from torch.utils.cpp_extension import load_inline

        flags = ["--use_fast_math"] if fast_math else []
        flags += [] if max_registers is None else [f"-maxrregcount={max_registers}"]
        self.extension = load_inline(
            name="kernel_" + content_hash(source, *names, *flags),
            cpp_sources=DECLARATION,
            cuda_sources=source + host_code(source, names),
            functions=["launch"],
            extra_cuda_cflags=flags,
        )

    def launch(self, name: str, grid: Extent, block: Extent, args: Sequence[Any], *, shared_bytes: int = 0) -> None:
        """Launch a function."""
        self.extension.launch(name, [word(value) for value in args], [*whole(grid), *whole(block)], shared_bytes)


def whole(extent: Extent) -> Iterator[int]:
    """An extent's three numbers."""
    given = (extent,) if isinstance(extent, int) else extent
    yield from (*given, 1, 1)[:3]


def word(value: Any) -> int:
    """An argument as the eight bytes of which a kernel reads as many as its parameter has."""
    if hasattr(value, "data_ptr"):
        return int(value.data_ptr())
    return int(struct.unpack("<i", struct.pack("<f", value))[0]) if isinstance(value, float) else int(value)
