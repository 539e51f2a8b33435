"""Finds links of a built site that lead nowhere, anchors and pictures included; `make docs` runs it.

Usage: check_site.py FOLDER. Sphinx looks at the links of pages; this looks at what it made of them, menus
and the reference included. Addresses of the web are not followed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The anchors and the links of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keeps both."""
        for name, value in attrs:
            if value and name == "id":
                self.anchors.add(value)
            elif value and name in ("href", "src"):
                self.links.append(value)


def dead_links(root: Path) -> Iterator[str]:
    """One line each."""
    root = root.resolve()
    pages = {path: Page(path) for path in sorted(root.rglob("*.html"))}
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            if not target.exists() or (anchor and target in pages and anchor not in pages[target].anchors):
                yield f"{path.relative_to(root)}: {link}"


if __name__ == "__main__":
    found = list(dead_links(Path(sys.argv[1])))
    sys.exit("\n".join([f"{len(found)} dead links in {sys.argv[1]}:", *found]) if found else 0)
