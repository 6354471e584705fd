"""Check a problem on its tiny size on the CPU: the reference runs, is right, and its tolerance has teeth."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Iterator
from typing import Any

from kbench.benchmark.problems.adversarial.cases import InputCase
from kbench.benchmark.problems.compare import Comparison, compare
from kbench.benchmark.problems.definition import ProblemDefinition, as_tuple
from kbench.benchmark.problems.inputs import TensorSpec
from kbench.benchmark.problems.lazy_torch import Tensor, torch
from kbench.schemas import MissingDependencyError

MEMORY_LIMIT_BYTES = 8 << 30
"""Inputs and outputs of one workload together stay below this."""
SEEDS = (0, 1)
CASE_SEEDS = 4
"""More than for drawn inputs: on some seeds a case's answer is plain, as of rows that are sorted already."""


@dataclasses.dataclass(frozen=True, slots=True)
class CheckResult:
    """What was found wrong with a problem; nothing when `failures` is empty."""

    problem_id: str
    failures: tuple[str, ...]
    max_abs_error: float | None
    seconds: float
    tolerance: str
    """What counts as correct, and why."""

    @property
    def ok(self) -> bool:
        """Whether nothing was found wrong."""
        return not self.failures


def check(problem: ProblemDefinition, seed: int = 0) -> CheckResult:
    """Run every check on the tiny size; an exception of the reference is a failure with its message.

    Raises:
        MissingDependencyError: torch is not installed.
    """
    start = time.monotonic()
    failures: list[str] = []
    error: float | None = None
    try:
        with plain_cpu():
            answers = {seed: _Answer.of(problem, seed) for seed in SEEDS}
            for answer in answers.values():
                failures.extend(answer.failures(problem))
            one, other = answers.values()
            for a, b, spec in zip(one.expected, other.expected, one.specs, strict=False):
                if a.shape == b.shape and torch.equal(a, b):
                    failures.append(f"output {spec.name!r} is the same for two seeds")
            # On every seed: nothing is verified on one seed alone.
            failures.extend(f"tolerance accepts the {name} answer" for name in sorted(one.passed & other.passed))
            for case in problem.every_case:
                failures.extend(f"case {case.name!r}: {failure}" for failure in case_failures(problem, case, seed))
            errors = [one.verdict.max_abs_error for one in answers.values() if one.verdict]
            error = max((one for one in errors if one is not None), default=None)
    except MissingDependencyError:
        # Without torch nothing was checked: that is no finding about the problem.
        raise
    except Exception as caught:  # noqa: BLE001 - the reference may be a user's code; whatever it raises is the finding
        failures.append(f"raised {type(caught).__name__}: {first_line(caught)}")
    for size in problem.sizes:
        total = resident_bytes(problem, size.params)
        if total >= MEMORY_LIMIT_BYTES:
            failures.append(f"workload {size.name!r} holds {total / 2**30:.1f} GiB, the limit is 8")
    tolerance = f"tolerance {problem.tolerance.rule} ({problem.tolerance.reason})"
    return CheckResult(problem.id, tuple(dict.fromkeys(failures)), error, time.monotonic() - start, tolerance)


@contextlib.contextmanager
def plain_cpu() -> Iterator[None]:
    """Torch's own CPU loops: its accelerated ones warn on processors without bfloat16 instructions."""
    before = torch.backends.mkldnn.enabled
    torch.backends.mkldnn.set_flags(False)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        torch.backends.mkldnn.set_flags(before)  # type: ignore[no-untyped-call]


def first_line(error: BaseException) -> str:
    """First line of an exception's message, or its type where it has none."""
    return str(error).strip().split("\n")[0] or type(error).__name__


def output_failures(outputs: Any, specs: tuple[TensorSpec, ...], device: str) -> Iterator[str]:
    """Where outputs differ in number, kind, device, shape or dtype from what is declared."""
    got = as_tuple(outputs)
    if len(got) != len(specs):
        yield f"reference returns {len(got)} outputs, {len(specs)} are declared"
        return
    for value, spec in zip(got, specs, strict=True):
        if not isinstance(value, torch.Tensor):
            yield f"output {spec.name!r} is a {type(value).__name__}, not a tensor"
        elif value.device.type != torch.device(device).type:
            yield f"output {spec.name!r} is on device {value.device.type!r}, its inputs are on {device!r}"
        elif tuple(value.shape) != spec.shape:
            yield f"output {spec.name!r} has shape {list(value.shape)}, declared {list(spec.shape)}"
        elif str(value.dtype) != f"torch.{spec.dtype}":
            yield f"output {spec.name!r} has dtype {str(value.dtype).removeprefix('torch.')}, declared {spec.dtype}"


@dataclasses.dataclass(frozen=True, slots=True)
class _Answer:
    """A reference's answer for one seed, beside the expected one."""

    outputs: Any
    expected: tuple[Tensor, ...]
    specs: tuple[TensorSpec, ...]
    misfits: list[str]
    verdict: Comparison | None
    """None where outputs are not what is declared."""
    passed: frozenset[str]
    """Cheating answers that the tolerance lets pass."""

    @classmethod
    def of(cls, problem: ProblemDefinition, seed: int) -> _Answer:
        inputs = problem.draw(problem.tiny, seed)
        outputs, expected = problem.reference(*inputs), problem.expected(inputs)
        specs, tolerance = problem.outputs(problem.tiny.params), problem.tolerance
        misfits = list(output_failures(outputs, specs, "cpu"))
        if misfits:
            return cls(outputs, expected, specs, misfits, None, frozenset())
        cheating = cheats(inputs, expected, specs).items()
        passed = frozenset(name for name, answer in cheating if compare(answer, expected, tolerance, specs).ok)
        return cls(outputs, expected, specs, misfits, compare(outputs, expected, tolerance, specs), passed)

    def failures(self, problem: ProblemDefinition) -> Iterator[str]:
        yield from self.misfits
        if self.verdict is None:
            return
        if not self.verdict.ok:
            hint = "; a PROBLEM of your own can state a Tolerance with mismatch_share"
            own = hint if problem.family == "user" else ""
            yield f"reference misses the high-precision answer: {self.verdict.reason}{own}"
        for value, spec in zip(as_tuple(self.outputs), self.specs, strict=True):
            if not bool(torch.isfinite(value.to(torch.float64)).all()):
                yield f"output {spec.name!r} holds NaN or Inf"
            if spec.numel > 1 and not spread(value) > 0:
                yield f"output {spec.name!r} is constant"


def spread(value: Tensor) -> float:
    """Standard deviation over the root mean square: 0 for a constant, 1 for values centred on zero."""
    wide = value.to(torch.float64)
    size = float(wide.square().mean().sqrt())
    return float(wide.std(correction=0)) / size if size else 0.0


def case_failures(problem: ProblemDefinition, case: InputCase, seed: int = 0) -> Iterator[str]:
    """Why a case, of this seed and the next ones, is unfair to honest kernels or kind to prepared answers."""
    specs, tolerance = problem.outputs(problem.tiny.params), problem.tolerance_of(case)
    drawn = {at: problem.draw_case(case, problem.tiny, at) for at in range(seed, seed + CASE_SEEDS)}
    expected = [problem.expected(inputs) for inputs in drawn.values()]
    for (at, inputs), answer in zip(drawn.items(), expected, strict=True):
        verdict = compare(problem.reference(*inputs), answer, tolerance, specs)
        if not verdict.ok:
            yield f"reference misses the high-precision answer of seed {at}: {verdict.reason}"
    answers = [cheats(inputs, answer, specs) for inputs, answer in zip(drawn.values(), expected, strict=True)]
    for name in answers[0]:
        if all(compare(a[name], e, tolerance, specs).ok for a, e in zip(answers, expected, strict=True)):
            yield f"tolerance accepts the {name} answer"
    rounded = tuple(value.to(getattr(torch, spec.dtype)) for value, spec in zip(expected[0], specs, strict=True))
    # A mixed case is judged with the tolerance of its adversarial minority, which the ordinary rest may not exceed.
    if not case.mixed and compare(rounded, expected[1], tolerance, specs).ok:
        yield "tolerance accepts the answer of another seed"
    for value, spec in zip(rounded, specs, strict=True):
        if float(torch.isfinite(value.double()).double().mean()) < 0.5:
            yield f"most of output {spec.name!r} overflows and is not judged"


def cheats(inputs: tuple[Any, ...], expected: tuple[Tensor, ...], specs: tuple[TensorSpec, ...]) -> dict[str, Any]:
    """Answers by name that no tolerance may accept: a constant, zero, and the inputs handed back."""
    means = [float(value.to(torch.float64).mean()) if len(value.shape) else 1.0 for value in expected]
    return {
        "constant": tuple(_filled(spec, mean) for spec, mean in zip(specs, means, strict=True)),
        "zero": tuple(_filled(spec, 0.0) for spec in specs),
        "passthrough": tuple(_borrowed(spec, inputs) for spec in specs),
    }


def _filled(spec: TensorSpec, value: float) -> Tensor:
    return torch.full(spec.shape, value, dtype=torch.float64).to(getattr(torch, spec.dtype))


def _borrowed(spec: TensorSpec, inputs: tuple[Any, ...]) -> Tensor:
    """The input of the output's shape, else the first elements of an input, repeated where it is too short."""
    tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
    same = [value for value in tensors if tuple(value.shape) == spec.shape]
    source = (same or tensors)[0].to(torch.float64).reshape(-1)
    repeated = source.repeat(math.ceil(spec.numel / source.numel()))[: spec.numel]
    return repeated.reshape(spec.shape).to(getattr(torch, spec.dtype))


def resident_bytes(problem: ProblemDefinition, params: Any) -> int:
    """Bytes of all inputs and outputs of a workload."""
    tensors = [spec for spec in problem.inputs(params) if isinstance(spec, TensorSpec)]
    return sum(spec.nbytes for spec in (*tensors, *problem.outputs(params)))
