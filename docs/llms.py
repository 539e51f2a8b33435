"""A Sphinx extension that writes llms.txt and llms-full.txt beside the site (https://llmstxt.org).

llms.txt lists all pages by section, each with its first sentence. llms-full.txt has all pages as plain text,
including the signatures and docstrings of the reference. Both follow the order of the front page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.writers.text import TextTranslator


class PlainText(TextTranslator):
    """Sphinx's plain text without nodes that are only for HTML, such as the links of viewcode."""

    def unknown_visit(self, node: nodes.Node) -> None:
        """Skips an unknown node."""
        raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Registers the extension; ``llms_summary`` is the line below the title."""
    app.add_config_value("llms_summary", "", "html", types=(str,))
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write(app: Sphinx, error: Exception | None) -> None:
    """Writes both files if the build of the site succeeded."""
    if error is not None or app.builder.format != "html":
        return
    head = f"# {app.config.project}\n\n> {app.config.llms_summary}\n"
    lines, texts = [head], [head]
    for caption, pages in sections(app):
        lines.append(f"\n## {caption}\n\n")
        for page in pages:
            doctree = app.env.get_doctree(page)
            title, address = app.env.titles[page].astext(), app.builder.get_target_uri(page)
            lines.append(f"- [{title}]({address}): {first_sentence(doctree)}\n")
            for name in list(doctree.findall(addnodes.pending_xref_condition)):
                if name["condition"] == "*":  # the full name of a type, which repeats its short name
                    name.parent.remove(name)
            translator = PlainText(doctree, app.builder)
            doctree.walkabout(translator)
            texts.append(f"\n\n<!-- {address} -->\n\n{translator.body}")
    Path(app.outdir, "llms.txt").write_text("".join(lines), encoding="utf-8")
    Path(app.outdir, "llms-full.txt").write_text("".join(texts), encoding="utf-8")


def sections(app: Sphinx) -> Iterator[tuple[str, list[str]]]:
    """Yields the captions of the front page's toctrees, with all pages below each."""
    for toctree in app.env.get_doctree(app.config.root_doc).findall(addnodes.toctree):
        pages = [page for entry in toctree["includefiles"] for page in below(app, entry)]
        yield toctree["caption"], pages


def below(app: Sphinx, page: str) -> Iterator[str]:
    """Yields a page and all pages below it."""
    yield page
    for child in app.env.toctree_includes.get(page, ()):
        yield from below(app, child)


def first_sentence(doctree: nodes.document) -> str:
    """Returns a page's first sentence, or its first paragraph if that is shorter."""
    for paragraph in doctree.findall(nodes.paragraph):
        text = " ".join(paragraph.astext().split())
        if text:
            return re.split(r"(?<=[.?!])(?<!al\.) |:$", text)[0]
    return ""
