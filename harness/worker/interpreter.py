"""Interpreter: what Triton's interpreter lacks for a dry run: autotuners' choice, bfloat16 arithmetic, float8 casts.

The interpreter keeps bfloat16 as 16-bit integers and computes with them as such: 1 + 2 is infinite. Here operands are
widened to float32 before an operation, and what it gives is rounded back to the nearest. Its casts to float8 lose the
carry of what is rounded up to the next power of two, and wrap what is too large; torch casts in their place.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from kbench.benchmark.problems.lazy_torch import torch

IN_THE_INTERPRETER = "(in Triton's interpreter)"
"""Follows whatever is found wrong there: the same kernel may behave otherwise on a GPU."""


def make_ready() -> None:
    """Have autotuners take their first configuration, and bfloat16 computed as a GPU does; where Triton is installed.

    Before a kernel is loaded: what it imports from Triton must be this.
    """
    try:
        from triton.runtime import interpreter
        from triton.runtime.autotuner import Autotuner
    except ImportError:
        return
    prune = Autotuner.prune_configs
    # Of those its own hooks leave: timing others needs a GPU.
    Autotuner.prune_configs = lambda self, kwargs: list(prune(self, kwargs))[:1]
    # Arithmetic on bfloat16 goes through float32.
    route_casts(interpreter.InterpreterBuilder, interpreter._ir.ROUNDING_MODE.RTNE)
    route_operations(interpreter.InterpreterBuilder)
    for kind in (interpreter.ReduceOps, interpreter.ScanOps):
        kind.apply_impl = combined(kind.apply_impl)
    interpreter._convert_float = through_torch(interpreter._convert_float, interpreter._ir.ROUNDING_MODE.RTZ)
    interpreter.ASTTransformer.visit_For = with_tensor


def with_tensor(self: ast.NodeTransformer, loop: ast.For) -> ast.AST:
    """A loop over a range, its counter a tensor as on a GPU: assigned to itself, which the interpreter converts."""
    if isinstance(loop.iter, ast.Call) and ast.unparse(loop.iter.func) in ("range", "tl.range"):
        loop.body.insert(0, ast.Assign([loop.target], ast.parse(ast.unparse(loop.target), mode="eval").body))
    return self.generic_visit(loop)


def route_casts(builder: Any, nearest: Any) -> None:
    """Have casts from bfloat16 begin at float32, and casts to it round to the nearest."""
    import triton.language as tl

    real_cast, real_convert = builder.cast_impl, builder.create_fp_to_fp

    def cast(self: Any, source: Any, kind: Any) -> Any:
        if is_narrow(source) and kind.scalar != tl.bfloat16:
            return real_cast(self, widened(source), kind)
        if kind.scalar == tl.bfloat16 and not is_narrow(source):
            return narrowed(real_cast(self, source, tl.float32))
        return real_cast(self, source, kind)

    def convert(self: Any, source: Any, kind: Any, rounding: Any) -> Any:
        wide = source.dtype.scalar in (tl.float16, tl.float32, tl.float64)
        return (
            cast(self, source, kind)
            if kind.scalar == tl.bfloat16 and wide and rounding in (None, nearest)
            else real_convert(self, source, kind, rounding)
        )

    builder.cast_impl, builder.create_fp_to_fp = cast, convert


def route_operations(builder: Any) -> None:
    """Have operations on bfloat16 computed in float32 and rounded."""
    import numpy as np

    real_ternary, real_dot, real_atomic = builder.ternary_op, builder.create_dot, builder.create_atomic_rmw

    def select(self: Any, condition: Any, one: Any, other: Any, operation: Any) -> Any:
        # A choice moves values and computes nothing.
        ternary = real_ternary if operation is np.where else through_float32(real_ternary)
        return ternary(self, condition, one, other, operation)

    def dot(self: Any, one: Any, other: Any, sum: Any, *rest: Any) -> Any:
        product = real_dot(self, widened(one), widened(other), widened(sum), *rest)
        return narrowed(product) if is_narrow(sum) else product

    def refuse_atomic(self: Any, operation: Any, pointer: Any, value: Any, *rest: Any) -> Any:
        if is_narrow(value):
            raise NotImplementedError("atomic operations on bfloat16 are not verified without a GPU")
        return real_atomic(self, operation, pointer, value, *rest)

    builder.ternary_op, builder.create_dot, builder.create_atomic_rmw = select, dot, refuse_atomic
    for name in ("binary_op", "unary_op", "create_fma", "create_rsqrt", "create_erf"):
        setattr(builder, name, through_float32(getattr(builder, name)))


def through_float32(real: Callable[..., Any]) -> Callable[..., Any]:
    """An operation whose bfloat16 operands are widened before it, and whose result is rounded back."""

    def operation(self: Any, *values: Any) -> Any:
        if not any(map(is_narrow, values)):
            return real(self, *values)
        return narrowed(real(self, *map(widened, values)))

    return operation


def combined(real: Callable[..., Any]) -> Callable[..., Any]:
    """A reduction or scan that computes its bfloat16 tensors in float32."""
    import triton.language as tl

    def apply(self: Any, values: Any) -> Any:
        narrow = [is_narrow(value.handle) for value in values]
        if not any(narrow):
            return real(self, values)
        result = real(self, tuple(tensor_of(value, widened(value.handle)) for value in values))
        several = result if isinstance(result, list | tuple) else (result,)
        return [
            tensor_of(value, narrowed(value.handle)) if was and value.handle.dtype.scalar == tl.float32 else value
            for was, value in zip((*narrow, *[False] * len(several)), several, strict=False)
        ]

    return apply


def is_narrow(handle: Any) -> bool:
    """Whether the interpreter holds bfloat16 numbers here."""
    import triton.language as tl

    return getattr(handle, "dtype", None) is not None and handle.dtype.scalar == tl.bfloat16


def widened(handle: Any) -> Any:
    """The numbers in float32, if they are bfloat16."""
    import triton.language as tl

    return dataclasses.replace(handle, data=float32_of(handle.data), dtype=tl.float32) if is_narrow(handle) else handle


def narrowed(handle: Any) -> Any:
    """The numbers rounded to bfloat16."""
    import numpy as np
    import triton.language as tl

    if handle.data.dtype == np.bool_:
        # What a comparison gives.
        return handle
    return dataclasses.replace(handle, data=bfloat16_of(handle.data), dtype=tl.bfloat16)


def tensor_of(value: Any, handle: Any) -> Any:
    """A tensor of another one's shape that holds these numbers."""
    import triton.language as tl

    shape = list(getattr(value.type, "shape", ()))
    return tl.core.tensor(handle, tl.block_type(handle.dtype, shape) if shape else handle.dtype)


def through_torch(real: Callable[..., Any], towards_zero: Any) -> Callable[..., Any]:
    """The interpreter's conversion of bits between number types, with torch's from and to float8.

    What is too large becomes the largest number of the type, as in the GPU's instruction.
    """
    import numpy as np

    kinds = {
        "fp8e4nv": torch.float8_e4m3fn, "fp8e5": torch.float8_e5m2, "bf16": torch.bfloat16, "fp16": torch.float16,
        "fp32": torch.float32, "fp64": torch.float64,
    }  # fmt: skip

    def convert(values: Any, source: Any, kind: Any, rounding: Any) -> Any:
        one, other = kinds.get(source.name), kinds.get(kind.name)
        narrow = {"fp8e4nv", "fp8e5"} & {source.name, kind.name}
        if not narrow or one is None or other is None or rounding == towards_zero:
            return real(values, source, kind, rounding)
        wide = torch.frombuffer(bytearray(values.tobytes()), dtype=one).double()
        if kind.name in narrow:
            wide = wide.clamp(torch.finfo(other).min, torch.finfo(other).max)
        bits = wide.to(other).view(torch.uint8).numpy()
        return bits.view(f"uint{kind.primitive_bitwidth}").reshape(np.shape(values))

    return convert


def float32_of(bits: Any) -> Any:
    """Values of bfloat16 numbers, of which an array holds the bits."""
    import numpy as np

    return (bits.astype(np.uint32) << 16).view(np.float32)


def bfloat16_of(values: Any) -> Any:
    """Bits of the nearest bfloat16 numbers, ties to even."""
    import numpy as np

    bits = np.asarray(values, dtype=np.float32).view(np.uint32)
    rounded = ((bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)


def marked(results: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Results of which every failure says where it was found."""
    return [one | {"error": f"{one['error']} {IN_THE_INTERPRETER}"} if one.get("error") else one for one in results]
