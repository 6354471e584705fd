"""Operators: what torch's own operators would launch, made up from the shapes of tensors without memory.

Outside `torch.compile` each is a launch of its own. What a compiled function calls between matrix products is taken to
become one kernel.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from kbench.benchmark.work.operators import Operator
from kbench.harness.plan.recorder import Recorder, UnplannableError, in_host_memory
from kbench.harness.plan.torch_calls import (
    ALLOCATIONS,
    SHARED_MEMORY,
    VALUES,
    DeviceMode,
    RecordingMode,
    is_view,
    plain_devices,
)
from kbench.harness.plan.triton_calls import Machinery

MOST_OPERATORS = 2000
GATHERS = frozenset(("embedding", "index", "index_select", "gather", "take", "_index_put_impl_", "index_put_"))
"""Operators that read no more of a tensor than they write."""
SORTS = frozenset(("sort", "topk", "argsort", "msort", "unique", "cumsum", "cumprod"))
SORT_PASSES = 4.0
ATTENTION = "scaled_dot_product_attention"
FREE = frozenset(("_local_scalar_dense", "_reshape_alias", "set_", "_shape_as_tensor"))


@dataclasses.dataclass(slots=True)
class Fused:
    """Operators between matrix products that a compiler makes one kernel of."""

    reads: dict[int, float] = dataclasses.field(default_factory=dict)
    made: dict[int, float] = dataclasses.field(default_factory=dict)
    """Memory that they fill, by identity; what nobody reads later is never written."""
    kept: set[int] = dataclasses.field(default_factory=set)
    last: int | None = None
    elements: float = 0.0

    def operator(self) -> Operator:
        """The kernel that stands for them."""
        kept = self.kept or ({self.last} if self.last is not None else set())
        written = sum(self.made[place] for place in kept)
        return Operator(name="fused", reads=tuple(self.reads.values()), writes=written, elements=self.elements)


class OperatorRecorder(Recorder):
    """Records launches, and operators in place of refusing them."""

    def __init__(self, inputs: Sequence[Any]) -> None:
        super().__init__(inputs)
        self.operators: list[Operator | Fused] = []
        self.fusing = 0

    def place(self, tensor: torch.Tensor) -> tuple[int, int]:
        """The buffer a tensor lies in; memory of a module's own is as good as an input."""
        if in_host_memory(tensor):
            raise UnplannableError("uses host memory")
        self.allocated(tensor)
        self.read(tensor)
        return super().place(tensor)

    def read(self, tensor: torch.Tensor) -> None:
        """Take note that memory is read, which a fused kernel must then have written."""
        identity = tensor.untyped_storage()._cdata
        for one in self.operators:
            if isinstance(one, Fused) and identity in one.made and one is not self._open():
                one.kept.add(identity)

    def _open(self) -> Fused | None:
        last = self.operators[-1] if self.operators else None
        return last if isinstance(last, Fused) and self.fusing else None

    def add(self, operator: Operator, read: Sequence[torch.Tensor], made: Sequence[torch.Tensor]) -> None:
        """Take note of an operator."""
        if len(self.operators) >= MOST_OPERATORS:
            raise UnplannableError(f"calls more than {MOST_OPERATORS} operators")
        for tensor in made:
            self.allocated(tensor)
        if not self.fusing or operator.product is not None:
            # What a product reads was written before it.
            self.operators.append(operator)
            for tensor in read:
                self.read(tensor)
            return
        group = self._open()
        if group is None:
            group = Fused()
            self.operators.append(group)
        for tensor in read:
            identity = tensor.untyped_storage()._cdata
            if identity not in group.made:
                group.reads[identity] = nbytes(tensor)
                self.read(tensor)
        for tensor in made:
            group.last = tensor.untyped_storage()._cdata
            group.made[group.last] = nbytes(tensor)
        group.elements = max(group.elements, operator.elements)


def operator_recorder(machinery: Machinery) -> OperatorRecorder:
    """The recorder of the call that is counted."""
    recorder = machinery.recording()
    assert isinstance(recorder, OperatorRecorder)
    return recorder


class CountingMode(RecordingMode):  # type: ignore[no-untyped-call]
    """Sees every operator that reaches torch's dispatcher, and refuses only what asks for values."""

    recorder: OperatorRecorder

    def _dispatch(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        name = func._schema.name.rpartition("::")[2]
        tensors = [value for value in tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)]
        if tensors and all(map(in_host_memory, tensors)) and kwargs.get("device") is None:
            return func(*args, **kwargs)
        if name == "_local_scalar_dense":
            raise UnplannableError(VALUES)
        if kwargs.get("device") is not None:
            kwargs["device"] = torch.device("meta")
        try:
            result = func(*args, **kwargs)
        except NotImplementedError:
            result = without_values(name, args, kwargs)
        results = [value for value in tree_leaves(result) if isinstance(value, torch.Tensor)]
        if name in SHARED_MEMORY or name in FREE or is_view(func) or name in ALLOCATIONS:
            for tensor in results:
                self.recorder.allocated(tensor)
            return result
        self.recorder.add(described(name, tensors, results), tensors, results)
        return result


class LenientMode(DeviceMode):
    """Turns requests for GPU memory into requests for tensors without memory, and sees attention as one operator."""

    def __init__(self, recorder: OperatorRecorder | None) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name == ATTENTION and self.recorder is not None:
            bound = dict(zip(("query", "key", "value"), args, strict=False)) | dict(kwargs or {})
            with torch._C.DisableTorchFunction(), plain_devices():
                return attended(
                    self.recorder, bound["query"], bound["key"], bound["value"], bool(bound.get("is_causal"))
                )
        if name == "tensor" and args and not isinstance(args[0], torch.Tensor):
            with torch._C.DisableTorchFunction(), plain_devices():
                return torch.tensor(args[0], dtype=(kwargs or {}).get("dtype"), device="cpu").to("meta")
        return super().__torch_function__(func, types, args, kwargs)


def without_values(name: str, args: Any, kwargs: Mapping[str, Any]) -> Any:
    """The result of an operator whose shape depends on values, at its largest.

    Raises:
        UnplannableError: that is not known.
    """
    if name == "bincount":
        least = kwargs.get("minlength") or (args[2] if len(args) > 2 else 0)
        if least:
            return torch.empty(int(least), dtype=torch.int64, device="meta")
    raise UnplannableError(f"calls {name!r}, whose result depends on values")


def nbytes(tensor: torch.Tensor) -> float:
    """Bytes that a tensor's elements take; those that an expanded one repeats count once."""
    return float(min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes()))


def attended(recorder: OperatorRecorder, query: Any, key: Any, value: Any, causal: bool) -> torch.Tensor:
    """Record attention, as a library does it: without keeping the matrix of weights."""
    shape = (*query.shape[:-1], value.shape[-1])
    output = torch.empty(shape, dtype=query.dtype, device="meta")
    batch = query.shape[:-2].numel()
    rows, columns = query.shape[-2], key.shape[-2]
    flops = 2.0 * batch * rows * columns * (query.shape[-1] + value.shape[-1]) * (0.5 if causal else 1.0)
    reads = [query, key, value]
    recorder.add(
        Operator(
            name=ATTENTION, reads=tuple(map(nbytes, reads)), writes=nbytes(output), elements=output.numel(),
            product=(batch, rows, value.shape[-1], columns), bits=min(32, 8 * query.element_size()), flops=flops,
            exact=query.element_size() > 2,
        ),
        reads, [output],
    )  # fmt: skip
    return output


def described(name: str, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> Operator:
    """The bytes that a call of an operator moves, and its arithmetic."""
    written = sum(map(nbytes, outputs))
    reads = [nbytes(tensor) for tensor in inputs]
    elements = float(max([tensor.numel() for tensor in (*inputs, *outputs)], default=0))
    if name in GATHERS:
        reads = [min(one, written) for one in reads]
        elements = float(max([tensor.numel() for tensor in outputs], default=0))
    product = product_of(name, inputs, outputs)
    factor = inputs[-1] if inputs else None
    bits = 32 if factor is None else 8 * min(tensor.element_size() for tensor in inputs[-2:])
    precise = torch.get_float32_matmul_precision() == "highest"
    return Operator(
        name=name, reads=tuple(reads[-2:] if product else reads), writes=written, elements=elements,
        passes=SORT_PASSES if name in SORTS else 1.0, product=product, bits=max(8, min(64, bits)),
        exact=precise and "conv" not in name,
    )  # fmt: skip


def product_of(
    name: str, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]
) -> tuple[int, int, int, int] | None:
    """Batch, rows, columns and length of sums of an operator that multiplies matrices."""
    if name in ("mm", "addmm", "_scaled_mm", "_int_mm", "mv", "addmv", "dot"):
        one, other = inputs[-2:] if name != "_scaled_mm" else inputs[:2]
        columns = other.shape[-1] if other.dim() > 1 else 1
        return 1, one.shape[0] if one.dim() > 1 else 1, columns, one.shape[-1]
    if name in ("bmm", "baddbmm"):
        one, other = inputs[-2:]
        return one.shape[0], one.shape[1], other.shape[2], one.shape[2]
    if name == "convolution":
        weight, out = inputs[1], outputs[0]
        spatial = out.numel() // max(1, out.shape[1])
        transposed = weight.shape[0] != out.shape[1]
        length = inputs[0].shape[1] * weight[0, 0].numel() if transposed else weight[0].numel()
        return 1, spatial, out.shape[1], length
    if name == "convolution_backward":
        weight, out = inputs[2], inputs[0]
        return 2, out.numel() // max(1, out.shape[1]), out.shape[1], weight[0].numel()
    return None
