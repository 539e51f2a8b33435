"""Divides the parameters of a model between ranks."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import torch

__all__ = ["Part", "partition"]

_TOLERANCE = 8
"""A rank's parts may begin and end an eighth of its share away from the ideal places."""


class Part(NamedTuple):
    """A parameter, or consecutive rows of its first dimension.

    Attributes:
        parameter: The name of the parameter.
        rows: The first row and the one after the last. None for the whole parameter.
    """

    parameter: str
    rows: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        """The name of the parameter, and the rows if they are not all."""
        return self.parameter if self.rows is None else f"{self.parameter}[{self.rows[0]}:{self.rows[1]}]"

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns a view of this part of the parameter's tensor."""
        return tensor if self.rows is None else tensor[slice(*self.rows)]


class _Place(NamedTuple):
    """The place of a parameter's elements among those of the model, and the size of a row."""

    begin: int
    end: int
    row: int


def partition(shapes: Mapping[str, Sequence[int]], ranks: int) -> list[list[Part]]:
    """Divides parameters into consecutive parts with nearly equal numbers of elements, a list for each rank.

    A parameter is divided, between two rows, only where both of its ends are more than an eighth of a rank's
    share away. Parameters without elements are left out.

    Args:
        shapes: The shape of each parameter by name, in the order of the model.
        ranks: Number of ranks.
    """
    places, end = {}, 0
    for name, shape in shapes.items():
        begin, end = end, end + torch.Size(shape).numel()
        if begin < end:
            places[name] = _Place(begin, end, (end - begin) // shape[0] if shape else 1)
    tolerance = end // (_TOLERANCE * ranks)
    cuts = sorted(_cut(end * rank // ranks, places.values(), tolerance) for rank in range(1, ranks))
    return [_between(first, last, places) for first, last in itertools.pairwise([0, *cuts, end])]


def _cut(ideal: int, places: Iterable[_Place], tolerance: int) -> int:
    """Returns the end of a parameter or of a row at which to divide the model."""
    for begin, end, row in places:
        if ideal < end:
            nearest = begin if ideal - begin < end - ideal else end
            if abs(nearest - ideal) <= tolerance:
                return nearest
            return begin + row * ((ideal - begin + row // 2) // row)
    return ideal


def _between(first: int, last: int, places: Mapping[str, _Place]) -> list[Part]:
    """Returns the parts of the elements from ``first`` to before ``last``."""
    parts = []
    for name, (begin, end, row) in places.items():
        low, high = max(first, begin), min(last, end)
        if (low, high) == (begin, end):
            parts.append(Part(name))
        elif low < high:
            parts.append(Part(name, ((low - begin) // row, (high - begin) // row)))
    return parts
