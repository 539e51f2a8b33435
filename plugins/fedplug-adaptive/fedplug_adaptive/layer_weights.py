"""Means in which a client's weight in each layer follows from what it reported beside its update."""

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

    The last tensor of an update is the client's report, a number for each layer; the others are the model's.
    Which of the two means it is, the state says: ``{"adaptive": bool, "previous_loss": float32}``. It is up
    to the process to set it before `finish`; left alone, every round is adaptive. The report that results is
    the plain mean of reports in either case. A layer in which all weights are 0 is averaged plainly.

    One pass over the updates, as they arrive; the accumulator holds two dense models.
    """

    def __init__(self, layers: Sequence[int]) -> None:
        """Sets which tensor belongs to which layer.

        Args:
            layers: For each of the model's tensors the number of its layer; all numbers from 0 up occur.

        Raises:
            ConfigError: They do not.
        """
        check_layers(self.name, layers)
        self.layers = tuple(layers)

    @abc.abstractmethod
    def weigh(self, report: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """A client's ``a`` and ``b``, each ``[layers]``, for its weight ``a * exp(b)`` in each layer.

        Args:
            report: float32 ``[layers]``.
        """

    def init_state(self, specs: Sequence[tf.TensorSpec]) -> Any:
        """Adaptive; no loss is known yet."""
        del specs
        return {"adaptive": tf.constant(True), "previous_loss": tf.constant(float("inf"))}

    def zero(self, specs: Sequence[tf.TensorSpec]) -> Any:
        """Zero sums and zero total weights.

        Raises:
            ConfigError: The tensors are not those of ``layers``, and a report.
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
        """Decodes the update and adds it with one weight, and with one for each layer."""
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
        """Adds both up, the weights brought to the larger of the two exponents first."""
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
        """Divides, and chooses by the state."""
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
    """A client weighs its number of examples times what it reports, kept within 0 and 1.

    The sum is that of any weighted mean. A client decides on its weight by itself; when the weights of all
    are too small for float32, the layer is averaged plainly.
    """

    name: ClassVar[str] = "reported_weights"

    def get_config(self) -> dict[str, Any]:
        """The layers."""
        return {"layers": list(self.layers)}

    def weigh(self, report: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The report itself."""
        return tf.clip_by_value(report, 0, 1), tf.zeros_like(report)


class DivergenceSoftmax(LayerWeights):
    """A client weighs its number of examples times ``exp(-divergence / temperature)``.

    The softmax over clients is taken while they arrive: sums are kept relative to the largest weight so far,
    and brought down when a larger one comes, so that no temperature makes all weights vanish.

    Source of the one-pass softmax: Milakov & Gimelshein, "Online normalizer calculation for softmax", 2018
    (arXiv 1805.02867), algorithm 3.
    """

    name: ClassVar[str] = "divergence_softmax"

    def __init__(self, layers: Sequence[int], *, temperature: float = 0.001) -> None:
        """Sets layers and temperature.

        Args:
            layers: As for `LayerWeights`.
            temperature: In the unit of the divergences: a client whose divergence is larger by this weighs e
                times less.

        Raises:
            ConfigError: One of them is not valid.
        """
        super().__init__(layers)
        check_temperature(self.name, temperature)
        self._temperature = temperature

    def get_config(self) -> dict[str, Any]:
        """The arguments."""
        return {"layers": list(self.layers), "temperature": self._temperature}

    def weigh(self, report: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """1, and the exponent."""
        return tf.ones_like(report), tf.maximum(-tf.maximum(report, 0) / self._temperature, tf.float32.min)


def check_layers(what: str, layers: Sequence[int]) -> None:
    """Refuses what is no list of the numbers 0, 1, 2 ... of layers.

    Raises:
        ConfigError: A number is left out, or there are none.
    """
    numbers = set(layers) if isinstance(layers, (list, tuple)) else set()
    if not numbers or numbers != set(range(len(numbers))):
        raise ConfigError(
            f"{what} layers is {layers!r}; give the number of the layer of each tensor, 0 up and none left "
            "out, for instance [0, 0, 1, 1] for two layers with kernel and bias"
        )


def check_temperature(what: str, temperature: float) -> None:
    """Refuses what is no positive, finite number.

    Raises:
        ConfigError: It is.
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
