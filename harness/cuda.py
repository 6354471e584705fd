"""The public helper for CUDA kernels: raw CUDA C++ in a string, compiled through NVRTC, launched on torch's stream.

    from kbench.harness.cuda import CudaModule

    module = CudaModule(r'''extern "C" __global__ void scale(const float* x, float* y, int n) { ... }''')

    def run(x):
        y = torch.empty_like(x)
        module.launch("scale", grid=(x.numel() + 255) // 256, block=256, args=(x, y, x.numel()))
        return y

Arguments: a tensor passes its address; a Python int fits any integer parameter (8 bytes, little endian, of which the
driver reads as many as the parameter has); a Python float is a C `float`; ctypes.c_double is a C `double`; a TensorMap
fits a parameter `const __grid_constant__ CUtensorMap`.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from kbench.schemas.errors import MissingDependencyError
from kbench.schemas.ids import content_hash

if TYPE_CHECKING:
    from cuda.core import ObjectCode, Program
    from torch import Tensor

    from kbench.harness.device.driver import Function
    from kbench.schemas.records.launch_plan import TensorMapSpec

Extent = int | tuple[int, ...]
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
"""The driver's number of each swizzle width in bytes."""
ELEMENT_TYPES = {
    "uint8": 0, "int8": 0, "bool": 0, "float8_e4m3fn": 0, "float8_e5m2": 0, "uint16": 1, "int16": 1, "uint32": 2,
    "int32": 3, "uint64": 4, "int64": 5, "float16": 6, "float32": 7, "float64": 8, "bfloat16": 9,
}  # fmt: skip
"""The driver's number of each element type of tensor maps."""


@dataclasses.dataclass(frozen=True, slots=True)
class LaunchRequest:
    """One call of `CudaModule.launch`."""

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: tuple[Any, ...]
    shared_bytes: int
    cluster: tuple[int, int, int] | None
    cooperative: bool


class TensorMap:
    """A tensor-map descriptor (TMA) of a tensor, made at launch."""

    def __init__(self, tensor: Tensor, box: Sequence[int], *, swizzle: int = 0, nan_fill: bool = False) -> None:
        """Describe a tensor.

        Args:
            tensor: its last dimension must be contiguous.
            box: elements of one transfer along each dimension of the tensor, outermost first.
            swizzle: width of the shared-memory swizzle: 0, 32, 64 or 128 bytes.
            nan_fill: read elements outside the tensor as NaN instead of zero.
        """
        if len(box) != tensor.dim() or tensor.stride(-1) != 1:
            raise ValueError(f"box {tuple(box)} must have {tensor.dim()} extents, and the last dimension stride 1")
        if swizzle not in SWIZZLES:
            raise ValueError(f"swizzle is {swizzle}; it must be one of {sorted(SWIZZLES)}")
        self.tensor, self.box, self.swizzle, self.nan_fill = tensor, tuple(box), swizzle, nan_fill

    def spec(self) -> TensorMapSpec:
        """Its parameters as the driver takes them."""
        from kbench.schemas.records.launch_plan import TensorMapSpec

        size = self.tensor.element_size()
        return TensorMapSpec(
            element_type=ELEMENT_TYPES[str(self.tensor.dtype).removeprefix("torch.")],
            extents=tuple(reversed(self.tensor.shape)),
            strides=tuple(size * stride for stride in reversed(self.tensor.stride()[:-1])),
            box=tuple(reversed(self.box)),
            swizzle=SWIZZLES[self.swizzle],
            nan_fill=self.nan_fill,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Compiled:
    """Machine code, with the mangled name of each exported template instantiation."""

    cubin: bytes
    symbols: Mapping[str, str]


class CudaModule:
    """CUDA C++ source that becomes loadable code on first launch.

    Constructing one compiles nothing, so importing a kernel is cheap and needs no GPU.
    """

    recorder: ClassVar[Callable[[CudaModule, LaunchRequest], None] | None] = None
    """Takes launches in place of a GPU while host code is planned."""

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
        self._functions: dict[tuple[int, str], Function] = {}
        self._modules: dict[int, tuple[Any, Mapping[str, str]]] = {}
        """Loaded once on each device, so that all functions of a module see the same variables."""

    def key(self, arch: str) -> str:
        """Content hash of everything that determines the machine code, except the compiler version."""
        return content_hash(arch, self.source, *self.names, str(self.fast_math), str(self.max_registers))

    def compile(self, arch: str) -> ObjectCode:
        """Machine code for one architecture such as sm_90; needs no GPU."""
        return self._program(arch).compile("cubin", name_expressions=self.names)

    def ptx(self, arch: str) -> str:
        """PTX that names the lines of the source, from a compiler run of its own: marks of lines would become part of
        the machine code, and of its identity."""
        from cuda.bindings import nvrtc

        program = self._program(arch, lineinfo=True)
        program.compile("cubin", name_expressions=self.names)
        # NVRTC keeps it with the machine code; cuda.core's own accessor needs a driver.
        _, size = nvrtc.nvrtcGetPTXSize(program.handle)
        text: bytes = b" " * size
        (error,) = nvrtc.nvrtcGetPTX(program.handle, text)
        if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise ValueError(f"the compiler gives no PTX: {error.name}")
        return text.rstrip(b"\0 ").decode()

    def _program(self, arch: str, *, lineinfo: bool | None = None) -> Program:
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
            lineinfo=lineinfo,
        )
        return Program(self.source, "c++", options)

    def compiled(self, arch: str) -> Compiled:
        """Machine code with the symbol of each function that launches by another name."""
        code = self.compile(arch)
        symbols = {_text(name): _text(symbol) for name, symbol in dict(code.symbol_mapping).items()}
        return Compiled(bytes(code.code), symbols)

    def launch(
        self,
        name: str,
        grid: Extent,
        block: Extent,
        args: Sequence[Any],
        *,
        shared_bytes: int = 0,
        cluster: Extent | None = None,
        cooperative: bool = False,
    ) -> None:
        """Launch a function of this module on torch's current stream of the current device.

        Args:
            name: an `extern "C"` function, or one of `names`.
            grid: blocks, as an int or up to three.
            block: threads per block, as an int or up to three.
            args: tensors, ints, floats, ctypes values or tensor maps, in the function's order.
            shared_bytes: dynamic shared memory per block.
            cluster: blocks per cluster, as an int or up to three.
            cooperative: have all blocks resident at once, so that they may wait for one another.
        """
        shape = None if cluster is None else three(cluster)
        request = LaunchRequest(name, three(grid), three(block), tuple(args), int(shared_bytes), shape, cooperative)
        if CudaModule.recorder is not None:
            CudaModule.recorder(self, request)
        else:
            self._launch(request)

    def _launch(self, request: LaunchRequest) -> None:
        import torch

        from kbench.harness.device.driver import Launch, LaunchShape, Parameters

        device = torch.cuda.current_device()
        function = self._function(device, request.name)
        shape = LaunchShape(request.grid, request.block, request.shared_bytes, request.cluster, request.cooperative)
        parameters = Parameters(function, [_bytes(value) for value in request.arguments])
        Launch(function, shape, parameters, torch.cuda.current_stream().cuda_stream).queue()

    def _function(self, device: int, name: str) -> Function:
        function = self._functions.get((device, name))
        if function is None:
            import torch

            from kbench.harness.device.driver import Function, call

            if device not in self._modules:
                code = self.compiled(architecture(*torch.cuda.get_device_capability(device)))
                self._modules[device] = call("cuModuleLoadData", code.cubin), code.symbols
            module, symbols = self._modules[device]
            function = self._functions[device, name] = Function(module, symbols.get(name, name))
        return function


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name


def three(extent: Extent) -> tuple[int, int, int]:
    """An extent along x, y and z."""
    extents = (extent,) if isinstance(extent, int) else tuple(extent)
    if not 1 <= len(extents) <= 3:
        raise ValueError(f"an extent has one to three dimensions, not {len(extents)}")
    x, y, z = (*map(int, extents), 1, 1)[:3]
    return x, y, z


def architecture(major: int, minor: int) -> str:
    """The most specific target that a device runs: Hopper and later have an `a` variant with their own instructions."""
    return f"sm_{major}{minor}" + ("a" if major >= 9 else "")


@functools.cache
def include_folders() -> tuple[Path, ...]:
    """Folders with the CUDA headers kernels may include (cuda_fp16.h, cuda_bf16.h, mma.h, cooperative_groups.h, …).

    Triton ships most of them, so no CUDA toolkit is needed. Cooperative groups also need <nv/target>,
    from NVIDIA's cccl package or a toolkit.
    """
    folders: list[Path] = []
    triton = importlib.util.find_spec("triton")
    if triton is not None and triton.origin is not None:
        folders.append(Path(triton.origin).parent / "backends" / "nvidia" / "include")
    folders += [folder for folder in _core_libraries() if (folder / "nv" / "target").is_file()][:1]
    return tuple(folder for folder in folders if folder.is_dir())


def _core_libraries() -> Iterator[Path]:
    """Where <nv/target> may be: in installed packages of NVIDIA, then in a CUDA toolkit."""
    packages = importlib.util.find_spec("nvidia")
    for folder in (packages.submodule_search_locations or ()) if packages is not None else ():
        for include in sorted(Path(folder).glob("*/include")):
            yield from (include, include / "cccl")
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or "/usr/local/cuda"
    yield from (Path(home) / "include" / "cccl", Path(home) / "include")


def _bytes(value: Any) -> bytes:
    """A launch argument's bytes."""
    if isinstance(value, TensorMap):
        from kbench.harness.device.driver import tensor_map

        return tensor_map(value.spec(), value.tensor.data_ptr())
    return scalar_bytes(value.data_ptr() if hasattr(value, "data_ptr") else value)


def scalar_bytes(value: Any) -> bytes:
    """A number's bytes as a launch passes them; an int has eight, of which a parameter takes as many as it has."""
    if isinstance(value, bool):
        return struct.pack("<?", value)
    if isinstance(value, int):
        return struct.pack("<q" if value < 0 else "<Q", value)
    if isinstance(value, float):
        return struct.pack("<f", value)
    return bytes(value)
