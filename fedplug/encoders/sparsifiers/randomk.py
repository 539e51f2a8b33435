"""Random-k: entries chosen by a seed that both sides know, so that no indices travel."""

from __future__ import annotations

from typing import Any, ClassVar

from fedplug import ops
from fedplug.encoders.arguments import check_error_feedback, check_seed
from fedplug.encoders.base import State
from fedplug.encoders.index_coders.seeded import Seeded
from fedplug.encoders.sparsity import Sparsity
from fedplug.encoders.stages import Selection, Sparsifier
from fedplug.ops.types import Array
from fedplug.registry.specs import EXECUTIONS, Capabilities
from fedplug.schedules import Schedule

__all__ = ["RandomK"]


class RandomK(Sparsifier):
    """Keeps one random entry out of each of k runs of (as nearly as can be) equal length ``n / k``.

    The entry is sent times the length of its run, so that the expectation is ``x`` and the variance
    ``(n/k - 1) ||x||^2`` where k divides n: as for k entries drawn from all n, but in O(k), in
    ascending order, and with neighbours spread evenly. Which ones depends on seed and round only, so that all
    clients send the same entries. With error feedback values are not scaled, and the others stay in the
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
        """Exactly one of ``fraction`` and ``count`` is given.

        Args:
            fraction: Of the elements of each tensor, above 0 and at most 1; at least one entry is kept. Or a
                schedule of such numbers.
            count: Entries kept in each tensor, at least 1; all of a smaller tensor.
            seed: 0 to 2^31 - 1; other seeds, other entries.
            error_feedback: Keep what was not sent in the client's state and add it the next time, instead of
                scaling up what is sent.

        Raises:
            ConfigError: Neither or both are given, or something is out of range.
        """
        self.sparsity = Sparsity("randomk", fraction, count)
        check_seed("randomk", seed)
        check_error_feedback("randomk", error_feedback)
        self._seed = seed
        self.error_feedback = error_feedback
        self.index_coder = Seeded(seed=seed)

    @property
    def capabilities(self) -> Capabilities:
        """Unbiased without error feedback; state with it. All clients send the same entries of a round."""
        return Capabilities(
            unbiased=not self.error_feedback,
            commutes_with_sum=True,
            needs_client_state=self.error_feedback,
            needs_seed=True,
            secure_aggregation_safe=True,
            executes_on=EXECUTIONS,
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
    """Where the runs of `ops.draw_indices` begin, and the end of the last; int64 ``[count + 1]``."""
    count = ops.astype(count, "int64")
    return ops.arange(count + 1) * size // ops.maximum(count, 1)
