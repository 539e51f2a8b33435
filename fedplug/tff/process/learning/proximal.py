"""FedProx: a proximal term keeps clients near the model of the round."""

from __future__ import annotations

import collections
import math
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from fedplug.errors import ConfigError

__all__ = ["ProximalOptimizer"]


class ProximalOptimizer(tff.learning.optimizers.Optimizer):
    """Adds a proximal term to an optimizer: the loss is ``f(w) + strength / 2 ||w - v||^2``.

    v are the first weights; on a client, the model of the round. A gradient g becomes ``g + strength (w -
    v)``. The state is ``<optimizer=S,start=V,began=bool>``, with the optimizer's state S and V like the
    weights.

    Source: Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020 (arXiv 1812.06127),
    equation 2. `tff.learning.algorithms.build_weighted_fed_prox` of TFF 0.87 adds ``strength (v - w)``, which
    drives clients away from v.
    """

    def __init__(self, optimizer: Any, strength: float) -> None:
        """Makes the optimizer.

        Args:
            optimizer: A `tff.learning.optimizers.Optimizer`.
            strength: The weight of the proximal term, at least 0. The paper's mu.

        Raises:
            ConfigError: The strength is not a number of at least 0.
        """
        if (
            isinstance(strength, bool)
            or not isinstance(strength, int | float)
            or not 0 <= strength < math.inf
        ):
            raise ConfigError(
                f"the strength of a proximal term is {strength!r}; it must be a number of at least 0"
            )
        self._optimizer = optimizer
        self._strength = strength

    def initialize(self, specs: Any) -> Any:
        """See the class."""
        return collections.OrderedDict(
            optimizer=self._optimizer.initialize(specs),
            start=tf.nest.map_structure(lambda spec: tf.zeros(spec.shape, spec.dtype), specs),
            began=tf.constant(False),
        )

    def next(self, state: Any, weights: Any, gradients: Any) -> Any:
        """See the class. Weights without a gradient get no proximal term."""
        began = state["began"]
        start = tf.nest.map_structure(lambda v, w: tf.where(began, v, w), state["start"], weights)

        def pulled(gradient: Any, w: Any, v: Any) -> Any:
            pull = tf.cast(self._strength, w.dtype) * (w - v)
            return None if gradient is None else tf.add(gradient, pull)  # which takes slices as well

        gradients = tf.nest.map_structure(pulled, gradients, weights, start)
        inner, weights = self._optimizer.next(state["optimizer"], weights, gradients)
        return collections.OrderedDict(optimizer=inner, start=start, began=tf.constant(True)), weights

    def get_hparams(self, state: Any) -> Any:
        """Returns the hyperparameters of the inner optimizer."""
        return self._optimizer.get_hparams(state["optimizer"])

    def set_hparams(self, state: Any, hparams: Any) -> Any:
        """Sets the hyperparameters of the inner optimizer."""
        optimizer = self._optimizer.set_hparams(state["optimizer"], hparams)
        return collections.OrderedDict(optimizer=optimizer, start=state["start"], began=state["began"])
