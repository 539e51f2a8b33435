"""Links between the repository's pages lead to files that exist, and to headings that are there."""

from __future__ import annotations

import pytest
from pages import ROOT, anchors, links, markdown

PAGES = markdown()


def dead(page):
    """The links of a page that lead nowhere."""
    for path, anchor in links(page.read_text(encoding="utf-8")):
        target = (page.parent / path) if path else page
        if not target.exists():
            yield path
        elif anchor and anchor not in anchors(target.read_text(encoding="utf-8")):
            yield f"{path}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    assert list(dead(page)) == []


def test_a_dead_link_and_a_dead_anchor_are_found(tmp_path):
    (tmp_path / "other.md").write_text("# Other\n\n## A `name`, and more\n", encoding="utf-8")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md) [b](other.md#a-name-and-more) [c](gone.md) [d](other.md#gone) [e](#gone)"
        "\n\n![f](gone.png) [g](https://example.org/gone) `[h](code.md)`\n",
        encoding="utf-8",
    )
    assert list(dead(page)) == ["gone.md", "other.md#gone", "#gone", "gone.png"]


def test_pages_begin_with_their_purpose():
    """A title and then text, which llms.txt and search engines show: no code, no table, no heading."""
    for page in (ROOT / "docs").glob("*.md"):
        title, _, rest = page.read_text(encoding="utf-8").partition("\n\n")
        assert title.startswith("# "), page.name
        assert rest[0].isalpha() or rest[0] in "[`*", f"{page.name} begins with {rest[:20]!r}"
