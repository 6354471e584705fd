"""ProblemContext: what every kernel of one problem and size shares inside a worker.

Kernels read sets of buffers: guarded on both sides and refilled from reference inputs before a call, so the same
addresses hold different numbers from call to call.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import random
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kbench.benchmark.problems import ProblemDefinition, Size, TensorSpec, problem
from kbench.benchmark.problems.compare import Comparison
from kbench.harness.bench.judge import Answer, Judge, LocalJudge
from kbench.harness.bench.reference_inputs import Drawing, ReferenceInputs, TorchSettings, damaged, nbytes, tensors
from kbench.harness.device.device import Device
from kbench.harness.device.gpu import usable_bytes
from kbench.harness.device.kernels.keyed import Seal, intact
from kbench.harness.device.kernels.same_bytes import Claim

if TYPE_CHECKING:
    from torch import Tensor

GUARD_BYTES = 4096
GUARD_BYTE = 0xA5
SETS, MANY_SETS = 2, 8
"""Sets of input buffers a kernel is called with in turn; many for small inputs."""
SMALL_BYTES = 128 << 20
"""Inputs up to this size get many sets: where few lines lie in memory decides how long a short kernel waits for them,
and a process with only one or two places for them keeps that time until it ends. And of two sets, a kernel could keep
a part in the L2 until their turn comes again: lines that are to be evicted last survive a flush or two."""

DRAWN, ANSWERS = 4, 4
"""Sets of random inputs that lie on the GPU at once, one per seed and those held out; and expected outputs."""
KEPT_CASE_BYTES = 1 << 30
"""Adversarial inputs up to this size are kept for the next kernel."""
CONTEXT_BYTES, CONTEXT_SHARE = 32 << 30, 3 / 8
"""Memory of inputs kept on the GPU between kernels, and the most of all there is that it may be."""
FILLS = 24
"""Tensors filled before a call on adversarial inputs: a driver's launch queue holds about a thousand entries."""
HELD_OUT_KERNELS = 8
"""Kernels that are shown the same held-out inputs, each for the first time."""


class Guarded:
    """A tensor with a known pattern before and after it in memory."""

    def __init__(self, like: Tensor, *, after: bool = True) -> None:
        """Allocate room for a tensor of the same type and shape, with a pattern after it or ending with the block."""
        import torch

        self._bytes = like.numel() * like.element_size()
        padded = (-(-self._bytes // GUARD_BYTES) + 1) * GUARD_BYTES if after else self._bytes
        self._block = torch.full((GUARD_BYTES + padded,), GUARD_BYTE, dtype=torch.uint8, device=like.device)
        inner = self._block[GUARD_BYTES : GUARD_BYTES + self._bytes]
        self.tensor: Tensor = inner.view(like.dtype).view(like.shape)

    def restore(self) -> None:
        """Queue writing the pattern again."""
        for guard in self.guards:
            guard.fill_(GUARD_BYTE)

    @functools.cached_property
    def guards(self) -> tuple[Tensor, Tensor]:
        """The memory before and after the tensor."""
        return self._block[:GUARD_BYTES], self._block[GUARD_BYTES + self._bytes :]

    @property
    def span(self) -> tuple[int, int]:
        """First address of the block, and the one after its last."""
        start = self._block.data_ptr()
        return start, start + self._block.numel()


class Buffers:
    """One set of input buffers."""

    def __init__(self, like: tuple[Any, ...], *, after: bool = True) -> None:
        """Allocate buffers for inputs of this form, with a guard after each or none."""
        self._guarded = [Guarded(v, after=after) if hasattr(v, "data_ptr") else None for v in like]
        self._scalars = [None if g else v for g, v in zip(self._guarded, like, strict=True)]
        self.holds: ReferenceInputs | None = None
        """The inputs that the buffers were filled from."""

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The arguments to call a kernel with: fresh tensor objects, so that none can change the shape of a buffer."""
        return tuple(
            guarded.tensor.view(guarded.tensor.shape) if guarded else scalar
            for guarded, scalar in zip(self._guarded, self._scalars, strict=True)
        )

    @property
    def tensors(self) -> tuple[Any, ...]:
        """The buffers themselves, in the order of the inputs; None where an input is a number."""
        return tuple(guarded.tensor if guarded else None for guarded in self._guarded)

    def reset(self, reference: ReferenceInputs) -> None:
        """Make ready for the next kernel, whatever the last one did to the buffers: fresh inputs, intact guards."""
        for guarded in self._guarded:
            if guarded:
                guarded.restore()
        self.fill(reference)

    def fill(self, reference: ReferenceInputs) -> None:
        """Queue a copy of reference inputs into the buffers."""
        for guarded, value in zip(self._guarded, reference.inputs, strict=True):
            if guarded:
                guarded.tensor.copy_(value)
        self.holds = reference

    def claims(self) -> list[tuple[str, Claim]]:
        """Claims that hold if the buffers are as they were filled, each with what is wrong otherwise."""
        if self.holds is None:
            return []
        pairs = [(g, v) for g, v in zip(self._guarded, self.holds.inputs, strict=True) if g is not None]
        whole: list[tuple[str, Claim]] = [
            (f"tensor input {at} was modified", (guarded.tensor, value.contiguous()))
            for at, (guarded, value) in enumerate(pairs)
        ]
        guards = [guard for guarded, _ in pairs for guard in guarded.guards]
        return whole + [("memory next to an input was overwritten", (guard, GUARD_BYTE)) for guard in guards]

    def shares_memory(self, output: Tensor) -> bool:
        """Whether an output lies in the memory of an input."""
        start = output.data_ptr()
        end = start + output.numel() * output.element_size()
        return any(g is not None and start < g.span[1] and g.span[0] < end for g in self._guarded)


Checks = tuple[list[str], "Tensor"]
"""Flags of claims, as a tensor, each with what is wrong where it is false."""


def check_claims(device: Device, claims: Sequence[tuple[str, Claim]]) -> list[Checks]:
    """Queue checking some claims."""
    return [([what for what, _ in claims], device.same([claim for _, claim in claims]))] if claims else []


def first_failure(checks: Sequence[Checks]) -> str | None:
    """The failure of the first claim that does not hold; None when all do. Waits for the device once."""
    import torch

    if not checks:
        return None
    held = torch.cat([flags for _, flags in checks]).tolist()
    reasons = itertools.chain.from_iterable(what for what, _ in checks)
    return next((what for what, fine in zip(reasons, held, strict=True) if not fine), None)


@dataclasses.dataclass(slots=True)
class ProblemContext:
    """Inputs, judge and anchor of one problem and size on one device."""

    definition: ProblemDefinition
    size: Size
    device: Device
    seeds: tuple[int, ...]
    settings: TorchSettings = contextlib.nullcontext
    """How torch is to be set for whatever is not the kernel."""
    judge: Judge = dataclasses.field(default_factory=LocalJudge)
    """Knows the answers."""
    references: list[ReferenceInputs] = dataclasses.field(default_factory=list)
    """Drawn at random, one per seed."""
    sets: list[Buffers] = dataclasses.field(default_factory=list)
    anchor_us: float | None = None
    """Steady time of the PyTorch reference; None until it has been warmed up."""
    case_drawings: list[Drawing] = dataclasses.field(default_factory=list)
    """Which adversarial inputs kernels are shown."""
    held_back: str | None = None
    """The adversarial case that verification leaves to the timed calls of the next kernel: one that keeps notes of what
    it was shown must not know all cases by then."""
    _cases: dict[str, ReferenceInputs] = dataclasses.field(default_factory=dict)
    _inspected: list[tuple[Checks, Seal]] = dataclasses.field(default_factory=list)
    """Checks of the inputs before some calls of the reference."""
    _foreseen: Drawing | None = None
    """Held-out inputs whose answer is being computed."""
    _shared: ReferenceInputs | None = None
    """Held-out inputs for several kernels, hidden from each until it is shown them."""
    _shared_seal: Seal | None = None
    """Of what lies in memory while they are hidden."""
    _shared_left: int = 0
    """Kernels that are yet to be shown them."""
    _expected: bool = False

    def __post_init__(self) -> None:
        """Draw inputs and allocate the sets of buffers, while their answers are computed elsewhere."""
        self.case_drawings = case_drawings(self.definition, self.size, self.seeds[0])
        self.judge.foresee(self.definition, self.size, [*map(Drawing, self.seeds), *self.case_drawings])
        self.references = [self._draw(Drawing(seed), sealed=True) for seed in self.seeds]
        form = self.references[0].inputs
        count = MANY_SETS if nbytes(form) <= SMALL_BYTES else SETS
        self.sets = [Buffers(form, after=not self.device.fenced) for _ in range(count)]

    def _draw(self, drawing: Drawing, *, sealed: bool) -> ReferenceInputs:
        place = self.device.torch_name
        sums = self.device.sums if sealed else None
        return ReferenceInputs(self.definition, self.size, drawing, place, sums=sums, settings=self.settings)

    def sets_beside(self, set_number: int) -> list[int]:
        """Other sets of buffers in which to put what a call on one of them is shown, as many as chance has it.

        Ordinary inputs lie in all sets, others in one: a kernel that counts them must learn nothing.
        """
        others = [at for at in range(len(self.sets)) if at != set_number]
        most = max(1, FILLS // max(1, len(tensors(self.references[0].inputs))) - 1)
        return random.sample(others, random.randint(0, min(most, len(others))))

    def held_out(self, *, sealed: bool = False) -> ReferenceInputs:
        """Inputs that no call has seen: from a seed of their own."""
        drawing, self._foreseen = self._foreseen or held_out_drawing(), None
        return self._draw(drawing, sealed=sealed)

    def held_out_once(self) -> ReferenceInputs:
        """Hidden inputs that no call of the next kernel has seen, as long as it is shown them once.

        Kernels that can leave nothing for one another get the same: drawing inputs and computing their answers takes
        longer than a look at most kernels.
        """
        seals = [] if self._shared_seal is None else [self._shared_seal]
        if self._shared is None or self._shared_left == 0 or not intact(seals, self.device.seal):
            self._shared, self._shared_left = self.held_out(sealed=True), HELD_OUT_KERNELS
            self.hide_held_out()
        self._shared_left -= 1
        return self._shared

    def hide_held_out(self) -> None:
        """Queue hiding what the next kernel may be shown; no buffer holds it any more. Look for damage before that."""
        for buffers in self.sets:
            if buffers.holds is not None and buffers.holds is self._shared:
                buffers.fill(self.references[0])
        if self._shared is not None and not self._shared.hidden and tensors(self._shared.inputs):
            self._shared.hide(self.device)
            self._shared_seal = self.device.seal(tensors(self._shared.inputs))

    def foresee_held_out(self) -> None:
        """Have the answer to the next held-out inputs computed meanwhile, where that can be; they are drawn later."""
        if self._shared_left > 0:
            return
        self._foreseen = held_out_drawing()
        self.judge.foresee(self.definition, self.size, [self._foreseen])

    def adversarial(self) -> Iterator[ReferenceInputs]:
        """Adversarial inputs, of one case after another; small ones are kept for the next kernel."""
        for drawing in self.case_drawings:
            inputs = self._cases.get(str(drawing.case))
            if inputs is None:
                inputs = self._draw(drawing, sealed=True)
                if inputs.nbytes <= KEPT_CASE_BYTES:
                    self._cases[str(drawing.case)] = inputs
            yield inputs

    def kept_cases(self) -> list[ReferenceInputs]:
        """The adversarial inputs at hand."""
        return list(self._cases.values())

    def expect(self) -> None:
        """Have the answers to the random inputs ready; a judge that has dropped them since makes them again."""
        if not self._expected:
            self.judge.expect(self.definition, self.size, self.references)
            self._expected = True

    def compare(self, answers: Sequence[Answer]) -> list[Comparison]:
        """Whether each answer is correct."""
        return self.judge.compare(self.definition, self.size, answers)

    def reset(self) -> None:
        """Make ready for the next kernel, whatever the last one left."""
        self._inspected.clear()
        self.hide_held_out()
        for buffers in self.sets:
            buffers.reset(self.references[0])

    def hold_back(self) -> None:
        """Choose what verification leaves to timed calls."""
        mixed = [str(drawing.case) for drawing in self.case_drawings if self.definition.case(str(drawing.case)).mixed]
        self.held_back = random.choice(mixed) if len(mixed) > 1 else None

    def inspect(self, set_number: int) -> None:
        """Queue looking whether a set of buffers holds what it should: the reference's answers are not judged."""
        for check in check_claims(self.device, self.sets[set_number].claims()):
            self._inspected.append((check, self.device.seal([check[1]])))

    def inspected(self) -> str | None:
        """Damage to the inputs of the reference since the last time; None when there was none."""
        checks, seals = [check for check, _ in self._inspected], [seal for _, seal in self._inspected]
        self._inspected.clear()
        if not intact(seals, self.device.seal):
            return "what was found of inputs was changed"
        return first_failure(checks)

    def reference(self, set_number: int) -> Any:
        """Call the PyTorch reference on a set of input buffers."""
        with self.settings():
            return self.definition.reference(*self.sets[set_number].inputs)

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """The declared outputs."""
        return self.definition.outputs(self.size.params)

    @property
    def output_bytes(self) -> list[int]:
        """Size of each output."""
        return [spec.nbytes for spec in self.outputs]

    def corrupted(self) -> str | None:
        """Which part of which reference inputs no longer has the bytes it was made with; None when all do.

        Of all inputs that outlive a kernel, but for those that are hidden.
        """
        shared = [] if self._shared is None or self._shared.hidden else [self._shared]
        return damaged([*self.references, *self._cases.values(), *shared], self.device.sums)

    @property
    def nbytes(self) -> int:
        """Device memory held."""
        kept = [*self.references, *self._cases.values(), *([] if self._shared is None else [self._shared])]
        held = sum(reference.nbytes for reference in kept)
        return held + nbytes(self.references[0].inputs) * len(self.sets)


def held_out_drawing(case: str | None = None) -> Drawing:
    """A drawing that nobody can foresee."""
    return Drawing(random.SystemRandom().getrandbits(62), case)


def case_drawings(definition: ProblemDefinition, size: Size, seed: int) -> list[Drawing]:
    """The adversarial inputs that a worker shows kernels of a problem and size: every mixed case, and declared ones.

    On the tiny size those are all of them. Of a timed size, some that the mixed cases have parts of are left out by
    chance, so that there are no more calls than declared cases.
    """
    mixed = [held_out_drawing(case.name) for case in definition.every_case if case.mixed]
    declared = [case for case in definition.cases if not case.mixed]
    shown = [case.name for case in declared if case.unit is None]
    rest = [case.name for case in declared if case.unit is not None]
    if size.name != definition.tiny.name:
        rest = random.SystemRandom().sample(
            rest, min(len(rest), max(1, len(definition.cases) - len(mixed) - len(shown)))
        )
    return [*(Drawing(seed, name) for name in (*shown, *rest)), *mixed]


def device_bytes(definition: ProblemDefinition, size: Size) -> int:
    """About how much memory measuring a workload takes: inputs and outputs in all their copies, and the answers.

    What the reference allocates in between is not known before it runs, and not counted.
    """
    inputs = [spec for spec in definition.inputs(size.params) if isinstance(spec, TensorSpec)]
    outputs = definition.outputs(size.params)
    read, written = (sum(spec.nbytes for spec in specs) for specs in (inputs, outputs))
    kept_cases = len(definition.every_case) if read <= KEPT_CASE_BYTES else min(1, len(definition.cases))
    upcast = 8 * sum(spec.numel for spec in inputs)
    answers = 8 * sum(spec.numel for spec in outputs) * ANSWERS
    return read * (DRAWN + SETS + kept_cases) + written * 2 * SETS + upcast + answers


def context_bytes(limit_bytes: int | None) -> int:
    """GPU memory for the inputs kept between kernels, where all processes together may use so much; None for all."""
    return min(CONTEXT_BYTES, int(CONTEXT_SHARE * usable_bytes(limit_bytes)))


class ContextCache:
    """The contexts used last, within a memory budget."""

    def __init__(self, device: Device, budget_bytes: int, seeds: tuple[int, ...], judge: Judge | None = None) -> None:
        """Keep contexts on a device, drawn from these seeds, until they exceed the budget."""
        self.device, self.budget_bytes, self.seeds = device, budget_bytes, seeds
        self.judge = judge if judge is not None else LocalJudge()
        self.settings: TorchSettings = contextlib.nullcontext
        """How torch is to be set for whatever is not a kernel; contexts made before follow."""
        self._held: OrderedDict[tuple[str, str], ProblemContext] = OrderedDict()

    def get(self, problem_id: str, size: Size) -> ProblemContext:
        """The context of a problem and size, made on first use or when its bytes were damaged since."""
        key = (problem_id, size.name)
        context = self._held.pop(key, None)
        if context is not None and context.corrupted() is not None:
            context = None
        if context is None:
            self._make_room(device_bytes(problem(problem_id), size))
            settings: TorchSettings = lambda: self.settings()  # noqa: E731 - it must follow what is set later
            context = ProblemContext(problem(problem_id), size, self.device, self.seeds, settings, self.judge)
        context.reset()
        context.hold_back()
        self._held[key] = context
        return context

    def keep_only(self, context: ProblemContext) -> None:
        """Forget every other context and give the memory back."""
        self._held = OrderedDict((key, held) for key, held in self._held.items() if held is context)
        self.device.release()

    def drop(self) -> None:
        """Forget every context and give the memory back."""
        self._held.clear()
        self.device.release()

    def _make_room(self, needed_bytes: int) -> None:
        before = len(self._held)
        while self._held and sum(c.nbytes for c in self._held.values()) + needed_bytes > self.budget_bytes:
            self._held.popitem(last=False)
        if len(self._held) < before:
            # What torch keeps for itself is cut to the sizes of other tensors.
            self.device.release()
