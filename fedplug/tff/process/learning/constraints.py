"""Constraints on the server's weights, applied after each update of a process that is already built."""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from fedplug.errors import ConfigError
from fedplug.tff.process.learning.round_output import with_model_weights
from fedplug.tff.process.learning.stateful_clients import StatefulClientsProcess

__all__ = ["constrain_weights"]

Constraint = Callable[[tf.Tensor], tf.Tensor]


def constrain_weights(
    process: StatefulClientsProcess, constraints: Sequence[Constraint | None]
) -> StatefulClientsProcess:
    """Returns a process that projects the server's trainable weights at the start and after every round.

    The projection is part of the computations ``initialize`` and ``next``, which are traced once.

    Args:
        process: A process of a builder of `fedplug.tff.process`.
        constraints: One per trainable tensor, in their order: a `tf.keras.constraints.Constraint`, any other
            function from a tensor to one of the same shape and dtype, or None for no constraint.

    Returns:
        A process with the same types and the same signature, so a store can go on.

    Raises:
        ConfigError: The numbers of constraints and tensors differ, or one changes a shape or dtype.
    """
    state_type = process.initialize.type_signature.result.member
    tensors = list(state_type.global_model_weights.trainable)
    if len(constraints) != len(tensors):
        raise ConfigError(
            f"there are {len(constraints)} constraints for {len(tensors)} trainable tensors; give one for "
            "each, None where there is nothing to constrain"
        )

    @tff.tensorflow.computation(state_type)
    def project(state: Any) -> Any:
        weights = state.global_model_weights
        trainable = tuple(
            tensor if constraint is None else _project(constraint, tensor, position)
            for position, (constraint, tensor) in enumerate(zip(constraints, weights.trainable, strict=True))
        )
        constrained = tff.learning.models.ModelWeights(trainable, weights.non_trainable)
        return with_model_weights(state, constrained)

    @tff.federated_computation
    def initialize() -> Any:
        return tff.federated_map(project, process.initialize())

    @tff.federated_computation(*process.next.type_signature.parameter)
    def next_fn(state: Any, client_data: Any, client_states: Any) -> Any:
        output = process.next(state, client_data, client_states)
        return collections.OrderedDict(
            state=tff.federated_map(project, output["state"]),
            metrics=output["metrics"],
            client_states=output["client_states"],
        )

    return StatefulClientsProcess(
        initialize,
        next_fn,
        initialize_client=process.initialize_client,
        get_model_weights=process.get_model_weights,
        set_model_weights=process.set_model_weights,
        signature=process.signature,
        dense_bytes=process.dense_bytes,
        lowering=process.lowering,
        provenance=process.provenance,
        tensors=process.tensors,
    )


def _project(constraint: Constraint, tensor: tf.Tensor, position: int) -> tf.Tensor:
    projected = tf.convert_to_tensor(constraint(tensor))
    if projected.shape != tensor.shape or projected.dtype != tensor.dtype:
        raise ConfigError(
            f"constraint {position} makes {projected.dtype.name} {projected.shape} of "
            f"{tensor.dtype.name} {tensor.shape}; it must keep shape and dtype"
        )
    return projected
