"""Divides a model into fragments that are exchanged in turn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch

import fedplug
from fedplug.errors import ArgumentError
from fedplug.registry.component import plain
from fedplug_torch.tensors import arrays_like

__all__ = ["codecs_of", "divided"]


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
