"""A model plus the weighted mean of updates, which are added without making them dense."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping

import numpy as np
from flwr.app import ArrayRecord, RecordDict

import fedplug
from fedplug_flower import differences
from fedplug_flower.differences import dtype_of, read
from fedplug_flower.records import Reply

__all__ = ["RoundSum"]


class RoundSum:
    """Sums updates in the memory of one model. Sparse payloads are added entry by entry.

    Each update is checked completely before any of it is added, so a refused client leaves no trace.
    """

    def __init__(
        self,
        model: ArrayRecord,
        codec: fedplug.Codec,
        values: Collection[str] = (),
        received: ArrayRecord | None = None,
    ) -> None:
        """Starts an empty sum.

        Args:
            model: The server's model, to which updates are added. It determines which updates are valid.
            codec: The codec of the request. Payloads of other encoders are refused.
            values: Names of arrays whose trained values are sent instead of differences.
            received: The model as the clients received it. None if it is ``model``.

        Raises:
            ValueError: An array of the model cannot be averaged. The message names it.
        """
        self._model = model
        self._received = model if received is None else received
        self._values = values
        arrays = {name: read(name, array) for name, array in model.items()}
        # Values are not added to the model, so its entries do not limit them.
        zeros = {name: np.zeros_like(arrays[name]) for name in values}
        sent = {n: a if n in values else np.empty(a.shape, dtype_of(a)) for n, a in arrays.items()}
        of_clients = fedplug.Codec(codec.encoder, min_size=codec.min_size, exactly=values)
        self._total = fedplug.ModelSum.like(arrays | zeros, wire_ids=of_clients.wire_ids(sent))
        self._uncompressed = fedplug.codec("identity")

    def read(self, content: RecordDict) -> Reply:
        """Reads a compressed update of this model.

        Raises:
            ValueError: See `Reply.read`, or it says that its trained arrays are larger than any can be.
        """
        update = Reply.read(content, list(self._model))
        if not 0 <= update.dense_bytes <= 8 * self._model.count_bytes():  # float64 instead of one byte
            raise ValueError(f"it says that its trained arrays have {update.dense_bytes:,} bytes")
        return update

    def add_payloads(self, payloads: Mapping[str, bytes], weight: float) -> None:
        """Adds a compressed update.

        Raises:
            fedplug.errors.FedplugError: The update does not fit this model. The message names the tensor.
        """
        self._total.add(payloads, weight)

    def add_arrays(self, trained: ArrayRecord, weight: float) -> None:
        """Adds the update of a client that sent its trained model.

        Raises:
            ValueError: The arrays do not fit the model. The message names the array.
            fedplug.errors.FedplugError: The update is not finite, or too large.
        """
        self._total.add(self._encoded(trained), weight)

    def checked(self, trained: ArrayRecord, weight: float) -> ArrayRecord:
        """Returns a trained model in the order and the dtypes of the model, without adding it.

        Raises:
            ValueError: The arrays are invalid. See `add_arrays`.
        """
        self._total.check(self._encoded(trained), weight)
        if self._received is self._model:
            return differences.in_form_of(self._model, trained)
        return differences.moved(self._model, self._update(trained), self._values)

    def decoded(self, payloads: Mapping[str, bytes], weight: float) -> ArrayRecord:
        """Returns the trained model of a compressed update, without adding it.

        Raises:
            fedplug.errors.FedplugError: The update is invalid. See `add_payloads`.
        """
        self._total.check(payloads, weight)  # limits their size to that of the model
        return differences.moved(
            self._model, fedplug.decode_model(payloads, max_bytes=sys.maxsize), self._values
        )

    @property
    def weight(self) -> float:
        """The sum of the weights."""
        return self._total.weight

    def moved(self) -> ArrayRecord:
        """Returns the model plus the weighted mean of the updates: the average of the trained models.

        Raises:
            fedplug.errors.ArgumentError: Nothing was added.
            fedplug.errors.NonFiniteError: The mean is not finite.
        """
        return differences.moved(self._model, self._total.mean(), self._values)

    def _encoded(self, trained: ArrayRecord) -> dict[str, bytes]:
        return self._uncompressed.encode_model(self._update(trained))[0]

    def _update(self, trained: ArrayRecord) -> differences.Differences:
        return differences.between(trained, self._received, self._values)
