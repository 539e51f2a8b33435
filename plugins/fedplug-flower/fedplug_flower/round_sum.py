"""A model moved by the weighted mean of updates, which are added as they are. Must not know of messages."""

from __future__ import annotations

from collections.abc import Mapping

from flwr.app import ArrayRecord

import fedplug
from fedplug_flower import differences

__all__ = ["RoundSum"]


class RoundSum:
    """Takes the memory of one sum, however many clients there are; sparse payloads never become dense.

    What a client sent is read to its last byte before any of it is added: a client that is refused leaves no
    trace.
    """

    def __init__(self, model: ArrayRecord) -> None:
        """Nothing is added yet.

        Args:
            model: That was sent to the clients.
        """
        self._model = model
        self._total = fedplug.ModelSum.like({name: array.numpy() for name, array in model.items()})
        self._uncompressed = fedplug.codec("identity")

    def add_payloads(self, payloads: Mapping[str, bytes], weight: float) -> None:
        """Adds a compressed update.

        Raises:
            fedplug.errors.FedplugError: It is none of this model; the message names the tensor.
        """
        self._total.add(payloads, weight)

    def add_arrays(self, trained: ArrayRecord, weight: float) -> None:
        """Adds the update of a client that sent its trained model.

        Raises:
            ValueError: It is no such model; the message names the array.
            fedplug.errors.FedplugError: Its update is not finite.
        """
        payloads, _ = self._uncompressed.encode_model(differences.between(trained, self._model))
        self._total.add(payloads, weight)

    @property
    def weight(self) -> float:
        """The sum of the weights."""
        return self._total.weight

    def moved(self) -> ArrayRecord:
        """The model plus the weighted mean of the updates: what averaging trained models comes to.

        Raises:
            fedplug.errors.ArgumentError: The weights add up to zero.
        """
        return differences.moved(self._model, self._total.mean())
