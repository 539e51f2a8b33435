"""The names of a model's variables, which rules match."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

__all__ = ["names_of", "variable_names"]


def variable_names(model_fn: Callable[[], Any] | Any) -> Any:
    """Returns the names of a model's variables, as `tff.learning.models.ModelWeights` of lists of strings.

    ``trainable`` has the names of an update's tensors, in their order: a Keras layer "dense" has
    "dense/kernel" and "dense/bias". The model is made in a graph of its own, so that unnamed layers have the
    same names however many models were made before. The weights of a functional model are named by position:
    "0", "1" and so on.

    Args:
        model_fn: The argument of `fedplug.tff.process.build_weighted_fed_avg`.
    """
    if isinstance(model_fn, tff.learning.models.FunctionalModel):
        return tff.learning.models.ModelWeights(
            *([str(place) for place, _ in enumerate(weights)] for weights in model_fn.initial_weights)
        )
    with tf.Graph().as_default():
        return names_of(tff.learning.models.ModelWeights.from_model(model_fn()))


def names_of(weights: Any) -> Any:
    """Returns the names of variables without TensorFlow's suffix, such as ``:0``."""
    return tff.learning.models.ModelWeights(
        *([v.name.rpartition(":")[0] for v in variables] for variables in weights)
    )
