"""The check of the built site finds pages that are wider than a phone, and no others."""

from __future__ import annotations

import check_phone
import playwright  # noqa: F401  (check_phone needs it: without it, this file is left out)
import pytest

HEAD = '<meta name="viewport" content="width=device-width">'


@pytest.mark.skipif(check_phone.chromium() is None, reason="there is no Chromium here")
def test_a_wide_page_is_found_with_its_widest_element(tmp_path):
    wide = '<p class="x" style="width: 900px">x</p>'
    (tmp_path / "wide.html").write_text(HEAD + wide, encoding="utf-8")
    (tmp_path / "narrow.html").write_text(
        f'{HEAD}<div style="overflow-x: auto">{wide}</div>', encoding="utf-8"
    )
    with check_phone.served(tmp_path) as address, check_phone.phone() as page:
        [line] = check_phone.too_wide(page, tmp_path, address)
    assert line.startswith("wide.html: ")
    assert "p.x" in line
