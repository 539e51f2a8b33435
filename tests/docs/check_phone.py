"""Finds pages of a built site that are wider than a phone, and names that its search does not find.

Usage: check_phone.py FOLDER; `make docs` runs it. Wide tables and lines of code must scroll by themselves.
It needs Chromium and says so if there is none.
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

WIDTH, HEIGHT = 390, 844
CHROMIUM = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
NAMES = Path(__file__).parents[2] / "docs/api/fedplug.md"
WIDEST = """() => [...document.querySelectorAll("body *")]
  .filter(element => element.getBoundingClientRect().right > innerWidth + 1)
  .map(element => `${element.tagName.toLowerCase()}.${element.className}`).slice(0, 3).join(", ")"""


def main(root: Path) -> list[str]:
    """Returns the problems, one line each."""
    if chromium() is None:
        print("no Chromium here: the width of the pages and the search are not checked")
        return []
    with served(root) as address, phone() as page:
        return [*too_wide(page, root, address), *not_found(page, address)]


def chromium() -> str | None:
    """Returns the path of the browser on this machine."""
    return next(filter(None, map(shutil.which, CHROMIUM)), None)


@contextlib.contextmanager
def phone() -> Iterator[Page]:
    """Opens the browser with a window as large as a phone's."""
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=options)
        yield browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})


def too_wide(page: Page, root: Path, address: str) -> Iterator[str]:
    """Opens every page but the listings of sources, and the root, which leads to the front page."""
    for path in sorted(root.rglob("*.html")):
        name = path.relative_to(root).as_posix()
        if name != "index.html" and not name.startswith(("_modules/", "_static/")):
            page.goto(f"{address}/{name}", wait_until="domcontentloaded")
            width = page.evaluate("document.documentElement.scrollWidth")
            if width > WIDTH:
                yield f"{name}: {width} pixels wide; look at {page.evaluate(WIDEST)}"


def not_found(page: Page, address: str) -> Iterator[str]:
    """Searches for the names that the reference begins with."""
    for name in re.findall(r"^   (\w+)$", NAMES.read_text(encoding="utf-8"), re.MULTILINE):
        page.goto(f"{address}/search.html?q={name}")
        page.wait_for_selector("#search-results .search-summary:has-text('found')", timeout=20_000)
        if not page.query_selector(f"#search-results a[href*='api/fedplug.html#fedplug.{name}']"):
            yield f"the search for {name} does not find it in the reference"


@contextlib.contextmanager
def served(root: Path) -> Iterator[str]:
    """Serves the site on this machine: a browser lets no page of a folder read another."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Writes nothing."""

    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(root))
    ) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


if __name__ == "__main__":
    problems = main(Path(sys.argv[1]))
    sys.exit("\n".join(problems) if problems else 0)
