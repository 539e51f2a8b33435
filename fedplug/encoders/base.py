"""The contract of an encoder, and the optional one for metrics.

The conformance suite tests the promises in the docstrings. The other optional contract, for rate control, is
`fedplug.encoders.assignment.Adjustable`.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import fedplug.ops as ops
from fedplug.ops.types import Array, Scalar, Spec
from fedplug.registry.component import Component
from fedplug.registry.specs import Capabilities

if TYPE_CHECKING:
    from typing import Self

__all__ = ["BodyParts", "Encoder", "Measured", "Payload", "State", "body_parts"]

Payload = Mapping[str, Array]
"""The encoded form of one tensor as named arrays. `Encoder.to_wire` turns it into bytes."""

State = Mapping[str, Array]
"""The arrays that a client keeps between rounds for one tensor. Empty for a stateless encoder."""


class Encoder(Component):
    """Compresses one tensor at a time, without side effects: the caller keeps the state between rounds.

    An encoder written against `fedplug.ops` executes on NumPy arrays at once, and on TensorFlow's tensors
    inside graphs. An encoder written in plain TensorFlow executes in graphs only. `Capabilities.executes_on`
    declares which. Methods depend on their arguments and the configuration only, and keep nothing on
    ``self``. ``spec`` describes the tensor that is compressed: a `fedplug.ops.types.ArraySpec` or a
    `tf.TensorSpec` with a fully known shape. Only ops may write over the arrays of a state, and only if they
    were donated (`fedplug.ops.donation.donate_residuals`).

    The round trip is ``init_state -> encode -> to_wire -> from_wire -> decode``.

    An encoder with error feedback keeps the residual in its state under ``"residual"``. Then
    ``decode(payload) + residual' == x + residual`` holds bit for bit where the arithmetic is exact (top-k),
    and up to rounding elsewhere. If the configuration lets the residual decay, it is ``share * residual``
    there. A state with ``"momentum"`` too adds more to the update. Residuals and memories have the
    dtype `fedplug.ops.wide_dtype`, which is float32 for a 16-bit tensor: a 16-bit number that grows by equal
    steps soon stops growing.

    An encoder of differences (`Capabilities.sends_differences`) keeps a memory, initially zeros, in its state
    under ``"memory"``. The receiver keeps the same. The encoder sends ``x - memory``, and
    ``memory' == memory + decode(payload)``.

    The wire form is frozen: every later release reads the bytes written under a ``wire_id``. A change to the
    layout needs a new ``wire_id``.

    Most encoders are a `fedplug.encoders.Pipeline`. Write a stage of one if that is enough. An encoder may
    also be `Measured`, and `fedplug.encoders.Adjustable` by rate control.
    """

    wire_id: ClassVar[str]
    """The name of the frozen layout of `to_wire`, such as ``"identity/1"``; at most 64 ASCII characters."""

    @property
    @abc.abstractmethod
    def capabilities(self) -> Capabilities:
        """The promises of this encoder in its configuration."""

    def init_state(self, spec: Spec) -> State:
        """Returns the state of a client in its first round. Default: an empty state."""
        del spec
        return {}

    @abc.abstractmethod
    def encode(self, x: Array, state: State, round_num: Scalar) -> tuple[Payload, State]:
        """Compresses ``x``.

        Args:
            x: The tensor. Finite, of a dtype that the encoder accepts.
            state: The state from `init_state` or from this client's previous call for this tensor.
            round_num: The round number, for schedules and seeds: an int, or an int32 scalar.

        Returns:
            The payload and the next state, which has the structure, shapes and dtypes of ``state``.
        """

    def grouped_encode(
        self, xs: Sequence[Array], states: Sequence[State], round_num: Scalar
    ) -> list[tuple[Payload, State]]:
        """Compresses all tensors of a model that share this encoder. Default: each tensor by itself.

        Override it in an encoder that compares tensors, for instance to allocate entries across them. Each
        payload is still decoded by itself, and one tensor alone is encoded as by `encode`.

        Args:
            xs: The tensors, one or more, as for `encode`.
            states: The state of each tensor.
            round_num: The round number, as for `encode`.

        Returns:
            The payload and the next state of each tensor.

        Raises:
            ConfigError: These tensors cannot be encoded together, for instance because their dtypes differ.
        """
        return [self.encode(x, state, round_num) for x, state in zip(xs, states, strict=True)]

    @abc.abstractmethod
    def decode(self, payload: Payload, spec: Spec) -> Array:
        """Returns the dense tensor that a payload represents."""

    def accumulate(self, accumulator: Array, payload: Payload, weight: Array, spec: Spec) -> Array:
        """Returns ``accumulator + weight * decode(payload)``. Sparse encoders touch only the entries sent.

        Args:
            accumulator: A dense tensor of the spec's shape, and of its dtype or `fedplug.ops.wide_dtype`.
            payload: The payload from `encode` or `from_wire`.
            weight: A scalar of the accumulator's dtype.
            spec: The spec of the tensor that was encoded.
        """
        return accumulator + weight * ops.astype(self.decode(payload, spec), accumulator.dtype)

    @abc.abstractmethod
    def to_wire(self, payload: Payload, spec: Spec) -> Array:
        """Returns the payload as bytes, a uint8 vector. fedplug adds a header and a checksum."""

    @abc.abstractmethod
    def from_wire(self, body: Array, spec: Spec) -> Payload:
        """Reads the untrusted bytes of `to_wire`.

        Whatever the bytes are, the result is a valid payload or a `fedplug.errors.PayloadError`, in a graph a
        `tf.errors.InvalidArgumentError`. There is no read or write out of bounds, and no allocation that the
        number of bytes or the spec does not justify. A payload with a NaN or an infinity is not valid,
        because it would spoil the server's model.
        """

    @classmethod
    def from_payload(cls, body: Array, spec: Spec) -> Self:
        """Returns an encoder that reads this payload, for a receiver without a configuration.

        Default: ``cls()``. Override it if `from_wire` depends on the configuration, and read that from the
        bytes.

        Args:
            body: The untrusted bytes as for `from_wire`, a NumPy array.
            spec: The spec of the tensor that was encoded.

        Raises:
            PayloadError: No encoder writes these bytes.
        """
        del body, spec
        return cls()


class BodyParts(NamedTuple):
    """How the bytes of `Encoder.to_wire` are used; for metrics.

    Attributes:
        index_bytes: Number of bytes that say which entries are sent. An integer, or an integer scalar.
        value_bytes: Number of bytes for the values, scales included. The remaining bytes are the header.
        entropy_bytes: Number of bytes that ideal codes of indices and values would take; a float, NaN if it
            is not known.
    """

    index_bytes: Array | int
    value_bytes: Array | int
    entropy_bytes: Array | float


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
