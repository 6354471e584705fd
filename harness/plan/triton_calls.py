"""Triton under planning: a driver that compiles for a target and records launches instead of making them.

Triton asks its active driver for the target, to load machine code and to launch it. This one keeps the machine code and
records launches, so specialisation, autotuning and grids are Triton's own.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kbench.harness.device.driver import DEFAULT_SHARED_BYTES, LaunchShape
from kbench.harness.device.target import DeviceFacts
from kbench.harness.plan.recorder import Code, Recorder, UnplannableError, replaced, typed_value
from kbench.schemas.records.launch_plan import ArgumentKind, PlanArgument, TensorMapSpec

DEVICE_TO_HOST_TYPES = {8: 10, 9: 8, 10: 9}
"""Triton's numbers of tensor-map element types that differ from the driver's."""


class Machinery:
    """Machine code seen while planning, by its hash, and the recorder of the call that is planned."""

    def __init__(self) -> None:
        """Start empty."""
        self.cubins: dict[str, bytes] = {}
        self.ptx: dict[str, str] = {}
        """By hash of the machine code it became, where it was asked for."""
        self.first_lines: dict[str, int] = {}
        """Where the text of a machine code begins in the kernel's file."""
        self.recorder: Recorder | None = None
        self.config = 0
        """Which of its configurations an autotuner is to choose."""
        self.configs = 1
        """Number of configurations of the autotuner that has the most."""
        self.chosen: dict[str, str] = {}
        """The configuration that each autotuned function has chosen, as people write it."""

    def keep(self, cubin: bytes) -> str:
        """Keep machine code; its hash."""
        sha = hashlib.sha256(cubin).hexdigest()
        self.cubins[sha] = cubin
        return sha

    def recording(self) -> Recorder:
        """The recorder of the call that is planned."""
        if self.recorder is None:
            raise UnplannableError("launches a kernel outside `run`")
        return self.recorder


class RecordingUtils:
    """The part of Triton's driver that loads code and answers questions about the device."""

    def __init__(self, machinery: Machinery, facts: DeviceFacts) -> None:
        """Keep machine code there."""
        self._machinery, self._facts = machinery, facts

    def get_device_properties(self, device: int) -> dict[str, int]:
        """The device's facts under Triton's names."""
        return {
            "max_shared_mem": self._facts.shared_memory_per_block_optin,
            "max_num_regs": self._facts.regs_per_multiprocessor,
            "multiprocessor_count": self._facts.multi_processor_count,
            "warpSize": self._facts.warp_size,
        }

    def load_binary(self, name: str, cubin: bytes, shared: int, device: int) -> tuple[None, Code, int, int, int]:
        code = Code(self._machinery.keep(cubin), name)
        return None, code, 0, 0, self._facts.max_threads_per_block


class RecordingDriver:
    """The part of Triton's driver interface that kernels and their host code use."""

    def __init__(self, target: Any, machinery: Machinery, facts: DeviceFacts) -> None:
        """Compile for a target and record there."""
        self._target = target
        self.utils = RecordingUtils(machinery, facts)
        self.launcher_cls: Callable[[Any, Any], Any] = lambda src, metadata: RecordingLauncher(src, metadata, machinery)

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

        return torch.device("cuda", 0)

    def get_device_interface(self) -> Any:
        import torch

        return torch.cuda

    @staticmethod
    def is_active() -> bool:
        return True

    def get_benchmarker(self) -> Any:
        return lambda *args, **kwargs: None

    def map_python_to_cpp_type(self, ty: str) -> str:
        from triton.backends.nvidia import driver

        return str(driver.ty_to_cpp(ty))


class RecordingLauncher:
    """Records the launches of one compiled function."""

    def __init__(self, src: Any, metadata: Any, machinery: Machinery) -> None:
        """Read what a launch of the function needs."""
        self._signature = list(src.signature.values())
        self._metadata, self._machinery = metadata, machinery
        self._maps = list(getattr(metadata, "tensordesc_meta", None) or [])

    def __call__(self, x: int, y: int, z: int, stream: Any, function: Code, *rest: Any) -> None:
        recorder, metadata = self._machinery.recording(), self._metadata
        if x * y * z == 0:
            return
        # What stands between the function and its arguments is packed metadata and two hooks.
        values, maps = rest[4:], iter(self._maps)
        arguments = [
            argument
            for kind, value in zip(self._signature, values, strict=True)
            for argument in self._arguments(recorder, kind, value, maps)
        ]
        arguments += [self._scratch(recorder, x * y * z), recorder.pointer(None)]
        blocks = metadata.num_ctas
        shape = LaunchShape(
            (x * blocks, y, z),
            (32 * metadata.num_warps, 1, 1),
            metadata.shared,
            (blocks, 1, 1) if blocks != 1 else None,
            bool(metadata.launch_cooperative_grid),
            bool(getattr(metadata, "launch_pdl", False)),
            # As Triton's own driver does.
            prefer_shared=metadata.shared > DEFAULT_SHARED_BYTES,
        )
        recorder.launch(function, shape, arguments)

    def _scratch(self, recorder: Recorder, programs: int) -> PlanArgument:
        size = self._metadata.global_scratch_size
        if not size:
            return recorder.pointer(None)
        buffer = recorder.allocate(programs * self._metadata.num_ctas * size)
        return PlanArgument(kind=ArgumentKind.POINTER, buffer=buffer, offset=0)

    def _arguments(self, recorder: Recorder, kind: Any, value: Any, maps: Iterator[Any]) -> Iterator[PlanArgument]:
        if isinstance(kind, tuple):
            for inner, part in zip(kind, value, strict=True):
                yield from self._arguments(recorder, inner, part, maps)
        elif kind.startswith("tensordesc"):
            yield from described(recorder, value, next(maps, None))
        elif kind.startswith("*"):
            yield recorder.pointer(value)
        elif kind != "constexpr":
            yield typed_value(value, kind)


def described(recorder: Recorder, descriptor: Any, facts: Any) -> Iterator[PlanArgument]:
    """A host-side tensor descriptor as the arguments Triton passes for it: the map, its extents and strides."""
    if facts is None or facts.get("is_im2col") or facts["fp4_padded"]:
        raise UnplannableError("passes a tensor descriptor of a form that plans do not know")
    kind, size = int(facts["elem_type"]), int(facts["elem_size"])
    spec = TensorMapSpec(
        element_type=DEVICE_TO_HOST_TYPES.get(kind, kind),
        extents=tuple(int(n) for n in reversed(descriptor.shape)),
        strides=tuple(size * int(n) for n in reversed(descriptor.strides[:-1])),
        box=tuple(int(n) for n in reversed(facts["block_size"])),
        swizzle=int(facts["swizzle"]),
        nan_fill=descriptor.padding == "nan",
    )
    yield recorder.tensor_map(descriptor.base, spec)
    yield from (typed_value(int(n), "i32") for n in descriptor.shape)
    yield from (typed_value(int(n), "i64") for n in descriptor.strides)


@contextlib.contextmanager
def triton_recorded(
    arch: int, machinery: Machinery, facts: DeviceFacts, cache: str, *, ptx: bool = False
) -> Iterator[None]:
    """Inside, Triton compiles for an architecture, launches are recorded, and autotuners choose as they are told.

    Args:
        arch: Triton's number of the architecture, such as 90.
        machinery: where machine code and launches go.
        facts: the device that is planned for.
        cache: a private folder for Triton's cache, empty where PTX is wanted.
        ptx: whether to keep the PTX of what is compiled.
    """
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver
    from triton.runtime.autotuner import Autotuner

    os.environ["TRITON_CACHE_DIR"] = cache
    recording = RecordingDriver(GPUTarget("cuda", arch, 32), machinery, facts)
    # Older versions of Triton benchmark a single configuration too.
    choosing = {
        "prune_configs": chooser(machinery, Autotuner.prune_configs),
        "_bench": lambda self, *args, **kwargs: [0.0, 0.0, 0.0],
    }
    with (
        replaced(driver, _active=recording),
        replaced(Autotuner, **choosing),
        ptx_kept(machinery) if ptx else contextlib.nullcontext(),
    ):
        yield


def ptx_kept(machinery: Machinery) -> contextlib.AbstractContextManager[None]:
    """Inside, the PTX that Triton assembles is kept with its machine code."""
    from triton.backends.nvidia.compiler import CUDABackend

    real_make = CUDABackend.make_cubin

    def keep(self: Any, ptx: Any, *args: Any, **kwargs: Any) -> Any:
        cubin = real_make(self, ptx, *args, **kwargs)
        # Not kept itself: what is compiled and never loaded is no part of a plan.
        sha = hashlib.sha256(cubin).hexdigest()
        # Triton's line numbers are those of the file.
        machinery.ptx[sha], machinery.first_lines[sha] = str(ptx), 1
        return cubin

    return replaced(CUDABackend, make_cubin=keep)


def chooser(machinery: Machinery, real_prune: Callable[..., Sequence[Any]]) -> Callable[..., list[Any]]:
    """Stands in for pruning: of the configurations a kernel's own hooks leave, only the one whose turn it is remains.

    They are known by their place: hooks may make new ones at every call.
    """

    def prune(self: Any, kwargs: Mapping[str, Any]) -> list[Any]:
        left = list(real_prune(self, kwargs))
        machinery.configs = max(machinery.configs, len(left))
        one = left[min(machinery.config, len(left) - 1)]
        stated = {name: value for name, value in one.all_kwargs().items() if value is not None}
        machinery.chosen[str(self.fn)] = ", ".join(f"{name}={value}" for name, value in stated.items())
        return [one]

    return prune
