"""Trains the local variables of a model on a client, then the global ones."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from fedplug.errors import ConfigError
from fedplug.tff.process.learning.names import names_of

__all__ = ["ModelWithLocals", "build_train"]

_Reconstruction = tff.learning.models.ReconstructionModel


class ModelWithLocals:
    """A model with local variables: its types, its names and the initial values of its variables.

    Raises:
        ConfigError: The model has no local or no global trainable variables.
    """

    def __init__(self, model_fn: Callable[[], Any], loss_fn: Callable[[], Any]) -> None:
        self.make = model_fn
        self.make_loss = loss_fn

        @tff.tensorflow.computation
        def initial_global() -> Any:
            return _values(_Reconstruction.get_global_variables(model_fn()))

        @tff.tensorflow.computation
        def initial_local() -> Any:
            return _values(_Reconstruction.get_local_variables(model_fn()))

        self.initial_global, self.initial_local = initial_global, initial_local
        self.global_type = initial_global.type_signature.result
        self.local_type = initial_local.type_signature.result
        with tf.Graph().as_default():
            model = model_fn()
            self.data_type = tff.SequenceType(tff.types.tensorflow_to_type(model.input_spec))
            self.global_names = names_of(_Reconstruction.get_global_variables(model))
            for kind in ("global", "local"):
                if not getattr(model, f"{kind}_trainable_variables"):
                    raise ConfigError(
                        f"the model has no {kind} trainable variables; this process is for models that have "
                        "local and global ones, for others there is build_weighted_fed_avg"
                    )


def _values(weights: Any) -> Any:
    return tff.learning.models.ModelWeights(
        tuple(tf.identity(v) for v in weights.trainable),
        tuple(tf.identity(v) for v in weights.non_trainable),
    )


def _assign(variables: Any, values: Any) -> None:
    for variable, value in zip(
        (*variables.trainable, *variables.non_trainable),
        (*values.trainable, *values.non_trainable),
        strict=True,
    ):
        variable.assign(value)


def _specs(variables: Any) -> tuple[tf.TensorSpec, ...]:
    return tuple(tf.TensorSpec(v.shape, v.dtype) for v in variables)


def build_train(
    model: ModelWithLocals,
    client_optimizer: Any,
    local_optimizer: Any,
    local_epochs: int,
    weights_by_examples: bool,
) -> Any:
    """``(<W,L,D*> -> <update=V,weight=float32,local=L,loss=float32,num_examples=float32>)``, on a client."""

    @tff.tensorflow.computation(model.global_type, model.local_type, model.data_type)
    @tf.function
    def train(initial: Any, initial_local: Any, dataset: Any) -> Any:
        with tf.init_scope():
            variables = model.make()
            loss_of = model.make_loss()
        shared = _Reconstruction.get_global_variables(variables)
        local = _Reconstruction.get_local_variables(variables)
        _assign(shared, initial)
        _assign(local, initial_local)

        def step(batch: Any, trained: Any, optimizer: Any, optimizer_state: Any) -> Any:
            with tf.GradientTape() as tape:
                output = variables.forward_pass(batch, training=True)
                loss = loss_of(y_true=output.labels, y_pred=output.predictions)
            gradients = tape.gradient(loss, trained, unconnected_gradients=tf.UnconnectedGradients.ZERO)
            # The gradients of embeddings are slices, which TFF's optimizers do not take.
            gradients = tuple(tf.convert_to_tensor(g) for g in gradients)
            next_state, values = optimizer.next(optimizer_state, tuple(v.value() for v in trained), gradients)
            for variable, value in zip(trained, values, strict=True):
                variable.assign(value)
            return next_state, loss, tf.cast(output.num_examples, tf.float32)

        # Over iterators: a loop over the dataset itself becomes a reduction, which TFF's stock runtime makes
        # ten times more expensive.
        local_state = local_optimizer.initialize(_specs(local.trainable))
        for batch in iter(dataset.repeat(local_epochs)):
            local_state, _, _ = step(batch, local.trainable, local_optimizer, local_state)
        state = client_optimizer.initialize(_specs(shared.trainable))
        loss_sum, num_examples = tf.constant(0.0), tf.constant(0.0)
        for batch in iter(dataset):
            state, loss, count = step(batch, shared.trainable, client_optimizer, state)
            loss_sum += loss * count
            num_examples += count
        weight = num_examples if weights_by_examples else tf.cast(num_examples > 0, tf.float32)
        return collections.OrderedDict(
            update=tuple(a - b for a, b in zip(initial.trainable, shared.trainable, strict=True)),
            weight=weight,
            local=_values(local),
            loss=loss_sum,
            num_examples=num_examples,
        )

    return train
