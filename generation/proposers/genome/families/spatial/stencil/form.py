"""What a stencil problem asks for: a star of neighbours along each axis, zero outside the grid."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from kbench.generation.proposers.genome.families.spatial.parts.lines import AXES, nest


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
    """Expression over `u`, `near`, `far`, the other fields and the scalars, in the common subset of both backends."""

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
