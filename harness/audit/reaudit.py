"""Reaudit: a kernel that may have left work out, or kept answers, is called again before it is believed.

One whose outputs vary has a whole look of ordinary calls judged, because comparing bytes says nothing about it, and
none of its calls may take less than half the median. One whose calls do not all take about as long is called on
adversarial inputs again, many times: it may take a shortcut in some calls that is wrong on those alone. One that takes
longer on held-out inputs must do so no more when it meets many, and one that takes longer in judged calls, when many
are. One whose calls are longer in coming than without it has hidden work between them, and if they come sooner, it has
kept the harness from preparing them.
"""

from __future__ import annotations

import dataclasses
import random
import statistics
from collections.abc import Mapping, Sequence

from kbench.harness.audit.audit import Auditor, CallTimes, Shows
from kbench.harness.timing.batch import Sampler, Slot
from kbench.harness.timing.rounds import Candidate, RoundPlan, adversarial_label, best_samples, calling, make_slots
from kbench.harness.timing.stamps import LEAD_SHARE, LEAD_US, gap_us, leads_us
from kbench.schemas import Status

SLOWER, SLOWER_US = 1.12, 2.0
"""A kernel is suspected when its fastest call on held-out inputs takes longer than others at best, by both. Of the
calls of 2,507 honest measurements in the dataset 0.3 % are longer by chance."""
JUDGED, JUDGED_US = 1.06, 1.0
"""The same for calls that are judged on what their buffers hold, like any other: 0.4 % of those measurements have
another look."""
SLOWER_ON_CPU = 2.0
"""The factor on a CPU, whose caches hold other things after inputs were drawn."""
MUCH_FASTER = 0.5
"""A call below this share of the median leaves work out, where comparing bytes cannot show it."""
LOOKS, ROUNDS = 30, 5
"""Most looks that confirm a suspicion, and their rounds. Where buffers lie in memory changes the time of some kernels,
by 16 % for one of the dataset: with fewer looks, all calls on held-out inputs may meet the slow places by chance."""
LONG_US, LONG_LOOKS = 5_000.0, 10
"""Kernels that take longer than this have fewer looks."""
UNEVEN, FEWEST = 1.08, 5
"""Times are uneven when a fifth of them are longer than the shortest, by this factor and SLOWER_US; of fewer nothing is
said. Of honest kernels' times one in a hundred is."""
IDLE_TURNS = 3
"""Times that an empty kernel in the kernel's place follows itself and every other, and is followed by it, which shows
how long preparing a call takes."""
MANY_TIMES, AGAIN_US = 30, 1e6
"""Calls on each adversarial case after that, and the device time they may take."""


@dataclasses.dataclass(frozen=True, slots=True)
class Reaudit:
    """A kernel that was timed, and what it takes to call it again."""

    auditor: Auditor
    candidate: Candidate
    sampler: Sampler
    rng: random.Random
    others: Sequence[Candidate] = ()
    """Candidates that are called in the same batches."""
    clocks: dict[str, float] = dataclasses.field(default_factory=dict)
    """How far the clocks are apart."""

    def run(self) -> None:
        """Audit again as far as there is reason to; the auditor's verdict says what was found."""
        verdict = self.auditor.verdict
        self.clocks["gap_us"] = gap_us(best_samples(self._times.samples, self.candidate.label)) or 0.0
        if verdict.ok and self._is_gpu:
            self.refuse_longer_judged_calls()
        if verdict.ok and self.candidate.label in self.auditor.varies:
            self.refuse_short_calls()
            self.audit_ordinary_calls()
        if verdict.ok and self._is_gpu and self.candidate.idle is not None:
            self.refuse_displaced_work()
        if verdict.ok and self.uneven:
            self.audit_adversarial_calls()
        if verdict.ok and self.suspicious:
            self.confirm_times()

    def refuse_longer_judged_calls(self) -> None:
        """Refuse a kernel that takes longer in calls that are judged: it can tell, and leaves work out in others."""
        if not suspicious(self._times.judged_us, self._times.usual_us, JUDGED, JUDGED_US):
            return
        before_us = [*self._times.usual_us]
        calls = min(calls_per_round(before_us), max(1, self.auditor.room // ROUNDS))
        with self.auditor.showing(Shows.ORDINARY):
            self._look(range(ROUNDS), RoundPlan(calls, 0, (ROUNDS,), audited=0.5))
        judged_us = self._times.judged_us
        # A GPU that has become slower since, by its power limit, slows every call of this look. So would a kernel that
        # notices the look, up to the larger factor.
        others_us = self._times.usual_us[len(before_us) :]
        confirmed = suspicious(judged_us, others_us, JUDGED, JUDGED_US) or suspicious(judged_us, before_us)
        if self.auditor.verdict.ok and confirmed and suspicious(judged_us, before_us, JUDGED, JUDGED_US):
            why = f"takes {min(judged_us):.1f} us in calls that are judged and {at_best(before_us):.1f} us in others"
            self._reject(f"{why}: it can tell")

    def refuse_short_calls(self) -> None:
        """Refuse a kernel with calls that are much faster than its others: the mean of few rounds follows one."""
        times_us = self._counted_us
        usual, least = statistics.median(times_us), min(times_us)
        if self._is_gpu and least < MUCH_FASTER * usual:
            why = f"takes {usual:.1f} us and in some calls {least:.1f} us, with other outputs"
            self._reject(f"{why}: it leaves work out")

    def refuse_displaced_work(self) -> None:
        """Refuse a kernel when more or less time passes around its calls than around an empty kernel in its place."""
        samples = [sample for times in self.auditor.times.values() for sample in times.samples]
        taken = leads_us(samples, self.candidate.label)
        reason = self._displaced(taken, self._usual_leads_us()) if taken else None
        # What is usual was perhaps taken long ago.
        reason = reason and self._displaced(taken, self._usual_leads_us(again=True))
        if reason is not None:
            self._reject(reason)

    def _displaced(self, taken: Mapping[tuple[str, str], float], usual: Mapping[tuple[str, str], float]) -> str | None:
        """Where more or less time passes than usual; None where it does not."""
        for (before, after), taken_us in taken.items():
            usual_us = usual.get((before, after), taken_us)
            self.clocks[f"{before} to {after}"], self.clocks[f"{before} to {after}, idle"] = taken_us, usual_us
            if abs(taken_us - usual_us) > LEAD_SHARE * usual_us + LEAD_US:
                where = "time passes where none is measured" if taken_us > usual_us else "its calls are not prepared"
                return f"{taken_us:.0f} us pass from {before} to {after} and {usual_us:.0f} us without it: {where}"
        return None

    def _usual_leads_us(self, *, again: bool = False) -> Mapping[tuple[str, str], float]:
        """The time around calls of an empty kernel in the kernel's place, as if they were the kernel's.

        Taken once for all kernels that are prepared alike: none of their machine code runs meanwhile.
        """
        context, label = self.auditor.context, self.candidate.label
        beside = [(other.label, other.form) for other in self.others]
        alike = (context.definition.id, context.size.name, label, self.candidate.form, *beside)
        if again or alike not in self.sampler.leads_us:
            assert self.candidate.idle is not None
            empty = dataclasses.replace(self.candidate, call=self.candidate.idle)
            order = [one for other in self.others for one in (empty, other) * IDLE_TURNS] + [empty] * (IDLE_TURNS + 1)
            slots = [calling(one, context, at % len(context.sets), 0) for at, one in enumerate(order)]
            self.sampler.leads_us[alike] = leads_us(self.sampler.run(slots), label, fewest=1)
            # How long an empty kernel takes is not about the kernel.
            self.sampler.forget(label)
        return self.sampler.leads_us[alike]

    def audit_ordinary_calls(self) -> None:
        """Judge every call of a look in which nothing is new to the kernel.

        Sums in an order that changes are no reason to refuse a kernel; calls that leave work out are.
        """
        calls = min(calls_per_round(self._times.usual_us), max(1, self.auditor.room // ROUNDS))
        with self.auditor.showing(Shows.ORDINARY):
            self._look(range(ROUNDS), RoundPlan(calls, 0, (ROUNDS,), audited=1.0))

    def audit_adversarial_calls(self) -> None:
        """Judge many calls on adversarial inputs, wherever they lie: a shortcut that some calls take shows there."""
        context, label = self.auditor.context, self.candidate.label
        cases = context.kept_cases()
        renamed = dataclasses.replace(self.candidate, label=adversarial_label(label))
        look_us = len(cases) * statistics.median(self._times.usual_us)
        for number in range(max(1, min(MANY_TIMES, int(AGAIN_US / look_us))) if cases else 0):
            slots: list[Slot] = []
            for case in self.rng.sample(cases, min(len(cases), self.auditor.room)):
                set_number = self.rng.randrange(len(context.sets))
                slots.append(calling(renamed, context, set_number, number))
                slots[-1].before, slots[-1].after = self.auditor.adversarial_hooks(set_number, label, case)
            if not self.auditor.audit(self.sampler.run(slots)):
                return

    def confirm_times(self) -> None:
        """Reject a kernel that takes longer on inputs it has not been shown.

        A suspicion from its rounds, where one call is on held-out inputs, is followed by more looks of the same kind,
        with others in each: an answer that is kept where anything out of the ordinary destroys it is kept there too.
        """
        before = [*self._times.usual_us]
        chosen = RoundPlan(calls_per_round(before), 0, (ROUNDS,))
        for look in range(LOOKS if statistics.median(before) < LONG_US else LONG_LOOKS):
            with self.auditor.showing(Shows.HELD_OUT):
                if not self._look(range(ROUNDS * look, ROUNDS * (look + 1)), chosen):
                    return
            fresh, after = self._times.fresh_us, self._times.usual_us
            # A kernel that notices these rounds may do its work in all of them, so what it took before counts too. On a
            # CPU other processes may have slowed them.
            noticed = self._is_gpu and self._slower(fresh, before)
            if not (noticed or self._slower(fresh, after)):
                return
        spent, best = min(fresh), min(at_best(before), at_best(after))
        why = f"takes {spent:.1f} us on inputs it has not been shown and {best:.1f} us on others"
        self._reject(f"{why}: it keeps answers")

    @property
    def uneven(self) -> bool:
        """Whether its calls do not all take about as long, where they cannot have kept anything."""
        return self._is_gpu and self.candidate.prepare is not None and uneven(self._counted_us)

    @property
    def suspicious(self) -> bool:
        """Whether it took longer on held-out inputs than on others."""
        return self._slower(self._times.fresh_us, self._times.usual_us)

    @property
    def _times(self) -> CallTimes:
        return self.auditor.times[self.candidate.label]

    @property
    def _counted_us(self) -> list[float]:
        """Times of the calls that its own is computed from: some take longer because the host was late."""
        return [sample.time_us for sample in best_samples(self._times.samples, self.candidate.label)]

    @property
    def _is_gpu(self) -> bool:
        return self.auditor.context.device.is_gpu

    def _slower(self, fresh_us: Sequence[float], usual_us: Sequence[float]) -> bool:
        return suspicious(fresh_us, usual_us, SLOWER if self._is_gpu else SLOWER_ON_CPU)

    def _look(self, rounds: range, chosen: RoundPlan) -> bool:
        slots = make_slots([self.candidate], self.auditor.context, rounds, chosen, self.rng)
        return self.auditor.audit(self.sampler.run(slots))

    def _reject(self, reason: str) -> None:
        self.auditor.verdict.fail(Status.REJECTED, f"{self.auditor.name(self.candidate.label)}{reason}")


def calls_per_round(times_us: Sequence[float]) -> int:
    """Calls of a kernel in each round of a further look; a slow one must not run into its timeout."""
    usual = statistics.median(times_us)
    return 6 if usual < 1_000.0 else 3 if usual < 20_000.0 else 1


def suspicious(
    some_us: Sequence[float], usual_us: Sequence[float], factor: float = SLOWER, more_us: float = SLOWER_US
) -> bool:
    """Whether even the fastest of some calls took longer than others do at their best."""
    return bool(some_us and usual_us) and min(some_us) > factor * at_best(usual_us) + more_us


def uneven(times_us: Sequence[float]) -> bool:
    """Whether a fifth of some calls took longer than the fastest, by UNEVEN and SLOWER_US."""
    ordered = sorted(times_us)
    return len(ordered) >= FEWEST and ordered[len(ordered) * 4 // 5] > UNEVEN * ordered[0] + SLOWER_US


def at_best(times_us: Sequence[float]) -> float:
    """The time that a quarter of some calls do not exceed, or their geometric mean, if less.

    Answers may be kept for only some calls; a few very fast ones pull down the mean, which is what is recorded.
    """
    return min(sorted(times_us)[len(times_us) // 4], statistics.geometric_mean(times_us))
