"""Draw docs/images/overview.png: speedups by family, and what surrogates reach on benchmark 2.

python docs/evidence/scripts/overview_picture.py
"""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

import kbench

ROOT = Path(__file__).parents[3]
OUT = ROOT / "docs" / "images" / "overview.png"
BLUE, GREY, ORANGE = "#3f51b5", "#8a8f98", "#e0701a"


def speedups(axes: Axes) -> None:
    """One box per family: middle half of the kernels, whiskers from 5 % to 95 %, and the best kernel."""
    columns = ["problem_id", "family", "speedup"]
    kernels = kbench.load(status="ok", gpu="NVIDIA H200", columns=columns).to_polars().collect()
    order = kernels.group_by("family").agg(pl.col("speedup").median()).sort("speedup")["family"].to_list()
    values = [kernels.filter(pl.col("family") == family)["speedup"].to_numpy() for family in order]
    style = {"color": BLUE, "linewidth": 1.0}
    axes.boxplot(
        values, orientation="horizontal", whis=(5, 95), showfliers=False, widths=0.65, patch_artist=True,
        boxprops={"facecolor": "#c5cae9", **style}, whiskerprops=style, capprops=style,
        medianprops={"color": ORANGE, "linewidth": 1.6},
    )  # fmt: skip
    axes.plot(
        [v.max() for v in values], range(1, len(order) + 1), "o", color=GREY, markersize=3.5, label="fastest kernel"
    )
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set(xscale="log", xlim=(0.02, 500), xlabel="speedup over the PyTorch reference (H200)")
    axes.set_yticks(range(1, len(order) + 1), [family.replace("_", " ") for family in order], fontsize=8)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}×"))
    axes.set_title(f"{len(kernels):,} correct kernels by family", fontsize=10)
    axes.legend(loc="lower right", fontsize=8, frameon=False)
    axes.grid(axis="x", alpha=0.25)


def surrogates(axes: Axes) -> None:
    """Skill on unseen problems with its interval, best on top."""
    found = json.loads((ROOT / "docs" / "evidence" / "benchmark-2.json").read_text())
    skills = {
        name.removesuffix("-test"): entry["tracks"]["forecast"]["skill"]
        for name, entry in found.items()
        if name.endswith("-test") and not name.startswith(("my_model", "uniform"))
    }
    order = sorted(skills, key=lambda name: float(skills[name]["value"]))
    for place, name in enumerate(order):
        skill = skills[name]
        spread = np.array([[skill["value"] - skill["low"]], [skill["high"] - skill["value"]]])
        colour = BLUE if name.startswith("static") else GREY
        axes.errorbar(skill["value"], place, xerr=spread, fmt="o", color=colour, capsize=3, markersize=6)
    ceiling = next(iter(skills.values()))["ceiling"]
    axes.axvline(0, color="black", linewidth=0.8)
    axes.axvline(ceiling, color=ORANGE, linewidth=1.2)
    axes.annotate("a second measurement ", (ceiling, 0), fontsize=8, va="center", ha="right", color=ORANGE)
    axes.set(xlim=(-0.1, 1.0), xlabel="skill on unseen problems, 95 % interval")
    axes.set_yticks(range(len(order)), order, fontsize=9)
    axes.set_title("Surrogates that forecast without running the kernel", fontsize=10)
    axes.grid(axis="x", alpha=0.25)


def main() -> None:
    """Draw both."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.8), width_ratios=(1.15, 1), layout="constrained")
    speedups(left)
    surrogates(right)
    OUT.parent.mkdir(exist_ok=True)
    figure.savefig(OUT, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
