"""The encoder. Must not know TFF, or how a sketch is computed."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any, ClassVar

from fedplug import ops
from fedplug.encoders import Encoder, Payload, State
from fedplug.encoders.arguments import check_seed, check_share, check_whole
from fedplug.errors import ConfigError, PayloadError
from fedplug.ops.types import Array, Spec
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

    Wire form "countsketch/1": float64 ``fraction``; int32 ``rows``; int32 ``seed``; int32 round; the table
    row by row, float64 for a float64 tensor and float32 for others; all little-endian. Of n elements a row
    has ``ceil(fraction n / rows)``, and at least one number. That is about ``fraction`` numbers per element.

    Takes float16, bfloat16, float32 and float64. Denormal numbers are zero to TensorFlow's arithmetic.
    """

    name: ClassVar[str] = "countsketch"
    wire_id: ClassVar[str] = "countsketch/1"

    def __init__(self, fraction: float = 0.1, *, rows: int = 1, seed: int = 0) -> None:
        """Makes the encoder.

        Args:
            fraction: Numbers in the table per element of the tensor, above 0 and at most 1; at least one a
                row.
            rows: Number of rows of the table, 1 to 15: decoding costs as much for each.
            seed: 0 to 2^31 - 1; other seeds, other columns and signs.

        Raises:
            ConfigError: One of them is out of range.
        """
        check_share("countsketch fraction", fraction)
        check_whole("countsketch rows", rows, 1, _MOST_ROWS)
        check_seed("countsketch", seed)
        self._fraction = fraction
        self._rows = rows
        self._seed = seed

    @property
    def capabilities(self) -> Capabilities:
        """Unbiased and a linear map with one row; the same size and places for all clients."""
        one_row = self._rows == 1
        return Capabilities(
            unbiased=one_row,
            commutes_with_sum=one_row,
            needs_seed=True,
            secure_aggregation_safe=one_row,
            executes_on=EXECUTIONS,
        )

    def get_config(self) -> dict[str, Any]:
        """The arguments."""
        return {"fraction": self._fraction, "rows": self._rows, "seed": self._seed}

    @classmethod
    def from_payload(cls, body: Array, spec: Spec) -> Self:
        """With the configuration that the payload begins with."""
        del spec
        if ops.size(body) < _CONFIGURATION.size:
            raise PayloadError("a countsketch payload is too short to hold its configuration")
        fraction, rows, seed = _CONFIGURATION.unpack(bytes(body[: _CONFIGURATION.size]))
        try:
            return cls(fraction, rows=rows, seed=seed)
        except ConfigError as error:
            raise PayloadError(f"a countsketch payload has a wrong configuration: {error}") from error

    def encode(self, x: Array, state: State, round_num: Array) -> tuple[Payload, State]:
        """The payload is ``{"table": float[rows, columns], "round": int32 scalar}``."""
        del state
        values = ops.widened(ops.reshape(ops.require_finite(x, "the update"), [-1]))
        table = count_sketch(values, self._keys(round_num), self._columns(ops.spec_of(x)))
        table = ops.saturate_cast(table, table.dtype)  # where a sum was too large
        return {"table": table, "round": ops.astype(round_num, "int32")}, {}

    def decode(self, payload: Payload, spec: Spec) -> Array:
        """The medians; what is too large for the dtype becomes its largest number."""
        table, keys = payload["table"], self._keys(payload["round"])
        if spec.dtype == table.dtype and self._rows % 2:  # one number of the table, which has fewer of them
            x = estimate(ops.saturate_cast(table, spec.dtype), keys, ops.num_elements(spec))
        else:
            x = ops.saturate_cast(estimate(table, keys, ops.num_elements(spec)), spec.dtype)
        return ops.reshape(x, spec.shape)

    def to_wire(self, payload: Payload, spec: Spec) -> Array:
        """See the class."""
        del spec
        parts = [ops.to_bytes(payload[key]) for key in ("round", "table")]
        return ops.concat([self._configuration(like=parts[0]), *parts])

    def from_wire(self, body: Array, spec: Spec) -> Payload:
        """Refuses another configuration or length, a negative round, and numbers that are not finite."""
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

    def _keys(self, round_num: Array) -> Array:
        return row_keys(self._rows, self._seed, round_num)
