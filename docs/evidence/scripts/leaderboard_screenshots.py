"""Take the screenshots in docs/leaderboard/ of a built site: each kind of page, wide or on a phone, light or dark.

kbench leaderboard build --out site
python docs/evidence/scripts/leaderboard_screenshots.py site
"""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
OUT = Path(__file__).parents[2] / "leaderboard"
DESKTOP, PHONE = (1280, 900), (390, 844)
PAGES = {
    "home": "#/",
    "overall": "#/leaderboard",
    "forecast": "#/leaderboard?track=forecast",
    "problems": "#/problems",
    "problem": "#/problem/selective_scan",
    "kernels": "#/kernels?q=wgmma&faster=1",
    "kernel": "#/kernel/selective_scan/ea24da5d0eba",
    "entry": "#/entry/static-0-1-0",
    "compare": "#/compare/static-0-1-0/nearest-0-1-0",
    "history": "#/history",
    "dataset": "#/dataset",
    "submit": "#/submit",
}


def main(site: Path) -> None:
    """Open each page and photograph its first screen."""
    ways = (("desktop", DESKTOP, "light"), ("dark", DESKTOP, "dark"), ("phone", PHONE, "light"))
    shots = [(name, *way) for name in PAGES for way in ways]
    OUT.mkdir(parents=True, exist_ok=True)
    for old in OUT.glob("*.*"):
        old.unlink()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for name, where, (width, height), scheme in shots:
            dark = "dark" if scheme == "dark" else "light"
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=dark)
            page.goto((site / "index.html").resolve().as_uri() + PAGES[name])
            page.locator("main:not([aria-busy])").wait_for()
            page.wait_for_timeout(300)
            image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
            image.save(OUT / f"{name}-{where}.webp", quality=40, method=6)
            page.close()
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
