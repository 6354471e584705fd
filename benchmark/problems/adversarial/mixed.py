"""Mixed cases: a random minority of an input is adversarial at unknown places, and the rest is as drawn.

A kernel can look at a sample of its inputs, see that nothing unusual is there, and skip what only unusual inputs need.
Where all rows are adversarial, one element tells. Here no sample does: places, and how many there are, follow a seed
that is drawn for the measurement. Every problem has such cases, made of its own.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Mapping, Sequence

from kbench.benchmark.problems.adversarial.cases import InputCase
from kbench.benchmark.problems.adversarial.changes import Change
from kbench.benchmark.problems.lazy_torch import Tensor, torch

LARGEST_SCALE = 128.0
"""Cases whose absolute tolerance is further from the problem's are mixed apart: it would hide the mistakes that the
other ones find."""
MOST = 1 / 16
"""Share of an input that is adversarial at most, and as often far less: where mistakes show, few places suffice."""
SPANS = (1, 2, 4, 8, 16)
"""Neighbours inside a row that are adversarial together."""
TEXTS = {
    "mixed_rows": "A few unusual rows or blocks among ordinary ones find shortcuts that a sample of rows allows.",
    "mixed_spans": "A few unusual numbers inside ordinary rows find shortcuts that a sample of numbers allows.",
    "mixed_large": "A few far larger rows or numbers among ordinary ones find magnitudes guessed from a sample.",
}


def mixed_cases(cases: Sequence[InputCase]) -> tuple[InputCase, ...]:
    """The mixed cases that follow from a problem's own; none where no part of an input may be replaced."""
    kinds = [case for case in cases if case.unit is not None and not case.unjudged]
    near = [case for case in kinds if case.atol_scale <= LARGEST_SCALE]
    far = [case for case in kinds if case.atol_scale > LARGEST_SCALE]
    within = [case for case in near or far if case.unit == 0]
    mixed = (
        _mixed("mixed_rows", near or far, spans=False),
        _mixed("mixed_spans", within, spans=True),
        _mixed("mixed_large", far if near else [], spans=None),
    )
    return tuple(case for case in mixed if case is not None)


def _mixed(name: str, kinds: Sequence[InputCase], *, spans: bool | None) -> InputCase | None:
    """A case that mixes some kinds, in rows, in spans inside rows, or in either by the seed."""
    if not kinds:
        return None
    units = {kind.name: kind.unit or 0 for kind in kinds}
    inputs = list(dict.fromkeys(name for kind in kinds for name in kind.changes))
    # Where parts of several inputs meet, their magnitudes multiply.
    scales = [
        max(1.0, *(kind.atol_scale for kind in kinds if next(iter(kind.changes)) == each), 0.0) for each in inputs
    ]
    return InputCase(
        name,
        TEXTS[name],
        {
            each: _spliced({k.name: k.changes[each] for k in kinds if each in k.changes}, units, spans)
            for each in inputs
        },
        # Ordinary rows are judged too, so that no tolerance is tighter than theirs.
        atol_scale=math.prod(scales),
        rtol_scale=max(1.0, *(kind.rtol_scale for kind in kinds)),
        mixed=True,
    )


def _spliced(changes: Mapping[str, Change], units: Mapping[str, int], spans: bool | None) -> Change:
    """Replaces parts of an input by what changes, by kind, make of them.

    Inputs of one shape are replaced at the same places: what a case does to several of them belongs together.
    """

    def change(generator: torch.Generator, x: Tensor) -> Tensor:
        # Eight-bit floats know no indexing.
        raw = x.view(torch.uint8) if x.is_floating_point() and x.itemsize == 1 else x
        flat = raw.reshape(-1)
        result = flat.clone()
        for kind, places, unit in _places(generator.initial_seed(), tuple(x.shape), units, spans, x.device):
            if kind in changes and places.numel():
                # As many dimensions as the whole, so that a change finds those it is about.
                shape = (places.shape[0], *(1 for _ in range(x.dim() - len(unit) - 1)), *unit)
                part = flat[places].view(x.dtype).view(shape)
                replaced = changes[kind](generator, part).to(x.dtype).contiguous()
                result[places] = replaced.view(raw.dtype).view(places.shape)
        return result.view(x.dtype).view(x.shape)

    return change


def _places(
    seed: int, shape: tuple[int, ...], units: Mapping[str, int], spans: bool | None, device: torch.device
) -> list[tuple[str, Tensor, tuple[int, ...]]]:
    """By kind: the places of its parts, a row each, in an input of this shape, and the shape of a part."""
    digest = hashlib.sha256(f"{seed}:{shape}".encode()).digest()
    rng = random.Random(digest)
    generator = torch.Generator(device=device)
    generator.manual_seed(int.from_bytes(digest[:8], "big") >> 1)
    whole = max(units.values())
    inside = rng.random() < 0.5 if spans is None else spans
    if inside and whole == 0:
        unit: tuple[int, ...] = (min(rng.choice(SPANS), max(1, shape[-1] // 4)),)
    else:
        unit = _row(shape, whole, rng)
    # A line of the last dimension, or of all of them where a part has several, holds so many parts and a rest.
    line = max(shape[-1], math.prod(unit))
    per_line, rest = divmod(line, math.prod(unit))
    slots = math.prod(shape) // line * per_line
    # Of a handful of rows, most stay ordinary all the same.
    names = rng.sample(sorted(units), len(units))[: max(1, slots // 4)]
    most = max(1.0, MOST * slots / len(names))
    count = len(names) * round(math.exp(rng.uniform(0.0, math.log(most))))
    drawn = torch.unique(torch.randint(slots, (2 * count,), generator=generator, device=device))
    chosen = drawn[torch.rand(drawn.shape, generator=generator, device=device).argsort(stable=True)[:count]]
    first = chosen // per_line * line + chosen % per_line * math.prod(unit) + rng.randint(0, rest)
    parts = first[:, None] + torch.arange(math.prod(unit), device=device)
    return [(name, parts[at :: len(names)], unit) for at, name in enumerate(names)]


def _row(shape: tuple[int, ...], whole: int, rng: random.Random) -> tuple[int, ...]:
    """The trailing dimensions of a row or block: at least so many, and few enough that most stay ordinary."""
    trailing = range(max(1, whole), len(shape))
    several = [t for t in trailing if math.prod(shape[:-t]) >= 4] or [max(1, whole)]
    unit = shape[-rng.choice(several) :]
    # A vector has no rows.
    return unit if len(shape) > len(unit) or whole else (max(1, shape[-1] // 64),)
