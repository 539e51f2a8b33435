"""The parts of a page's section, which ``page.html`` renders: tables, pictures, texts and notices."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import fedplug.pictures as pictures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Block", "Picture", "Pictures", "Table", "Text"]


@dataclass(frozen=True)
class Text:
    """A paragraph.

    Attributes:
        text: The text.
        kind: "text", "notice" for missing data, "verdict" for the answer of a section, or "heading".
    """

    text: str
    kind: str = "text"


@dataclass(frozen=True)
class Table:
    """A table. Empty cells and "nan" are shown as missing.

    Attributes:
        caption: The caption, and the title if the table is folded.
        heads: The heads of the columns.
        rows: The cells, as text.
        units: The units under the heads.
        marked: The positions of highlighted rows, from 0.
        texts: The columns of text, aligned left. The others are numbers.
        folded: Whether the table is shown on demand.
    """

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    units: Sequence[str] = ()
    marked: Iterable[int] = ()
    texts: Iterable[int] = (0,)
    folded: bool = False


@dataclass(frozen=True)
class Picture:
    """A picture with its caption.

    Attributes:
        caption: The caption.
        description: The content, for screen readers.
        source: The address of the picture, which contains the picture itself.
    """

    caption: str
    description: str
    source: str

    @classmethod
    def drawn(
        cls, caption: str, description: str, size: tuple[float, float], paint: Callable[[Figure], None]
    ) -> Picture:
        """Draws a picture of ``size`` inches. See `fedplug.pictures.svg`."""
        text = pictures.svg(*size, paint)
        return cls(
            caption, description, "data:image/svg+xml;base64," + base64.b64encode(text.encode()).decode()
        )


@dataclass(frozen=True)
class Pictures:
    """Pictures side by side where the window is wide enough."""

    pictures: Sequence[Picture]


Block = Text | Table | Pictures
