"""Heat maps: numbers by row and column as colors, with a color bar; blank where there is no number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fedplug.experiment.report import svg
from fedplug.experiment.report.markup import Markup
from fedplug.experiment.report.units import amount, shortened, size

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Scale", "columns", "heat_map"]

_COLUMNS = 150
"""Maximum number of columns of a map; with more rounds, a column is the mean of several."""

_FEW = 40
"""Maximum number of rows with names beside them."""

_MAP = "viridis"  # perceptually uniform, and suitable for color-blind readers
Values = npt.NDArray[np.float64]


class Scale(NamedTuple):
    """A scale from numbers to colors, for maps that are compared.

    Attributes:
        low: The number of the darkest color; lower numbers including zero have it, too.
        high: The number of the brightest color.
        logarithmic: Whether the scale is logarithmic.
        in_bytes: Whether the numbers are bytes.
    """

    low: float
    high: float
    logarithmic: bool
    in_bytes: bool

    @classmethod
    def of(cls, values: Sequence[Values], *, in_bytes: bool = False, linear: bool = False) -> Scale:
        """Returns a scale for all these numbers; linear if they are within a factor of 30."""
        every = np.concatenate([each.ravel() for each in values])
        every = every[np.isfinite(every)]
        positive = every[every > 0]
        if linear or not positive.size or positive.max() <= 30 * positive.min():
            low, high = (0.0, float(every.max(initial=0.0)) or 1.0)
            return cls(low, high, False, in_bytes)
        return cls(float(positive.min()), float(positive.max()), True, in_bytes)

    def written(self, value: float) -> str:
        """Formats a number for the color bar."""
        return size(value) if self.in_bytes else amount(value, 2)


def columns(values: Values) -> tuple[Values, Values]:
    """Condenses rounds to as many columns as a map can show.

    Args:
        values: Numbers ``[row, round]``; NaN where there is no number.

    Returns:
        Means of neighboring rounds, ``[row, column]``, and the edges of the columns, in rounds.
    """
    rounds = values.shape[1]
    edges = np.linspace(0, rounds, min(rounds, _COLUMNS) + 1).round().astype(int)
    known = np.isfinite(values)
    sums = np.add.reduceat(np.where(known, values, 0.0), edges[:-1], axis=1)
    counts = np.add.reduceat(known, edges[:-1], axis=1, dtype=np.int64)
    means = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
    return means, edges + 0.5


def heat_map(
    name: str,
    title: str,
    description: str,
    values: Values,
    rows: Sequence[str],
    scale: Scale,
    what: str,
    kind: str = "rows",
) -> Markup:
    """Renders a heat map of rows by rounds.

    Args:
        name: The identifier of the figure, unique in the page.
        title: The title of the figure, for screen readers.
        description: The content of the figure, for screen readers.
        values: Numbers ``[row, round]``; NaN where there is no number.
        rows: The names of the rows.
        scale: The scale from numbers to colors.
        what: The quantity, beside the color bar.
        kind: The kind of the rows, if they are too many to be named.
    """
    means, edges = columns(values)
    named, roomy = len(rows) <= _FEW, len(rows) <= 12

    def paint(axes: Axes) -> None:
        from matplotlib.colors import LogNorm, Normalize
        from matplotlib.ticker import MaxNLocator

        norm = (LogNorm if scale.logarithmic else Normalize)(scale.low, scale.high)
        shown = np.maximum(means, scale.low)  # NaN stays NaN, and blank
        extent = (float(edges[0]), float(edges[-1]), len(rows) - 0.5, -0.5)
        image = axes.imshow(shown, cmap=_MAP, norm=norm, aspect="auto", interpolation="none", extent=extent)
        axes.set_yticks(
            range(len(rows)) if named else [], [shortened(row, 34) for row in rows] if named else []
        )
        if not named:
            axes.set_ylabel(f"{len(rows)} {kind}")
        axes.set_xlabel("round")
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
        axes.tick_params(length=0)
        axes.tick_params(axis="y", labelsize=12 if roomy else 10)
        axes.spines[:].set_visible(False)
        _color_bar(axes, image, scale, what)

    height = 90 + min(420, max(70, (20 if roomy else 14) * len(rows)))
    return svg.draw(name, height, title, description, paint)


def _color_bar(axes: Axes, image: Any, scale: Scale, what: str) -> None:
    bar: Any = axes.figure.colorbar(image, cax=axes.inset_axes((1.02, 0, 0.02, 1)))
    bar.solids.set_rasterized(True)
    bar.outline.set_visible(False)
    bar.set_label(what)
    bar.ax.minorticks_off()
    bar.ax.tick_params(length=0)
    between = np.array([0, 1 / 3, 2 / 3, 1])
    if scale.logarithmic:
        ticks = scale.low * (scale.high / scale.low) ** between
    else:
        ticks = scale.low + (scale.high - scale.low) * between
    bar.set_ticks(ticks.tolist())
    bar.ax.yaxis.set_major_formatter(lambda value, _: scale.written(value))
