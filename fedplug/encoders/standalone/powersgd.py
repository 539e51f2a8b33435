"""PowerSGD: low-rank compression of matrices, with warm start and error feedback."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any, ClassVar

from fedplug import ops
from fedplug.encoders.arguments import check_number, check_seed, check_whole
from fedplug.encoders.base import Encoder, Payload, State
from fedplug.encoders.standalone.orthonormal import orthonormal_columns
from fedplug.errors import PayloadError
from fedplug.ops import of_length, require, wide_dtype, widened
from fedplug.ops.types import Array, DType, Spec
from fedplug.registry.specs import EXECUTIONS, Capabilities

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

__all__ = ["PowerSGD"]

_RANK_BYTES = 4
_MOST_RANK = 256  # a larger one would make decoding slow


class PowerSGD(Encoder):
    """Sends a matrix as the product of two thin matrices, and keeps what the product misses as the residual.

    The tensor is read as an m by n matrix, where n is the size of its last axis. With ``A = x + residual``
    and ``Q`` (n by r) from the previous round, ``P = orthonormal(A Q)`` and ``Q' = A^T P``. The payload is P
    and Q', and decodes to ``P Q'^T``, the projection of A on the columns of P. Then
    ``residual' = A - P Q'^T``, and the next round starts from Q' (warm start: one step of the power iteration
    per round). A column of Q' that is zero is drawn again.

    Vectors and small matrices are sent uncompressed and without state: those with fewer than ``min_ratio``
    times the elements of the two thin matrices.

    Each client sends its own two matrices. Data-parallel training averages P and Q over all workers in two
    rounds of messages, which clients that take part occasionally cannot wait for.

    Source: Vogels, Karimireddy, Jaggi, "PowerSGD: Practical Low-Rank Gradient Compression for Distributed
    Optimization", NeurIPS 2019 (arXiv 1905.13727), algorithms 1 and 2.

    Wire form "powersgd/1": for an uncompressed tensor, uint32 0, then its elements. Otherwise uint32 r; a
    scale s, float64 for a float64 tensor and float32 for others; the elements of P and of ``Q' / s``, in the
    tensor's dtype. All numbers are little-endian, matrices in row-major order. This takes
    ``r (m + n) / (m n)`` elements per element.

    Accepts float16, bfloat16, float32 and float64. TensorFlow's own arithmetic, in references of ops and in
    the orthogonalization, treats denormal numbers as zero.

    >>> import numpy as np, fedplug
    >>> payload, state = fedplug.codec("powersgd(rank=1)").encode(np.ones((100, 50), np.float32))
    >>> len(payload)  # of 20,000 bytes
    646
    """

    name: ClassVar[str] = "powersgd"
    wire_id: ClassVar[str] = "powersgd/1"

    def __init__(self, rank: int = 2, *, min_ratio: float = 2, seed: int = 0) -> None:
        """Makes the encoder.

        Args:
            rank: The rank r of the product, 1 to 256.
            min_ratio: Smallest ratio of the tensor's elements to those of the two matrices, at least 1; a
                tensor below it is sent uncompressed.
            seed: Seed of the first Q, 0 to 2^31 - 1; all clients start with the same Q.

        Raises:
            ConfigError: One of them is out of range.
        """
        check_whole("powersgd rank", rank, 1, _MOST_RANK)
        check_number("powersgd min_ratio", min_ratio, lambda ratio: ratio >= 1, "of at least 1")
        check_seed("powersgd", seed)
        self._rank = rank
        self._min_ratio = min_ratio
        self._seed = seed

    @property
    def capabilities(self) -> Capabilities:
        """The encoder is biased and needs its state."""
        return Capabilities(needs_client_state=True, decode_copies=1, executes_on=EXECUTIONS)

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments."""
        return {"rank": self._rank, "min_ratio": self._min_ratio, "seed": self._seed}

    @classmethod
    def from_payload(cls, body: Array, spec: Spec) -> Self:
        """Reads the rank from the start of the payload; rank 0 stands for an uncompressed tensor."""
        if ops.size(body) < _RANK_BYTES:
            raise PayloadError("a powersgd payload is too short to hold its rank")
        rank = int.from_bytes(bytes(body[:_RANK_BYTES]), "little")
        if rank == 0:
            return cls(min_ratio=sys.float_info.max)
        if rank > _MOST_RANK or not (reader := cls(rank, min_ratio=1))._is_factored(spec):
            raise PayloadError(
                f"a powersgd payload has rank {rank}, with which no {tuple(spec.shape)} tensor is sent"
            )
        return reader

    def init_state(self, spec: Spec) -> State:
        """Returns ``{"residual": zeros, "q": float[n, r]}``; ``{}`` for an uncompressed tensor."""
        if not self._is_factored(spec):
            return {}
        return {"residual": ops.zeros(ops.wide_spec(spec)), "q": self._first_q(spec)}

    def encode(self, x: Array, state: State, round_num: Array) -> tuple[Payload, State]:
        """Returns ``{"p": [m, r], "q": [n, r], "scale": scalar}``, or ``{"values": x}`` uncompressed."""
        del round_num
        spec = ops.spec_of(x)
        if not self._is_factored(spec):
            return {"values": ops.require_finite(x, "the update")}, {}
        carried, scale = ops.sum_and_largest(widened(x), state["residual"])
        # The products of large numbers would overflow without the scale.
        scale = ops.require_finite(scale, "the update, or its sum with the residual,")
        a = ops.reshape(carried, _matrix_shape(spec))
        p = orthonormal_columns(ops.matrix_times(a, state["q"], scale=scale))
        p = ops.astype(p, x.dtype)
        q = ops.astype(ops.matrix_times(a, widened(p), scale=scale, transposed=True), x.dtype)
        empty = ops.max(abs(widened(q)), axis=0) == 0
        payload = {"p": p, "q": q, "scale": scale}
        if x.dtype == a.dtype:
            residual = ops.low_rank_residual(a, p, q, scale=scale)
        else:  # the receiver rounds the product
            residual = ops.subtract(a, widened(ops.reshape(self.decode(payload, spec), a.shape)))
        return payload, {
            "residual": ops.reshape(residual, spec.shape),
            "q": ops.where(empty, self._first_q(spec), widened(q)),
        }

    def decode(self, payload: Payload, spec: Spec) -> Array:
        """Returns ``P Q'^T``; values beyond the range of the dtype become its largest number."""
        if not self._is_factored(spec):
            return payload["values"]
        p, q = widened(payload["p"]), widened(payload["q"])
        a = ops.low_rank_matrix(p, q, scale=payload["scale"], dtype=spec.dtype)
        return ops.reshape(a, spec.shape)

    def to_wire(self, payload: Payload, spec: Spec) -> Array:
        """See the class."""
        names = ("scale", "p", "q") if self._is_factored(spec) else ("values",)
        parts = [ops.to_bytes(payload[name]) for name in names]
        return ops.concat([self._rank_bytes(spec, like=parts[0]), *parts])

    def from_wire(self, body: Array, spec: Spec) -> Payload:
        """Refuses a wrong rank or length, factors out of range, and numbers that are not finite."""
        if not self._is_factored(spec):
            length = ops.num_elements(spec) * ops.itemsize(spec.dtype)
            values = _finite(self._after_rank(body, length, spec), spec.dtype)
            return {"values": ops.reshape(values, spec.shape)}
        (m, n), wide = _matrix_shape(spec), wide_dtype(spec.dtype)
        scale_bytes = ops.itemsize(wide)
        length = scale_bytes + self._rank * (m + n) * ops.itemsize(spec.dtype)
        body = self._after_rank(body, length, spec)
        scale = _finite(body[:scale_bytes], wide)[0]
        positive = body[scale_bytes - 1] < 128  # the sign bit, which -0.0 has too
        with require(positive, "the scale of a powersgd payload is negative"):
            scale = ops.identity(scale)
        factors = _finite(body[scale_bytes:], spec.dtype)
        p, q = factors[: self._rank * m], factors[self._rank * m :]
        # Columns of P have length 1, and elements of A are at most 1; twice that leaves room for rounding.
        bounded = (_largest(p) <= 2) & (_largest(q) <= 2 * math.sqrt(m))
        with require(bounded, "the factors of a powersgd payload are too large"):
            return {
                "p": ops.reshape(p, [m, self._rank]),
                "q": ops.reshape(q, [n, self._rank]),
                "scale": scale,
            }

    def _is_factored(self, spec: Spec) -> bool:
        m, n = _matrix_shape(spec)
        return 0 < self._rank * (m + n) * self._min_ratio <= m * n

    def _first_q(self, spec: Spec) -> Array:
        n, wide = _matrix_shape(spec)[1], wide_dtype(spec.dtype)
        # An array, so that the numbers are drawn in its execution.
        first_round = ops.astype(ops.astype(0, wide), "int64")
        noise = ops.shared_uniform(n * self._rank, ops.round_seed(self._seed, first_round))
        return ops.astype(ops.reshape(2 * noise - 1, [n, self._rank]), wide)

    def _rank_bytes(self, spec: Spec, like: Array) -> Array:
        rank = self._rank if self._is_factored(spec) else 0
        return ops.asarray(list(rank.to_bytes(_RANK_BYTES, "little")), like=like)

    def _after_rank(self, body: Array, length: int, spec: Spec) -> Array:
        """Returns the ``length`` bytes after the rank, which must be this encoder's."""
        body = of_length(body, _RANK_BYTES + length, "the bytes of a powersgd payload")
        same = ops.all(body[:_RANK_BYTES] == self._rank_bytes(spec, like=body))
        with require(same, f"a powersgd payload was not made by {self!r}"):
            return ops.identity(body[_RANK_BYTES:])


def _matrix_shape(spec: Spec) -> tuple[int, int]:
    *others, last = tuple(spec.shape) or (1,)
    return math.prod(others), last


def _largest(numbers: Array) -> Array:
    return ops.max(abs(widened(numbers)))


def _finite(data: Array, dtype: DType) -> Array:
    numbers = ops.from_bytes(data, dtype)
    with require(ops.all_finite(numbers), "a powersgd payload has a NaN or an infinity"):
        return ops.identity(numbers)
