"""Triton ahead of time: run a kernel's `run` on meta tensors under a driver that compiles and never launches.

The stand-in driver answers with an explicit target, so no GPU is needed, and every specialisation that the real
call will ask for is compiled into Triton's own cache under the key the real driver will compute.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kbench.harness.build.target import Target


class CompileOnlyDriver:
    """The part of Triton's driver interface that compiling needs."""

    def __init__(self, target: Target) -> None:
        """Answer with this target."""
        from triton.backends.compiler import GPUTarget

        self._target = GPUTarget("cuda", target.triton, 32)

    def get_current_target(self) -> Any:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        return None

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        major, minor = divmod(int(self._target.arch), 10)
        return major, minor

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("meta")

    @staticmethod
    def is_active() -> bool:
        return True

    def map_python_to_cpp_type(self, ty: str) -> str:
        from triton.backends.nvidia import driver

        return str(driver.ty_to_cpp(ty))


@contextlib.contextmanager
def compile_only(target: Target, cache: Path, texts: list[str] | None = None) -> Iterator[list[Any]]:
    """Inside, a Triton launch compiles and returns; yields the list of compiled kernels as it grows.

    Args:
        target: what is compiled for.
        cache: Triton's cache.
        texts: gets the PTX of everything compiled; then nothing is taken from the cache, which keeps no PTX.
    """
    from triton.runtime import driver
    from triton.runtime.jit import JITFunction

    compiled: list[Any] = []
    real_run = JITFunction.run

    def warm(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        kernel = real_run(self, *args, grid=grid, warmup=True, **kwargs)
        if kernel is not None and all(kernel is not known for known in compiled):
            compiled.append(kernel)
        return kernel

    saved = driver._active
    driver.set_active(CompileOnlyDriver(target))
    JITFunction.run = warm
    os.environ["TRITON_CACHE_DIR"] = str(cache)
    # The default differs between versions; pinned so that a cache key means one thing in every process.
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    # Intermediate texts are most of a cache entry's bytes and nothing reads them back.
    os.environ["TRITON_STORE_BINARY_ONLY"] = "1"
    try:
        with _ptx_kept(texts) if texts is not None else contextlib.nullcontext():
            yield compiled
    finally:
        JITFunction.run = real_run
        driver._active = saved


@contextlib.contextmanager
def _ptx_kept(texts: list[str]) -> Iterator[None]:
    """Inside, Triton compiles whether or not its cache knows the function, and every PTX text is added to the list."""
    from triton.backends.nvidia.compiler import CUDABackend

    real_make, told = CUDABackend.make_ptx, os.environ.get("TRITON_ALWAYS_COMPILE")

    def keep(self: Any, *args: Any, **kwargs: Any) -> Any:
        text = real_make(self, *args, **kwargs)
        texts.append(str(text))
        return text

    CUDABackend.make_ptx = keep
    os.environ["TRITON_ALWAYS_COMPILE"] = "1"
    try:
        yield
    finally:
        CUDABackend.make_ptx = real_make
        if told is None:
            del os.environ["TRITON_ALWAYS_COMPILE"]
        else:
            os.environ["TRITON_ALWAYS_COMPILE"] = told


def build_launcher(kernel: Any) -> None:
    """Compile the C launcher of a kernel's signature where this Triton makes one per signature.

    It ends up in Triton's cache, so the GPU worker does not wait for a C compiler. Where the CUDA driver library is
    absent the launcher cannot link, nor could the kernel run.
    """
    from triton.backends.nvidia import driver

    if hasattr(driver, "make_launcher") and has_driver_library():
        driver.CudaLauncher(kernel.src, kernel.metadata)


def has_driver_library() -> bool:
    """Whether libcuda is installed."""
    import ctypes

    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True
