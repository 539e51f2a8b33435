"""Model entries that are not finite, such as masks of -inf: NVFlare's differences of them are NaN."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray
from nvflare.apis.dxo import DataKind, from_shareable
from nvflare.apis.shareable import Shareable

from fedplug import ops
from fedplug.codecs.arrays import as_array
from fedplug.errors import ArgumentError

__all__ = ["Constants", "base_of", "weights_of"]


def weights_of(task: Shareable) -> Mapping[str, object]:
    """Returns the weights in a received task. There may be none."""
    try:
        dxo = from_shareable(task)
    except ValueError:
        return {}
    return dxo.data if dxo.data_kind == DataKind.WEIGHTS and isinstance(dxo.data, Mapping) else {}


def base_of(weights: Mapping[str, object]) -> dict[str, NDArray[np.generic]]:
    """Returns the base of an update for `fedplug.Codec.encode_model`, which training cannot change.

    Only arrays without a negative element are copied. One -1, in the shape of the array, replaces each other.
    """
    base = {}
    for name, array in _arrays(weights):
        is_kept = ops.is_floating(array.dtype) and not (array < 0).any()
        base[name] = array.copy() if is_kept else np.broadcast_to(np.float32(-1), array.shape)
    return base


def _arrays(weights: Mapping[str, object]) -> Iterator[tuple[str, NDArray[np.generic]]]:
    """Yields the values that are arrays of numbers, by name."""
    for name, value in weights.items():
        with contextlib.suppress(ArgumentError):
            yield name, as_array(value)


class Constants:
    """The positions of weights that are not finite in a round. The weights are not kept."""

    def __init__(self, weights: Mapping[str, object]) -> None:
        """Reads NumPy arrays, torch tensors, or numbers, by name. Skips other values."""
        self._places: dict[str, NDArray[np.bool_]] = {}
        for name, array in _arrays(weights):
            if ops.is_floating(array.dtype) and not (finite := np.isfinite(array)).all():
                self._places[name] = ~finite

    def left_out(self, update: Mapping[str, object]) -> dict[str, object]:
        """Returns the update with zeros for unchanged entries whose difference is NaN."""
        result = dict(update)
        for name, places in self._places.items():
            if name in update and (array := as_array(update[name])).shape == places.shape:
                result[name] = np.where(places & np.isnan(array), array.dtype.type(0), array)
        return result
