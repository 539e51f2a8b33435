"""The names of a model's variables, which rules match."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

__all__ = ["names_of", "variable_names"]


def variable_names(model_fn: Callable[[], Any] | Any) -> Any:
    """The names of a model's variables, as `tff.learning.models.ModelWeights` of lists of texts.

    ``trainable`` has those of the tensors of an update, in their order: a Keras layer called "dense" has
    "dense/kernel" and "dense/bias". As in TFF, the model is made in a graph of its own, so that layers
    without a name are called the same however many models were made before. A functional model has weights
    without names; they are called by their place, "0", "1" and so on.

    Args:
        model_fn: As for `fedplug.tff.process.build_weighted_fed_avg`.
    """
    if isinstance(model_fn, tff.learning.models.FunctionalModel):
        return tff.learning.models.ModelWeights(
            *([str(place) for place, _ in enumerate(weights)] for weights in model_fn.initial_weights)
        )
    with tf.Graph().as_default():
        return names_of(tff.learning.models.ModelWeights.from_model(model_fn()))


def names_of(weights: Any) -> Any:
    """The names of variables without the number of the output that TensorFlow puts behind them."""
    return tff.learning.models.ModelWeights(
        *([v.name.rpartition(":")[0] for v in variables] for variables in weights)
    )
