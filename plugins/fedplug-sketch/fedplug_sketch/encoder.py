"""The count-sketch encoder."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, ClassVar

from fedplug import ops
from fedplug.encoders import Encoder, Payload, State
from fedplug.encoders.arguments import check_seed, check_share, check_whole
from fedplug.errors import ConfigError, PayloadError
from fedplug.ops.types import Array, Scalar, Spec
from fedplug.registry.specs import EXECUTIONS, Capabilities
from fedplug_sketch.ops import count_sketch, estimate, row_keys

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

__all__ = ["CountSketch"]

_MOST_ROWS = 15
_CONFIGURATION = struct.Struct("<dii")
_HEADER_BYTES = _CONFIGURATION.size + 4


class CountSketch(Encoder):
    """Sends random sums: each element is added, with a random sign, to one number in every row of a table.

    An element is decoded as the median over the rows of its number times its sign. Columns and signs depend
    only on seed and round, so all clients of a round agree, and the sum of their payloads is the payload of
    the sum of their updates. The encoder is meant for sums of payloads before decoding, for example under
    secure aggregation. If the server may see every payload, sparse ones contain more in as many bytes.

    With one row, the decoded tensor is linear in the payload. It is unbiased over the rounds with variance
    about ``||x||^2 / columns`` per element. With more rows, the median finds large elements among many small
    ones more reliably, but it is not linear.

    Sources: Charikar, Chen, Farach-Colton, "Finding frequent items in data streams", ICALP 2002; in federated
    learning Rothchild, Panda, Ullah, Ivkin, Stoica, Braverman, Gonzalez, Arora, "FetchSGD:
    Communication-Efficient Federated Learning with Sketching", ICML 2020 (arXiv 2007.07682).

    Wire form "countsketch/1": float64 ``fraction``. int32 ``rows``. int32 ``seed``. int32 round. The table
    row by row, float64 for a float64 tensor and float32 for others. All little-endian. For n elements a row
    has ``ceil(fraction n / rows)`` numbers, at least one. That is about ``fraction`` numbers per element.

    The encoder accepts float16, bfloat16, float32 and float64. TensorFlow treats denormal numbers as zero.
    """

    name: ClassVar[str] = "countsketch"
    wire_id: ClassVar[str] = "countsketch/1"

    def __init__(self, fraction: float = 0.1, *, rows: int = 1, seed: int = 0) -> None:
        """Initializes the encoder.

        Args:
            fraction: Numbers in the table per element of the tensor, above 0 and at most 1; at least one per
                row.
            rows: Number of rows of the table, 1 to 15. The cost of decoding is proportional to it.
            seed: Seed of the columns and signs, 0 to 2^31 - 1.

        Raises:
            ConfigError: An argument is out of range.
        """
        check_share("countsketch fraction", fraction)
        check_whole("countsketch rows", rows, 1, _MOST_ROWS)
        check_seed("countsketch", seed)
        self._fraction = fraction
        self._rows = rows
        self._seed = seed

    @property
    def capabilities(self) -> Capabilities:
        """The encoder is unbiased and linear if it has one row. Size and places are equal for all clients."""
        one_row = self._rows == 1
        return Capabilities(
            unbiased=one_row,
            commutes_with_sum=one_row,
            needs_seed=True,
            secure_aggregation_safe=one_row,
            executes_on=EXECUTIONS,
        )

    def get_config(self) -> dict[str, object]:
        """Returns the constructor's arguments."""
        return {"fraction": self._fraction, "rows": self._rows, "seed": self._seed}

    @classmethod
    def from_payload(cls, body: Array, spec: Spec) -> Self:
        """Reads the configuration from the start of the payload."""
        del spec
        if ops.size(body) < _CONFIGURATION.size:
            raise PayloadError("a countsketch payload is too short to hold its configuration")
        fraction, rows, seed = _CONFIGURATION.unpack(bytes(body[: _CONFIGURATION.size]))
        try:
            return cls(fraction, rows=rows, seed=seed)
        except ConfigError as error:
            raise PayloadError(f"a countsketch payload has a wrong configuration: {error}") from error

    def encode(self, x: Array, state: State, round_num: Scalar) -> tuple[Payload, State]:
        """Returns the payload ``{"table": float[rows, columns], "round": int32 scalar}`` and no state."""
        del state
        values = ops.widened(ops.reshape(ops.require_finite(x, "the update"), [-1]))
        table = count_sketch(values, self._keys(round_num), self._columns(ops.spec_of(x)))
        table = ops.saturate_cast(table, table.dtype)  # limits sums that overflowed
        return {"table": table, "round": ops.astype(round_num, "int32")}, {}

    def decode(self, payload: Payload, spec: Spec) -> Array:
        """Computes the medians. Values too large for the dtype become its largest number."""
        table, keys = payload["table"], self._keys(payload["round"])
        if spec.dtype == table.dtype and self._rows % 2:  # the estimates are numbers of the smaller table
            x = estimate(ops.saturate_cast(table, spec.dtype), keys, ops.num_elements(spec))
        else:
            x = ops.saturate_cast(estimate(table, keys, ops.num_elements(spec)), spec.dtype)
        return ops.reshape(x, spec.shape)

    def to_wire(self, payload: Payload, spec: Spec) -> Array:
        """Serializes the payload. See the class."""
        del spec
        parts = [ops.to_bytes(payload[key]) for key in ("round", "table")]
        return ops.concat([self._configuration(like=parts[0]), *parts])

    def from_wire(self, body: Array, spec: Spec) -> Payload:
        """Parses untrusted bytes. Rejects another configuration or length, and invalid numbers."""
        columns, dtype = self._columns(spec), ops.wide_dtype(spec.dtype)
        length = _HEADER_BYTES + self._rows * columns * ops.itemsize(dtype)
        body = ops.of_length(body, length, "the bytes of a countsketch payload")
        same = ops.all(body[: _CONFIGURATION.size] == self._configuration(like=body))
        with ops.require(same, f"a countsketch payload was not made by {self!r}"):
            round_num = ops.from_bytes(body[_CONFIGURATION.size : _HEADER_BYTES], "int32")[0]
        table = ops.from_bytes(body[_HEADER_BYTES:], dtype)
        valid = (round_num >= 0) & ops.all_finite(table)
        with ops.require(valid, "a countsketch payload has a negative round, a NaN or an infinity"):
            return {"table": ops.reshape(table, [self._rows, columns]), "round": ops.identity(round_num)}

    def _columns(self, spec: Spec) -> int:
        size = ops.num_elements(spec)
        return max(1, math.ceil(self._fraction * size / self._rows)) if size else 0

    def _configuration(self, like: Array) -> Array:
        return ops.asarray(list(_CONFIGURATION.pack(self._fraction, self._rows, self._seed)), like=like)

    def _keys(self, round_num: Scalar) -> Array:
        return row_keys(self._rows, self._seed, round_num)
