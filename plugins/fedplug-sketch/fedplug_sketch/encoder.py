"""The encoder. Must not know TFF, or how a sketch is computed."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import tensorflow as tf

from fedplug.encoders import Encoder, Payload, State
from fedplug.encoders.arguments import check_seed, check_share, check_whole
from fedplug.ops import from_bytes, of_length, require, to_bytes, wide_dtype, widened
from fedplug.registry.specs import Capabilities
from fedplug_sketch import ops

__all__ = ["CountSketch"]

_ROUND_BYTES = 4


class CountSketch(Encoder):
    """Sends random sums: each element is added, with a random sign, to one number in every row of a table.

    An element is decoded as the median over the rows of the number it went to, times its sign. Columns and
    signs follow from seed and round only, so that all clients of a round agree and the sum of their payloads
    is the payload of the sum of their updates. Payloads may be added up before anybody decodes them, under
    secure aggregation for instance; that is what this encoder is for. Where the server may see every payload,
    sparse ones say more in as many bytes.

    With one row the decoded tensor is linear in the payload, and unbiased over the rounds with variance about
    ``||x||^2 / columns`` an element. With more rows the median finds the large elements among many small ones
    more surely; it is not linear.

    Sources: Charikar, Chen, Farach-Colton, "Finding frequent items in data streams", ICALP 2002; in federated
    learning Rothchild, Panda, Ullah, Ivkin, Stoica, Braverman, Gonzalez, Arora, "FetchSGD:
    Communication-Efficient Federated Learning with Sketching", ICML 2020 (arXiv 2007.07682).

    Wire form "countsketch/1": int32 round; the table row by row, float64 for a float64 tensor and float32 for
    others; all little-endian. That is about ``fraction`` numbers per element.

    Takes float16, bfloat16, float32 and float64. Denormal numbers are zero to TensorFlow's arithmetic.
    """

    name: ClassVar[str] = "countsketch"
    wire_id: ClassVar[str] = "countsketch/1"

    def __init__(self, fraction: float = 0.1, *, rows: int = 1, seed: int = 0) -> None:
        """Makes the encoder.

        Args:
            fraction: Numbers in the table per element of the tensor, above 0 and at most 1; at least one a
                row.
            rows: Of the table, at least 1.
            seed: 0 to 2^31 - 1; other seeds, other columns and signs.

        Raises:
            ConfigError: One of them is out of range.
        """
        check_share("countsketch fraction", fraction)
        check_whole("countsketch rows", rows, 1)
        check_seed("countsketch", seed)
        self._fraction = fraction
        self._rows = rows
        self._seed = seed

    @property
    def capabilities(self) -> Capabilities:
        """Unbiased and a linear map with one row; the same size and places for all clients."""
        one_row = self._rows == 1
        return Capabilities(
            unbiased=one_row, commutes_with_sum=one_row, needs_seed=True, secure_aggregation_safe=one_row
        )

    def get_config(self) -> dict[str, Any]:
        """The arguments."""
        return {"fraction": self._fraction, "rows": self._rows, "seed": self._seed}

    def encode(self, x: tf.Tensor, state: State, round_num: tf.Tensor) -> tuple[Payload, State]:
        """The payload is ``{"table": float[rows, columns], "round": int32 scalar}``."""
        del state
        columns = self._columns(tf.TensorSpec(x.shape, x.dtype))
        table = ops.count_sketch(widened(tf.reshape(x, [-1])), self._keys(round_num), columns)
        table = tf.clip_by_value(table, table.dtype.min, table.dtype.max)  # where a sum was too large
        return {"table": table, "round": tf.cast(round_num, tf.int32)}, {}

    def decode(self, payload: Payload, spec: tf.TensorSpec) -> tf.Tensor:
        """The medians; what is too large for the dtype becomes its largest number."""
        size = spec.shape.num_elements()
        x = ops.estimate(payload["table"], self._keys(payload["round"]), size)
        x = tf.cast(tf.clip_by_value(x, float(spec.dtype.min), float(spec.dtype.max)), spec.dtype)
        return tf.reshape(x, spec.shape)

    def to_wire(self, payload: Payload, spec: tf.TensorSpec) -> tf.Tensor:
        """See the class."""
        del spec
        return tf.concat([to_bytes(payload[key]) for key in ("round", "table")], axis=0)

    def from_wire(self, body: tf.Tensor, spec: tf.TensorSpec) -> Payload:
        """Refuses a wrong length, a negative round, and numbers that are not finite."""
        columns, dtype = self._columns(spec), wide_dtype(spec.dtype)
        length = _ROUND_BYTES + self._rows * columns * dtype.size
        body = of_length(body, length, "the bytes of a countsketch payload")
        round_num = from_bytes(body[:_ROUND_BYTES], tf.int32)[0]
        table = from_bytes(body[_ROUND_BYTES:], dtype)
        valid = (round_num >= 0) & tf.reduce_all(tf.math.is_finite(table))
        with require(valid, "a countsketch payload has a negative round, a NaN or an infinity"):
            return {"table": tf.reshape(table, [self._rows, columns]), "round": tf.identity(round_num)}

    def _columns(self, spec: tf.TensorSpec) -> int:
        return math.ceil(self._fraction * spec.shape.num_elements() / self._rows)

    def _keys(self, round_num: tf.Tensor) -> tf.Tensor:
        return ops.row_keys(self._rows, self._seed, round_num)
