"""Custom aggregators: a transform on the clients, an inner sum, and the inverse transform on the server.

The inner aggregation is any factory of TFF or fedplug.
"""

from __future__ import annotations

import abc
import collections

import tensorflow_federated as tff

from fedplug.errors import ConfigError
from fedplug.tff.process import tracing
from fedplug.tff.structures import Structure

__all__ = ["Transform", "TransformFactory"]


class Transform(abc.ABC):
    """Transforms a value on the client before the sum, and the sum on the server.

    The methods are pure TensorFlow functions. Values have the containers of their TFF type: `dict`, `tuple`
    or a single tensor. The results of `forward` are summed, and may have other dtypes and another structure.
    States and measurements are tensors or (nested) mappings of tensors.
    """

    def init_state(self) -> Structure:
        """Returns the server's first state. Clients receive a copy. Default: none."""
        return ()

    @abc.abstractmethod
    def forward(self, value: Structure, state: Structure) -> Structure:
        """Returns a client's term of the sum."""

    @abc.abstractmethod
    def backward(self, total: Structure, state: Structure) -> Structure:
        """Returns the value that the sum represents, on the server."""

    def next_state(self, total: Structure, state: Structure) -> Structure:
        """Returns the server's state for the next round. Default: the same."""
        del total
        return state

    def measure(self, total: Structure, state: Structure) -> Structure:
        """Returns the server's measurements of a round. Default: none."""
        del total, state
        return ()


class TransformFactory(tff.aggregators.UnweightedAggregationFactory):
    """`Transform.forward` on the clients, an inner sum, `Transform.backward` on the server.

    The process it creates has a state of type ``<transform=S,inner=T>`` and measurements of type
    ``<transform=M,inner=N>``. It is itself a sum, and so nests: in `tff.aggregators.MeanFactory`, in
    `tff.aggregators.clipping_factory`, in another `TransformFactory`.
    """

    def __init__(
        self, transform: Transform, inner: tff.aggregators.UnweightedAggregationFactory | None = None
    ) -> None:
        """Makes a factory.

        Args:
            transform: The transform before and after the sum.
            inner: A `tff.aggregators.UnweightedAggregationFactory`. Default `tff.aggregators.SumFactory`.

        Raises:
            ConfigError: ``inner`` is something else, for instance a weighted factory.
        """
        inner = tff.aggregators.SumFactory() if inner is None else inner
        if not isinstance(inner, tff.aggregators.UnweightedAggregationFactory):
            raise ConfigError(
                f"the inner factory is a {type(inner).__name__}; it must be an UnweightedAggregationFactory, "
                "which adds up without weights; weigh outside, as in MeanFactory(value_sum_factory=...)"
            )
        self._transform = transform
        self._inner = inner

    def create(self, value_type: tff.Type) -> tff.templates.AggregationProcess:
        """Builds the aggregation process for values of ``value_type``.

        Raises:
            ConfigError: `Transform.backward` does not give back a value of this type.
        """
        transform = self._transform
        init_state = tracing.trace("reference", transform.init_state)
        state_type = init_state.type_signature.result
        forward = tracing.trace("reference", transform.forward, value_type, state_type)
        inner = self._inner.create(forward.type_signature.result)
        total_type = inner.next.type_signature.result.result.member

        def on_server(total: Structure, state: Structure) -> Structure:
            return collections.OrderedDict(
                value=transform.backward(total, state),
                state=transform.next_state(total, state),
                measurements=transform.measure(total, state),
            )

        finish = tracing.trace("reference", on_server, total_type, state_type)
        finished = finish.type_signature.result
        for what, found, wanted in (
            ("backward", finished.value, value_type),
            ("next_state", finished.state, state_type),
        ):
            if not wanted.is_assignable_from(found):
                raise ConfigError(
                    f"{type(transform).__name__}.{what} gives {found}, and must give {wanted} for values of "
                    f"type {value_type}"
                )

        @tff.federated_computation
        def initialize() -> Structure:
            state = collections.OrderedDict(
                transform=tff.federated_eval(init_state, tff.SERVER), inner=inner.initialize()
            )
            return tff.federated_zip(state)

        @tff.federated_computation(
            initialize.type_signature.result, tff.FederatedType(value_type, tff.CLIENTS)
        )
        def next_fn(state: Structure, value: Structure) -> Structure:
            sent = tff.federated_map(forward, (value, tff.federated_broadcast(state["transform"])))
            total = inner.next(state["inner"], sent)
            done = tff.federated_map(finish, (total.result, state["transform"]))
            next_state = collections.OrderedDict(transform=done.state, inner=total.state)
            measurements = collections.OrderedDict(transform=done.measurements, inner=total.measurements)
            return tff.templates.MeasuredProcessOutput(
                tff.federated_zip(next_state), done.value, tff.federated_zip(measurements)
            )

        return tff.templates.AggregationProcess(initialize, next_fn)
