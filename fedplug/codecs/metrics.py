"""Per-tensor metrics of encoded arrays, summed over any number of clients and rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedplug.encoders.model import tensor_metrics
from fedplug.encoders.model.model_encoder import ModelEncoder
from fedplug.errors import ArgumentError
from fedplug.ops.types import Array

__all__ = ["TensorMetrics"]


class TensorMetrics:
    """Measurements of each array of a model: bytes by use, entropy bound, error, residual.

    Pass it to `Codec.encode_model`, once or often: the measurements add up. They are the same numbers as the
    ``tensors`` of a TFF process (`fedplug.tff.process.build_weighted_fed_avg`), up to rounding. It is
    not thread-safe: give each thread one of its own and `merge` them.
    """

    def __init__(self) -> None:
        """Makes metrics without measurements."""
        self._names: list[str] = []
        self._sums: dict[str, Array] = {}

    def value(self) -> dict[str, dict[str, int | float | None]]:
        """Returns the measurements so far by the array's name, as JSON values. None if they are unknown.

        ``uplink_bytes`` is the sum of ``index_bytes``, ``value_bytes`` and ``header_bytes`` (container,
        checksum and the rest). ``entropy_bytes`` is the size of ideal codes of indices and values. ``nmse``
        is ``sum ||a - decoded||^2 / sum ||a||^2``, where a is the array with its residual.
        ``residual_ratio`` is the root of ``sum ||residual||^2 / sum ||array||^2``, after encoding.
        docs/observe.md has the details.
        """
        if not self._names:
            return {}
        with np.errstate(invalid="ignore", divide="ignore"):
            return tensor_metrics.by_name(self._names, tensor_metrics.summarize(self._sums))

    def merge(self, other: TensorMetrics) -> None:
        """Adds the measurements of another object.

        Raises:
            ArgumentError: ``other`` is not such an object, or measured arrays of other names.
        """
        if not isinstance(other, TensorMetrics) or other is self:
            raise ArgumentError("merge takes another TensorMetrics")
        if other._names:
            self._add(other._names, other._sums)

    def require(self, names: Sequence[str]) -> None:
        """Raises ArgumentError if arrays of other names were measured."""
        if self._names and self._names != list(names):
            raise ArgumentError(
                f"these metrics are of the arrays {self._names}, not of {list(names)}; use others for "
                "another model"
            )

    def __repr__(self) -> str:
        return f"TensorMetrics({len(self._names or ())} arrays)"

    def measure(
        self,
        encoder: ModelEncoder,
        arrays: Sequence[NDArray[np.generic]],
        buffers: Sequence[bytes],
        next_states: Sequence[Mapping[str, NDArray[np.generic]]],
    ) -> None:
        """Adds an encoded update. Arguments as for `fedplug.encoders.model.tensor_metrics.measure`."""
        with np.errstate(over="ignore", invalid="ignore"):
            sums = tensor_metrics.measure(encoder, arrays, buffers, next_states)
        self._add([str(spec.name) for spec in encoder.specs], sums)

    def _add(self, names: Sequence[str], sums: Mapping[str, Array]) -> None:
        self.require(names)
        before = self._sums or {key: np.zeros_like(vector) for key, vector in sums.items()}
        after = {key: before[key] + vector for key, vector in sums.items()}
        self._names, self._sums = list(names), after  # without a call in between, no signal handler runs
