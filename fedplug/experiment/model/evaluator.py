"""The metrics of a server state on the test examples."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from fedplug.errors import ConfigError
from fedplug.experiment.model.builder import ModelBuilder

__all__ = ["Evaluator", "row_key"]

_BATCH = 1000
"""Examples that are evaluated together."""

_COUNTERS = ("num_examples", "num_batches")


def row_key(metric: str) -> str:
    """Under which name a row has a metric: ``test_accuracy`` where it is one, ``test_NAME`` of others."""
    return "test_accuracy" if "accuracy" in metric else f"test_{metric}"


class Evaluator:
    """Computes a model's own metrics; a model of TFF that has none has its loss.

    Attributes:
        keys: The names of the metrics in a row, the first is the one that is shown.
    """

    def __init__(self, builder: ModelBuilder, test: Any) -> None:
        """Builds a model, whose weights every call replaces.

        Args:
            builder: Of the model.
            test: Examples, or a `tf.data.Dataset` of batches.

        Raises:
            ConfigError: The model has no metric that is a number.
        """
        self._model = builder.build(0)
        self._batches = test if isinstance(test, tf.data.Dataset) else _batches(*test)
        if isinstance(self._model, tf.keras.Model):
            self._metrics = [_exact(metric) for metric in builder.metrics(self._model)]
            self._predict = tf.function(lambda x: self._model(x, training=False))
            names = [metric.name for metric in self._metrics]
        else:
            self._forward = tf.function(lambda batch: self._model.forward_pass(batch, training=False))
            names = list(self._model.metric_finalizers())
            names = [name for name in names if name not in (*_COUNTERS, "loss")] or ["loss"]
            names.sort(
                key=lambda name: "accuracy" not in name
            )  # stable: the first accuracy before all others
        self._names = names
        self.keys = _keys(names)

    def evaluate(self, weights: Any) -> dict[str, float]:
        """The metrics of `tff.learning.models.ModelWeights`, by ``keys``."""
        weights.assign_weights_to(self._model)
        values = self._of_keras() if isinstance(self._model, tf.keras.Model) else self._of_tff()
        return {key: float(values[name]) for key, name in zip(self.keys, self._names, strict=True)}

    def _of_keras(self) -> dict[str, Any]:
        for metric in self._metrics:
            metric.reset_state()
        for x, y in self._batches:
            predictions = self._predict(x)
            for metric in self._metrics:
                metric.update_state(y, predictions)
        return {metric.name: metric.result().numpy() for metric in self._metrics}

    def _of_tff(self) -> dict[str, Any]:
        self._model.reset_metrics()
        for batch in self._batches:
            self._forward(batch)
        unfinalized = self._model.report_local_unfinalized_metrics()
        finalizers = self._model.metric_finalizers()
        values = {name: np.asarray(finalizers[name](unfinalized[name])) for name in self._names}
        several = [name for name, value in values.items() if value.size != 1]
        if several:
            raise ConfigError(f"the model's metric {several[0]!r} is no number; leave it out")
        return values


def _batches(x: Any, y: Any) -> Iterable[Any]:
    """Slices of arrays, on the device once for all rounds."""
    return [
        (tf.constant(x[start : start + _BATCH]), tf.constant(y[start : start + _BATCH]))
        for start in range(0, len(x), _BATCH)
    ]


def _exact(metric: tf.keras.metrics.Metric) -> tf.keras.metrics.Metric:
    """One that counts in float64, of which a fraction of many examples is exact."""
    try:
        return type(metric).from_config({**metric.get_config(), "dtype": "float64"})
    except (NotImplementedError, TypeError, ValueError):
        return metric  # a user's own, which cannot be made again


def _keys(names: list[str]) -> tuple[str, ...]:
    keys = [row_key(names[0]), *(f"test_{name}" for name in names[1:])]
    return tuple(keys)
