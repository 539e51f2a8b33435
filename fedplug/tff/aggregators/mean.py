"""The weighted mean of federated averaging, summed straight from the payloads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import tensorflow as tf

from fedplug.errors import ConfigError
from fedplug.registry.specs import Capabilities
from fedplug.tff.aggregators.base import Aggregator, Update, zero_sums

__all__ = ["Mean"]

_WEIGHTS = ("examples", "uniform")


class Mean(Aggregator):
    """``sum(w_c * update_c) / sum(w_c)`` over the clients of a round. Zero if all weights are zero.

    The server holds one dense accumulator per tensor, however many clients there are, and a sparse payload
    touches only its own entries.

    Source: McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data",
    AISTATS 2017 (arXiv 1602.05629), algorithm 1.
    """

    name: ClassVar[str] = "mean"

    def __init__(self, weights: str = "examples") -> None:
        """Makes a mean.

        Args:
            weights: ``"examples"``: a client's weight is its number of examples. ``"uniform"``: every weight
                is 1.

        Raises:
            ConfigError: ``weights`` is neither.
        """
        if weights not in _WEIGHTS:
            raise ConfigError(f"mean weights is {weights!r}; it must be one of {', '.join(_WEIGHTS)}")
        self._weights = weights

    @property
    def weights_by_examples(self) -> bool:
        return self._weights == "examples"

    @property
    def capabilities(self) -> Capabilities:
        """Its sensitivity is not bounded: one client with a large update moves it arbitrarily far."""
        return Capabilities(unbiased=True, commutes_with_sum=True, secure_aggregation_safe=True)

    def get_config(self) -> dict[str, Any]:
        return {"weights": self._weights}

    def zero(self, specs: Sequence[tf.TensorSpec]) -> Any:
        """Zero sums and a zero total weight (float32)."""
        return {"sums": zero_sums(specs), "weight": tf.zeros([], tf.float32)}

    def accumulate(self, accumulator: Any, update: Update, weight: tf.Tensor) -> Any:
        return {"sums": update.add_to(accumulator["sums"], weight), "weight": accumulator["weight"] + weight}

    def merge(self, left: Any, right: Any) -> Any:
        sums = tuple(a + b for a, b in zip(left["sums"], right["sums"], strict=True))
        return {"sums": sums, "weight": left["weight"] + right["weight"]}

    def finish(self, accumulator: Any, state: Any) -> tuple[tuple[tf.Tensor, ...], Any]:
        """Divides; a total weight of zero gives zeros."""
        total = accumulator["weight"]
        return tuple(tf.math.divide_no_nan(s, tf.cast(total, s.dtype)) for s in accumulator["sums"]), state
