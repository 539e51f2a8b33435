"""Divides a model: into fragments that are exchanged in turn, and between ranks."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import torch

import fedplug
from fedplug.errors import ArgumentError
from fedplug.registry.component import plain
from fedplug_torch.tensors import arrays_like

__all__ = ["Part", "codecs_of", "divided", "partition"]


def divided(
    parameters: Mapping[str, torch.Tensor], fragments: int | Sequence[object]
) -> list[dict[str, torch.Tensor]]:
    """Divides parameters into fragments. The order of parameters stays the same in each fragment.

    Args:
        parameters: The parameters by name.
        fragments: The number of fragments, which then have about equal sizes, or for each fragment a module
            or the parameters.

    Raises:
        ArgumentError: There are more fragments than parameters, or a parameter is in none or in several.
    """
    if isinstance(fragments, Sequence) and not isinstance(fragments, str):
        places = _places(parameters, fragments)
        count = len(fragments)
    else:
        count = plain(fragments)
        if type(count) is not int or not 1 <= count <= len(parameters):
            raise ArgumentError(
                f"fragments is {fragments!r}; it must be a whole number from 1 to the number of parameters, "
                f"{len(parameters)}, or a list with the modules of each fragment"
            )
        sizes = [0] * count
        places = {}
        for name in sorted(parameters, key=lambda name: -parameters[name].nbytes):  # the largest first
            places[name] = sizes.index(min(sizes))
            sizes[places[name]] += parameters[name].nbytes or 1
    return [{name: p for name, p in parameters.items() if places[name] == place} for place in range(count)]


def codecs_of(
    codec: fedplug.Codec, shards: Mapping[str, torch.Tensor], parts: Sequence[Mapping[str, torch.Tensor]]
) -> list[fedplug.Codec]:
    """Returns the codec of each fragment; a rule needs to match a parameter of the model, not of each.

    Args:
        codec: The codec of the whole model.
        shards: This rank's shards of all parameters, by name.
        parts: The parameters of each fragment.
    """
    if len(parts) == 1:
        return [codec]
    arrays = arrays_like(shards)
    codec.model_encoder(arrays)
    return [codec.for_part({name: arrays[name] for name in part}) for part in parts]


def _places(parameters: Mapping[str, torch.Tensor], fragments: Sequence[object]) -> dict[str, int]:
    """Returns the fragment of each parameter, by name."""
    names = {p: name for name, p in parameters.items()}
    found: dict[str, list[int]] = {name: [] for name in parameters}
    for place, given in enumerate(fragments):
        members = given.parameters() if isinstance(given, torch.nn.Module) else given
        if not isinstance(members, Iterable) or isinstance(members, str | Mapping | torch.Tensor):
            raise ArgumentError(f"fragment {place} is a {type(given).__name__}; pass a module or parameters")
        members = list(members)
        if other := [type(member).__name__ for member in members if not isinstance(member, torch.Tensor)]:
            raise ArgumentError(f"fragment {place} has a {other[0]}; pass a module or parameters, not names")
        for member in dict.fromkeys(members):
            if member in names:  # others are not trained
                found[names[member]].append(place)
    if empty := set(range(len(fragments))) - {place for places in found.values() for place in places}:
        raise ArgumentError(f"fragment {min(empty)} has no parameter that is trained")
    wrong = [f"{name!r} is in {places or 'none'}" for name, places in found.items() if len(places) != 1]
    if wrong:
        raise ArgumentError(f"each parameter must be in one fragment; {'; '.join(wrong)}")
    return {name: places[0] for name, places in found.items()}


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
