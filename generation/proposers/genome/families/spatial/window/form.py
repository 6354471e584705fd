"""What a pooling or depthwise problem asks for: every channel reduces sliding windows on its own."""

from __future__ import annotations

import dataclasses

from kbench.generation.proposers.genome.families.spatial.parts.lines import AXES


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WindowForm:
    """Windows along one to three axes, reduced by `op`."""

    problem: str
    taps: tuple[int, ...]
    op: str
    """max, mean, or weighted: the last multiplies each tap by the channel's own filter."""
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    causal: bool = False
    """Padding only before the start; the output is as long as the input."""
    silu: bool = False
    """Whether a bias per channel and SiLU follow."""
    half: bool = False

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the axes, slowest first."""
        return AXES[3 - len(self.taps) :]

    @property
    def tap_count(self) -> int:
        """Values a window meets."""
        count = 1
        for taps in self.taps:
            count *= taps
        return count

    @property
    def weighted(self) -> bool:
        """Whether channels have filters."""
        return self.op == "weighted"

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the problem's inputs."""
        return ("x", *(("weight",) if self.weighted else ()), *(("bias",) if self.silu else ()))

    def output_extent(self, axis: str) -> str:
        """Python text of an axis's output extent."""
        if self.causal:
            return f"in_{axis}"
        reach = self.dilation * (self.taps[self.axes.index(axis)] - 1) + 1 - 2 * self.padding
        return f"(in_{axis} - {reach}) // {self.stride} + 1"

    def input_place(self, axis: str, place: str, tap: str) -> str:
        """Text of the input coordinate that a tap meets."""
        start = place if self.stride == 1 else f"{place} * {self.stride}"
        shift = f" - {self.padding}" if self.padding else ""
        return f"{start}{shift} + {tap}" if self.dilation == 1 else f"{start}{shift} + {tap} * {self.dilation}"


FORMS: dict[str, WindowForm] = {
    form.problem: form
    for form in (
        WindowForm(problem="max_pool1d", taps=(4,), op="max", stride=2, padding=2, dilation=3, half=True),
        WindowForm(problem="max_pool2d", taps=(2, 2), op="max", stride=2, padding=1, dilation=3),
        WindowForm(problem="max_pool3d", taps=(3, 3, 3), op="max", stride=2, padding=1, dilation=3),
        WindowForm(problem="avg_pool2d", taps=(3, 3), op="mean", stride=3),
        WindowForm(problem="avg_pool3d", taps=(3, 3, 3), op="mean", stride=2, padding=1),
        WindowForm(problem="depthwise_conv2d", taps=(3, 3), op="weighted"),
        WindowForm(problem="causal_conv1d", taps=(4,), op="weighted", padding=3, causal=True, silu=True, half=True),
    )
}
"""Every pooling and depthwise problem, by problem id."""
SEPARABLE = tuple(name for name, form in FORMS.items() if not form.weighted and len(form.taps) > 1)
"""Problems whose windows reduce one axis after another."""
