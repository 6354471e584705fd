"""Driver: the few CUDA driver calls needed to load and launch machine code, with errors that name the call."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from kbench.schemas.records.launch_plan import TensorMapSpec

DEFAULT_SHARED_BYTES = 48 * 1024
"""Above this a function must opt in to more dynamic shared memory."""
Extent = tuple[int, int, int]


class DriverError(Exception):
    """A call of the driver failed; the message names the call and the driver's error."""


def call(name: str, *arguments: Any) -> Any:
    """Call a function of the driver by name and return what it returns besides its error code.

    Raises:
        DriverError: it failed.
    """
    from cuda.bindings import driver

    error, *rest = getattr(driver, name)(*arguments)
    if error != driver.CUresult.CUDA_SUCCESS:
        raise DriverError(f"{name}: {error.name}")
    return rest[0] if len(rest) == 1 else tuple(rest)


Queue = Callable[[], None]
"""Queues one operation on a stream."""


def bound(name: str, *arguments: Any, keep: object = None) -> Queue:
    """A call that is made many times, with nothing left to look up but its error code.

    Args:
        name: the driver's function.
        arguments: its arguments.
        keep: what must live as long as the call may be made, because the driver reads it.

    Raises, when called:
        DriverError: it failed.
    """
    from cuda.bindings import driver

    function, fine = functools.partial(getattr(driver, name), *arguments), driver.CUresult.CUDA_SUCCESS

    def queue(kept: object = keep) -> None:
        (error,) = function()
        if error != fine:
            raise DriverError(f"{name}: {error.name}")

    return queue


def pointer(address: int) -> Any:
    """An address as the driver takes it."""
    from cuda.bindings import driver

    return driver.CUdeviceptr(address)


def stream_handle(handle: int) -> Any:
    """A stream as the driver takes it."""
    from cuda.bindings import driver

    return driver.CUstream(handle)


@dataclasses.dataclass(frozen=True, slots=True)
class LaunchShape:
    """How a function is launched."""

    grid: Extent
    block: Extent
    shared_bytes: int = 0
    cluster: Extent | None = None
    cooperative: bool = False
    dependent: bool = False
    prefer_shared: bool = False
    """Have as much shared memory and as little L1 cache as possible."""

    @property
    def plain(self) -> bool:
        """Whether grid, block and shared memory describe the launch completely."""
        return self.cluster is None and not self.cooperative and not self.dependent


class Function:
    """A function of loaded machine code."""

    def __init__(self, module: Any, name: str) -> None:
        """Look a function up by its symbol."""
        self.name = name
        self.handle = call("cuModuleGetFunction", module, name.encode())
        self.parameter_bytes = _parameter_sizes(self.handle)
        # What a function declares counts too.
        self._allowed = DEFAULT_SHARED_BYTES - self.attribute("SHARED_SIZE_BYTES")

    def attribute(self, name: str) -> int:
        """One of the driver's facts about the function, such as LOCAL_SIZE_BYTES."""
        from cuda.bindings import driver

        which = getattr(driver.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
        return int(call("cuFuncGetAttribute", which, self.handle))

    def allow_shared(self, nbytes: int) -> None:
        """Opt in to more dynamic shared memory than fits beside what the function declares."""
        if nbytes > self._allowed:
            from cuda.bindings import driver

            limit = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            call("cuFuncSetAttribute", self.handle, limit, nbytes)
            self._allowed = nbytes

    def prefer_shared(self) -> None:
        """Opt in to all dynamic shared memory there is, at the cost of the L1 cache."""
        from cuda.bindings import driver

        most = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
        call("cuFuncSetCacheConfig", self.handle, driver.CUfunc_cache.CU_FUNC_CACHE_PREFER_SHARED)
        whole = int(call("cuDeviceGetAttribute", most, call("cuCtxGetDevice")))
        self.allow_shared(whole - self.attribute("SHARED_SIZE_BYTES"))


def _parameter_sizes(function: Any) -> tuple[int, ...]:
    """Size of each of a function's parameters: the driver reads that many bytes from whatever a launch passes."""
    from cuda.bindings import driver

    sizes: list[int] = []
    while True:
        error, _, size = driver.cuFuncGetParamInfo(function, len(sizes))
        if error != driver.CUresult.CUDA_SUCCESS:
            return tuple(sizes)
        sizes.append(int(size))


class Parameters:
    """Arguments of a launch in memory, where the driver reads them at every launch."""

    def __init__(self, function: Function, arguments: Sequence[bytes]) -> None:
        """Lay arguments out: the bytes of each for its parameter.

        Raises:
            DriverError: they do not fit the function's parameters.
        """
        self._function = function
        self._rooms = [-(-size // 8) * 8 for size in function.parameter_bytes]
        self._offsets = list(itertools.accumulate(self._rooms, initial=0))
        self._memory = ctypes.create_string_buffer(max(self._offsets[-1], 8))
        start = ctypes.addressof(self._memory)
        self._table = (ctypes.c_void_p * len(self._offsets))(*(start + offset for offset in self._offsets))
        self.address = ctypes.addressof(self._table)
        self.load(self.packed(arguments))

    def packed(self, arguments: Sequence[bytes]) -> bytes:
        """Arguments as they lie in memory; bytes beyond a parameter's size are cut off.

        Raises:
            DriverError: there are too few arguments, or one has fewer bytes than its parameter.
        """
        sizes, name = self._function.parameter_bytes, self._function.name
        if len(arguments) != len(sizes):
            raise DriverError(f"{name} takes {len(sizes)} arguments, {len(arguments)} were given")
        for at, (data, size) in enumerate(zip(arguments, sizes, strict=True)):
            if len(data) < size:
                raise DriverError(f"{name}: argument {at} has {len(data)} bytes, its parameter {size}")
        return b"".join(data[:room].ljust(room, b"\0") for data, room in zip(arguments, self._rooms, strict=True))

    def load(self, packed: bytes) -> None:
        """Replace all arguments."""
        ctypes.memmove(self._memory, packed, len(packed))

    def set(self, at: int, data: bytes) -> None:
        """Replace one argument."""
        ctypes.memmove(ctypes.addressof(self._memory) + self._offsets[at], data, min(len(data), self._rooms[at]))


class Launch:
    """A function with its shape and arguments, ready to be queued on a stream any number of times."""

    def __init__(self, function: Function, shape: LaunchShape, parameters: Parameters, stream: int) -> None:
        """Make ready."""
        function.allow_shared(shape.shared_bytes)
        if shape.prefer_shared:
            function.prefer_shared()
        self._parameters, address = parameters, parameters.address
        if shape.plain:
            where = (*shape.grid, *shape.block, shape.shared_bytes, stream_handle(stream))
            self.queue = bound("cuLaunchKernel", function.handle, *where, address, 0, keep=parameters)
        else:
            config = _config(function, shape, stream)
            self.queue = bound("cuLaunchKernelEx", config, function.handle, address, 0, keep=parameters)

    def on(self, arguments: Sequence[bytes]) -> Queue:
        """A function that queues it with other arguments; making that ready takes less than another launch.

        Raises:
            DriverError: they do not fit the function's parameters.
        """
        parameters, launch, packed = self._parameters, self.queue, self._parameters.packed(arguments)

        def queue() -> None:
            parameters.load(packed)
            launch()

        return queue


def _config(function: Function, shape: LaunchShape, stream: int) -> Any:
    from cuda.bindings import driver

    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = shape.grid
    config.blockDimX, config.blockDimY, config.blockDimZ = shape.block
    config.sharedMemBytes, config.hStream = shape.shared_bytes, stream
    attributes = []
    if shape.cluster is not None:
        if shape.cluster[0] * shape.cluster[1] * shape.cluster[2] > 8:
            large = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            call("cuFuncSetAttribute", function.handle, large, 1)
        entry = driver.CUlaunchAttribute()
        entry.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        entry.value.clusterDim.x, entry.value.clusterDim.y, entry.value.clusterDim.z = shape.cluster
        attributes.append(entry)
    if shape.cooperative:
        entry = driver.CUlaunchAttribute()
        entry.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
        entry.value.cooperative = 1
        attributes.append(entry)
    if shape.dependent:
        entry = driver.CUlaunchAttribute()
        entry.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        entry.value.programmaticStreamSerializationAllowed = 1
        attributes.append(entry)
    config.attrs, config.numAttrs = attributes, len(attributes)
    return config


def tensor_map(spec: TensorMapSpec, address: int) -> bytes:
    """A tensor-map descriptor's bytes for a tensor at an address."""
    from cuda.bindings import driver

    modes = driver.CUtensorMapFloatOOBfill
    fill = (
        modes.CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA
        if spec.nan_fill
        else modes.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE
    )
    rank = len(spec.extents)
    encoded = call(
        "cuTensorMapEncodeTiled",
        driver.CUtensorMapDataType(spec.element_type),
        rank,
        address,
        [driver.cuuint64_t(n) for n in spec.extents],
        [driver.cuuint64_t(n) for n in spec.strides],
        [driver.cuuint32_t(n) for n in spec.box],
        [driver.cuuint32_t(1) for _ in range(rank)],
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        driver.CUtensorMapSwizzle(spec.swizzle),
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        fill,
    )
    return ctypes.string_at(encoded.getPtr(), 128)
