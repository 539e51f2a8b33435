"""The check of the built site finds pages that are wider than a phone, and no others."""

from __future__ import annotations

import os
import shutil

import pytest

CHROMIUM = next(
    filter(
        None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome"))
    ),
    None,
)


@pytest.mark.needs("playwright")
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
def test_a_wide_page_is_found_with_its_widest_element(tmp_path):
    from check_phone import WIDTH, served, too_wide
    from playwright.sync_api import sync_playwright

    head = '<meta name="viewport" content="width=device-width">'
    (tmp_path / "wide.html").write_text(f'{head}<p class="x" style="width: 900px">x</p>', encoding="utf-8")
    (tmp_path / "narrow.html").write_text(
        f'{head}<div style="overflow-x: auto"><p style="width: 900px">x</p></div>', encoding="utf-8"
    )
    with served(tmp_path) as address, sync_playwright() as playwright:
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        page = browser.new_page(viewport={"width": WIDTH, "height": 800})
        [line] = too_wide(page, tmp_path, address)
    assert line.startswith("wide.html: ")
    assert "p.x" in line
