"""Draw the pictures of the docs: the overview of the README, and the screenshots of the leaderboard.

python docs/evidence/scripts/pictures.py overview
kbench leaderboard build --out site
python docs/evidence/scripts/pictures.py screenshots site    # and the preview for links to it
"""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import click
import matplotlib.pyplot as plt
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter
from PIL import Image
from playwright.sync_api import Browser, sync_playwright

import kbench

ROOT = Path(__file__).parents[3]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
SCREENSHOTS = ROOT / "docs" / "leaderboard"
CARD = """<body style="margin:0;background:#12161b;color:#e8edf2;font:34px/1.4 system-ui,sans-serif">
<svg viewBox="0 0 1200 630" width="1200" height="630" style="position:absolute;opacity:.35">
<path fill="#6cb2ff" d="M760 630v-90h60v90zm80 0V440h60v190zm80 0V500h60v130zm80 0V330h60v300zm80 0V210h60v420z"/></svg>
<main style="position:absolute;padding:70px 80px"><b style="color:#6cb2ff;font-size:48px">kbench</b>
<h1 style="font-size:76px;line-height:1.12;margin:36px 0;max-width:1000px">How fast will this GPU kernel run,
and how sure are you?</h1><p style="margin:0;max-width:620px;color:#a3afbb">CUDA and Triton kernels with measured times,
and models that forecast them.</p></main>"""
PREVIEW = ROOT / "leaderboard" / "site" / "preview.png"
DESKTOP, PHONE = (1280, 900), (390, 844)
SHOTS = {
    "home-desktop": ("#/", DESKTOP, "light"),
    "home-phone": ("#/", PHONE, "light"),
    "forecast-desktop": ("#/leaderboard?track=forecast", DESKTOP, "light"),
    "problem-desktop": ("#/problem/selective_scan", DESKTOP, "light"),
    "kernel-dark": ("#/kernel/selective_scan/ea24da5d0eba", DESKTOP, "dark"),
    "compare-desktop": ("#/compare/claude-zero-shot-2026-11-19/static-compiler-1-0-0", DESKTOP, "light"),
}
"""Name of a picture: the page, the size of the screen, light or dark."""
OVERVIEW = ROOT / "docs" / "images" / "overview.png"
BUILT_INS = {
    "length of the source": "length",
    "most similar kernel": "nearest",
    "trees over the source\n(static)": "static",
    "counted work\n(static-compiler)": "static-compiler",
}
"""What the README's picture calls built-in surrogates."""
BLUE, GREY, ORANGE = "#3f51b5", "#8a8f98", "#e0701a"


def speedups(axes: Axes) -> None:
    """One box per family: middle half of the kernels, whiskers from 5 % to 95 %, the largest; how many there are."""
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
        [v.max() for v in values], range(1, len(order) + 1), "o", color=GREY, markersize=3.5, label="largest speedup"
    )
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set(xscale="log", xlim=(0.02, 500), xlabel="speedup over the PyTorch reference (H200)")
    names = [f"{family.replace('_', ' ')} ({len(own):,})" for family, own in zip(order, values, strict=True)]
    axes.set_yticks(range(1, len(order) + 1), names, fontsize=8)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}×"))
    axes.set_title(f"{len(kernels):,} correct kernels by family (how many)", fontsize=10)
    axes.legend(loc="lower right", fontsize=8, frameon=False)
    axes.grid(axis="x", alpha=0.25)


def surrogates(axes: Axes) -> None:
    """Skill on the fixed part of the questions that a language model answered, with intervals, best on top."""
    stated = json.loads((ROOT / "docs" / "evidence" / "benchmark.json").read_text())["core"]
    skills = {name: stated["forecast"]["entries"][key] for name, key in BUILT_INS.items()}
    skills |= {f"a language model,\n{name}": stated["forecast"]["entries"][name] for name in stated["language_models"]}
    ceiling = stated["ceilings"]["forecast"]
    order = sorted(skills, key=lambda name: float(skills[name]["value"]))
    for place, name in enumerate(order):
        skill = skills[name]
        spread = np.array([[skill["value"] - skill["low"]], [skill["high"] - skill["value"]]])
        colour = BLUE if place >= len(order) - 4 else GREY
        axes.errorbar(skill["value"], place, xerr=spread, fmt="o", color=colour, capsize=3, markersize=7)
        axes.annotate(f"{skill['value']:.2f}", (skill["high"] + 0.02, place), fontsize=9, va="center", color=colour)
    for at, text, side, colour in (
        (0, " training frequencies", "left", "black"),
        (ceiling, "measuring again ", "right", ORANGE),
    ):
        axes.axvline(at, color=colour, linewidth=1.0)
        axes.annotate(text, (at, -0.62), fontsize=8, va="center", ha=side, color=colour)
    axes.set(xlim=(-0.1, 1.02), ylim=(-0.9, len(order) - 0.4), xlabel="share of the error removed, core of test")
    axes.set_yticks(range(len(order)), order, fontsize=9)
    axes.set_title("How well is speed forecast without running a kernel?", fontsize=10)
    axes.grid(axis="x", alpha=0.25)


@click.group()
def main() -> None:
    """Draw the pictures of the docs."""


@main.command()
def overview() -> None:
    """Draw speedups by family, and what forecasts reach."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.8), width_ratios=(1.15, 1), layout="constrained")
    speedups(left)
    surrogates(right)
    OVERVIEW.parent.mkdir(exist_ok=True)
    figure.savefig(OVERVIEW, dpi=110, metadata={"Software": None})
    with Image.open(OVERVIEW) as image:
        image.convert("RGB").quantize(64).save(OVERVIEW, optimize=True)


@main.command()
@click.argument("site", type=click.Path(exists=True, path_type=Path))
def screenshots(site: Path) -> None:
    """Open pages of a built site and photograph their first screen."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    for old in SCREENSHOTS.glob("*.*"):
        old.unlink()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for name, (address, (width, height), scheme) in SHOTS.items():
            dark = "dark" if scheme == "dark" else "light"
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=dark)
            page.goto((site / "index.html").resolve().as_uri() + address)
            page.locator("main:not([aria-busy])").wait_for()
            page.wait_for_timeout(300)
            image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
            image.save(SCREENSHOTS / f"{name}.webp", quality=40, method=6)
            page.close()
        draw_preview(browser)
        browser.close()


def draw_preview(browser: Browser) -> None:
    """A card of 1200 by 630 without figures, so that it stays true when the dataset grows."""
    page = browser.new_page(viewport={"width": 1200, "height": 630})
    page.set_content(CARD)
    image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    image.quantize(64).save(PREVIEW, optimize=True)
    page.close()


if __name__ == "__main__":
    main()
