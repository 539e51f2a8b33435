"""Interfaces that encoders and stages may implement beside their contract: byte counts and fused encoding.

They are optional: for an encoder without them, `body_parts` and
`fedplug.encoders.framing.encode_containers` call the methods of the contract. The interface for rate
control is in `fedplug.encoders.rate_control`.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import fedplug.ops as ops
from fedplug.encoders.base import Encoder, State
from fedplug.ops.device_array import DeviceArray
from fedplug.ops.types import Array, ArraySpec, DType, PackedValues, Spec

__all__ = [
    "BodyParts",
    "ContainerEncoder",
    "ContainerQuantizer",
    "DeviceQuantizer",
    "Measured",
    "body_parts",
]


class BodyParts(NamedTuple):
    """How the bytes of `Encoder.to_wire` are used; for metrics.

    Attributes:
        index_bytes: Number of bytes that say which entries are sent. An integer, or an integer scalar.
        value_bytes: Number of bytes for the values, scales included. The remaining bytes are the header.
        entropy_bytes: Number of bytes that ideal codes of indices and values would take; a float, NaN if it
            is not known.
    """

    index_bytes: Any
    value_bytes: Any
    entropy_bytes: Any


class Measured(abc.ABC):
    """An encoder that reports how its bytes are used."""

    @abc.abstractmethod
    def body_parts(self, body: Array, spec: Spec) -> BodyParts:
        """Returns how the bytes of `Encoder.to_wire` are used.

        Args:
            body: The bytes, as for `Encoder.from_wire`.
            spec: The spec of the tensor that was encoded.
        """


def body_parts(encoder: Encoder, body: Array, spec: Spec) -> BodyParts:
    """Returns how the bytes of a payload are used; unless it is `Measured`, all count as values."""
    if isinstance(encoder, Measured):
        return encoder.body_parts(body, spec)
    return BodyParts(index_bytes=0, value_bytes=ops.size(body), entropy_bytes=math.nan)


class ContainerEncoder(abc.ABC):
    """An encoder with a faster way from arrays to whole containers."""

    @abc.abstractmethod
    def encode_containers(
        self,
        xs: Sequence[Array],
        states: Sequence[State],
        round_num: int,
        specs: Sequence[ArraySpec],
        headers: Sequence[bytes],
    ) -> list[tuple[bytes, State]]:
        """Returns the containers and next states of `Encoder.grouped_encode` and `Encoder.to_wire`.

        Args:
            xs: The NumPy or device arrays that share this encoder, one or more.
            states: A state for each array.
            round_num: The round number.
            specs: The spec of each array.
            headers: The container header of each array, see `fedplug.wire.header`.

        Raises:
            NonFiniteError: A value that would be sent uncompressed is NaN or infinite.
        """


class DeviceQuantizer(abc.ABC):
    """A quantizer that encodes and decodes on a CUDA device, if its `Capabilities.executes_on` says so."""

    @abc.abstractmethod
    def packed(self, code: NDArray[np.uint8], count: int, dtype: DType) -> PackedValues:
        """Checks the untrusted code of ``count`` values, which a device then decodes.

        Raises:
            PayloadError: `Quantizer.decode` refuses the code.
        """

    @abc.abstractmethod
    def encode_on_device(
        self, xs: Sequence[DeviceArray], residuals: Sequence[Any] | None, round_num: int
    ) -> tuple[list[NDArray[np.uint8]], list[DeviceArray]]:
        """Returns the codes, on the host, and the next residuals, on the device.

        Args:
            xs: The arrays, on one device.
            residuals: A residual to add to each array first, of its `fedplug.ops.wide_dtype`, on the device
                or the host. None for none, and then there are no next residuals.
            round_num: The round number.

        Raises:
            NonFiniteError: A value or a sum is NaN or infinite. Nothing has changed.
        """


class ContainerQuantizer(abc.ABC):
    """A quantizer that writes its bytes into the container itself, and several vectors at the same time."""

    @abc.abstractmethod
    def encode_container(self, values: NDArray[Any], round_num: int, header: bytes) -> bytes:
        """Returns the container of the bytes that `Quantizer.encode` writes for a NumPy array.

        Args:
            values: The values, as for `Quantizer.encode`.
            round_num: The round number.
            header: The header of the container, see `fedplug.wire.header`.
        """

    @abc.abstractmethod
    def encode_each(
        self, values: Sequence[NDArray[Any]], round_num: int, exact: Sequence[NDArray[Any]] | None
    ) -> tuple[list[NDArray[np.uint8]], list[NDArray[Any]]]:
        """Encodes several vectors of one dtype.

        Args:
            values: The vectors, finite.
            round_num: The round number.
            exact: The vectors before they were rounded to the dtype of ``values``. None if errors are not
                needed.

        Returns:
            The bytes of each vector, and ``exact`` minus the decoded values; without ``exact`` an empty
            list.
        """
