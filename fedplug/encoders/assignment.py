"""The contract of an assignment: the encoder of each tensor of a model, and rate control over them."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Sequence

from fedplug.encoders.base import Encoder
from fedplug.encoders.rate_control import RateControl
from fedplug.ops.types import Spec
from fedplug.registry.component import Component
from fedplug.registry.specs import EXECUTIONS, FLOATS, Capabilities

__all__ = ["EncoderAssignment", "promised_by_all"]


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
