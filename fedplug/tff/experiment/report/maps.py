"""Heat maps: numbers by row and round as colors, one map for each run, with one color bar for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from fedplug.tff.experiment.display import Json, amount, shortened, size

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Scale", "columns", "height_of", "paint_map"]

_COLUMNS = 150
"""Maximum number of columns of a map; with more rounds, a column is the mean of several."""

_NAMED = 40
"""Maximum number of rows with names beside them."""

Values = npt.NDArray[np.float64]


class Scale(NamedTuple):
    """A scale from numbers to colors, for maps that are compared.

    Attributes:
        low: The number of the darkest color. Lower numbers including zero have it, too.
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
        """Returns a scale for all these numbers. Linear if they are within a factor of 30."""
        every = np.concatenate([each.ravel() for each in values])
        every = every[np.isfinite(every)]
        positive = every[every > 0]
        if linear or not positive.size or positive.max() <= 30 * positive.min():
            return cls(0.0, float(every.max(initial=0.0)) or 1.0, False, in_bytes)
        return cls(float(positive.min()), float(positive.max()), True, in_bytes)

    def written(self, value: float) -> str:
        """Formats a number of the scale."""
        return size(value) if self.in_bytes else amount(value, 2)


def columns(values: Values) -> tuple[Values, Values]:
    """Condenses rounds to as many columns as a map can show.

    Args:
        values: Numbers ``[row, round]``. NaN where there is no number.

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


def height_of(rows: int) -> float:
    """Returns the height of a map in inches."""
    return 0.9 + min(5.0, max(0.7, 0.16 * rows))


def paint_map(axes: Axes, values: Values, rows: Sequence[str], scale: Scale, quantity: str) -> None:
    """Draws a heat map of rows by rounds with a color bar, blank where there is no number.

    Args:
        axes: The axes.
        values: Numbers ``[row, round]``. NaN where there is no number.
        rows: The names of the rows.
        scale: The scale from numbers to colors.
        quantity: The name of the numbers, beside the color bar.
    """
    from matplotlib.colors import LogNorm, Normalize
    from matplotlib.ticker import MaxNLocator

    means, edges = columns(values)
    norm = (LogNorm if scale.logarithmic else Normalize)(scale.low, scale.high)
    shown = np.maximum(means, scale.low)  # NaN stays NaN, and blank
    extent = (float(edges[0]), float(edges[-1]), len(rows) - 0.5, -0.5)
    image = axes.imshow(shown, norm=norm, aspect="auto", interpolation="none", extent=extent)
    named = len(rows) <= _NAMED
    axes.set_yticks(range(len(rows)) if named else [], [shortened(row, 26) for row in rows] if named else [])
    axes.tick_params(axis="y", labelsize=9 if len(rows) <= 12 else 7)
    axes.set_xlabel("round")
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    bar: Json = axes.figure.colorbar(image, ax=axes, pad=0.02, fraction=0.04)
    bar.solids.set_rasterized(True)
    bar.outline.set_visible(False)
    bar.set_label(quantity)
    between = np.array([0, 1 / 3, 2 / 3, 1])
    steps = (scale.high / scale.low) ** between if scale.logarithmic else between
    ticks = scale.low * steps if scale.logarithmic else scale.low + (scale.high - scale.low) * steps
    bar.set_ticks(ticks.tolist(), labels=[scale.written(tick) for tick in ticks])
    bar.ax.minorticks_off()
