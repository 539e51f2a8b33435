"""Top-k sparsification, of a tensor or of a whole model, with the residual of error feedback on the client.

Knows the custom ops; must not know TFF.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import tensorflow as tf

from fedplug import ops
from fedplug.encoders import serialization
from fedplug.encoders.arguments import check_error_feedback
from fedplug.encoders.base import Payload, State
from fedplug.encoders.checks import require
from fedplug.encoders.sparsifier import CountingSparsifier, Selection
from fedplug.encoders.sparsifiers.sparsity import Sparsity
from fedplug.errors import ConfigError
from fedplug.registry.specs import Capabilities
from fedplug.schedules import Schedule

__all__ = ["TopK"]

_COUNT_BYTES = 4
_SCOPES = ("tensor", "model")


class TopK(CountingSparsifier):
    """Keeps the k entries of largest magnitude; with error feedback the others wait on the client.

    ``a = x + residual``; the payload is the k entries of ``a`` with the largest ``|a|`` (ties: the lower
    index), and ``residual' = a`` with those set to zero, so that ``decode(payload) + residual' == a`` bit for
    bit. Without error feedback the residual is always zero and what is not sent is lost.

    With ``scope="model"`` the tensors that share this encoder are one: k is a share of all their elements,
    and the largest of them all are kept, so that of all ways to share k entries out the least is lost. A
    tensor may then send nothing. They must be of one dtype.

    Sources: Stich et al., "Sparsified SGD with Memory", NeurIPS 2018 (arXiv 1809.07599), algorithm 1;
    Karimireddy et al., "Error Feedback Fixes SignSGD and other Gradient Compression Schemes", ICML 2019
    (arXiv 1901.09847).

    Wire form "topk/1": uint32 k; the Rice code of the k ascending indices (csrc/core/index_code.h); the k
    values, little-endian. At k/n = 1 % that is about 5 bytes per entry kept, 0.05 bytes per element, for
    float32.

    Takes float16, bfloat16, float32 and float64.
    """

    name: ClassVar[str] = "topk"
    wire_id: ClassVar[str] = "topk/1"

    def __init__(
        self,
        fraction: float | Schedule | None = None,
        *,
        count: int | None = None,
        error_feedback: bool = True,
        scope: str = "tensor",
    ) -> None:
        """Exactly one of ``fraction`` and ``count`` is given.

        Args:
            fraction: Of the elements of each tensor, above 0 and at most 1; at least one entry is kept. Or a
                schedule of such numbers.
            count: Entries kept in each tensor, at least 1; all of a smaller tensor.
            error_feedback: Keep what was not sent in the client's state and add it the next time.
            scope: ``"tensor"``, or ``"model"``: fraction and count are of all tensors together.

        Raises:
            ConfigError: Neither or both are given, or something is out of range.
        """
        self._kept = Sparsity("topk", fraction, count)
        check_error_feedback("topk", error_feedback)
        if scope not in _SCOPES:
            raise ConfigError(f"topk scope is {scope!r}; it must be one of {', '.join(_SCOPES)}")
        self._scope = scope
        self.error_feedback = error_feedback

    @property
    def capabilities(self) -> Capabilities:
        """Biased; a payload's sum is not the payload of a sum. State only with error feedback."""
        return Capabilities(
            needs_client_state=self.error_feedback, bounded_sensitivity=not self.error_feedback
        )

    def get_config(self) -> dict[str, Any]:
        """The arguments that were given."""
        config = {**self._kept.get_config(), "error_feedback": self.error_feedback}
        return config if self._scope == "tensor" else {**config, "scope": self._scope}

    def entries(self, spec: tf.TensorSpec, round_num: tf.Tensor | int = 0) -> int | tf.Tensor:
        """How many of n elements are kept: ``min(n, max(1, round(fraction * n)))``, or ``min(n, count)``."""
        return self._kept.of(spec, round_num)

    def select(self, x: tf.Tensor, state: State, round_num: tf.Tensor) -> Selection:
        """See the class."""
        k = self._kept.of(tf.TensorSpec(x.shape, x.dtype), round_num)
        chosen = ops.topk_residual(x, self.residual_of(x, state), k)
        return Selection(chosen.values, chosen.indices, self.state_of(chosen.residual))

    def grouped_select(
        self, xs: Sequence[tf.Tensor], states: Sequence[State], round_num: tf.Tensor
    ) -> list[Selection]:
        """From each tensor by itself, or with ``scope="model"`` from all of them."""
        if self._scope == "tensor":
            return super().grouped_select(xs, states, round_num)
        dtypes = sorted({x.dtype.name for x in xs})
        if len(dtypes) > 1:
            raise ConfigError(
                f"topk with scope='model' compares the entries of all its tensors, and these are of "
                f"{' and '.join(dtypes)}; give each dtype a rule of its own"
            )
        k = self._kept.of_size(sum(x.shape.num_elements() for x in xs), round_num)
        residuals = [self.residual_of(x, state) for x, state in zip(xs, states, strict=True)]
        chosen = ops.grouped_topk_residual(xs, residuals, k)
        begins, ends = chosen.row_splits[:-1], chosen.row_splits[1:]
        return [
            Selection(
                chosen.values[begins[t] : ends[t]],
                chosen.indices[begins[t] : ends[t]],
                self.state_of(residual),
            )
            for t, residual in enumerate(chosen.residuals)
        ]

    def as_payload(self, selection: Selection, size: int, round_num: tf.Tensor) -> tuple[Payload, State]:
        """The payload is ``{"values": x.dtype[k], "indices": int32[k]}``, indices ascending."""
        del size, round_num
        return {"values": selection.values, "indices": selection.indices}, selection.state

    def values(self, payload: Payload, dtype: tf.DType) -> tf.Tensor:
        """As they are."""
        del dtype
        return payload["values"]

    def to_wire(self, payload: Payload, spec: tf.TensorSpec) -> tf.Tensor:
        """See the class."""
        values, indices = payload["values"], payload["indices"]
        count = serialization.to_bytes(tf.size(values, tf.int32))
        code = ops.encode_indices(indices, spec.shape.num_elements())
        return tf.concat([count, code, serialization.to_bytes(values)], axis=0)

    def from_wire(self, body: tf.Tensor, spec: tf.TensorSpec) -> Payload:
        """Refuses counts and codes that `to_wire` could not have written, and values that are not finite."""
        size = spec.shape.num_elements()
        with require(tf.size(body) >= _COUNT_BYTES, "a topk payload is too short to hold its count"):
            count = serialization.from_bytes(body[:_COUNT_BYTES], tf.int32)[0]
        code_bytes = tf.size(body) - _COUNT_BYTES - tf.minimum(count, size) * spec.dtype.size
        plausible = (count >= 0) & (count <= size) & (code_bytes >= 0)
        with require(plausible, "a topk payload's count does not fit its length"):
            values_at = tf.identity(_COUNT_BYTES + code_bytes)
        code, value_bytes = body[_COUNT_BYTES:values_at], body[values_at:]
        values = serialization.from_bytes(value_bytes, spec.dtype)
        with require(tf.reduce_all(tf.math.is_finite(values)), "a topk payload holds a NaN or an infinity"):
            return {"values": tf.identity(values), "indices": ops.decode_indices(code, count, size)}
