"""Pooling and depthwise windows: straight from memory, from a staged tile, from registers, or one pass per axis."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from kbench.generation.proposers.genome.families.spatial.form import SlidingForm, nest
from kbench.generation.proposers.genome.family import Gene, Genome
from kbench.generation.proposers.genome.template import times
from kbench.generation.proposers.genome.templated import pick, shape, varied
from kbench.schemas import Backend


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class WindowForm(SlidingForm):
    """Every channel reduces sliding windows by `op` on its own."""

    op: str
    """max, mean, or weighted: the last multiplies each tap by the channel's own filter."""
    causal: bool = False
    """Padding only before the start; the output is as long as the input."""
    silu: bool = False
    """Whether a bias per channel and SiLU follow."""

    @functools.cached_property
    def weighted(self) -> bool:
        """Whether channels have filters."""
        return self.op == "weighted"

    @functools.cached_property
    def inputs(self) -> tuple[str, ...]:
        """Names of the problem's inputs."""
        return ("x", *(("weight",) if self.weighted else ()), *(("bias",) if self.silu else ()))

    @functools.cached_property
    def padded_taps(self) -> int:
        """Taps of a window, rounded up to a power of two."""
        return 1 << (self.tap_count - 1).bit_length()

    @functools.cache  # noqa: B019 - see the base class
    def output_extent(self, axis: str) -> str:
        """Python text of an axis's output extent."""
        if self.causal:
            return f"in_{axis}"
        return f"(in_{axis} - {self.reach(axis, 1) - 2 * self.padding}) // {self.stride} + 1"

    @functools.cache  # noqa: B019 - see the base class
    def input_place(self, place: str, tap: str) -> str:
        """Text of the input coordinate that a tap meets."""
        shift = f" - {self.padding}" if self.padding else ""
        return f"{times(place, self.stride)}{shift} + {times(tap, self.dilation)}"

    @functools.cache  # noqa: B019 - see the base class
    def row(self) -> str:
        """Offset of column `c` in the row that the other axes' taps meet."""
        return nest([*self.names("i{}")[:-1], "c"], self.names("in_{}"))

    @functools.cache  # noqa: B019 - see the base class
    def passes(self, outer_first: bool) -> list[tuple[str, str, str]]:
        """Passes along one axis each: the axis, the extents of what it writes, and how many values lie inside it."""
        current, found = [*self.names("in_{}")], []
        for at in range(len(self.axes))[:: 1 if outer_first else -1]:
            inner = " * ".join(current[at + 1 :]) or "1"
            current[at] = f"out_{self.axes[at]}"
            found.append((self.axes[at], ", ".join(current), inner))
        return found


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
READ = pick("read", "plain", "ldg", "ldcs")
TAPS = shape("taps", "unrolled", "looped")
ORDER = shape("order", "inner_first", "outer_first")


def _values(problem: str, genome: Genome) -> dict[str, Any]:
    return {"form": FORMS[problem]}


def _triton_genes(problem: str) -> tuple[Gene, ...]:
    return (
        shape("space", *(("flat", "row", "tile") if len(FORMS[problem].taps) > 1 else ("flat", "row"))),
        shape("taps", "unrolled", "looped", "axis"),
        shape("grid", "plain", "persistent", "chunked"),
        pick("block", 32, 64, 128, 256, 512, 1024),
        pick("rows", 2, 4, 8, 16),
        pick("warps", 1, 2, 4, 8),
    )


def _triton_limits(problem: str, genome: Genome) -> str | None:
    """Tiles that are too large, too small, or repeat another."""
    form = FORMS[problem]
    if genome["space"] != "tile" and genome["rows"] != 2:
        return "only tiles have rows"
    if genome["space"] == "tile" and genome["taps"] == "axis":
        return "a tile has no third axis for the taps"
    each = int(genome["block"]) * (int(genome["rows"]) if genome["space"] == "tile" else 1)
    if genome["taps"] == "axis":
        each *= form.padded_taps
    each //= 32 * int(genome["warps"])
    if genome["taps"] != "axis" and not 1 <= each <= 16:
        return f"{each} outputs per thread"
    if genome["taps"] == "axis" and not 1 <= each <= 64:
        return f"{each} values per thread"
    if genome["space"] != "flat" and int(genome["block"]) > {3: 64, 2: 128, 1: 1024}[len(form.taps)]:
        return "a row is shorter than the block"
    return None


def _direct_genes(problem: str) -> tuple[Gene, ...]:
    mapping = shape("mapping", "adjacent", "strided", "grid_stride")
    return (mapping, TAPS, READ, pick("each", 1, 2, 4, 8), pick("threads", 64, 128, 256, 512))


def _direct_limits(problem: str, genome: Genome) -> str | None:
    """Genes that would change nothing must hold their first value."""
    if genome["mapping"] == "grid_stride" and genome["each"] != 1:
        return "a grid-stride loop has no fixed share"
    if genome["mapping"] == "strided" and genome["each"] == 1:
        return "one output per thread has no stride"
    return None


def _staged_genes(problem: str) -> tuple[Gene, ...]:
    flat = len(FORMS[problem].taps) == 1
    return (
        shape("reduction", *(("full", "separable") if problem in SEPARABLE else ("full",))),
        pick("tw", *((128, 256, 512, 1024) if flat else (32, 64, 128))),
        pick("th", *((1,) if flat else (2, 4, 8, 16))),
        pick("pad", 0, 1),
        READ,
        pick("threads", 64, 128, 256),
    )


def _staged_limits(problem: str, genome: Genome) -> str | None:
    """Tiles that do not fit shared memory or leave threads idle."""
    form, tw, th = FORMS[problem], int(genome["tw"]), int(genome["th"])
    if not int(genome["threads"]) <= tw * th <= 16 * int(genome["threads"]):
        return "outputs do not fit the threads"
    rows = form.reach("h", th)
    words = rows * (form.reach("w", tw) + 1) + (rows * tw if genome["reduction"] == "separable" else 0)
    return "more than 48 KiB of shared memory" if 4 * words > 48 * 1024 else None


def _segment_genes(problem: str) -> tuple[Gene, ...]:
    taps = TAPS if len(FORMS[problem].taps) > 1 else shape("taps", "unrolled")
    grid = shape("grid", "plain", "grid_stride")
    return (grid, taps, READ, pick("each", 2, 3, 4, 8), pick("threads", 64, 128, 256, 512))


def _triton_separable_genes(problem: str) -> tuple[Gene, ...]:
    return (ORDER, TAPS, pick("block", 128, 256, 512, 1024, 2048), pick("warps", 2, 4, 8))


def _cuda_separable_genes(problem: str) -> tuple[Gene, ...]:
    return (ORDER, TAPS, READ, pick("each", 1, 2, 4), pick("threads", 128, 256, 512))


ALL = tuple(FORMS)
FAMILIES = (
    varied(
        "window_direct_triton", Backend.TRITON, ALL, "spatial/window.py#direct", _triton_genes, _triton_limits,
        values=_values,
    ),
    varied(
        "window_separable_triton", Backend.TRITON, SEPARABLE, "spatial/window.py#separable", _triton_separable_genes,
        values=_values,
    ),
    varied(
        "window_direct_cuda", Backend.CUDA, ALL, "spatial/window.cu#direct", _direct_genes, _direct_limits,
        values=_values,
    ),
    varied(
        "window_staged_cuda", Backend.CUDA, ALL, "spatial/window.cu#staged", _staged_genes, _staged_limits,
        values=_values,
    ),
    varied(
        "window_separable_cuda", Backend.CUDA, SEPARABLE, "spatial/window.cu#separable", _cuda_separable_genes,
        values=_values,
    ),
    varied(
        "window_segment_cuda", Backend.CUDA, ALL, "spatial/window.cu#segment", _segment_genes, values=_values,
    ),
)  # fmt: skip
