"""Converts Keras models with their weights to TFF models and back."""

from __future__ import annotations

import collections
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from numpy.typing import ArrayLike

from fedplug.errors import ConfigError
from fedplug.tff.structures import Structure

__all__ = ["from_keras", "to_keras"]


def from_keras(
    keras_model: tf.keras.Model,
    loss: tf.keras.losses.Loss,
    input_spec: Structure,
    metrics: Sequence[Callable[[], tf.keras.metrics.Metric]] = (),
) -> tff.learning.models.FunctionalModel:
    """Returns a `tff.learning.models.FunctionalModel` that begins with the weights of a Keras model.

    TFF clones the layers in its graphs. This function refuses layers that cannot be cloned.
    `tff.learning.models.functional_model_from_keras` fails later or, for nested models, confuses the weights.
    `to_keras` converts the weights back.

    Args:
        keras_model: A built sequential or functional model. It is not changed, and its ``compile`` is
            ignored.
        loss: The loss of the model's output.
        input_spec: The specs of features and labels: a pair, or a mapping with the keys "x" and "y".
        metrics: Functions that each make a training metric. The names must differ.

    Raises:
        ConfigError: The model has no weights yet, or a layer that cannot be cloned. The message names it and
            an alternative. Or loss or ``input_spec`` have another type.
    """
    _check(keras_model)
    if not isinstance(loss, tf.keras.losses.Loss):
        raise ConfigError(
            f"the loss is {loss!r}; it must be a tf.keras.losses.Loss, for instance "
            "tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)"
        )
    features = _features(input_spec)
    try:
        model = tff.learning.models.functional_model_from_keras(
            keras_model, loss, input_spec, metrics_constructor=lambda: _metrics(loss, metrics)
        )
        _trace(model, features)
    except Exception as error:  # whatever Keras raises on the way
        reason = str(error).strip().rpartition("\n")[2].strip()
        raise ConfigError(
            f"the Keras model {keras_model.name!r} cannot be built again in a graph: {reason}; use a "
            "sequential or functional model of layers that create all their weights when they are built"
        ) from error
    if not _same(model.initial_weights[0], keras_model.trainable_weights):
        raise ConfigError(
            f"the Keras model {keras_model.name!r} has its weights in another order when it is built again, "
            "as happens with a model inside a model; put the layers of the inner one into the outer"
        )
    return model


def to_keras(keras_model: tf.keras.Model, weights: tff.learning.models.ModelWeights) -> tf.keras.Model:
    """Returns a new Keras model with the given layers and trained weights.

    The model is new because Keras models that were made before TFF built a graph cannot read or save their
    weights until another model is made.

    Args:
        keras_model: The argument of `from_keras`, or an equal model. It is not changed.
        weights: A `tff.learning.models.ModelWeights`, for instance ``state.global_model_weights``.

    Raises:
        ConfigError: The weights are those of another model.
    """
    tf.keras.Sequential()  # repairs Keras, see above
    model = tf.keras.models.clone_model(keras_model)
    found = [np.asarray(weight) for weight in weights.trainable]
    wanted = [tuple(variable.shape) for variable in model.trainable_weights]
    if [array.shape for array in found] != wanted:
        raise ConfigError(
            f"the weights have shapes {[array.shape for array in found]}, and the Keras model "
            f"{keras_model.name!r} has {wanted}; give the model that the training began with"
        )
    for variable, array in zip(model.trainable_weights, found, strict=True):
        variable.assign(array)
    return model


def _check(keras_model: tf.keras.Model) -> None:
    if not isinstance(keras_model, tf.keras.Model) or not keras_model.built:
        raise ConfigError(f"expected a Keras model that is built and so has weights, found {keras_model!r}")
    for layer in keras_model.submodules:
        if isinstance(layer, tf.keras.layers.BatchNormalization):
            raise ConfigError(
                f"layer {layer.name!r} ({type(layer).__name__}) changes weights that are not trained, which "
                "has no meaning when clients are averaged; use GroupNormalization or LayerNormalization"
            )
        if isinstance(layer, tf.keras.layers.RNN) and layer.stateful:
            raise ConfigError(
                f"layer {layer.name!r} ({type(layer).__name__}) keeps state from batch to batch; make it "
                "with stateful=False"
            )
    if keras_model.non_trainable_weights:
        names = ", ".join(weight.name for weight in keras_model.non_trainable_weights)
        raise ConfigError(
            f"the weights {names} are not trainable; set trainable = True on their layers, as all weights of "
            "the model are averaged"
        )


def _metrics(
    loss: tf.keras.losses.Loss, makers: Sequence[Callable[[], tf.keras.metrics.Metric]]
) -> dict[str, tf.keras.metrics.Metric]:
    """Returns the metrics by name. The mean loss of all examples comes first, as in TFF."""
    mean_loss = tf.keras.metrics.MeanMetricWrapper(loss.call, name="loss")
    return collections.OrderedDict((metric.name, metric) for metric in (mean_loss, *(m() for m in makers)))


def _features(input_spec: Structure) -> Structure:
    """Returns the spec of the model's input."""
    if isinstance(input_spec, Mapping) and set(input_spec) == {"x", "y"}:
        return input_spec["x"]
    if isinstance(input_spec, Sequence) and not isinstance(input_spec, str) and len(input_spec) == 2:
        return input_spec[0]
    raise ConfigError(
        f"input_spec is {input_spec!r}; it must be (features, labels) or {{'x': features, 'y': labels}}, as "
        "the batches of the clients are: dataset.element_spec"
    )


def _trace(model: tff.learning.models.FunctionalModel, features: Structure) -> None:
    """Traces the model in a graph, so that errors of TFF occur now."""
    with tf.Graph().as_default():
        weights = tf.nest.map_structure(tf.convert_to_tensor, model.initial_weights)
        x = tf.nest.map_structure(lambda spec: tf.compat.v1.placeholder(spec.dtype, spec.shape), features)
        model.predict_on_batch(weights, x, training=True)


def _same(arrays: Sequence[ArrayLike], variables: Sequence[tf.Variable]) -> bool:
    pairs = zip(arrays, variables, strict=True)
    return all(np.array_equal(array, variable) for array, variable in pairs)
