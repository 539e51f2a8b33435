"""The contracts of an assignment, the encoder of each tensor of a model, and of rate control over them."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Protocol

from fedplug.encoders.base import Encoder, State
from fedplug.ops.types import Array, Scalar, Spec
from fedplug.registry.component import Component
from fedplug.registry.specs import EXECUTIONS, FLOATS, Capabilities

__all__ = [
    "Adjustable",
    "Adjustment",
    "Control",
    "EncoderAssignment",
    "RateControl",
    "adjustment_of",
    "promised_by_all",
]

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


class EncoderAssignment(Component):
    """Chooses the encoder of each tensor of a model. Usable wherever an encoder is."""

    @property
    @abc.abstractmethod
    def capabilities(self) -> Capabilities:
        """The promises for a model's update as a whole."""

    @abc.abstractmethod
    def assign(self, specs: Sequence[Spec]) -> list[Encoder]:
        """Returns the encoder of each tensor.

        Tensors with the same encoder object are encoded together, see `Encoder.grouped_encode`.

        Args:
            specs: The specs of the model's tensors, in order. `fedplug.tff.process` names them in the same
                way.

        Raises:
            ConfigError: The assignment does not fit this model.
        """

    def for_models(self) -> Encoder | EncoderAssignment:
        """Returns the encoder or assignment for models, in a broadcast. Default: itself."""
        return self

    def for_part(self, specs: Sequence[Spec]) -> EncoderAssignment:
        """Returns the assignment for some tensors of a model that it fits. Default: itself."""
        del specs
        return self

    def for_share(self, share: float) -> EncoderAssignment:
        """Returns the assignment for a share of the model, between 0 and 1. Default: itself."""
        del share
        return self

    def encodes_statistic(self, spec: Spec) -> bool:
        """Returns whether `assign` decides for this statistic. Default: no, statistics are sent uncompressed.

        Args:
            spec: The spec of a tensor for which `fedplug.encoders.model.statistics.is_statistic` is true.
        """
        del spec
        return False

    def rate_control(self, encoders: Sequence[Encoder], specs: Sequence[Spec]) -> RateControl | None:
        """Returns the rate control that adjusts the encoders from round to round. Default: None.

        Args:
            encoders: The encoder of each tensor from `assign`, or `Identity` for tensors that are sent
                uncompressed.
            specs: The specs of the model's tensors, in order.

        Raises:
            ConfigError: Rate control cannot work for this model.
        """
        del encoders, specs
        return None


def promised_by_all(capabilities: Iterable[Capabilities]) -> Capabilities:
    """Returns the capabilities that all these encoders have."""
    each = list(capabilities)
    same_numbers = len({(c.secure_aggregation_safe, c.ring_bits) for c in each}) == 1
    bounds = [c.relative_error_bound for c in each if c.relative_error_bound is not None]
    return Capabilities(
        unbiased=all(c.unbiased for c in each),
        commutes_with_sum=all(c.commutes_with_sum for c in each),
        lossless=all(c.lossless for c in each),
        needs_client_state=any(c.needs_client_state for c in each),
        needs_seed=any(c.needs_seed for c in each),
        secure_aggregation_safe=same_numbers and all(c.secure_aggregation_safe for c in each),
        ring_bits=each[0].ring_bits if same_numbers else None,
        most_summands=min((c.most_summands for c in each if c.most_summands is not None), default=None),
        bounded_sensitivity=all(c.bounded_sensitivity for c in each),
        sends_every_entry=all(c.sends_every_entry for c in each),
        relative_error_bound=max(bounds) if bounds and len(bounds) == len(each) else None,
        sends_differences=any(c.sends_differences for c in each),
        fixed_size=all(c.fixed_size for c in each),
        dtypes=tuple(dtype for dtype in FLOATS if any(dtype in c.dtypes for c in each)),
        executes_on=tuple(kind for kind in EXECUTIONS if all(kind in c.executes_on for c in each)),
        needs_op_library=any(c.needs_op_library for c in each),
    )
