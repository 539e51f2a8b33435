"""Random-k: entries drawn from a seed that both sides know, so that no indices are sent."""

from __future__ import annotations

from typing import Any, ClassVar

from fedplug import ops
from fedplug.encoders.arguments import check_error_feedback, check_seed
from fedplug.encoders.base import State
from fedplug.encoders.index_coders.seeded import Seeded
from fedplug.encoders.sparsity import Sparsity
from fedplug.encoders.stages import Selection, Sparsifier
from fedplug.ops.types import Array
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
    definition 2.1 (rand-k), drawn in strata; Wangni, Wang, Liu, Zhang, "Gradient Sparsification for
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
        """Makes the sparsifier; exactly one of ``fraction`` and ``count`` is given.

        Args:
            fraction: The share of the elements of each tensor, above 0 and at most 1, or a schedule of such
                numbers; at least one entry is sent.
            count: Number of entries to send of each tensor, at least 1; all entries of a smaller tensor.
            seed: The seed of the drawn entries, 0 to 2^31 - 1.
            error_feedback: Whether the client keeps what was not sent and adds it to its next update, instead
                of scaling up what is sent.

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
        """Unbiased without error feedback; keeps state with it. All clients send the same entries."""
        return Capabilities(
            unbiased=not self.error_feedback,
            commutes_with_sum=True,
            needs_client_state=self.error_feedback,
            needs_seed=True,
            secure_aggregation_safe=True,
            fixed_size=self.sparsity.fixed,
            executes_on=EXECUTIONS_AND_CUDA,
        )

    def get_config(self) -> dict[str, Any]:
        return {**self.sparsity.get_config(), "seed": self._seed, "error_feedback": self.error_feedback}

    def select(self, x: Array, state: State, round_num: Array) -> Selection:
        size = ops.num_elements(x)
        count = self.sparsity.of_size(size, round_num)
        indices = ops.draw_indices(ops.round_seed(self._seed, round_num), count, size)
        if not self.error_feedback:
            x = ops.require_finite(x, "the update")
            begins = _run_begins(count, size)
            values = ops.widened(ops.gather_sum(x, None, indices))
            values = ops.multiply(values, ops.astype(begins[1:] - begins[:-1], values.dtype))
            return Selection(ops.saturate_cast(values, x.dtype), indices, {})
        taken = ops.take_from_sum(x, state["residual"], indices)
        return Selection(taken.values, indices, {"residual": ops.ensure_shape(taken.residual, x.shape)})


def _run_begins(count: Array | int, size: int) -> Array:
    """Returns where the runs of `ops.draw_indices` begin, and the end of the last; int64 ``[count + 1]``."""
    count = ops.astype(count, "int64")
    return ops.arange(count + 1) * size // ops.maximum(count, 1)
