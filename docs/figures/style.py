"""The style of the pages' line pictures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import matplotlib as mpl

__all__ = ["COLORS", "for_pages"]

# These colors have medium lightness: they are legible on white and on black.
COLORS = ("#808080", "#3584e4", "#e66100", "#2ca02c", "#c061cb", "#a07030")


@contextmanager
def for_pages() -> Iterator[None]:
    """Draws SVG with a transparent background; equal pictures give equal files."""
    mpl.use("svg")
    style = {"svg.hashsalt": "fedplug", "svg.fonttype": "none", "font.size": 9, "savefig.transparent": True}
    lines = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    with mpl.rc_context(style | dict.fromkeys(lines, COLORS[0])):
        yield
