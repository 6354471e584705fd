"""The public helper CUDA kernels use: raw CUDA C++ in a string, compiled through NVRTC, launched on torch's stream.

    from kbench.harness.cuda import CudaModule

    module = CudaModule(r'''extern "C" __global__ void scale(const float* x, float* y, int n) { ... }''')

    def run(x):
        y = torch.empty_like(x)
        module.launch("scale", grid=(x.numel() + 255) // 256, block=256, args=(x, y, x.numel()))
        return y

Arguments: a tensor passes its address; a Python int fits any integer parameter (8 bytes, little endian, of which the
driver reads as many as the parameter has); a Python float is a C `float`; ctypes.c_double is a C `double`.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from kbench.schemas.errors import MissingDependencyError
from kbench.schemas.ids import content_hash

if TYPE_CHECKING:
    from cuda.core import Kernel, ObjectCode, Program

Extent = int | tuple[int, ...]
DEFAULT_SHARED_BYTES = 48 * 1024
"""Above this a function must opt in to more dynamic shared memory."""


@dataclasses.dataclass(frozen=True, slots=True)
class Prebuilt:
    """Machine code compiled earlier, with the mangled name of each exported template instantiation."""

    cubin: bytes
    symbols: Mapping[str, str]


class CudaModule:
    """CUDA C++ source that becomes loadable code on first launch.

    Constructing one compiles nothing, so importing a kernel is cheap and needs no GPU.
    """

    declared: ClassVar[list[CudaModule]] = []
    """Every module constructed in this process; the build stage reads which ones a kernel declared."""
    prebuilt: ClassVar[Mapping[str, Prebuilt]] = {}
    """Machine code by module key, set by a worker that was handed the build stage's results."""

    def __init__(
        self, source: str, *, names: Sequence[str] = (), fast_math: bool = False, max_registers: int | None = None
    ) -> None:
        """Declare a module.

        Args:
            source: CUDA C++; `extern "C"` functions launch by their name.
            names: template instantiations to export, such as `scale<4>`, which then launch by that name.
            fast_math: compile with approximate division, square root and transcendental functions.
            max_registers: cap on registers per thread.
        """
        self.source, self.names = source, tuple(names)
        self.fast_math, self.max_registers = fast_math, max_registers
        self._loaded: dict[int, ObjectCode] = {}
        """Once on each device, so that all functions of a module see the same variables."""
        self._kernels: dict[tuple[int, str], Kernel] = {}
        self._shared_limits: dict[tuple[int, str], int] = {}
        CudaModule.declared.append(self)

    def key(self, arch: str) -> str:
        """Content hash of everything that decides the machine code, compiler version aside."""
        return content_hash(arch, self.source, *self.names, str(self.fast_math), str(self.max_registers))

    def compile(self, arch: str) -> ObjectCode:
        """Machine code for one architecture such as sm_90; needs no GPU."""
        return self._program(arch).compile("cubin", name_expressions=self.names)

    def compile_with_ptx(self, arch: str) -> tuple[ObjectCode, str]:
        """Machine code, and the PTX text it was assembled from in the same run of the compiler."""
        program = self._program(arch)
        code = program.compile("cubin", name_expressions=self.names)
        return code, _ptx(program)

    def _program(self, arch: str) -> Program:
        try:
            from cuda.core import Program, ProgramOptions
        except ImportError:
            raise MissingDependencyError("cuda-core", "gpu", "compiling CUDA C++") from None
        options = ProgramOptions(
            arch=arch,
            std="c++17",
            include_path=[str(folder) for folder in include_folders()],
            use_fast_math=self.fast_math or None,
            max_register_count=self.max_registers,
            device_as_default_execution_space=True,
        )
        return Program(self.source, "c++", options)

    def launch(self, name: str, grid: Extent, block: Extent, args: Sequence[Any], *, shared_bytes: int = 0) -> None:
        """Launch a function of this module on torch's current stream of the current device.

        Args:
            name: an `extern "C"` function, or one of `names`.
            grid: blocks, as an int or up to three.
            block: threads per block, as an int or up to three.
            args: tensors, ints, floats or ctypes values, in the function's order.
            shared_bytes: dynamic shared memory per block.
        """
        import torch
        from cuda.core import LaunchConfig, launch

        device = torch.cuda.current_device()
        kernel = self._kernel(device, name)
        if shared_bytes > self._shared_limits.get((device, name), DEFAULT_SHARED_BYTES):
            _allow_shared(kernel, device, shared_bytes)
            self._shared_limits[device, name] = shared_bytes
        config = LaunchConfig(grid=grid, block=block, shmem_size=shared_bytes)
        stream = _stream(torch.cuda.current_stream().cuda_stream)
        launch(stream, config, kernel, *[_argument(value) for value in args])

    def _kernel(self, device: int, name: str) -> Kernel:
        found = self._kernels.get((device, name))
        if found is None:
            if device not in self._loaded:
                self._loaded[device] = self._load(device)
            found = self._kernels[device, name] = self._loaded[device].get_kernel(name)
        return found

    def _load(self, device: int) -> ObjectCode:
        from cuda.core import Device

        _enter_context(device)
        arch = architecture(*Device(device).compute_capability)
        ready = CudaModule.prebuilt.get(self.key(arch))
        if ready is None:
            return self.compile(arch)
        from cuda.core import ObjectCode

        # cuda.core looks mangled names up as the bytes the compiler gave.
        mangled = {name: symbol.encode() for name, symbol in ready.symbols.items()}
        return ObjectCode.from_cubin(ready.cubin, symbol_mapping=mangled)


def architecture(major: int, minor: int) -> str:
    """The most specific target a device runs: Hopper and later have an `a` variant with their own instructions."""
    return f"sm_{major}{minor}" + ("a" if major >= 9 else "")


@functools.cache
def include_folders() -> tuple[Path, ...]:
    """Folders with the CUDA headers kernels may include (cuda_fp16.h, cuda_bf16.h, mma.h, …).

    Triton ships them, so they are there without a CUDA toolkit.
    """
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None:
        return ()
    folder = Path(spec.origin).parent / "backends" / "nvidia" / "include"
    return (folder,) if folder.is_dir() else ()


def _ptx(program: Program) -> str:
    """The PTX NVRTC keeps beside machine code; cuda.core's own way to it asks for a driver."""
    from cuda.bindings import nvrtc

    _, size = nvrtc.nvrtcGetPTXSize(program.handle)
    text: bytes = b" " * size
    (error,) = nvrtc.nvrtcGetPTX(program.handle, text)
    if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise ValueError(f"the compiler gives no PTX: {error.name}")
    return text.rstrip(b"\0 ").decode()


@functools.cache
def _enter_context(device: int) -> None:
    from cuda.core import Device

    Device(device).set_current()


def _allow_shared(kernel: Kernel, device: int, shared_bytes: int) -> None:
    """Opt in to more dynamic shared memory; cuda.core shows the limit but cannot set it."""
    from cuda.bindings import driver

    limit = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    handle = driver.CUkernel(int(kernel.handle))
    (error,) = driver.cuKernelSetAttribute(limit, shared_bytes, handle, driver.CUdevice(device))
    if error != driver.CUresult.CUDA_SUCCESS:
        raise ValueError(f"{shared_bytes} bytes of shared memory a block are refused: {error.name}")


@functools.lru_cache(maxsize=16)
def _stream(handle: int) -> Any:
    from cuda.core import Stream

    return Stream.from_handle(handle)


def _argument(value: Any) -> Any:
    if hasattr(value, "data_ptr"):
        return value.data_ptr()
    if isinstance(value, bool):
        return ctypes.c_bool(value)
    if isinstance(value, int):
        return ctypes.c_int64(value)
    if isinstance(value, float):
        return ctypes.c_float(value)
    return value
