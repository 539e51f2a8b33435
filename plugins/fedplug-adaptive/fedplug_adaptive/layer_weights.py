"""Means in which a client's weight in each layer depends on its report beside the update."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, ClassVar

import tensorflow as tf

from fedplug.errors import ConfigError
from fedplug.tff.aggregators import Aggregator, Update

__all__ = ["DivergenceSoftmax", "LayerWeights", "ReportedWeights", "check_layers", "check_temperature"]


class LayerWeights(Aggregator):
    """``sum(w_c[l] update_c) / sum(w_c[l])`` in each layer l, or the plain weighted mean.

    The last tensor of an update is the client's report, one number per layer. The others are the model's.
    The state selects the mean: ``{"adaptive": bool, "previous_loss": float32}``. The process sets it before
    `finish`; by default every round is adaptive. The resulting report is the plain mean of reports in either
    case. A layer whose weights are all 0 gets the plain mean.

    The updates are processed in one pass as they arrive. The accumulator holds two dense models.
    """

    def __init__(self, layers: Sequence[int]) -> None:
        """Sets the layer of each tensor.

        Args:
            layers: The layer number of each of the model's tensors. All numbers from 0 occur.

        Raises:
            ConfigError: A layer number is missing.
        """
        check_layers(self.name, layers)
        self.layers = tuple(layers)

    @abc.abstractmethod
    def weigh(self, report: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns ``a`` and ``b``, each ``[layers]``, for a client's weight ``a * exp(b)`` in each layer.

        Args:
            report: The client's report, float32 ``[layers]``.
        """

    def init_state(self, specs: Sequence[tf.TensorSpec]) -> Any:
        """Returns an adaptive state without a known loss."""
        del specs
        return {"adaptive": tf.constant(True), "previous_loss": tf.constant(float("inf"))}

    def zero(self, specs: Sequence[tf.TensorSpec]) -> Any:
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

    def accumulate(self, accumulator: Any, update: Update, weight: tf.Tensor) -> Any:
        """Decodes the update and adds it with the plain weight and with the weights by layer."""
        *tensors, report = update.decode()
        factor, exponent = self.weigh(tf.cast(tf.reshape(report, [-1]), tf.float32))
        client = {
            "plain": tuple(_times(tensor, weight) for tensor in (*tensors, report)),
            "plain_weight": weight,
            "weighted": self._by_layer(tensors, weight * factor),
            "weights": weight * factor,
            "exponent": exponent,
        }
        return self.merge(accumulator, client)

    def merge(self, left: Any, right: Any) -> Any:
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

    def finish(self, accumulator: Any, state: Any) -> tuple[tuple[tf.Tensor, ...], Any]:
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


class ReportedWeights(LayerWeights):
    """Weighs a client by its number of examples times its report, limited to 0 to 1.

    The sum is that of any weighted mean. Each client decides on its own weight. If the weights of all clients
    are too small for float32, the layer gets the plain mean.
    """

    name: ClassVar[str] = "reported_weights"

    def get_config(self) -> dict[str, Any]:
        """Returns the layers."""
        return {"layers": list(self.layers)}

    def weigh(self, report: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the report and zero exponents."""
        return tf.clip_by_value(report, 0, 1), tf.zeros_like(report)


class DivergenceSoftmax(LayerWeights):
    """Weighs a client by its number of examples times ``exp(-divergence / temperature)``.

    The softmax over clients is computed as they arrive. Sums are relative to the largest weight so far and
    rescaled when a larger one arrives, so that no temperature makes all weights vanish.

    Source of the one-pass softmax: Milakov & Gimelshein, "Online normalizer calculation for softmax", 2018
    (arXiv 1805.02867), algorithm 3.
    """

    name: ClassVar[str] = "divergence_softmax"

    def __init__(self, layers: Sequence[int], *, temperature: float = 0.001) -> None:
        """Sets the layers and the temperature.

        Args:
            layers: The layer number of each tensor. See `LayerWeights`.
            temperature: Increase of the divergence that divides a client's weight by e.

        Raises:
            ConfigError: An argument is invalid.
        """
        super().__init__(layers)
        check_temperature(self.name, temperature)
        self._temperature = temperature

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return {"layers": list(self.layers), "temperature": self._temperature}

    def weigh(self, report: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns 1 and the exponent."""
        return tf.ones_like(report), tf.maximum(-tf.maximum(report, 0) / self._temperature, tf.float32.min)


def check_layers(what: str, layers: Sequence[int]) -> None:
    """Checks that ``layers`` is a list in which all layer numbers from 0 occur.

    Raises:
        ConfigError: A number is missing, or the list is empty.
    """
    numbers = set(layers) if isinstance(layers, (list, tuple)) else set()
    if not numbers or numbers != set(range(len(numbers))):
        raise ConfigError(
            f"{what} layers is {layers!r}; give the number of the layer of each tensor, 0 up and none left "
            "out, for example [0, 0, 1, 1] for two layers with kernel and bias"
        )


def check_temperature(what: str, temperature: float) -> None:
    """Checks that the temperature is a positive finite number.

    Raises:
        ConfigError: The temperature is not.
    """
    number = isinstance(temperature, (int, float)) and not isinstance(temperature, bool)
    if not number or not 0 < temperature < float("inf"):
        raise ConfigError(f"{what} temperature is {temperature!r}; it must be a number above 0")


def _times(x: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
    return x * tf.cast(weight, x.dtype)


def _divided(total: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
    return tf.math.divide_no_nan(total, tf.cast(weight, total.dtype))


def _added(left: Sequence[tf.Tensor], right: Sequence[tf.Tensor]) -> tuple[tf.Tensor, ...]:
    return tuple(a + b for a, b in zip(left, right, strict=True))
