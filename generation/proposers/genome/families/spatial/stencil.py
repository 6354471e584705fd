"""Stencils: a cell per thread, tiles, and tiles that march along the slowest axis."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

from kbench.generation.proposers.genome.families.spatial.form import AXES, nest
from kbench.generation.proposers.genome.family import Genome
from kbench.generation.proposers.genome.templated import pick, shape, varied
from kbench.schemas import Backend


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StencilForm:
    """A star stencil on field `u`; `near` and `far` are the sums of neighbours one and two cells away."""

    problem: str
    dimensions: int
    radius: int
    fields: tuple[str, ...]
    """Inputs with one value per cell, `u` first."""
    scalars: tuple[str, ...] = ()
    result: str
    """Expression over `u`, `near`, `far`, the other fields and the scalars; numbers end in f, which Triton drops."""

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the axes, slowest first."""
        return AXES[3 - self.dimensions :]

    @property
    def neighbours(self) -> tuple[tuple[str, int], ...]:
        """Every neighbour as (axis, signed distance)."""
        distances = [sign * reach for reach in range(1, self.radius + 1) for sign in (-1, 1)]
        return tuple((axis, distance) for axis in self.axes for distance in distances)

    @property
    def sizes(self) -> tuple[str, ...]:
        """Names of the grid's extents."""
        return tuple(f"size_{axis}" for axis in self.axes)

    def name(self, axis: str, distance: int) -> str:
        """Variable that holds a cell, such as h_m1 or w_p2; the centre is u."""
        return f"{axis}_{'p' if distance > 0 else 'm'}{abs(distance)}" if distance else "u"

    def nest(self, coordinates: Sequence[str]) -> str:
        """Row-major offset of coordinates in the grid."""
        return nest(coordinates, self.sizes)

    def place(self, axis: str = "", distance: int = 0) -> str:
        """Offset of a neighbour in the grid."""
        moved = f"({axis} {'-' if distance < 0 else '+'} {abs(distance)})"
        return self.nest([moved if distance and a == axis else a for a in self.axes])


FORMS: dict[str, StencilForm] = {
    form.problem: form
    for form in (
        StencilForm(
            problem="stencil_2d",
            dimensions=2,
            radius=1,
            fields=("u", "diffusivity"),
            result="u + diffusivity * (near - 4.0f * u)",
        ),
        StencilForm(
            problem="stencil_3d",
            dimensions=3,
            radius=2,
            fields=("u", "previous"),
            scalars=("courant",),
            result="2.0f * u - previous + courant * (1.33333333f * near - 0.0833333333f * far - 7.5f * u)",
        ),
    )
}
"""Every stencil problem, by problem id."""


_TRITON_GENES = (
    shape("space", "flat", "row", "tile", "march", "march"),
    shape("grid", "plain", "persistent"),
    shape("order", "across_fast", "down_fast"),
    shape("sums", "named", "running"),
    pick("store", "plain", "streamed"),
    pick("block", 32, 64, 128, 256, 512, 1024),
    pick("rows", 2, 4, 8, 16),
    pick("steps", 4, 8, 16, 32),
    pick("programs", 528, 1056, 2112),
    pick("warps", 1, 2, 4, 8),
)


def _triton_limits(problem: str, genome: Genome) -> str | None:
    """Tiles that are too large, too small, or repeat another."""
    form = FORMS[problem]
    space = genome["space"]
    rows = space == "tile" or (space == "march" and form.dimensions == 3)
    if not rows and genome["rows"] != 2:
        return "this space has no rows"
    if space != "march" and genome["steps"] != 4:
        return "only a march has steps"
    if space == "flat" and genome["order"] != "across_fast":
        return "flat cells have one order"
    if genome["grid"] == "plain" and genome["programs"] != 528:
        return "programs matters only to a persistent grid"
    each = int(genome["block"]) * (int(genome["rows"]) if rows else 1) // (32 * int(genome["warps"]))
    if not 1 <= each <= (8 if form.dimensions == 3 else 16):
        return f"{each} cells per thread"
    if form.dimensions == 3 and space != "flat" and int(genome["block"]) > 256:
        return "a row is shorter than the block"
    return None


_CUDA_GENES = (
    shape("space", "flat", "grid_stride", "tile", "staged", "march", "march_staged"),
    pick("tx", 16, 32, 64, 128),
    pick("ty", 1, 2, 4, 8, 16),
    pick("each", 1, 2, 4, 8),
    pick("steps", 4, 8, 16, 32),
    pick("pad", 0, 1),
    pick("read", "plain", "ldg"),
)


def _cuda_limits(problem: str, genome: Genome) -> str | None:
    """Blocks of a poor size, and genes that would change nothing."""
    form = FORMS[problem]
    space = str(genome["space"])
    threads = int(genome["tx"]) * int(genome["ty"])
    if not 64 <= threads <= 512:
        return f"{threads} threads per block"
    if space in ("flat", "grid_stride") and genome["ty"] != 4:
        return "a flat block has no second axis"
    if not space.startswith("march") and genome["steps"] != 4:
        return "only a march has steps"
    if space.startswith("march") and genome["each"] != 1:
        return "a march has one cell per thread"
    if space != "staged" and genome["pad"] != 0:
        return "only a staged tile has padding"
    if space == "march_staged" and form.dimensions == 3 and int(genome["ty"]) < 2 * form.radius:
        return "a tile is lower than its halo"
    return None


def _values(problem: str, genome: Genome) -> dict[str, Any]:
    return {"form": FORMS[problem], "result": re.sub(r"(\d)f\b", r"\1", FORMS[problem].result)}


ALL = tuple(FORMS)
FAMILIES = (
    varied(
        "stencil_triton", Backend.TRITON, ALL, "spatial/stencil.py", lambda problem: _TRITON_GENES, _triton_limits,
        values=_values,
    ),
    varied(
        "stencil_cuda", Backend.CUDA, ALL, "spatial/stencil.cu", lambda problem: _CUDA_GENES, _cuda_limits,
        values=_values,
    ),
)  # fmt: skip
