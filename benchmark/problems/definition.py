"""ProblemDefinition: everything that makes a problem runnable; its record for files is kbench.schemas.Problem."""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import textwrap
from collections.abc import Callable
from typing import Any

from kbench.benchmark.problems.adversarial.cases import InputCase
from kbench.benchmark.problems.adversarial.changes import end_values
from kbench.benchmark.problems.adversarial.mixed import mixed_cases
from kbench.benchmark.problems.inputs import InputSpec, Params, TensorSpec, draw
from kbench.benchmark.problems.lazy_torch import Tensor, torch
from kbench.schemas import Problem, UnknownNameError, Workload

CASE_MISMATCH_SHARE = 1e-4
"""Elements of an adversarial case that may miss its tolerance; a mistake the case is made for shows in far more."""
EDGE_SHARE, EDGE_FACTOR = 1e-5, 4.0
"""Elements that may miss any tolerance by up to this factor. Of millions of sums in another order a few lie a little
beyond what holds for the others; no work is saved by being right on all but so few, and nearly right on those."""
COMPUTE_UNITS = ("fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp64")


@dataclasses.dataclass(frozen=True, slots=True)
class Tolerance:
    """What counts as right: |out - expected| <= atol + rtol * |expected|, for all but `mismatch_share` of elements.

    Those may hold anything; `edge_share` of elements may miss by no more than EDGE_FACTOR. Shares are of many draws.
    One draw may hold more by chance, so three standard deviations are added to its count.
    """

    atol: float
    rtol: float
    reason: str
    mismatch_share: float = 0.0
    unjudged: tuple[str, ...] = ()
    """Outputs that may hold anything."""
    edge_share: float = EDGE_SHARE

    @property
    def rule(self) -> str:
        """The bound as people write it."""
        return f"|out - expected| <= {self.atol:g} + {self.rtol:g} * |expected|"

    def mismatches(self, numel: int) -> int:
        """How many of an output's elements may hold anything."""
        return _count(self.mismatch_share, numel)

    def edges(self, numel: int) -> int:
        """How many more may miss by a little."""
        return _count(self.edge_share, numel)


def _count(share: float, numel: int) -> int:
    usual = share * numel
    return math.floor(usual + 3 * math.sqrt(usual)) if usual >= 1 else 0


@dataclasses.dataclass(frozen=True, slots=True)
class Size:
    """A named set of shape parameters."""

    name: str
    params: Params
    model: str | None = None
    """The layer of a model that has this shape, such as `Llama-3-8B MLP up projection, batch 16`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProblemDefinition:
    """One problem. `reference` is what users would write in PyTorch; kernels get the same inputs in the same order."""

    id: str
    title: str
    family: str
    description: str
    reference: Callable[..., Any]
    """reference(*inputs) -> output tensor or tuple of them."""
    inputs: Callable[[Params], tuple[InputSpec, ...]]
    outputs: Callable[[Params], tuple[TensorSpec, ...]]
    flops: Callable[[Params], int]
    sizes: tuple[Size, ...]
    """One to three timed sizes."""
    tiny: Size
    """For CPU checks and interpreters; never timed."""
    tolerance: Tolerance
    compute_unit: str = "fp32"
    min_bytes: Callable[[Params], int] | None = None
    """Override where a kernel need not touch every input byte; by default inputs and outputs once each."""
    oracle: Callable[..., Any] | None = None
    """High-precision answer; by default the reference on inputs upcast to float64."""
    aliases: tuple[str, ...] = ()
    seed: int = 0
    cases: tuple[InputCase, ...] = ()
    """Adversarial inputs beside the drawn ones, on which a kernel must be right too; none unless declared, because
    each is a promise of the specification."""
    ends: bool | None = None
    """Whether a kernel must be right on the largest and on subnormal numbers; unless stated, where it only moves
    values, because arithmetic overflows and flushes there."""
    init_inputs: Callable[[], Any] | None = None
    """What models are made with, in the file of a user's problem; a kernel in KernelBench's form leaves it out."""
    _every_case: list[InputCase] = dataclasses.field(default_factory=list, init=False, repr=False, compare=False)
    """All cases once they were asked for: whoever compares an answer looks one up."""

    def size(self, name: str) -> Size:
        """The size with this name, `tiny` included."""
        for size in (*self.sizes, self.tiny):
            if size.name == name:
                return size
        raise UnknownNameError(f"workload of problem {self.id!r}", name, [s.name for s in (*self.sizes, self.tiny)])

    def draw(self, size: Size, seed: int, device: str = "cpu") -> tuple[Tensor | int | float, ...]:
        """Fresh inputs for a size."""
        return draw(self.inputs(size.params), seed, device)

    @property
    def every_case(self) -> tuple[InputCase, ...]:
        """The declared adversarial cases, and the mixed ones that follow from them."""
        if not self._every_case:
            specs = [spec for spec in self.inputs(self.tiny.params) if isinstance(spec, TensorSpec)]
            floats = [spec.name for spec in specs if "float" in spec.dtype]
            ends = [InputCase("ends", "", dict.fromkeys(floats, end_values), unit=0)] if self.judges_ends else []
            self._every_case.extend((*self.cases, *mixed_cases([*self.cases, *ends])))
        return tuple(self._every_case)

    @property
    def judges_ends(self) -> bool:
        """Whether numbers at the ends of their type are among those of mixed cases."""
        if self.ends is not None:
            return self.ends
        exact = self.tolerance.atol == self.tolerance.rtol == 0.0
        return bool(self.cases) and exact and self.flops(self.tiny.params) == 0

    def case(self, name: str) -> InputCase:
        """The adversarial case with this name, declared or mixed."""
        cases = {case.name: case for case in self.every_case}
        if name not in cases:
            raise UnknownNameError(f"input case of problem {self.id!r}", name, list(cases))
        return cases[name]

    def draw_case(
        self, case: InputCase, size: Size, seed: int, device: str = "cpu"
    ) -> tuple[Tensor | int | float, ...]:
        """Fresh adversarial inputs for a size: same shapes, dtypes and layout as `draw` gives."""
        return case.draw(self.inputs(size.params), seed, device)

    def tolerance_of(self, case: InputCase) -> Tolerance:
        """What counts as correct on a case."""
        own = self.tolerance
        # Among millions of adversarial values a few meet the worst rounding of an honest formula. Where few parts of an
        # input are adversarial, the mistakes they find may be as few: there none is far off by chance.
        share = own.mismatch_share if case.mixed else max(own.mismatch_share, CASE_MISMATCH_SHARE)
        return dataclasses.replace(
            own,
            atol=own.atol * case.atol_scale,
            rtol=own.rtol * case.rtol_scale,
            mismatch_share=0.0 if case.strict else share,
            edge_share=0.0 if case.strict else CASE_MISMATCH_SHARE,
            unjudged=case.unjudged,
        )

    def expected(self, inputs: tuple[Any, ...]) -> tuple[Tensor, ...]:
        """The high-precision answer: float outputs in float64, others as they are."""
        if self.oracle is not None:
            return as_tuple(self.oracle(*inputs))
        return as_tuple(self.reference(*(upcast(value) for value in inputs)))

    def count_bytes(self, params: Params) -> int:
        """Fewest bytes any correct kernel moves through device memory."""
        if self.min_bytes is not None:
            return self.min_bytes(params)
        tensors = [s for s in self.inputs(params) if isinstance(s, TensorSpec)]
        return sum(s.nbytes for s in (*tensors, *self.outputs(params)))

    def workload(self, size: Size) -> Workload:
        """The size as a record."""
        return Workload(
            name=size.name,
            params_json=json.dumps(dict(size.params), sort_keys=True),
            inputs=tuple(map(str, self.inputs(size.params))),
            outputs=tuple(map(str, self.outputs(size.params))),
            seed=self.seed,
            flops=self.flops(size.params),
            min_bytes=self.count_bytes(size.params),
        )

    def reference_source(self) -> str:
        """Source text of the reference."""
        return textwrap.dedent(inspect.getsource(self.reference))

    def prompt(self) -> str:
        """The problem as told to a kernel writer or a forecaster.

        Plain text: what is computed, the signature of `run`, sizes, tolerance and the PyTorch reference.
        """
        names = ", ".join(spec.name for spec in self.inputs(self.tiny.params))
        lines = [f"{self.title} ({self.id})", "", self.description.strip(), "", f"Signature: run({names})", ""]
        for size in self.sizes:
            work = self.workload(size)
            lines += [
                f"Workload {size.name}" + (f" ({size.model}):" if size.model else ":"),
                *(f"  in  {text}" for text in work.inputs),
                *(f"  out {text}" for text in work.outputs),
                f"  at least {work.flops:,} operations and {work.min_bytes:,} bytes of device memory traffic",
            ]
        lines += ["", f"Tolerance: {self.tolerance.rule} ({self.tolerance.reason})", "", "PyTorch reference:"]
        return "\n".join([*lines, self.reference_source().rstrip()]) + "\n"

    def adversarial(self) -> str:
        """Which adversarial inputs a kernel is shown, and what is not judged."""
        lines = [f"  {case.name}: {case.stresses}" for case in self.every_case]
        kinds = {s.dtype for s in self.inputs(self.tiny.params) if isinstance(s, TensorSpec) and "float" in s.dtype}
        judged = "are judged" if self.judges_ends else "are not judged, nor are answers that overflow"
        ends = [f"  The largest and the subnormal numbers of {kind} {judged}." for kind in sorted(kinds)]
        return "\n".join(["Adversarial inputs:", *(lines or ["  none"]), *ends]) + "\n"

    def record(self) -> Problem:
        """The problem as a record."""
        specs = self.inputs(self.tiny.params)
        return Problem(
            problem_id=self.id,
            title=self.title,
            family=self.family,
            description=self.description,
            aliases=self.aliases,
            dtypes=tuple(sorted({s.dtype for s in specs if isinstance(s, TensorSpec)})),
            compute_unit=self.compute_unit,
            atol=self.tolerance.atol,
            rtol=self.tolerance.rtol,
            mismatch_share=self.tolerance.mismatch_share,
            tolerance_reason=self.tolerance.reason,
            reference_source=self.reference_source(),
            prompt=self.prompt(),
            workloads=tuple(self.workload(size) for size in self.sizes),
            tiny=self.workload(self.tiny),
        )


def as_tuple(outputs: Any) -> tuple[Tensor, ...]:
    """A single tensor as a tuple of one."""
    return tuple(outputs) if isinstance(outputs, tuple | list) else (outputs,)


def upcast(value: Any) -> Any:
    """A floating tensor in float64; anything else as it is."""
    return value.to(torch.float64) if hasattr(value, "is_floating_point") and value.is_floating_point() else value
