"""The evaluation of a server state on the test examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tensorflow as tf
import tensorflow_federated as tff

from fedplug.tff.experiment.display import row_keys
from fedplug.tff.experiment.model.builder import ModelBuilder
from fedplug.tff.structures import Structure

__all__ = ["Evaluator"]

_BATCH = 1000
"""The number of examples in a batch."""

_COUNTER = "num_"
"""The prefix of TFF's counters of examples, batches and tokens."""


class Evaluator:
    """Computes a model's own metrics; for a TFF model without metrics, its loss.

    Attributes:
        keys: The keys of the metrics in a row.
    """

    def __init__(self, builder: ModelBuilder, test: Structure) -> None:
        """Builds a model, whose weights every call replaces.

        Args:
            builder: The builder of the model.
            test: Examples, or a `tf.data.Dataset` of batches.
        """
        model = builder.build(0)
        self._evaluate: _OfKeras | _OfTff
        if isinstance(model, tf.keras.Model):
            self._evaluate = _OfKeras(model, builder.metrics(model), test)
        else:
            self._evaluate = _OfTff(builder.model_fn(0), test)
        self.keys = row_keys(self._evaluate.names)

    def evaluate(self, weights: Structure) -> dict[str, float]:
        """Returns the metrics of `tff.learning.models.ModelWeights`, by ``keys``."""
        values = self._evaluate(weights)
        return {key: float(values[name]) for key, name in zip(self.keys, self._evaluate.names, strict=True)}


class _OfKeras:
    """Evaluates a Keras model, with counters in float64, which are exact for many examples."""

    def __init__(
        self, model: tf.keras.Model, metrics: Sequence[tf.keras.metrics.Metric], test: Structure
    ) -> None:
        self._model = model
        self._predict = tf.function(lambda x: model(x, training=False))
        self._metrics = [_exact(metric) for metric in metrics]
        self._batches = test
        if not isinstance(test, tf.data.Dataset):  # copied to the device once for all rounds
            parts = [slice(start, start + _BATCH) for start in range(0, len(test[0]), _BATCH)]
            self._batches = [tuple(tf.constant(array[part]) for array in test) for part in parts]
        self.names = [metric.name for metric in metrics]

    def __call__(self, weights: Structure) -> dict[str, Structure]:
        weights.assign_weights_to(self._model)
        for metric in self._metrics:
            metric.reset_state()
        for x, y in self._batches:
            predictions = self._predict(x)
            for metric in self._metrics:
                metric.update_state(y, predictions)
        return {metric.name: metric.result().numpy() for metric in self._metrics}


class _OfTff:
    """Evaluates a TFF model with TFF's evaluation, with all test examples at one client."""

    def __init__(self, model_fn: Structure, test: Structure) -> None:
        if not isinstance(test, tf.data.Dataset):
            test = tf.data.Dataset.from_tensor_slices(tuple(test)).batch(_BATCH)
        self._test = test
        self._process = tff.learning.algorithms.build_fed_eval(model_fn)
        metrics = self._process.next.type_signature.result.metrics.member.client_work.eval
        found = tff.structure.name_list(metrics.current_round_metrics)
        names = [name for name in found if not name.startswith(_COUNTER) and name != "loss"] or ["loss"]
        self.names = sorted(names, key=lambda name: "accuracy" not in name)  # stable: accuracies first

    def __call__(self, weights: Structure) -> Mapping[str, Structure]:
        state = self._process.set_model_weights(self._process.initialize(), weights)
        metrics = self._process.next(state, [self._test]).metrics
        found: Mapping[str, Structure] = metrics["client_work"]["eval"]["current_round_metrics"]
        return found


def _exact(metric: tf.keras.metrics.Metric) -> tf.keras.metrics.Metric:
    if type(metric) not in (tf.keras.metrics.SparseCategoricalAccuracy, tf.keras.metrics.BinaryAccuracy):
        return metric
    return type(metric).from_config({**metric.get_config(), "dtype": "float64"})
