"""Draws docs/images/report.png: a screenshot of a report. It needs Chromium.

Usage: python docs/figures/report.py runs/digits
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from fedplug.tff.experiment.report import write_report

_WIDTH, _MARGIN = 1100, 24
_COLORS = 96  # enough for text and lines, with a third of the bytes


def main(folder: Path) -> None:
    """Writes the picture of a folder's report."""
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory() as work, sync_playwright() as playwright:
        page = Path(work) / "report.html"
        write_report([folder], page)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=root)
        opened = browser.new_page(viewport={"width": _WIDTH, "height": 900}, color_scheme="light")
        opened.goto(page.as_uri())
        first, last = (opened.locator(f"#{section}").bounding_box() for section in ("accuracy", "time"))
        assert first
        assert last
        top = first["y"]
        height = last["y"] + last["height"] - top + _MARGIN
        shot = opened.screenshot(full_page=True, clip={"x": 0, "y": top, "width": _WIDTH, "height": height})
        browser.close()
    picture = Image.open(io.BytesIO(shot)).convert("RGB").quantize(_COLORS)
    picture.save(Path(__file__).parents[1] / "images/report.png", optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
