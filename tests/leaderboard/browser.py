"""A headless browser for the page's tests: it reports errors and refuses every request that leaves the disk."""

import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect, sync_playwright

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
DESKTOP = (1280, 900)


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's Chromium, or the one KBENCH_CHROMIUM names.

    Where KBENCH_BROWSER=required, as in continuous integration, a missing browser is a failure.
    """
    path = os.environ.get("KBENCH_CHROMIUM") or shutil.which("chromium")
    if path is None:
        message = "no Chromium found; install it (apt install chromium) or set KBENCH_CHROMIUM to its path"
        if os.environ.get("KBENCH_BROWSER") == "required":
            pytest.fail(message)
        pytest.skip(message)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


class Tab:
    """One page, with what it complained about and whom it tried to reach."""

    def __init__(self, browser: Browser, page: Path, size: tuple[int, int] = DESKTOP, scheme: str = "light") -> None:
        width, height = size
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if scheme == "dark" else "light"
        )
        self.errors: list[str] = []
        self.outside: list[str] = []
        self.url = page.as_uri()
        self.page: Page = context.new_page()
        self.page.on("console", lambda message: self.errors.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.route("**/*", self._refuse_outside)

    def _refuse_outside(self, route: Route) -> None:
        if route.request.url.startswith("file://"):
            route.continue_()
        else:
            self.outside.append(route.request.url)
            route.abort()

    def open(self, link: str = "") -> Page:
        """Load the page at a deep link, from disk, and wait for its data."""
        self.page.goto("about:blank")
        self.page.goto(self.url + link)
        return self.settled()

    def settled(self) -> Page:
        """Wait until the view has loaded what it needs."""
        self.page.locator("main:not([aria-busy])").wait_for()
        return self.page

    def wait_for_heading(self, text: str | re.Pattern[str]) -> None:
        """Wait until the page has this heading and its data: a link is followed after the click has returned."""
        expect(self.page.locator("h1").first).to_have_text(text)
        self.settled()

    def names(self) -> list[str]:
        """Entries in the order of the table's rows."""
        return self.page.locator("tbody tr[data-entry] td:first-child a").all_text_contents()

    def column(self, name: str) -> list[str]:
        """The cells of one column."""
        headers = (
            self.page.locator("main table")
            .first.locator("thead th")
            .evaluate_all("cells => cells.map(cell => cell.dataset.column)")
        )
        place = headers.index(name) + 1
        return self.page.locator("main table").first.locator(f"tbody tr td:nth-child({place})").all_text_contents()

    def close(self) -> None:
        """End the page; what it complained about stays."""
        self.page.context.close()
