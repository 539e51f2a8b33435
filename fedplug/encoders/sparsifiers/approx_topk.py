"""Approximate top-k: a threshold estimated from a sample."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from fedplug import ops
from fedplug.encoders.arguments import check_error_feedback, check_seed, check_share
from fedplug.encoders.base import State
from fedplug.encoders.sparsity import Sparsity
from fedplug.encoders.stages import Selection, Sparsifier
from fedplug.ops.types import AboveThreshold, Array
from fedplug.registry.specs import EXECUTIONS, Capabilities
from fedplug.schedules import Schedule

__all__ = ["ApproxTopK"]


class ApproxTopK(Sparsifier):
    """Keeps about k of the largest entries: all that reach a threshold estimated from a sample.

    Of ``a = x + residual`` m entries are looked at, one at random out of each of m runs of equal length; the
    one of rank ``k m / n`` among their magnitudes is the threshold. With r that rank, the number of entries
    that reach it differs from k by a share of about ``1 / sqrt(r)``: 10 % for 1 % of a million and a sample
    of 1 %. Where it is more than 2 k, as the sample was too small or there are ties, the k largest of them
    are taken. Zeros are never sent. With error feedback the others stay in the residual:
    ``decode(payload) + residual' == a`` bit for bit.

    Where the compiled ops run, the exact `TopK` is the faster one; what a sample saves is the sort that plain
    TensorFlow needs for it (lowering "reference", for the stock runtime).

    Source: Lin, Han, Mao, Wang, Dally, "Deep Gradient Compression", ICLR 2018 (arXiv 1712.01887), section 5:
    a threshold from 0.1 to 1 % of the gradient, and a second selection among the first where that lets too
    many pass.

    With the default stages after it, for float32 about 5 bytes per entry kept where 1 % are
    kept, 0.05 bytes per element.

    Takes float16, bfloat16, float32 and float64.
    """

    name: ClassVar[str] = "approx_topk"
    sparsity: Sparsity

    def __init__(
        self,
        fraction: float | Schedule,
        *,
        sample: float = 0.01,
        seed: int = 0,
        error_feedback: bool = True,
    ) -> None:
        """Makes the encoder.

        Args:
            fraction: Of the elements of each tensor, above 0 and at most 1. Or a schedule of such numbers.
            sample: The share of a tensor's elements that is looked at for the threshold, above 0, at most 1.
            seed: 0 to 2^31 - 1; other seeds, other samples. The sample depends on seed and round only.
            error_feedback: Keep what was not sent in the client's state and add it the next time.

        Raises:
            ConfigError: One of them is out of range.
        """
        self.sparsity = Sparsity("approx_topk", fraction, None)
        check_share("approx_topk sample", sample)
        check_seed("approx_topk", seed)
        check_error_feedback("approx_topk", error_feedback)
        self._sample = sample
        self._seed = seed
        self.error_feedback = error_feedback

    @property
    def capabilities(self) -> Capabilities:
        """Biased; state with error feedback only."""
        return Capabilities(
            needs_client_state=self.error_feedback,
            needs_seed=True,
            bounded_sensitivity=not self.error_feedback,
            executes_on=EXECUTIONS,
        )

    def get_config(self) -> dict[str, Any]:
        return {
            **self.sparsity.get_config(),
            "sample": self._sample,
            "seed": self._seed,
            "error_feedback": self.error_feedback,
        }

    def select(self, x: Array, state: State, round_num: Array) -> Selection:
        k = self.sparsity.of_size(ops.num_elements(x), round_num)
        residual = self.residual_of(x, state)
        kept = residual if self.error_feedback else None
        passed = ops.threshold_residual(x, residual, self._threshold(x, kept, k, round_num))
        chosen = ops.cond(ops.size(passed.values) > 2 * k, lambda: _largest_of(passed, k), lambda: passed)
        rest = ops.ensure_shape(chosen.residual, x.shape)
        return Selection(chosen.values, chosen.indices, self.state_of(rest))

    def _threshold(self, x: Array, residual: Array | None, k: Array, round_num: Array) -> Array:
        """The magnitude of rank ``k m / n``, the largest being of rank 1, in a sample of m of n sums."""
        size = ops.num_elements(x)
        if size == 0:
            return ops.asarray(0, like=x)
        looked_at = math.ceil(self._sample * size)
        places = ops.draw_indices(ops.round_seed(self._seed, round_num), looked_at, size)
        sampled = ops.gather_sum(x, residual, places)
        rank = ops.astype(ops.round(ops.astype(k, "float64") * (looked_at / size)), "int32")
        largest = ops.topk_residual(sampled, ops.no_residual(sampled), ops.maximum(rank, 1))
        return ops.min(abs(largest.values))


def _largest_of(passed: AboveThreshold, k: Array) -> AboveThreshold:
    """The k largest of the entries taken; the others go back."""
    largest = ops.topk_residual(passed.values, ops.no_residual(passed.values), k)
    residual = ops.scatter_decode_add(passed.residual, largest.residual, passed.indices)
    return AboveThreshold(largest.values, ops.take(passed.indices, largest.indices), residual)
