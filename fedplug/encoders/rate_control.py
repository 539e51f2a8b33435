"""The contracts of rate control: adjusting encoders from round to round by measurements."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from fedplug.encoders.base import Encoder, State
from fedplug.ops.types import Array, Scalar, Spec

__all__ = ["Adjustable", "Adjustment", "Control", "RateControl", "adjustment_of"]

Control = Mapping[str, Scalar]
"""The state of rate control: the server keeps it and sends it to every encoder. Arrays of fixed shapes."""


class Adjustment(Protocol):
    """The way in which rate control makes an encoder send more or less."""

    @property
    def encoder(self) -> Encoder:
        """The encoder at rate 1."""

    @property
    def adjusts(self) -> Literal["entries", "bits"]:
        """The quantity that the rate scales: the number of entries sent, or the bits of each entry."""

    def at_rate(self, rate: Scalar) -> Encoder:
        """Returns the encoder for one round, which sends ``rate`` times as much, as nearly as it can.

        Args:
            rate: A float32 scalar above 0. The result belongs to a graph, and has no configuration.
        """

    def min_bytes(self, spec: Spec) -> int:
        """Returns a lower bound for the bytes of a tensor, for all values and rates."""


class Adjustable(abc.ABC):
    """An encoder, or a quantizer that stands alone, that rate control may adjust."""

    @abc.abstractmethod
    def adjustment(self) -> Adjustment | None:
        """Returns how it is adjusted. None if this configuration has nothing to adjust."""


def adjustment_of(component: object) -> Adjustment | None:
    """Returns how an encoder or quantizer is adjusted. None if it has nothing to adjust."""
    return component.adjustment() if isinstance(component, Adjustable) else None


class RateControl(abc.ABC):
    """Adjusts the encoders of one model. An `EncoderAssignment` makes it. Graphs may trace its methods.

    The server keeps the control in its state, so that a restarted run continues with it: ``init``, then
    ``next`` after every round. The server sends the control of the round to every encoder, which uses
    `adjust`. In a broadcast the server itself is the only encoder.
    """

    reported: tuple[str, ...] = ()
    """The names of what `report` returns."""

    @abc.abstractmethod
    def init(self) -> Control:
        """Returns the control of the first round."""

    @abc.abstractmethod
    def adjust(self, encoder: Encoder, control: Control) -> Encoder:
        """Returns the encoder to use for an assigned encoder in the round of this control.

        The assigned encoder must be able to read its own bytes.
        """

    def report(
        self, xs: Sequence[Array], received: Sequence[Array], next_states: Sequence[State]
    ) -> dict[str, Scalar]:
        """Returns float32 scalars to add up, sent beside the payloads of an update. Default: nothing.

        Args:
            xs: The tensors that were encoded.
            received: The decoded tensors.
            next_states: The next states of the encoders.
        """
        del xs, received, next_states
        return {}

    @abc.abstractmethod
    def next(self, control: Control, measured: Mapping[str, Scalar]) -> Control:
        """Returns the control of the next round.

        Args:
            control: The control of this round.
            measured: The measurements of this round. ``tensor_bytes`` (int64, one per tensor) is the size of
                the payloads with their containers, summed over all that were sent. ``payloads`` (int32) is
                the number of models sent. The sums of the results of `report` have their own names.
        """

    def metrics(self, control: Control, measured: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """Returns the metrics of a round: float32 scalars. Default: the control. Arguments as for `next`."""
        del measured
        return dict(control)
