"""PowerSGD: low-rank compression of matrices, with warm start and error feedback."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from fedplug import ops
from fedplug.encoders import Encoder, Payload, State
from fedplug.encoders.arguments import check_seed, check_whole
from fedplug.errors import PayloadError
from fedplug.ops.types import Array, Scalar, Spec
from fedplug.registry.specs import EXECUTIONS, Capabilities

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

__all__ = ["PowerSGD"]

_MOST_RANK = 64  # a larger one would make decoding slow


class PowerSGD(Encoder):
    """Sends a matrix as the product of two thin matrices. The residual is the error of the product.

    >>> import numpy as np, fedplug
    >>> payload, state = fedplug.codec("powersgd(rank=1)").encode(np.ones((100, 50), np.float32))
    >>> len(payload)  # of 20,000 bytes
    643

    The tensor is read as an m by n matrix, where n is the size of its last axis. With ``A = x + residual``
    and ``Q`` (n by r) from the previous round, ``P = orthonormal(A Q)`` and ``Q' = A^T P``. The payload
    decodes to ``P Q'^T``, and the next round starts from Q' (warm start). A column of Q' that is zero is
    drawn again. Tensors with no more than r (m + n) elements, such as vectors, are sent uncompressed.

    Each client sends its own two matrices. Data-parallel training averages P and Q over all workers in two
    rounds of messages, which clients that take part occasionally cannot wait for.

    Source: Vogels, Karimireddy, Jaggi, "PowerSGD: Practical Low-Rank Gradient Compression for Distributed
    Optimization", NeurIPS 2019 (arXiv 1905.13727), algorithms 1 and 2.

    =================  ================================================================
    bytes              content of "powersgd/1", with w the size of an element
    =================  ================================================================
    1                  r; 0 for an uncompressed tensor, whose elements follow
    4, or 8            the scale s, float64 for float64 and float32 for other tensors
    w m r              P, row by row, in the tensor's dtype
    w n r              ``Q' / s``, row by row, in the tensor's dtype
    =================  ================================================================
    """

    name: ClassVar[str] = "powersgd"
    wire_id: ClassVar[str] = "powersgd/1"

    def __init__(self, rank: int = 2, *, seed: int = 0) -> None:
        """Makes the encoder.

        Args:
            rank: The rank r of the product, 1 to 64.
            seed: Seed of the first Q, 0 to 2^31 - 1. All clients start with the same Q.

        Raises:
            ConfigError: One of them is out of range.
        """
        check_whole("powersgd rank", rank, 1, _MOST_RANK)
        check_seed("powersgd", seed)
        self._rank, self._seed = rank, seed

    @property
    def capabilities(self) -> Capabilities:
        """The encoder is biased and needs its state."""
        return Capabilities(needs_client_state=True, decode_copies=2, executes_on=EXECUTIONS)

    def get_config(self) -> dict[str, object]:
        """Returns the arguments."""
        return {"rank": self._rank, "seed": self._seed}

    @classmethod
    def from_payload(cls, body: Array, spec: Spec) -> Self:
        """Reads the rank; 0 stands for an uncompressed tensor."""
        del spec
        if not ops.size(body) or body[0] > _MOST_RANK:
            raise PayloadError(f"a powersgd payload has no rank from 0 to {_MOST_RANK}")
        return cls(int(body[0]) or _MOST_RANK)

    def init_state(self, spec: Spec) -> State:
        """Returns ``{"residual": zeros, "q": float[n, r]}``. ``{}`` for an uncompressed tensor."""
        if not self._rank_of(spec):
            return {}
        return {"residual": ops.zeros(ops.wide_spec(spec)), "q": self._first_q(spec)}

    def encode(self, x: Array, state: State, round_num: Scalar) -> tuple[Payload, State]:
        """Returns ``{"p": [m, r], "q": [n, r], "scale": [1]}``, or ``{"values": x}`` uncompressed."""
        del round_num
        spec = ops.spec_of(x)
        if not self._rank_of(spec):
            return {"values": ops.require_finite(x, "the update")}, {}
        a = ops.add_residual(ops.widened(x), state["residual"])
        scale = ops.require_finite(ops.max(abs(a)), "the update, or its sum with the residual,")
        unit = ops.reshape(ops.divide_no_nan(a, scale), _matrix_shape(spec))
        p = ops.astype(ops.orthonormal_columns(ops.matrix_times(unit, state["q"])), x.dtype)
        q = ops.astype(ops.matrix_times(unit, ops.widened(p), transposed=True), x.dtype)
        payload = {"p": p, "q": q, "scale": ops.reshape(scale, [1])}
        empty = ops.max(abs(ops.widened(q)), axis=0) == 0
        next_q = ops.where(empty, self._first_q(spec), ops.widened(q))
        return payload, {"residual": a - ops.widened(self.decode(payload, spec)), "q": next_q}

    def decode(self, payload: Payload, spec: Spec) -> Array:
        """Returns ``P Q'^T``. Values beyond the range of the dtype become its largest number."""
        if not self._rank_of(spec):
            return payload["values"]
        unit = ops.low_rank_matrix(ops.widened(payload["p"]), ops.widened(payload["q"]))
        return ops.saturate_cast(ops.reshape(ops.multiply(unit, payload["scale"]), spec.shape), spec.dtype)

    def to_wire(self, payload: Payload, spec: Spec) -> Array:
        """See the class."""
        names = ("scale", "p", "q") if self._rank_of(spec) else ("values",)
        parts = [ops.to_bytes(payload[name]) for name in names]
        return ops.concat([ops.asarray([self._rank_of(spec)], like=parts[0]), *parts])

    def from_wire(self, body: Array, spec: Spec) -> Payload:
        """Refuses a wrong rank or length, numbers that are not finite, and factors that overflow."""
        rank, (m, n), size = self._rank_of(spec), _matrix_shape(spec), ops.itemsize(spec.dtype)
        start = 1 + ops.itemsize(ops.wide_dtype(spec.dtype)) if rank else 1
        count = rank * (m + n) if rank else ops.num_elements(spec)
        body = ops.of_length(body, start + count * size, "the bytes of a powersgd payload")
        with ops.require(ops.all(body[:1] == rank), f"a powersgd payload was not made by {self!r}"):
            values = ops.finite_from_bytes(body[start:], count, spec.dtype)
        if not rank:
            return {"values": ops.reshape(values, spec.shape)}
        scale = ops.finite_from_bytes(body[1:start], 1, ops.wide_dtype(spec.dtype))
        # The columns of P have length 1, and the elements of A / s are at most 1.
        valid = (ops.max(abs(ops.widened(values))) <= 2 * math.sqrt(m)) & (body[start - 1] < 128)
        with ops.require(valid, "the factors of a powersgd payload are too large, or its scale is negative"):
            p, q = values[: rank * m], values[rank * m :]
            return {"p": ops.reshape(p, [m, rank]), "q": ops.reshape(q, [n, rank]), "scale": scale}

    def _rank_of(self, spec: Spec) -> int:
        m, n = _matrix_shape(spec)
        return self._rank if self._rank * (m + n) < m * n else 0

    def _first_q(self, spec: Spec) -> Array:
        wide, n = ops.wide_dtype(spec.dtype), _matrix_shape(spec)[1]
        # An array, so that the numbers are drawn in its execution.
        first_round = ops.astype(ops.astype(0, wide), "int64")
        noise = ops.shared_uniform(n * self._rank, ops.round_seed(self._seed, first_round))
        return ops.astype(ops.reshape(2 * noise - 1, [n, self._rank]), wide)


def _matrix_shape(spec: Spec) -> tuple[int, int]:
    *others, last = tuple(spec.shape) or (1,)
    return math.prod(others), last
