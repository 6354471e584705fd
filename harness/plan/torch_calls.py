"""Torch under planning: tensors have no memory but say they are on the GPU; operators are recorded or refused."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from kbench.harness.device.target import DeviceFacts
from kbench.harness.plan.recorder import Recorder, UnplannableError, in_host_memory, real_device, replaced

ALLOCATIONS = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"})
FILLS: Mapping[str, float | None] = {
    "zeros": 0, "zeros_like": 0, "new_zeros": 0, "zero_": 0, "zero": 0, "ones": 1, "ones_like": 1, "new_ones": 1,
    "full": None, "full_like": None, "new_full": None, "fill_": None,
}  # fmt: skip
"""Operators that set every element, with the value, or None where an argument has it."""
LIKES = frozenset({"empty_like", "zeros_like", "ones_like", "full_like"})
"""Operators that return memory of the same form as their argument."""
COPIES = frozenset({"clone", "copy_", "_to_copy"})
SHARED_MEMORY = frozenset({"_unsafe_view", "alias", "detach", "lift_fresh"})
"""Operators that return their argument's memory though their schema does not say so."""
GPU = "cuda:0"
FROM_HOST = frozenset({"tensor", "as_tensor", "asarray", "new_tensor"})
"""Functions that copy Python values into a tensor, which leaves no trace where it has no memory."""
FROM_HOST_MEMORY = "copies from host memory"
VALUES = "asks for a tensor's values: host logic may depend on shapes, not on contents"


class RecordingMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees every operator that reaches torch's dispatcher."""

    def __init__(self, recorder: Recorder) -> None:
        """Record into this."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.recorder = recorder

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Torch would import its compiler, which takes seconds, to keep it out of here; nothing compiles while planning.
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with plain_devices():
            return self._dispatch(func, args, dict(kwargs or {}))

    def _dispatch(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        name = func._schema.name.removeprefix("aten::")
        if stays_on_host(args, kwargs):
            if name == "_to_copy" and not in_host_memory(args[0]):
                raise UnplannableError(VALUES)
            if name == "_pin_memory" or kwargs.get("pin_memory"):
                raise UnplannableError("pins host memory")
            return func(*args, **kwargs)
        if kwargs.get("device") is not None:
            kwargs["device"] = torch.device("meta")
        if name in SHARED_MEMORY or is_view(func):
            return func(*args, **kwargs)
        if name in ALLOCATIONS:
            result = allocate(func, name, args, kwargs)
            self.recorder.allocated(result)
            return result
        if name in FILLS:
            value = FILLS[name]
            result = allocate(func, name, args, kwargs)
            if not name.endswith("_"):
                self.recorder.allocated(result)
            self.recorder.fill(result, fill_value(args, kwargs) if value is None else value)
            return result
        if name in COPIES:
            return self._copy(func, name, args, kwargs)
        if name == "_local_scalar_dense":
            raise UnplannableError(VALUES)
        raise UnplannableError(f"calls the torch operator {name!r}: torch may allocate, view, fill and copy")

    def _copy(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        source = args[1] if name == "copy_" else args[0]
        if name == "copy_" and in_host_memory(args[0]):
            raise UnplannableError(VALUES)
        if in_host_memory(source):
            if name == "_to_copy" and isinstance(source, torch.nn.Parameter):
                # A model is moved once, when it is made. Its weights may yet be replaced by inputs; as they are, they
                # cannot be used: nobody knows what they hold.
                return func(*args, **kwargs)
            raise UnplannableError(FROM_HOST_MEMORY)
        result = func(*args, **kwargs)
        if name != "copy_":
            self.recorder.allocated(result)
        self.recorder.copy(result, source)
        return result


def allocate(func: Any, name: str, args: Any, kwargs: Mapping[str, Any]) -> Any:
    """The result of an operator that may allocate.

    For memory of the same form as another's, torch imports a computer algebra system, which takes seconds and which the
    usual case does not need.
    """
    plain = kwargs.keys() <= {"dtype", "device", "pin_memory"} and not kwargs.get("pin_memory")
    if not (name in LIKES and plain and args[0].is_contiguous()):
        return func(*args, **kwargs)
    like = args[0]
    dtype, device = kwargs.get("dtype") or like.dtype, kwargs.get("device") or like.device
    return torch.empty_strided(like.shape, like.stride(), dtype=dtype, device=device)


def stays_on_host(args: Any, kwargs: Mapping[str, Any]) -> bool:
    """Whether an operator leaves its result in host memory: it names the host, or all it is given lies there."""
    device = kwargs.get("device")
    if device is not None:
        return torch.device(device).type == "cpu"
    tensors = (value for value in tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor))
    return all(map(in_host_memory, tensors))


def is_view(func: Any) -> bool:
    """Whether an operator's results share memory with its arguments and nothing is written."""
    schema = func._schema
    return not schema.is_mutable and any(r.alias_info is not None for r in schema.returns)


def fill_value(args: Any, kwargs: Mapping[str, Any]) -> float:
    """The number among a fill's arguments."""
    if "fill_value" in kwargs:
        return float(kwargs["fill_value"])
    numbers = [value for value in args[1:] if isinstance(value, int | float)]
    if not numbers:
        raise UnplannableError("fills a tensor with the contents of another")
    return numbers[-1]


class DeviceMode(TorchFunctionMode):
    """Turns requests for GPU memory into requests for tensors without memory."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = dict(kwargs or {}), getattr(func, "__name__", "")
        if func is torch.Tensor.cuda:
            return args[0].to("meta")
        if name in ("tolist", "numpy", "__array__") and not in_host_memory(args[0]):
            raise UnplannableError(VALUES)
        if is_gpu(kwargs.get("device")) or type(kwargs.get("device")) is int:
            kwargs["device"] = "meta"
        result = func(*(("meta" if is_gpu(value) else value) for value in args), **kwargs)
        values = args[-1] if args else None
        if name in FROM_HOST and not isinstance(values, torch.Tensor) and result.is_meta:
            raise UnplannableError(FROM_HOST_MEMORY)
        return result


def is_gpu(device: Any) -> bool:
    """Whether an argument names a GPU."""
    if isinstance(device, torch.device):
        return device.type == "cuda"
    return isinstance(device, str) and device.split(":")[0] == "cuda"


class Properties:
    """Answers `torch.cuda.get_device_properties`."""

    def __init__(self, facts: DeviceFacts) -> None:
        """Answer with these facts."""
        self._facts = facts

    def __getattr__(self, name: str) -> Any:
        try:
            return getattr(self._facts, name)
        except AttributeError:
            raise UnplannableError(f"asks the device for {name!r}, which plans do not know") from None


UNTOUCHED = frozenset({"is_initialized", "is_bf16_supported", "init", "get_arch_list"})
"""Functions of torch.cuda that torch itself calls, or that need no device."""


class NullStream:
    """The one stream there is."""

    cuda_stream = 0

    def synchronize(self) -> None:
        """Nothing runs while planning."""


class SilentRanges:
    """Stands in for NVTX: nobody profiles a plan."""

    def __getattr__(self, name: str) -> Callable[..., int]:
        return lambda *args: 0


def answers(facts: DeviceFacts) -> dict[str, Callable[..., Any]]:
    """Functions of torch.cuda that planning answers."""
    return {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda device: None,
        "get_device_name": lambda device=None: facts.name,
        "get_device_capability": lambda device=None: (facts.major, facts.minor),
        "get_device_properties": lambda device=None: Properties(facts),
        "current_stream": lambda device=None: NullStream(),
        "default_stream": lambda device=None: NullStream(),
        "synchronize": lambda device=None: None,
        "empty_cache": lambda: None,
        "is_current_stream_capturing": lambda: False,
        "device": lambda device: contextlib.nullcontext(),
        "device_of": lambda tensor: contextlib.nullcontext(),
        "_lazy_init": lambda: None,
    }


def answer_without_a_gpu(facts: DeviceFacts) -> None:
    """Have torch.cuda answer for a GPU that is not there, in a process that runs a kernel's host code on the CPU."""
    for name in ("current_device", "get_device_name", "get_device_capability", "get_device_properties"):
        setattr(torch.cuda, name, answers(facts)[name])


def refuse(name: str) -> Callable[..., Any]:
    """A stand-in for a function of torch.cuda that planning does not answer."""

    def refused(*args: Any, **kwargs: Any) -> Any:
        raise UnplannableError(f"calls torch.cuda.{name}, which plans do not know")

    return refused


@contextlib.contextmanager
def pretending(facts: DeviceFacts) -> Iterator[None]:
    """Inside, tensors without memory say they are on the GPU, and torch.cuda answers for it or refuses."""
    public = [name for name in torch.cuda.__all__ if callable(getattr(torch.cuda, name, None))]
    functions = {name: refuse(name) for name in public if name not in UNTOUCHED} | answers(facts)
    with replaced(torch.cuda, **functions), replaced(torch.cuda.nvtx, _nvtx=SilentRanges()):
        torch.Tensor.is_cuda = property(lambda self: not in_host_memory(self))  # type: ignore[assignment]
        torch.Tensor.device = property(gpu_device)  # type: ignore[assignment]
        torch.Tensor.get_device = lambda self: 0 if self.is_cuda else -1  # type: ignore[method-assign]
        try:
            yield
        finally:
            # Their like in torch's own base class are untouched.
            for name in ("is_cuda", "device", "get_device"):
                delattr(torch.Tensor, name)


_GPU = torch.device(GPU)
"""Made here, because `DeviceMode` would make it another device."""
_PLAIN = [0]
"""How many of torch's own functions are running, which must see the devices that tensors are really on."""


@contextlib.contextmanager
def plain_devices() -> Iterator[None]:
    """Inside, tensors say where they really are."""
    _PLAIN[0] += 1
    try:
        yield
    finally:
        _PLAIN[0] -= 1


def gpu_device(tensor: torch.Tensor) -> torch.device:
    """The device a tensor says it is on."""
    real = real_device(tensor)
    return _GPU if real.type == "meta" and not _PLAIN[0] else real
