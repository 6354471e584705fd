"""Audit: timed calls whose outputs are verified, and whose time must be the usual one.

call         inputs                                         its time               its output
remaining    what the buffers hold                          counts                 has the bytes of an audited one
ordinary     what the buffers hold                          counts                 is compared with the answer
changed      others, put there without notice               counts                 is compared with the answer
held-out     drawn for this look, seen by no call           counts; must be usual  is compared with the answer
adversarial  a case of the problem, in some sets of buffers does not count         is compared with the answer

Why each: a kernel that leaves work out where nothing seems new leaves it out in ordinary calls; an answer kept by
address is wrong for changed inputs; an answer kept by contents fits no held-out inputs, so the kernel must do its work
then and takes longer; a kernel that tells timed calls from those of its verification must be right on adversarial
inputs here too.

The held-out call comes first in a look, and its inputs are masked in memory before that. Where the harness erases
whatever a kernel could keep, the first look alone has one, and a few kernels share its inputs. The first look has a
call on each adversarial case, or on some where calls are few; later looks have one. Bytes of remaining calls are
compared only where the harness owns the memory. Copies of audited outputs are sealed until they are compared.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
import itertools
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kbench.benchmark.problems.definition import as_tuple
from kbench.harness.bench.context import ProblemContext, check_claims, first_failure
from kbench.harness.bench.reference_inputs import Drawing, ReferenceInputs
from kbench.harness.bench.subject import Subject
from kbench.harness.device.kernels.keyed import Seal, intact
from kbench.harness.timing.batch import Sample
from kbench.harness.timing.rounds import Audit, Candidate, Hooks, adversarial_label, best_samples
from kbench.harness.timing.stamps import disagreement, unseen_us
from kbench.harness.verify import CHANGED, Verdict, erase, misfit, note
from kbench.schemas import InfrastructureError, Status

if TYPE_CHECKING:
    from torch import Tensor

VERIFIED = 2
"""Random inputs a kernel is verified on; the others it first meets in audited calls."""


@dataclasses.dataclass(frozen=True, slots=True)
class Kept:
    """The outputs of an audited call, kept to be judged."""

    reference: ReferenceInputs
    fresh: bool
    """Whether these inputs were drawn for this look: held out."""
    ordinary: bool
    """Whether its buffers held them already."""
    wrong: str | None
    """Why what it returned does not have the declared form."""
    outputs: tuple[Tensor, ...]
    seal: Seal | None = None
    """Shows whether a later call has changed the outputs, where the harness owns the memory that calls use."""


@dataclasses.dataclass(slots=True)
class CallTimes:
    """How long the calls of a kernel took since it began to be timed."""

    fresh_us: list[float] = dataclasses.field(default_factory=list)
    """On held-out inputs."""
    usual_us: list[float] = dataclasses.field(default_factory=list)
    """On others."""
    judged_us: list[float] = dataclasses.field(default_factory=list)
    """Those of them that were judged on what their buffers held."""
    samples: list[Sample] = dataclasses.field(default_factory=list)
    """All of them, without what they left."""


class Shows(enum.Enum):
    """Inputs that judged calls are shown."""

    USUAL = enum.auto()
    """Those that their buffers hold, others, and held-out ones as often as need be."""
    HELD_OUT = enum.auto()
    """The same, with held-out inputs in every look."""
    ORDINARY = enum.auto()
    """Those that their buffers hold, alone."""


class Auditor:
    """Audits the timed calls of the kernels measured together on one problem and size."""

    def __init__(self, context: ProblemContext, verdict: Verdict, *, several: bool = False) -> None:
        """Audit.

        Args:
            context: the problem and size.
            verdict: where failures are recorded.
            several: there are more kernels than one, so errors say which.
        """
        self.context, self.verdict, self.several = context, verdict, several
        self.times: defaultdict[str, CallTimes] = defaultdict(CallTimes)
        """By kernel; calls on adversarial inputs have a label of their own."""
        self.varies: set[str] = set()
        """Kernels of which some call left other bytes than a judged one on the same inputs."""
        self._shows = Shows.USUAL
        self._shown_held_out: set[str] = set()
        """Kernels that were shown held-out inputs since they began to be timed."""
        self._shown_cases: dict[str, set[str | None]] = {}
        """The adversarial cases that each kernel was shown since then."""
        self._subjects: dict[str, Subject] = {}
        self._answers: dict[str, dict[Drawing, int]] = {}
        """Fingerprints of outputs, by kernel and inputs."""

    def candidate(self, label: str, subject: Subject) -> Candidate:
        """A kernel, with calls that can be audited."""
        known = list(self.context.references)
        self._subjects[label], self._answers[label] = subject, {}
        # Verification has judged the calls so far.
        self._compare_fingerprints(label)

        def audits() -> Audit:
            held_out: list[ReferenceInputs] = []
            ordinary = self._shows is Shows.ORDINARY
            turns = itertools.repeat(True) if ordinary else itertools.cycle((True, False))
            # Where everything is restored between calls, nothing that one look shows helps a kernel in the next.
            keeps_nothing = subject.owned and not subject.not_restored
            once = keeps_nothing and self._shows is Shows.USUAL
            if not ordinary and not (once and label in self._shown_held_out):
                del known[len(self.context.references) :]
                held_out = [self._inputs_to_come(shared=once and not self.several)]
                self._shown_held_out.add(label)
            cases = self._cases_to_come(label) if subject.owned and not ordinary else []
            return Audit(
                lambda set_number, choice: self._hooks(subject, set_number, choice, held_out, known, turns),
                [functools.partial(self.adversarial_hooks, label=label, case=case) for case in cases],
            )

        def prepare(set_number: int) -> None:
            for other in self._subjects.values():
                if other is not subject:
                    # Its last outputs answer the same questions.
                    other.erase()
            subject.prepare(set_number)

        owned = (prepare, subject.idle, subject.form) if subject.owned else ()
        return Candidate(label, subject.call, audits, *owned)

    def _cases_to_come(self, label: str) -> list[ReferenceInputs]:
        """The adversarial inputs of a look, in random order: in the first as many as there may be, later one.

        What it has not been shown at all comes first, and then what it was not shown in a timed call.
        """
        cases, back = self.context.kept_cases(), self.context.held_back
        shown = self._shown_cases.setdefault(label, set())
        ordered = sorted(
            random.sample(cases, len(cases)), key=lambda case: (case.drawing.case in shown, case.drawing.case != back)
        )
        return ordered[: 1 if shown else self.room]

    @property
    def room(self) -> int:
        """Calls whose outputs can be kept to be judged together."""
        return max(1, self.context.judge.kept_bytes // max(1, sum(self.context.output_bytes)))

    def _inputs_to_come(self, *, shared: bool) -> ReferenceInputs:
        """The held-out inputs of a look, hidden until a call is shown them: those before it could find them in memory.

        Args:
            shared: other kernels may be shown them too.
        """
        with machines_fault("inputs cannot be drawn"):
            if shared:
                return self.context.held_out_once()
            drawn = self.context.held_out()
        drawn.hide(self.context.device)
        return drawn

    def _hooks(
        self,
        subject: Subject,
        set_number: int,
        choice: int,
        held_out: list[ReferenceInputs],
        known: list[ReferenceInputs],
        turns: Iterator[bool],
    ) -> Hooks:
        """The hooks that are queued before and after a call that is judged.

        Args:
            subject: the kernel.
            set_number: which set of buffers it is called on.
            choice: a random number.
            held_out: not shown yet in this look; they come first, because no kept answer fits them.
            known: what else there is to show.
            turns: whether the next call that is not shown held-out inputs keeps those it has.
        """
        buffers = self.context.sets[set_number]
        shown: list[tuple[ReferenceInputs, bool, bool]] = []

        def before() -> None:
            fresh = bool(held_out)
            if fresh:
                known.append(held_out.pop())
                known[-1].reveal(self.context.device)
            elif buffers.holds is not None and next(turns):
                shown.append((buffers.holds, False, True))
                return
            # Not what the buffers hold: an answer kept by address is wrong then.
            others = known[-1:] if fresh else [inputs for inputs in known if inputs is not buffers.holds]
            shown.append((others[choice % len(others)], fresh, False))
            buffers.fill(shown[-1][0])
            if not subject.owned:
                subject.prepare(set_number)

        def after(returned: Any) -> Kept:
            return self._kept(returned, set_number, *shown[-1], owned=subject.owned)

        return before, after

    def adversarial_hooks(self, set_number: int, label: str, case: ReferenceInputs) -> Hooks:
        """Hooks around a call on adversarial inputs; the next call finds the inputs of before."""
        self._shown_cases.setdefault(label, set()).add(case.drawing.case)
        filled = [self.context.sets[at] for at in (set_number, *self.context.sets_beside(set_number))]
        held: list[ReferenceInputs | None] = []

        def before() -> None:
            held.extend(buffers.holds for buffers in filled)
            for buffers in filled:
                buffers.fill(case)

        def after(returned: Any) -> Kept:
            kept = self._kept(returned, set_number, case, fresh=False, ordinary=False, owned=True)
            for buffers, last in zip(filled, held, strict=True):
                if last is not None:
                    buffers.fill(last)
            held.clear()
            return kept

        return before, after

    def _kept(
        self, returned: Any, set_number: int, inputs: ReferenceInputs, fresh: bool, ordinary: bool, *, owned: bool
    ) -> Kept:
        """Copies of outputs, made in stream order right after the end mark: work still running elsewhere is not in."""
        wrong = misfit(returned, self.context, self.context.sets[set_number])
        outputs = () if wrong else tuple(o.clone() for o in as_tuple(returned))
        seal = self.context.device.seal(outputs) if owned and outputs else None
        return Kept(inputs, fresh, ordinary, wrong, outputs, seal)

    def begin(self) -> None:
        """Forget the times seen so far and what was shown: the kernel is timed afresh."""
        self.times.clear()
        self._shown_held_out.clear()
        self._shown_cases.clear()

    @contextlib.contextmanager
    def showing(self, what: Shows) -> Iterator[None]:
        """Have judged calls shown something else for a while."""
        self._shows = what
        try:
            yield
        finally:
            self._shows = Shows.USUAL

    @property
    def unseen_us(self) -> float:
        """Time that the host waited in a kernel's batches without a stamp for it; the host may have been late."""
        return max((unseen_us(self.times[label].samples) for label in self._subjects), default=0.0)

    def audit(self, samples: Sequence[Sample]) -> bool:
        """Verify the outputs of the audited calls among some samples; False when one was wrong."""
        for sample in samples:
            fresh, times = sample.kept is not None and sample.kept.fresh, self.times[sample.label]
            (times.fresh_us if fresh else times.usual_us).append(sample.time_us)
            if sample.kept is not None and sample.kept.ordinary:
                times.judged_us.append(sample.time_us)
            times.samples.append(dataclasses.replace(sample, kept=None))
        warm_us = [sample.warm_us for sample in samples if sample.warm_us is not None]
        if warm_us:
            why = f"kept the cache from being flushed before a timed call: that took {min(warm_us):.1f} us"
            self.verdict.fail(Status.REJECTED, why)
        if any(sample.tampered for sample in samples):
            self.verdict.fail(Status.REJECTED, "a time stamp of the harness was tampered with")
        # Times on adversarial inputs do not count, and there are few.
        apart = set(map(adversarial_label, self._subjects))
        for label, times in self.times.items():
            reason = None if label in apart else disagreement(best_samples(times.samples, label))
            if reason is not None:
                self.verdict.fail(Status.REJECTED, reason)
        self._audit_outputs([sample for sample in samples if sample.kept is not None])
        claims = [claim for buffers in self.context.sets for claim in buffers.claims()]
        claims += [claim for subject in self._subjects.values() for claim in subject.claims()]
        changed = first_failure(check_claims(self.context.device, claims))
        if changed is not None:
            self.verdict.fail(Status.INCORRECT, f"in a timed call: {changed}")
        changed = self.context.inspected()
        if changed is not None:
            self.verdict.fail(Status.INCORRECT, f"while the reference was timed: {changed}")
        for label in self._subjects:
            self._compare_fingerprints(label)
        return self.verdict.ok

    def _compare_fingerprints(self, label: str) -> None:
        """Notice calls that left other bytes than others on the same inputs.

        One of them was judged: inputs first come up in verification or in an audited call.
        """
        answers = self._answers[label]
        for drawing, value in self._subjects[label].fingerprints():
            if answers.setdefault(drawing, value) != value:
                self.varies.add(label)

    def _audit_outputs(self, audited: Sequence[Sample]) -> None:
        whole: list[Sample] = []
        for sample in audited:
            if sample.kept.wrong is not None:
                where = f"{self.name(sample.label)}in a timed call: "
                self.verdict.fail(Status.INCORRECT, f"{where}{sample.kept.wrong}")
            else:
                whole.append(sample)
        if not intact([s.kept.seal for s in whole if s.kept.seal is not None], self.context.device.seal):
            self.verdict.fail(Status.REJECTED, CHANGED)
        with machines_fault("an answer cannot be computed"):
            comparisons = self.context.compare([(s.kept.reference, s.kept.outputs) for s in whole])
        for sample, comparison in zip(whole, comparisons, strict=True):
            where = f"{self.name(sample.label)}in a timed call: "
            note(self.context, sample.kept.reference, comparison, self.verdict, where)
            erase(self.context, sample.kept.outputs)

    def name(self, label: str) -> str:
        """How an error says which of two kernels it is about."""
        name = next((one for one in self._subjects if label in (one, adversarial_label(one))), label)
        return f"{name}: " if self.several else ""


@contextlib.contextmanager
def machines_fault(what: str) -> Iterator[None]:
    """Say that what fails here is the machine's fault, though a kernel is being timed.

    Raises:
        InfrastructureError: with what was attempted.
    """
    try:
        yield
    except Exception as error:
        raise InfrastructureError(f"{what}: {error}") from error
