"""Random-k: entries drawn from a seed that both sides know, so that no indices are sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import fedplug.ops as ops
from fedplug.encoders.arguments import check_error_feedback, check_seed
from fedplug.encoders.base import State
from fedplug.encoders.coders import Seeded
from fedplug.encoders.sparsity import Sparsity
from fedplug.encoders.stages import Selection, Sparsifier
from fedplug.ops.scatter import gather_finite_of_each, take_from_sum_of_each
from fedplug.ops.types import Array, DType, Scalar
from fedplug.registry.specs import EXECUTIONS_AND_CUDA, Capabilities
from fedplug.schedules import Schedule

__all__ = ["RandomK"]


class RandomK(Sparsifier):
    """Sends one random entry of each of k runs of equal length ``n / k``, as nearly as possible.

    >>> import fedplug, numpy as np
    >>> payload, _ = fedplug.codec("randomk(0.5)").encode(np.float32([1, 2, 3, 4]))
    >>> fedplug.decode(payload)
    array([0., 4., 6., 0.], dtype=float32)

    The entry is sent times the length of its run, so that the expectation is ``x`` and the variance ``(n/k -
    1) ||x||^2`` if k divides n. That is the variance of k entries drawn from all n, but in O(k), in ascending
    order, and with evenly spread neighbours. The entries depend on the seed and the round only, so all
    clients send the same ones. With error feedback values are not scaled, and the others stay in the
    residual.

    Source: Stich, Cordonnier, Jaggi, "Sparsified SGD with Memory", NeurIPS 2018 (arXiv 1809.07599),
    definition 2.1 (rand-k), drawn in strata. Wangni, Wang, Liu, Zhang, "Gradient Sparsification for
    Communication-Efficient Distributed Optimization", NeurIPS 2018 (arXiv 1710.09854), for the scaling.

    Its own index coder is `Seeded`: with the default stages a payload is k values and about 12 bytes, so
    ``itemsize * k / n`` bytes per element.

    Takes float16, bfloat16, float32 and float64.
    """

    name: ClassVar[str] = "randomk"
    sparsity: Sparsity

    def __init__(
        self,
        fraction: float | Schedule | None = None,
        *,
        count: int | None = None,
        seed: int = 0,
        error_feedback: bool = False,
    ) -> None:
        """Makes the sparsifier. Exactly one of ``fraction`` and ``count`` is given.

        Args:
            fraction: The share of the elements of each tensor, above 0 and at most 1, or a schedule of such
                numbers; at least one entry is sent.
            count: Number of entries to send of each tensor, at least 1. All entries of a smaller tensor.
            seed: The seed of the drawn entries, 0 to 2^31 - 1.
            error_feedback: Whether the client keeps the unsent part and adds it to its next update, instead
                of scaling up the sent part.

        Raises:
            ConfigError: Neither or both are given, or an argument is out of range.
        """
        self.sparsity = Sparsity("randomk", fraction, count)
        check_seed("randomk", seed)
        check_error_feedback("randomk", error_feedback)
        self._seed = seed
        self.error_feedback = error_feedback
        self.index_coder = Seeded(seed=seed)

    @property
    def capabilities(self) -> Capabilities:
        """Unbiased without error feedback. Keeps state with it. All clients send the same entries."""
        return Capabilities(
            unbiased=not self.error_feedback,
            commutes_with_sum=True,
            needs_client_state=self.error_feedback,
            needs_seed=True,
            secure_aggregation_safe=True,
            fixed_size=self.sparsity.fixed,
            executes_on=EXECUTIONS_AND_CUDA,
        )

    def get_config(self) -> dict[str, object]:
        return {**self.sparsity.get_config(), "seed": self._seed, "error_feedback": self.error_feedback}

    def select(self, x: Array, state: State, round_num: Scalar) -> Selection:
        return self.grouped_select([x], [state], round_num)[0]

    def grouped_select(
        self, xs: Sequence[Array], states: Sequence[State], round_num: Scalar
    ) -> list[Selection]:
        """Selects from each tensor by itself."""
        seed = ops.round_seed(self._seed, round_num)
        sizes = [ops.num_elements(x) for x in xs]
        counts = [self.sparsity.of_size(size, round_num) for size in sizes]
        indices = [ops.draw_indices(seed, count, size) for count, size in zip(counts, sizes, strict=True)]
        if not self.error_feedback:
            found = gather_finite_of_each(xs, indices)
            each = zip(xs, found, counts, sizes, strict=True)
            values = [_scaled(read, _run_begins(count, size), x.dtype) for x, read, count, size in each]
            return [Selection(*chosen, {}) for chosen in zip(values, indices, strict=True)]
        taken = take_from_sum_of_each(xs, [state["residual"] for state in states], indices)
        return [
            Selection(each.values, places, {"residual": ops.ensure_shape(each.residual, x.shape)})
            for x, each, places in zip(xs, taken, indices, strict=True)
        ]


def _scaled(values: Array, begins: Array, dtype: DType) -> Array:
    """Returns the entry of each run times its length."""
    wide = ops.widened(values)
    return ops.saturate_cast(ops.multiply(wide, ops.astype(begins[1:] - begins[:-1], wide.dtype)), dtype)


def _run_begins(count: Scalar, size: int) -> Array:
    """Returns where the runs of `ops.draw_indices` begin, and the end of the last. int64 ``[count + 1]``."""
    count = ops.astype(count, "int64")
    return ops.arange(count + 1) * size // ops.maximum(count, 1)
