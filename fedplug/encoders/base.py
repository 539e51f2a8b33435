"""The contract of an encoder: the docstring of `Encoder` is what the conformance suite tests."""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol

from numpy.typing import NDArray

from fedplug import kernels, ops
from fedplug.errors import NonFiniteError
from fedplug.ops.checks import sums_may_overflow
from fedplug.ops.types import Array, ArraySpec, Spec
from fedplug.registry.component import Component
from fedplug.registry.specs import Capabilities

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Adjustable", "BodyParts", "Encoder", "Payload", "State"]

Payload = Mapping[str, Array]
"""What leaves a client for one tensor, as named arrays; `Encoder.to_wire` turns it into bytes."""

State = Mapping[str, Array]
"""What stays on a client between rounds for one tensor, as named arrays; empty for a stateless encoder."""


class BodyParts(NamedTuple):
    """What the bytes of `Encoder.to_wire` are spent on, for metrics.

    Attributes:
        index_bytes: Say which entries are sent; an integer, or an integer scalar.
        value_bytes: Say what these are, scales included; the same. What is in neither counts as header.
        entropy_bytes: Float: what ideal codes would take for the two; NaN where that is not known.
    """

    index_bytes: Any
    value_bytes: Any
    entropy_bytes: Any


class Encoder(Component):
    """Compresses one tensor at a time; functional, so that a process can hold the state wherever it belongs.

    Written against `fedplug.ops` it executes on NumPy arrays, at once, and on TensorFlow's tensors, where its
    methods are traced into graphs; written in plain TensorFlow only there. `Capabilities.executes_on` says
    which. Methods keep nothing on ``self``, and must not depend on anything but their arguments and the
    configuration. ``spec`` is of the tensor being compressed, its shape fully known: a
    `fedplug.ops.types.ArraySpec`, or a `tf.TensorSpec`. Arrays of a state may be written over where they were
    donated (`fedplug.ops.donation.donate_residuals`), and by ops alone.

    The round trip is ``init_state -> encode -> to_wire -> from_wire -> decode``. With error feedback the
    encoder's state holds the residual, and ``decode(payload) + residual' == x + residual`` must hold bit for
    bit where the arithmetic is exact (top-k), and to rounding elsewhere; a residual that decays by a share
    which the configuration says is ``share * residual`` there. Residuals and memories are of the
    `fedplug.ops.wide_dtype`, float32 for a 16-bit tensor: 16-bit numbers that grow by equal steps soon stop.

    An encoder of differences (`Capabilities.sends_differences`) keeps a memory, initially zeros, in its state
    under ``"memory"``; the receiver keeps the same. It encodes ``x - memory`` with a new state, and
    ``memory' == memory + decode(payload)``.

    The wire form is frozen: bytes written under a ``wire_id`` can be read by every later release. A change to
    the layout is a new ``wire_id``.

    Most encoders are a `fedplug.encoders.Pipeline`; write a stage of one where that will do.
    """

    wire_id: ClassVar[str]
    """Names the frozen layout of `to_wire`, for instance ``"identity/1"``; at most 64 ASCII characters."""

    decode_copies: ClassVar[int] = 2
    """The most arrays of the tensor's size, in the dtype of its arithmetic, that `from_wire` and `decode`
    hold beside their result; receivers count them against ``max_bytes``."""

    @property
    @abc.abstractmethod
    def capabilities(self) -> Capabilities:
        """What this encoder, as configured, promises."""

    def init_state(self, spec: Spec) -> State:
        """The state of a client that takes part for the first time. Default: none."""
        del spec
        return {}

    @abc.abstractmethod
    def encode(self, x: Array, state: State, round_num: Array) -> tuple[Payload, State]:
        """Compresses ``x``.

        Args:
            x: The tensor; finite, of a dtype the encoder accepts.
            state: From `init_state` or from the previous call for this client and tensor.
            round_num: The round, for schedules and seeds: an int, or an int32 scalar.

        Returns:
            The payload and the next state, which has the structure, shapes and dtypes of ``state``.
        """

    def grouped_encode(
        self, xs: Sequence[Array], states: Sequence[State], round_num: Array
    ) -> list[tuple[Payload, State]]:
        """Compresses all tensors of a model that this encoder is for. Default: each by itself.

        An encoder that looks at all of them, to allocate entries across tensors for instance, overrides it.
        Each is still decoded by itself, and one without others is encoded as by `encode`.

        Args:
            xs: As for `encode`, one or more.
            states: One for each.
            round_num: As for `encode`.

        Returns:
            What `encode` returns, for each tensor.

        Raises:
            ConfigError: These tensors cannot be encoded together, for instance as their dtypes differ.
        """
        return [self.encode(x, state, round_num) for x, state in zip(xs, states, strict=True)]

    def encode_container(
        self, x: NDArray[Any], state: State, round_num: int, spec: ArraySpec, header: bytes
    ) -> tuple[bytes, State]:
        """What `encode` and `to_wire` make of a NumPy array, in its container; and the next state.

        Default: one after the other. An encoder that has a shorter way to the same bytes, with fewer arrays
        in between, overrides it.

        Args:
            x: As for `encode`.
            state: As for `encode`.
            round_num: As for `encode`.
            spec: Of the array.
            header: Of the container, see `fedplug.wire.header`.

        Raises:
            NonFiniteError: A value that would be sent as it is is NaN or infinite.
        """
        with sums_may_overflow():
            payload, next_state = self.encode(x, state, round_num)
        values = payload.get("values")
        if values is not None and ops.is_floating(values.dtype) and not kernels.all_finite(values):
            raise NonFiniteError("the array holds a NaN or an infinity, which no receiver would take")
        return kernels.frame(self.to_wire(payload, spec), header), next_state

    def encode_containers(
        self,
        xs: Sequence[Array],
        states: Sequence[State],
        round_num: int,
        specs: Sequence[ArraySpec],
        headers: Sequence[bytes],
    ) -> list[tuple[bytes, State]]:
        """Puts what `grouped_encode` and `to_wire` make of NumPy or device arrays into containers.

        Default: one after the other. An encoder with a shorter way to the same bytes overrides it.

        Args:
            xs: The arrays, one or more.
            states: A state for each array.
            round_num: The round number.
            specs: The spec of each array.
            headers: The container header of each array, see `fedplug.wire.header`.

        Returns:
            The container and the next state of each array.
        """
        encoded = self.grouped_encode(xs, states, round_num)
        return [
            (kernels.frame(self.to_wire(payload, spec), header), next_state)
            for (payload, next_state), spec, header in zip(encoded, specs, headers, strict=True)
        ]

    @abc.abstractmethod
    def decode(self, payload: Payload, spec: Spec) -> Array:
        """The dense tensor that a payload stands for."""

    def accumulate(self, accumulator: Array, payload: Payload, weight: Array, spec: Spec) -> Array:
        """Returns ``accumulator + weight * decode(payload)``; sparse encoders touch their own entries only.

        Args:
            accumulator: Dense, of the spec's shape; of its dtype, or of its `fedplug.ops.wide_dtype`.
            payload: As returned by `encode` or `from_wire`.
            weight: A scalar of the accumulator's dtype.
            spec: Of the tensor that was encoded.
        """
        return accumulator + weight * ops.astype(self.decode(payload, spec), accumulator.dtype)

    @abc.abstractmethod
    def to_wire(self, payload: Payload, spec: Spec) -> Array:
        """The payload as bytes, a uint8 vector; fedplug adds a header and a checksum."""

    @abc.abstractmethod
    def from_wire(self, body: Array, spec: Spec) -> Payload:
        """The inverse of `to_wire`.

        The bytes are hostile: whatever they are, the result is a valid payload or a
        `fedplug.errors.PayloadError`, in a graph a `tf.errors.InvalidArgumentError`; never a read or write
        out of bounds, never an allocation that the number of bytes or the spec does not justify. A payload
        that stands for a NaN or an infinity is not valid: what is added to the server's model must not be
        able to spoil it.
        """

    @classmethod
    def from_payload(cls, body: Array, spec: Spec) -> Self:
        """An encoder that reads this payload, for a receiver who knows no configuration. Default: ``cls()``.

        Override it where `from_wire` depends on the configuration, and read that off the bytes.

        Args:
            body: As for `from_wire`; untrusted, a NumPy array.
            spec: Of the tensor that was encoded.

        Raises:
            PayloadError: No encoder writes these bytes.
        """
        del body, spec
        return cls()

    @property
    def chooses_among_tensors(self) -> bool:
        """Whether `grouped_encode` compares the entries of all its tensors. Default: no."""
        return False

    def adjustable(self) -> Adjustable | None:
        """What rate control uses in this encoder's place. Default: None, nothing can be adjusted."""
        return None

    def around(self, encoder: Encoder) -> Encoder:
        """What is used for a tensor that is sent through ``encoder`` instead, as it is small: just that.

        An encoder of differences needs their memory for those, too.
        """
        return encoder

    def kept_residual(self, state: State) -> Array | None:
        """What of a state is still to be sent, for metrics. Default: its ``"residual"``; None without one."""
        return state.get("residual")

    def body_parts(self, body: Array, spec: Spec) -> BodyParts:
        """What the bytes of `to_wire` are spent on, for metrics. Default: all on values, without a bound.

        Args:
            body: As for `from_wire`.
            spec: Of the tensor that was encoded.
        """
        del spec
        return BodyParts(index_bytes=0, value_bytes=ops.size(body), entropy_bytes=math.nan)


class Adjustable(Protocol):
    """How rate control makes an encoder send more or less; see `fedplug.encoders.RateControl`."""

    @property
    def encoder(self) -> Encoder:
        """The encoder at rate 1."""

    @property
    def adjusts(self) -> Literal["entries", "bits"]:
        """What the rate multiplies: the number of entries that are sent, or the bits of each."""

    def at_rate(self, rate: Array) -> Encoder:
        """The encoder for one round, sending ``rate`` times as much as configured, as nearly as it can.

        Args:
            rate: float32 scalar, above 0; so the result belongs to a graph, and has no configuration.
        """

    def min_bytes(self, spec: Spec) -> int:
        """What `Encoder.to_wire` writes at least for a tensor, whatever its values and the rate."""
