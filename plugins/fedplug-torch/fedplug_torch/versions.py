"""`fedplug.Broadcaster` and `fedplug.Receiver` for tensors: a trainer's weights as messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import fedplug
from fedplug_torch.codec import NamedTensors, named
from fedplug_torch.tensors import as_arrays, as_exact_array, as_tensor

__all__ = ["Broadcaster", "Receiver"]


class Broadcaster:
    """Turns versions of a model's tensors into messages, exact or lossy. See `fedplug.Broadcaster`.

    >>> import fedplug_torch, torch
    >>> server = fedplug_torch.Broadcaster("lossless")
    >>> version = server.publish(torch.nn.Linear(64, 32).to(torch.bfloat16).state_dict())
    >>> receiver = fedplug_torch.Receiver()
    >>> weights = receiver.apply(server.message(receiver.version))
    >>> weights["bias"].dtype, receiver.version == version
    (torch.bfloat16, True)
    """

    def __init__(self, encoder: object = "auto", **options: Any) -> None:
        """Takes the arguments of `fedplug.Broadcaster`, and raises its errors."""
        self._server = fedplug.Broadcaster(encoder, **options)

    @property
    def version(self) -> str | None:
        """The newest version. None before the first."""
        return self._server.version

    @property
    def model(self) -> dict[str, torch.Tensor]:
        """The tensors that receivers of the newest version hold, as copies.

        Raises:
            ArgumentError: There is no version yet.
        """
        return _as_tensors(self._server.model)

    def publish(self, tensors: NamedTensors) -> str:
        """Makes a new version, see `fedplug.Broadcaster.publish`.

        Args:
            tensors: Tensors by name, usually a ``state_dict()``; a module means only its parameters. Tensors
                on a device are copied to the host.

        Raises:
            ArgumentError: A tensor cannot be sent. The message names it.
        """
        return self._server.publish(as_arrays(named(tensors), as_exact_array) or {})

    def message(self, since: str | None = None) -> bytes:
        """Returns the message for receivers of a version, see `fedplug.Broadcaster.message`."""
        return self._server.message(since)


class Receiver:
    """Holds the tensors of one receiver, and brings them up to date. See `fedplug.Receiver`."""

    def __init__(
        self, store: fedplug.stores.StateStore | None = None, client_id: str = "", **options: Any
    ) -> None:
        """Takes the arguments of `fedplug.Receiver`, and raises its errors."""
        self._receiver = fedplug.Receiver(store, client_id, **options)

    @property
    def version(self) -> str | None:
        """The version to report to the server. None without a model."""
        return self._receiver.version

    @property
    def model(self) -> dict[str, torch.Tensor] | None:
        """The tensors on the CPU, as copies. None before the first message."""
        model = self._receiver.model
        return None if model is None else _as_tensors(model)

    def apply(self, data: object) -> dict[str, torch.Tensor]:
        """Brings the model to the version of a message, or raises an error and leaves it unchanged.

        Args:
            data: The untrusted bytes from `Broadcaster.message`.

        Returns:
            The tensors on the CPU, as copies, for `torch.nn.Module.load_state_dict`.

        Raises:
            BaseVersionError: The message is for receivers of another version. Report `version` again.
            PayloadError: The message is refused, see `fedplug.Receiver.apply`.
            StoreError: The model cannot be stored.
        """
        return _as_tensors(self._receiver.apply(data))


def _as_tensors(arrays: dict[str, NDArray[np.generic]]) -> dict[str, torch.Tensor]:
    """Converts read-only arrays, which `as_tensor` copies."""
    return {name: as_tensor(array) for name, array in arrays.items()}
