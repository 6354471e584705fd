"""Take the screenshots in docs/leaderboard/ of a built site: each kind of page, wide or on a phone, light or dark.

Draws the site's preview as well, the image that stands for it where it is linked to.

kbench leaderboard build --out site
python docs/evidence/scripts/leaderboard_screenshots.py site
"""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
OUT = Path(__file__).parents[2] / "leaderboard"
CARD = """<body style="margin:0;background:#12161b;color:#e8edf2;font:34px/1.4 system-ui,sans-serif">
<svg viewBox="0 0 1200 630" width="1200" height="630" style="position:absolute;opacity:.35">
<path fill="#6cb2ff" d="M760 630v-90h60v90zm80 0V440h60v190zm80 0V500h60v130zm80 0V330h60v300zm80 0V210h60v420z"/></svg>
<main style="position:absolute;padding:70px 80px"><b style="color:#6cb2ff;font-size:48px">kbench</b>
<h1 style="font-size:76px;line-height:1.12;margin:36px 0;max-width:1000px">How fast will this GPU kernel run,
and how sure are you?</h1><p style="margin:0;max-width:620px;color:#a3afbb">CUDA and Triton kernels with measured times,
and models that forecast them.</p></main>"""
PREVIEW = Path(__file__).parents[3] / "leaderboard" / "site" / "preview.png"
DESKTOP, PHONE = (1280, 900), (390, 844)
PAGES = {
    "home": "#/",
    "overall": "#/leaderboard",
    "forecast": "#/leaderboard?track=forecast",
    "problems": "#/problems",
    "problem": "#/problem/selective_scan",
    "kernels": "#/kernels?q=wgmma&faster=cuBLAS",
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
    main(Path(sys.argv[1]))
