"""Build the site from the shipped submissions and take the screenshots in docs/leaderboard/.

PYTHONPATH=src python docs/evidence/scripts/leaderboard_screenshots.py
"""

from __future__ import annotations

import io
import shutil
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from kbench.leaderboard.board import SUBMISSIONS, load_questions, score_all
from kbench.leaderboard.site.build import build
from kbench.leaderboard.site.scope import dataset_facts
from kbench.loaders.corpus.corpus import Corpus

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
OUT = Path(__file__).parents[2] / "leaderboard"
SHOTS = (
    ("overall-desktop", 1280, 760, "#/", "light"),
    ("forecast-desktop", 1280, 760, "#/?track=forecast", "light"),
    ("entry-desktop", 1280, 1500, "#/entry/static-0-1-0", "light"),
    ("compare-desktop-dark", 1280, 1000, "#/compare/static-0-1-0/nearest-0-1-0", "dark"),
    ("forecast-phone", 390, 844, "#/?track=forecast", "light"),
    ("entry-phone-dark", 390, 1200, "#/entry/static-0-1-0", "dark"),
)


def main() -> None:
    """Build, open, photograph."""
    OUT.mkdir(parents=True, exist_ok=True)
    questions = load_questions(None, None, benchmark=1)
    facts = dataset_facts(questions, Corpus.open(None))
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_path = build(score_all([SUBMISSIONS / "benchmark-1"], questions), facts, Path(folder))
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for name, width, height, link, scheme in SHOTS:
            dark = "dark" if scheme == "dark" else "light"
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=dark)
            page.goto(page_path.as_uri() + link)
            page.wait_for_timeout(200)
            # A palette keeps text sharp at a third of the size.
            image = Image.open(io.BytesIO(page.screenshot())).convert("RGB").quantize(64, dither=Image.Dither.NONE)
            image.save(OUT / f"{name}.png", optimize=True)
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
