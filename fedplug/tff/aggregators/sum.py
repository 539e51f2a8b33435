"""The weighted sum, for processes that divide elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import tensorflow as tf

from fedplug.registry.specs import Capabilities
from fedplug.tff.aggregators.base import Aggregator, Update, zero_sums

__all__ = ["Sum"]


class Sum(Aggregator):
    """``sum(w_c * update_c)`` over the clients of a round; in federated averaging every weight is 1.

    The server holds one dense accumulator per tensor, however many clients there are, and a sparse payload
    touches only its own entries.
    """

    name: ClassVar[str] = "sum"

    @property
    def weights_by_examples(self) -> bool:
        """False: a sum of updates times numbers of examples is not an update."""
        return False

    @property
    def capabilities(self) -> Capabilities:
        """The promises of a sum, which is not an unbiased mean."""
        return Capabilities(commutes_with_sum=True, secure_aggregation_safe=True)

    def get_config(self) -> dict[str, Any]:
        return {}

    def zero(self, specs: Sequence[tf.TensorSpec]) -> Any:
        """Zeros, a tuple of one tensor per spec."""
        return zero_sums(specs)

    def accumulate(self, accumulator: Any, update: Update, weight: tf.Tensor) -> Any:
        return update.add_to(accumulator, weight)

    def merge(self, left: Any, right: Any) -> Any:
        return tuple(a + b for a, b in zip(left, right, strict=True))

    def finish(self, accumulator: Any, state: Any) -> tuple[tuple[tf.Tensor, ...], Any]:
        return accumulator, state
