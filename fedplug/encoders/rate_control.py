"""The contract of rate control: adjusting encoders from round to round by what was measured."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence

from fedplug.encoders.base import Encoder, State
from fedplug.ops.types import Array

__all__ = ["Control", "RateControl"]

Control = Mapping[str, Array]
"""The values that the server keeps between rounds and sends to clients; named tensors of fixed shapes."""


class RateControl(abc.ABC):
    """Made by an `EncoderAssignment` for the tensors of one model; its methods are traced into graphs.

    The server keeps the control as part of its state, so that a restarted run goes on with it: ``init``, then
    ``next`` after every round. The server message of a round has the control, and clients use `adjust`.
    """

    reported: tuple[str, ...] = ()
    """The names of what `report` returns."""

    @abc.abstractmethod
    def init(self) -> Control:
        """The control of the first round."""

    @abc.abstractmethod
    def adjust(self, encoder: Encoder, control: Control) -> Encoder:
        """The encoder to use in the place of one of the assigned, in the round of this control.

        What it writes can be read by the assigned one.
        """

    def report(
        self, xs: Sequence[Array], received: Sequence[Array], next_states: Sequence[State]
    ) -> dict[str, Array]:
        """What is told beside the payloads of an update; float32 scalars, to be added up. Default: nothing.

        Args:
            xs: The tensors that were encoded.
            received: What is decoded of them.
            next_states: Of the encoders.
        """
        del xs, received, next_states
        return {}

    @abc.abstractmethod
    def next(self, control: Control, measured: Mapping[str, Array]) -> Control:
        """The control of the next round.

        Args:
            control: That of this round.
            measured: Of this round ``tensor_bytes`` (int64, one for each tensor), what the payloads took,
                containers included, summed over all that were sent; ``payloads`` (int32), how many were, of
                the whole model each; and the sums of what `report` says.
        """

    def metrics(self, control: Control, measured: Mapping[str, Array]) -> dict[str, Array]:
        """What a round's metrics tell; float32 scalars. Default: the control. Arguments as for `next`."""
        del measured
        return dict(control)
