"""Verify: is the answer correct, complete and repeatable, and did the kernel write nothing else?"""

from __future__ import annotations

import contextlib
import dataclasses
import random
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kbench.benchmark.problems.compare import Comparison, compare
from kbench.benchmark.problems.definition import as_tuple
from kbench.harness.bench.context import SETS, Buffers, Checks, ProblemContext, check_claims, first_failure
from kbench.harness.bench.judge import Answer
from kbench.harness.bench.reference_inputs import ReferenceInputs
from kbench.harness.bench.subject import Subject
from kbench.harness.device.driver import DriverError
from kbench.harness.device.kernels.keyed import Seal, intact
from kbench.harness.device.kernels.same_bytes import same_bytes
from kbench.schemas import Status

if TYPE_CHECKING:
    from torch import Tensor


ALIKE = 2
"""The calls, on equal inputs, that find the same byte everywhere in memory. Later ones find what timed calls find: a
kernel that could tell those apart might be right on adversarial inputs in verification alone."""
UNAIDED = 2
"""The call that finds variables as the call before it left them. Where a kernel is used, nobody fills its memory or
resets its variables."""
CHANGED = "changed, in a later call, what an earlier one had left to be judged"
UNAIDED_CALL = "in the call that finds other bytes in memory and its variables as it left them: "


@dataclasses.dataclass(slots=True)
class Verdict:
    """The verdict of verification: a status with its reason, and the largest errors."""

    status: Status = Status.OK
    reason: str | None = None
    max_abs_error: float | None = None
    max_rel_error: float | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return self.status is Status.OK

    def fail(self, status: Status, reason: str) -> Verdict:
        """Record the first failure; later ones do not replace it."""
        if self.ok:
            self.status, self.reason = status, reason
        return self

    def note_errors(self, max_abs: float | None, max_rel: float | None) -> None:
        """Keep the largest errors seen."""
        if max_abs is not None:
            self.max_abs_error = max(max_abs, self.max_abs_error or 0.0)
        if max_rel is not None:
            self.max_rel_error = max(max_rel, self.max_rel_error or 0.0)


def verify(
    subject: Subject, context: ProblemContext, verdict: Verdict, references: Sequence[ReferenceInputs]
) -> Verdict:
    """Call a kernel on several inputs, the first of them twice, and judge what it returns.

    Args:
        subject: the kernel.
        context: the problem and size.
        verdict: where failures and errors are recorded.
        references: the inputs, at least one.
    """
    answers: list[Answer] = []
    for turn, reference in enumerate((references[0], *references)):
        # Two sets for three calls: the third finds other numbers at the addresses of the first.
        outputs = call(subject, context, turn % SETS, reference, verdict)
        if outputs is None:
            return verdict
        answers.append((reference, outputs))
    for reference, outputs in answers:
        verify_answer(context, reference, outputs, verdict)
    verify_repeat(context, answers, verdict)
    return verdict


def erase(context: ProblemContext, outputs: Iterable[Tensor]) -> None:
    """Overwrite answers that were judged, so that no later call finds them in memory it receives."""
    for output in outputs:
        context.device.erase(output)


def call(
    subject: Subject, context: ProblemContext, set_number: int, reference: ReferenceInputs, verdict: Verdict
) -> tuple[Tensor, ...] | None:
    """One call on fresh inputs into poisoned memory; its outputs when they have the declared form."""
    buffers = context.sets[set_number]
    buffers.fill(reference)
    subject.prepare(set_number)
    context.device.flush()
    returned = subject.call(set_number)
    context.device.synchronize()
    wrong = misfit(returned, context, buffers) or first_failure(check_claims(context.device, buffers.claims()))
    if wrong is not None:
        verdict.fail(Status.INCORRECT, wrong)
        return None
    return as_tuple(returned)


def verify_together(
    subject: Subject, context: ProblemContext, verdict: Verdict, references: Sequence[ReferenceInputs]
) -> Verdict:
    """Verify a kernel whose memory the harness owns: all calls are queued, waited for once, and judged together.

    Args:
        subject: the kernel.
        context: the problem and size.
        verdict: where failures and errors are recorded.
        references: the inputs; the kernel is called twice on the first of them.
    """
    answers: list[Answer] = []
    try:
        _verify_together(subject, context, verdict, references, answers)
    except BaseException:
        # What went wrong says more than that memory of a broken context cannot be overwritten.
        with contextlib.suppress(DriverError):
            erase(context, (output for _, outputs in answers for output in outputs))
        raise
    erase(context, (output for _, outputs in answers for output in outputs))
    return verdict


def _verify_together(
    subject: Subject,
    context: ProblemContext,
    verdict: Verdict,
    references: Sequence[ReferenceInputs],
    answers: list[Answer],
) -> Verdict:
    checks: list[Checks] = []
    seals: list[Seal] = []
    for turn, reference in enumerate((references[0], *references)):
        # The third call finds other numbers at addresses seen before; later ones come anywhere, as timed ones do, and
        # like theirs their inputs lie in other sets too.
        set_number = turn % SETS if turn <= UNAIDED else random.randrange(len(context.sets))
        filled = [set_number, *(context.sets_beside(set_number) if turn > UNAIDED else ())]
        buffers = context.sets[set_number]
        # In the order of timed calls, the flush included: a kernel must not tell one from the other by its caches.
        subject.prepare(set_number, poison=turn < ALIKE, restore=turn != UNAIDED)
        for at in filled:
            context.sets[at].fill(reference)
        context.device.flush()
        outputs = subject.call(set_number)
        answers.append((reference, tuple(output.clone() for output in outputs)))
        claimed = check_claims(context.device, [*buffers.claims(), *subject.claims()])
        checks += claimed
        seals.append(context.device.seal([*answers[-1][1], *(flags for _, flags in claimed)]))
    wrong = first_failure(checks)
    if wrong is not None:
        return verdict.fail(Status.INCORRECT, wrong)
    # After the first waiting, which shows what a kernel broke.
    if not intact(seals, context.device.seal):
        return verdict.fail(Status.REJECTED, CHANGED)
    verify_repeat(context, answers, verdict)
    # The first too, although the second was compared with it: nothing is judged where it holds no number.
    for turn, ((reference, _), comparison) in enumerate(zip(answers, context.compare(answers), strict=True)):
        # On adversarial inputs, which come up here alone, the inputs are the likelier cause.
        unaided = turn == UNAIDED and reference.drawing.case is None
        note(context, reference, comparison, verdict, UNAIDED_CALL if unaided else "")
    return verdict


def misfit(returned: Any, context: ProblemContext, buffers: Buffers) -> str | None:
    """Why what was returned is not the declared outputs in memory of their own; None when it is."""
    import torch

    specs = context.outputs
    if not isinstance(returned, torch.Tensor | tuple | list):
        return f"returned a {type(returned).__name__}, expected a tensor or a tuple of tensors"
    outputs = as_tuple(returned)
    if len(outputs) != len(specs):
        return f"returned {len(outputs)} outputs, expected {len(specs)}"
    for output, spec in zip(outputs, specs, strict=True):
        # A subclass may compute lazily, after the clock has stopped.
        if type(output) is not torch.Tensor:
            return f"output {spec.name!r} is a {type(output).__name__}, expected a plain tensor"
        if str(output.device) != context.device.torch_name:
            return f"output {spec.name!r} is on {output.device}, expected {context.device.torch_name}"
        if tuple(output.shape) != spec.shape or str(output.dtype) != f"torch.{spec.dtype}":
            have = f"{str(output.dtype).removeprefix('torch.')}{list(output.shape)}"
            return f"output {spec.name!r} is {have}, expected {spec.dtype}{list(spec.shape)}"
        if not output.is_contiguous():
            return f"output {spec.name!r} is not contiguous (strides {list(output.stride())})"
        if buffers.shares_memory(output):
            return f"output {spec.name!r} lies in the memory of an input"
    pointers = [output.data_ptr() for output in outputs if output.numel()]
    if len(set(pointers)) != len(pointers):
        return "two outputs share memory"
    return None


def verify_answer(
    context: ProblemContext, reference: ReferenceInputs, outputs: tuple[Tensor, ...], verdict: Verdict
) -> bool:
    """Compare outputs with the expected ones; False when they are wrong."""
    (comparison,) = context.compare([(reference, outputs)])
    return note(context, reference, comparison, verdict)


def note(
    context: ProblemContext, reference: ReferenceInputs, comparison: Comparison, verdict: Verdict, where: str = ""
) -> bool:
    """Record a comparison; False when the outputs are wrong."""
    case = reference.drawing.case
    if case is None:
        verdict.note_errors(comparison.max_abs_error, comparison.max_rel_error)
    if not comparison.ok:
        on = "" if case is None else f" on adversarial inputs {case!r} of seed {reference.drawing.seed}"
        verdict.fail(Status.INCORRECT, f"{where}{context.size.name}{on}: {comparison.reason}")
    return comparison.ok


def verify_repeat(context: ProblemContext, answers: Sequence[Answer], verdict: Verdict) -> None:
    """The first two calls, on equal inputs, must agree: bit for bit, or at least within the tolerance of these."""
    (reference, first), (_, second) = answers[:2]
    # By their bytes: NaN equals itself.
    if all(bool(same_bytes([pair])[0]) for pair in zip(first, second, strict=True)):
        return
    comparison = compare(second, first, reference.drawing.tolerance(context.definition), context.outputs)
    if comparison.ok:
        return
    verdict.status = Status.NONDETERMINISTIC
    verdict.reason = f"{context.size.name}: two calls on equal inputs differ: {comparison.reason}"
