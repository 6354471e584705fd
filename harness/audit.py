"""Audit: timed calls on inputs changed unannounced, whose answers are judged, and whose time must be the usual one.

Each look at a kernel has a stranger among the inputs to show: drawn for that look alone, so that no kept answer fits. A
kernel that keeps answers by what its inputs hold must do its work then, and takes longer than in the other calls.
"""

from __future__ import annotations

import dataclasses
import random
import statistics
import weakref
from collections.abc import Callable, MutableSet, Sequence
from typing import TYPE_CHECKING, Any

from kbench.benchmark.problems.definition import as_tuple
from kbench.harness.context import ProblemContext
from kbench.harness.loading import LoadedKernel
from kbench.harness.master import Master
from kbench.harness.timing.batch import Sample, Sampler
from kbench.harness.timing.rounds import AUDITS, Audit, Candidate, Hooks, Plan, make_slots
from kbench.harness.verify import Verdict, erase, judge_answer, misfit
from kbench.schemas import Status

if TYPE_CHECKING:
    from torch import Tensor

VERIFIED = (0, 1)
"""Masters a kernel is verified on; the others it first meets in audited calls."""
SLOWER, SLOWER_US = 1.25, 2.0
"""A kernel is suspected when its fastest call on strangers takes longer than others at their best, by both of these."""
LOOKS, ROUNDS = 6, 5
"""Looks that confirm or clear a suspicion, and their rounds."""


@dataclasses.dataclass(frozen=True, slots=True)
class Kept:
    """What an audited call left to be judged."""

    master: Master
    fresh: bool
    """The kernel had not been shown these inputs before."""
    wrong: str | None
    """Why what it returned has not the declared form."""
    outputs: tuple[Tensor, ...]


class Auditor:
    """Audits the timed calls of the kernels measured together on one problem and size."""

    def __init__(
        self,
        context: ProblemContext,
        verdict: Verdict,
        *,
        late: bool = False,
        tampered: Callable[[], str | None] | None = None,
    ) -> None:
        """Audit.

        Args:
            context: the problem and size.
            verdict: where failures are recorded.
            late: answers must not stay in memory while the kernel runs.
            tampered: for unscreened kernels, says what they have replaced.
        """
        self.context, self.verdict, self.late, self.tampered = context, verdict, late, tampered
        self._fresh_us: dict[str, list[float]] = {}
        self._usual_us: dict[str, list[float]] = {}
        self._strangers = 1
        """Drawn for each look."""

    def candidate(self, label: str, loaded: LoadedKernel) -> Candidate:
        """A kernel, with calls that can be audited."""
        stages = self.context.stages
        shown = weakref.WeakSet(self.context.masters[at] for at in VERIFIED)

        def call(stage: int) -> Any:
            return loaded.run(*stages[stage].inputs)

        def audits() -> Audit:
            choices = [*self.context.masters, *(self.context.stranger() for _ in range(self._strangers))]
            return lambda stage, choice: self._show(stage, lambda held: pick(choices, held, shown, choice))

        return Candidate(label, call, audits)

    def _show(self, at: int, choose: Callable[[Master | None], tuple[Master, bool]]) -> Hooks:
        """Hooks of a call that is shown other inputs.

        Args:
            at: the buffers it is called on.
            choose: given what they hold, says what to show and whether the kernel has not seen it.
        """
        stage, chosen = self.context.stages[at], list[tuple[Master, bool]]()

        def before() -> None:
            chosen.append(choose(stage.holds))
            stage.fill(chosen[-1][0])
            for nbytes in self.context.output_bytes:
                self.context.device.poison(nbytes)

        def after(returned: Any) -> Kept:
            wrong = misfit(returned, self.context, stage)
            # Copied in stream order right behind the end mark: work still running elsewhere is not in the copy.
            return Kept(*chosen[-1], wrong, () if wrong else tuple(o.clone() for o in as_tuple(returned)))

        return before, after

    def judge(self, samples: Sequence[Sample]) -> bool:
        """Judge the audited calls among some samples; False when one was wrong."""
        what = self.tampered() if self.tampered is not None else None
        if what is not None:
            self.verdict.fail(Status.REJECTED, f"tampered with its surroundings: {what}")
            return False
        for sample in samples:
            fresh = sample.kept is not None and sample.kept.fresh
            (self._fresh_us if fresh else self._usual_us).setdefault(sample.label, []).append(sample.time_us)
        self._judge_kept([sample.kept for sample in samples if sample.kept is not None])
        for at, stage in enumerate(self.context.stages):
            changed = stage.changed()
            if changed is not None:
                self.verdict.fail(Status.INCORRECT, f"in a timed call on buffer set {at}: {changed}")
        if self.late:
            self.context.forget_answers()
        return self.verdict.ok

    def _judge_kept(self, found: Sequence[Kept]) -> None:
        for kept in found:
            if kept.wrong is not None:
                self.verdict.fail(Status.INCORRECT, f"in a timed call: {kept.wrong}")
            elif not judge_answer(self.context, kept.master, kept.outputs, self.verdict, "in a timed call: "):
                break
            else:
                erase(self.context, kept.outputs)
        for kept in found:
            if kept.master not in self.context.masters:
                kept.master.forget_answer()

    def confirm(self, candidate: Candidate, sampler: Sampler, rng: random.Random) -> None:
        """Reject a kernel that takes longer on inputs it has not been shown.

        A suspicion from its rounds, where few calls are on strangers, is followed by more rounds of the same kind, with
        more of them: an answer that is kept where anything out of the ordinary destroys it is kept there, too.
        """
        if not self._suspicious(candidate.label):
            return
        usual = statistics.median(self._usual_us[candidate.label])
        chosen = Plan(6 if usual < 1_000.0 else 3 if usual < 20_000.0 else 1, 0, (ROUNDS,))
        self._strangers = AUDITS
        for look in range(LOOKS):
            rounds = range(ROUNDS * look, ROUNDS * (look + 1))
            if not self.judge(sampler.run(make_slots([candidate], self.context, rounds, chosen, rng))):
                return
        self._strangers = 1
        if self._suspicious(candidate.label):
            spent, best = min(self._fresh_us[candidate.label]), at_best(self._usual_us[candidate.label])
            said = f"takes {spent:.1f} us on inputs it has not been shown and {best:.1f} us on others"
            self.verdict.fail(Status.REJECTED, f"{said}: it keeps answers")

    def _suspicious(self, label: str) -> bool:
        return suspicious(self._fresh_us.get(label, []), self._usual_us.get(label, []))


def pick(choices: Sequence[Master], held: Master | None, shown: MutableSet[Master], choice: int) -> tuple[Master, bool]:
    """Never what the buffers hold, and first what the kernel has not been shown: a kept answer is wrong there."""
    others = [master for master in choices if master is not held]
    unseen = [master for master in others if master not in shown]
    chosen = (unseen or others)[choice % len(unseen or others)]
    shown.add(chosen)
    return chosen, bool(unseen)


def suspicious(fresh_us: Sequence[float], usual_us: Sequence[float]) -> bool:
    """Whether even the fastest of some calls took longer than others do at their best."""
    return bool(fresh_us and usual_us) and min(fresh_us) > SLOWER * at_best(usual_us) + SLOWER_US


def at_best(times_us: Sequence[float]) -> float:
    """The time that a quarter of some calls do not exceed: answers may be kept for but some of the inputs."""
    return sorted(times_us)[len(times_us) // 4]
