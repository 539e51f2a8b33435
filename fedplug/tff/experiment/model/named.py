"""Keras losses and metrics by name, as in a configuration, or from a function.

A name is that of a class, ``"MeanSquaredError"``, in any spelling of Keras: ``"mean_squared_error"``,
``"mse"``. Cross-entropies and metrics with a threshold are configured for logits, unless the model ends in
probabilities.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import tensorflow as tf

from fedplug.errors import ConfigError, UnknownNameError
from fedplug.tff.experiment import imports

__all__ = ["default_loss", "default_metrics", "ends_in_probabilities", "loss", "metric"]

_SHORT = {"mse": "mean_squared_error", "mae": "mean_absolute_error", "msle": "mean_squared_logarithmic_error"}
_BINARY = ("binary_accuracy", "binary_io_u")


def loss(name: str, model: tf.keras.Model, folder: Path) -> tf.keras.losses.Loss:
    """Returns the loss with this name.

    Raises:
        ConfigError: There is no such loss, or the function returns something else.
    """
    return _made(name, "[model] loss", "loss", tf.keras.losses, tf.keras.losses.Loss, model, folder)


def metric(name: str, model: tf.keras.Model | None, folder: Path) -> tf.keras.metrics.Metric:
    """Returns the metric with this name.

    Raises:
        ConfigError: There is no such metric, or the function returns something else.
    """
    return _made(name, "[model] metrics", "metric", tf.keras.metrics, tf.keras.metrics.Metric, model, folder)


def default_loss(labels: bool, outputs: int) -> str:
    """Returns the name of a cross-entropy for labels, of the mean squared error for other values."""
    if not labels:
        return "mean_squared_error"
    return "binary_crossentropy" if outputs == 1 else "sparse_categorical_crossentropy"


def default_metrics(labels: bool, outputs: int) -> tuple[str, ...]:
    """Returns the names of the accuracy for labels, of the mean absolute error for other values."""
    if not labels:
        return ("mean_absolute_error",)
    return ("binary_accuracy" if outputs == 1 else "sparse_categorical_accuracy",)


def ends_in_probabilities(model: tf.keras.Model) -> bool:
    """Returns whether the last layer of a Keras model is, or has as activation, a softmax or a sigmoid."""
    last = model.layers[-1] if model.layers else None
    if isinstance(last, tf.keras.layers.Softmax):
        return True
    activation = getattr(last, "activation", None)
    return activation in (tf.keras.activations.softmax, tf.keras.activations.sigmoid)


def _made(
    name: str, key: str, kind: str, module: Any, base: type, model: tf.keras.Model | None, folder: Path
) -> Any:
    if ":" in name:
        made = imports.call(imports.function(name, key, folder), f"{key} {name!r}", {}, {})
        if not isinstance(made, base):
            raise ConfigError(f"{key} {name!r} returned a {type(made).__name__}; it must be a Keras {kind}")
        return made
    classes = {
        _snake(each): cls
        for each, cls in vars(module).items()
        if inspect.isclass(cls) and issubclass(cls, base) and cls is not base
    }
    snake = _SHORT.get(name.lower(), _snake(name))
    if snake not in classes:
        raise UnknownNameError(f"Keras {kind}", name, classes, where=key)
    probabilities = model is None or ends_in_probabilities(model)
    options: dict[str, Any] = {}
    parameters = inspect.signature(classes[snake].__init__).parameters
    if "from_logits" in parameters:
        options["from_logits"] = not probabilities
    elif snake in _BINARY and not probabilities:
        options["threshold"] = 0.0
    try:
        return classes[snake](**options)
    except TypeError as error:
        raise ConfigError(
            f"{key} {name!r} needs arguments ({error}); name a function that creates it"
        ) from error


def _snake(name: str) -> str:
    """Converts ``MeanSquaredError`` to ``mean_squared_error``. Other spellings stay unchanged."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
