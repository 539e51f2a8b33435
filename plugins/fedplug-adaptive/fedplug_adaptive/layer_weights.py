"""The mean in which a client weighs less in layers where its model diverges from the server's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import tensorflow as tf

from fedplug.errors import ConfigError
from fedplug.tff.aggregators import Aggregator, Update
from fedplug.tff.aggregators.base import State

__all__ = ["DivergenceSoftmax", "layer_divergences"]


class DivergenceSoftmax(Aggregator):
    """Weighs a client in each layer by its number of examples times ``exp(-divergence / temperature)``.

    The last tensor of an update is the client's report, the divergence of each layer. The others are the
    model's. The state selects the mean: ``{"adaptive": bool, "previous_loss": float32}``. The process sets it
    before `finish`: adaptive as above, or the plain weighted mean. By default every round is adaptive. The
    resulting report is the plain mean of reports in either case. A layer whose weights are all 0 gets the
    plain mean.

    The softmax over clients is computed in one pass as they arrive. Sums are relative to the largest weight
    so far and rescaled when a larger one arrives, so that no temperature makes all weights vanish. The
    accumulator holds two dense models.

    Source of the one-pass softmax: Milakov & Gimelshein, "Online normalizer calculation for softmax", 2018
    (arXiv 1805.02867), algorithm 3.
    """

    name: ClassVar[str] = "divergence_softmax"

    def __init__(self, layers: Sequence[int], *, temperature: float = 0.001) -> None:
        """Sets the layers and the temperature.

        Args:
            layers: The layer number of each of the model's tensors. All numbers from 0 occur.
            temperature: Increase of the divergence that divides a client's weight by e.

        Raises:
            ConfigError: A layer number is missing, or the temperature is not a positive finite number.
        """
        numbers = set(layers) if isinstance(layers, (list, tuple)) else set()
        if not numbers or numbers != set(range(len(numbers))):
            raise ConfigError(
                f"{self.name} layers is {layers!r}; give the number of the layer of each tensor, 0 up and "
                "none left out, for example [0, 0, 1, 1] for two layers with kernel and bias"
            )
        number = isinstance(temperature, (int, float)) and not isinstance(temperature, bool)
        if not (number and 0 < temperature < float("inf")):
            raise ConfigError(f"{self.name} temperature is {temperature!r}; it must be a number above 0")
        self.layers = tuple(layers)
        self._temperature = temperature

    def get_config(self) -> dict[str, object]:
        """Returns the constructor's arguments."""
        return {"layers": list(self.layers), "temperature": self._temperature}

    def init_state(self, specs: Sequence[tf.TensorSpec]) -> State:
        """Returns an adaptive state without a known loss."""
        del specs
        return {"adaptive": tf.constant(True), "previous_loss": tf.constant(float("inf"))}

    def zero(self, specs: Sequence[tf.TensorSpec]) -> State:
        """Returns zero sums and zero total weights.

        Raises:
            ConfigError: The tensors do not match ``layers`` and a report.
        """
        *tensors, report = specs
        count = max(self.layers) + 1
        if len(tensors) != len(self.layers) or report.shape.num_elements() != count:
            raise ConfigError(
                f"{self.name} is made for {len(self.layers)} tensors and a report of {count} numbers; it is "
                "a part of fedplug_adaptive.process.build_adaptive_fed_avg, use that instead"
            )
        return {
            "plain": tuple(tf.zeros(spec.shape, spec.dtype) for spec in specs),
            "plain_weight": tf.zeros([]),
            "weighted": tuple(tf.zeros(spec.shape, spec.dtype) for spec in tensors),
            "weights": tf.zeros([count]),
            "exponent": tf.fill([count], tf.float32.min),
        }

    def accumulate(self, accumulator: State, update: Update, weight: tf.Tensor) -> State:
        """Decodes the update and adds it with the plain weight and with the weights by layer."""
        *tensors, report = update.decode()
        divergence = tf.maximum(tf.cast(tf.reshape(report, [-1]), tf.float32), 0)
        weights = weight * tf.ones_like(divergence)
        client = {
            "plain": tuple(_times(tensor, weight) for tensor in (*tensors, report)),
            "plain_weight": weight,
            "weighted": self._by_layer(tensors, weights),
            "weights": weights,
            "exponent": tf.maximum(-divergence / self._temperature, tf.float32.min),
        }
        return self.merge(accumulator, client)

    def merge(self, left: State, right: State) -> State:
        """Adds both accumulators, with weights relative to the larger of the two exponents."""
        exponent = tf.maximum(left["exponent"], right["exponent"])
        a, b = (tf.exp(side["exponent"] - exponent) for side in (left, right))
        return {
            "plain": _added(left["plain"], right["plain"]),
            "plain_weight": left["plain_weight"] + right["plain_weight"],
            "weighted": _added(self._by_layer(left["weighted"], a), self._by_layer(right["weighted"], b)),
            "weights": a * left["weights"] + b * right["weights"],
            "exponent": exponent,
        }

    def finish(self, accumulator: State, state: State) -> tuple[tuple[tf.Tensor, ...], State]:
        """Divides the sums, and selects the mean by the state."""
        plain = [_divided(total, accumulator["plain_weight"]) for total in accumulator["plain"]]
        weights = tf.gather(accumulator["weights"], self.layers)
        update = [
            tf.where(state["adaptive"] & (weights[i] > 0), _divided(total, weights[i]), plain[i])
            for i, total in enumerate(accumulator["weighted"])
        ]
        return (*update, plain[-1]), state

    def _by_layer(self, tensors: Sequence[tf.Tensor], weights: tf.Tensor) -> tuple[tf.Tensor, ...]:
        return tuple(_times(x, weights[layer]) for x, layer in zip(tensors, self.layers, strict=True))


def layer_divergences(
    client: Sequence[tf.Tensor], server: Sequence[tf.Tensor], layers: Sequence[int]
) -> tf.Tensor:
    """Returns the Kullback-Leibler divergence of each layer's normalized weights from the server's.

    A softmax over all weights of a layer makes them a distribution. The divergence of the client's P from the
    server's Q is ``sum(P log(P / Q))``.

    Args:
        client: The tensors of the client's model.
        server: The tensors of the server's model.
        layers: The layer number of each tensor, from 0.

    Returns:
        float32 ``[number of layers]``, each 0 or more and finite.
    """
    divergences = []
    for layer in range(max(layers) + 1):
        members = [position for position, number in enumerate(layers) if number == layer]
        p, q = (_log_softmax(_joined([model[i] for i in members])) for model in (client, server))
        divergences.append(_sum(tf.exp(p) * (p - q)))
    return tf.cast(tf.clip_by_value(tf.stack(divergences), 0, tf.float32.max), tf.float32)


def _joined(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    return tf.concat([tf.reshape(tf.cast(tensor, tf.float64), [-1]) for tensor in tensors], axis=0)


def _log_softmax(x: tf.Tensor) -> tf.Tensor:
    x -= tf.reduce_max(x)
    return x - tf.math.log(_sum(tf.exp(x)))


def _sum(x: tf.Tensor) -> tf.Tensor:
    """Sums a vector of static length by pairwise halves, so that the bits do not depend on threads."""
    while x.shape[0] > 1:
        half = (x.shape[0] + 1) // 2
        x = tf.pad(x, [[0, 2 * half - x.shape[0]]])
        x = x[:half] + x[half:]
    return x[0]


def _times(x: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
    return x * tf.cast(weight, x.dtype)


def _divided(total: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
    return tf.math.divide_no_nan(total, tf.cast(weight, total.dtype))


def _added(left: Sequence[tf.Tensor], right: Sequence[tf.Tensor]) -> tuple[tf.Tensor, ...]:
    return tuple(a + b for a, b in zip(left, right, strict=True))
