"""The contract of an aggregator, pure TensorFlow functions, and its view of one client's payloads."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, TypeAlias

import tensorflow as tf

import fedplug.ops as ops
from fedplug.encoders.model.model_encoder import ModelEncoder
from fedplug.registry.component import Component
from fedplug.registry.specs import Capabilities

__all__ = ["Aggregator", "Update", "zero_sums"]

State: TypeAlias = Any
"""An accumulator or a server's state: (nested) mappings and tuples of tensors."""


class Update:
    """A client's encoded model update on the server."""

    def __init__(self, encoder: ModelEncoder, buffers: Sequence[tf.Tensor]) -> None:
        self._encoder = encoder
        self._buffers = buffers

    def decode(self) -> tuple[tf.Tensor, ...]:
        """Returns the dense tensors. `add_to` is cheaper for a weighted sum."""
        return self._encoder.decode(self._buffers)

    def add_to(self, sums: Sequence[tf.Tensor], weight: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Returns ``sums + weight * decode()``, without dense tensors if the encoder is sparse."""
        return self._encoder.accumulate(sums, self._buffers, weight)


class Aggregator(Component):
    """Combines client updates on the server. Functional, and traced into TensorFlow graphs.

    For every round: ``zero``, then ``accumulate`` once per client in client order, possibly in several
    partial accumulators combined with ``merge``, then ``finish``. ``specs`` has a `tf.TensorSpec` for each of
    the model's tensors. Accumulators and states are (nested) mappings and tuples of tensors whose structure,
    shapes and dtypes stay fixed.
    """

    @property
    def capabilities(self) -> Capabilities:
        """The promises of this aggregator as configured. Default: none."""
        return Capabilities()

    @property
    def weights_by_examples(self) -> bool:
        """Whether a client's weight is its number of examples; else every weight is 1."""
        return True

    @property
    def clients(self) -> int | None:
        """The number of all clients, if the result depends on it. Default: None, any number."""
        return None

    def init_state(self, specs: Sequence[tf.TensorSpec]) -> State:
        """Returns the server's state before the first round. Default: an empty tuple."""
        del specs
        return ()

    @abc.abstractmethod
    def zero(self, specs: Sequence[tf.TensorSpec]) -> State:
        """Returns the accumulator before the first client."""

    @abc.abstractmethod
    def accumulate(self, accumulator: State, update: Update, weight: tf.Tensor) -> State:
        """Adds one client. ``weight`` is a positive float32 scalar."""

    @abc.abstractmethod
    def merge(self, left: State, right: State) -> State:
        """Combines two accumulators. ``left`` holds the clients that come first."""

    @abc.abstractmethod
    def finish(self, accumulator: State, state: State) -> tuple[tuple[tf.Tensor, ...], State]:
        """Returns the update, one tensor per spec, and the next state.

        Without any client the update is zero, or comes from the state. The process rounds floats to the dtype
        of the spec afterwards.
        """


def zero_sums(specs: Sequence[tf.TensorSpec]) -> tuple[tf.Tensor, ...]:
    """Returns zero accumulators: float32 for 16-bit tensors, whose sums would soon stop growing."""
    return tuple(ops.zeros(ops.wide_spec(spec) if spec.dtype.is_floating else spec) for spec in specs)
