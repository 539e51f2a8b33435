"""The page as a reader meets it: opened in the Chromium of this machine, in light and dark, wide and narrow.

Skipped where there is none; `.ci/run` installs one where it may.
"""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from fedplug.pictures import COLORS, DENSE
from fedplug.tff.experiment.report import write_report

pytestmark = [pytest.mark.needs("matplotlib"), pytest.mark.needs("jinja2")]
NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
Open = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(
            f"no browser on this machine: none of {', '.join(NAMES)} (Debian: apt-get install chromium)"
        )
    root = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium has no sandbox for root
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=root)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def folder(make_folder: Callable[..., Path]) -> Path:
    return make_folder(rounds=40)


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Writes a report of folders, once."""

    @functools.cache
    def write(*folders: Path) -> Path:
        out = tmp_path_factory.mktemp("page") / "report.html"
        write_report(folders, out)
        return out

    return write


@pytest.fixture
def open_page(browser: Browser, report: Callable[..., Path]) -> Iterator[Open]:
    """Opens a report of folders; the test fails if a page complains or asks for anything but itself."""
    contexts: list[BrowserContext] = []
    heard: list[str] = []

    def open_page(*folders: Path, **settings: Any) -> Page:
        context = browser.new_context(viewport={"width": 1200, "height": 900}, **settings)
        context.set_default_timeout(120_000)  # of a machine with much else to do
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: heard.append(message.text))
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.on("request", lambda request: asked(request.url))
        page.goto(report(*folders).as_uri())
        return page

    def asked(url: str) -> None:
        if not url.startswith("data:") and not url.endswith("/report.html"):
            heard.append(url)

    yield open_page
    for context in contexts:
        context.close()
    assert heard == []


def test_every_figure_has_an_alternative_text_and_a_table_in_its_section(open_page, folder) -> None:
    page = open_page(folder)
    found = page.evaluate(
        """[...document.querySelectorAll("img")].map((image) => [
            image.alt, image.naturalWidth, image.closest("section").querySelectorAll("table").length])"""
    )
    assert len(found) == 4 + 2 + 1  # curves, times, parts
    for text, width, tables in found:
        assert len(text) > 20
        assert width > 100  # the browser has drawn it
        assert tables
    unnamed = (
        """[...document.querySelectorAll("table")].filter((table) => !table.caption?.textContent).length"""
    )
    assert page.evaluate(unnamed) == 0


def test_the_numbers_of_a_figure_open_with_the_keyboard(open_page, folder) -> None:
    page = open_page(folder)
    page.locator("#accuracy summary").focus()
    page.keyboard.press("Enter")
    assert page.locator("#accuracy table").is_visible()


CONTRASTS = """(colors) => {
    const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
    const light = (color) => {
        canvas.fillStyle = color;
        canvas.fillRect(0, 0, 1, 1);
        const linear = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((byte) => byte / 255)
            .map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
    };
    const style = getComputedStyle(document.documentElement);
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const paper = light(dark ? "#121212" : "#ffffff");
    const ratio = (color) => {
        const [low, high] = [paper, light(color)].sort((a, b) => a - b);
        return (high + 0.05) / (low + 0.05);
    };
    const texts = ["ink", "muted", "link"].map((name) => ratio(style.getPropertyValue(`--${name}`)));
    return [Math.min(...texts), Math.min(...colors.map(ratio))];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_can_be_read(open_page, folder, scheme) -> None:
    """Contrasts of WCAG 2.2: 4.5 for text, 3 for lines."""
    page = open_page(folder, color_scheme=scheme)
    texts, lines = page.evaluate(CONTRASTS, [DENSE, *COLORS])
    assert texts >= 4.5
    assert lines >= 3


@pytest.mark.slow
def test_a_narrow_screen_scrolls_within_tables_and_figures_only(open_page, make_folder) -> None:
    page = open_page(make_folder("a" * 60, rounds=4), make_folder("b" * 60, rounds=3))
    page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
    for width in (320, 700):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == width
