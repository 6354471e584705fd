"""Pictures of studies: best speedup against measurements, gain and variety over steps, edits that pay."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kbench.generation.study.dynamics import ChangeFigures, StepFigures
    from kbench.generation.study.study import Point


@contextlib.contextmanager
def _saved(path: Path, columns: int, width: float, height: float) -> Iterator[Any]:
    """The axes of a figure that is written when it is drawn."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, columns, figsize=(width, height))
    yield axes
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def plot_study(points: Sequence[Point], path: Path) -> None:
    """A line with its band for each method: shares of the pools' best on the left, gains on the right."""
    with _saved(path, 2, 11, 4.5) as (shares, gains):
        for method in dict.fromkeys(point.method for point in points):
            own = [point for point in points if point.method == method]
            spent = [point.measurements for point in own]
            style = "--" if method.endswith("+surrogate") else "-"
            (line,) = shares.plot(spent, [point.share for point in own], style, label=method)
            band = {"color": line.get_color(), "alpha": 0.12}
            shares.fill_between(spent, [point.low for point in own], [point.high for point in own], **band)
            gains.plot(spent, [point.gain for point in own], style, color=line.get_color())
            gains.fill_between(spent, [point.gain_low for point in own], [point.gain_high for point in own], **band)
        shares.set_ylabel("best speedup found, share of the pool's best")
        gains.set_ylabel(f"more than {points[0].method} on the same pools")
        shares.legend(loc="lower right")
        for axes in (shares, gains):
            axes.set_xlabel("measurements")
            axes.grid(alpha=0.3)


def plot_steps(steps: Sequence[StepFigures], path: Path) -> None:
    """Gain and variety over steps, side by side."""
    with _saved(path, 2, 11, 4.5) as (gains, variety):
        later = [one for one in steps if one.gain_octaves is not None]
        gains.bar([one.step for one in later], [one.gain_octaves or 0.0 for one in later])
        gains.set_ylabel("mean rise of log2 best speedup")
        variety.plot([one.step for one in steps], [one.distinct for one in steps], marker="o")
        variety.set_ylabel("niches over kernels measured so far")
        variety.set_ylim(0, 1.05)
        for axes in (gains, variety):
            axes.set_xlabel("step")
            axes.set_xticks([one.step for one in steps])
            axes.grid(alpha=0.3)


def plot_edits(edits: Sequence[ChangeFigures], path: Path) -> None:
    """How often edits beat their parent, with intervals; the last on top."""
    with _saved(path, 1, 9, 6) as axes:
        for place, one in enumerate(edits):
            low, high = 100 * (one.beat_parent_low or 0.0), 100 * (one.beat_parent_high or 1.0)
            axes.plot([low, high], [place, place], color="tab:blue", alpha=0.5)
            axes.plot(100 * (one.beat_parent or 0.0), place, "o", color="tab:blue")
        axes.set_yticks(range(len(edits)), [f"{one.family}: {one.name} ({one.attempts})" for one in edits])
        axes.axvline(50, color="gray", linestyle="--")
        axes.set_xlabel("attempts that beat their parent, %")
        axes.grid(alpha=0.3, axis="x")
