"""The encoder. Must not know TFF, or in which order sums are taken."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import tensorflow as tf

from fedplug import ops
from fedplug.encoders import Encoder, Payload, State
from fedplug.encoders.arguments import check_number, check_seed, check_whole
from fedplug.ops import of_length, require, shared_uniform, wide_dtype, widened
from fedplug.registry.specs import Capabilities
from fedplug_powersgd import matrices

__all__ = ["PowerSGD"]


class PowerSGD(Encoder):
    """Sends a matrix as the product of two thin ones; what that misses waits on the client.

    A tensor is taken as the matrix ``A`` whose columns are its last axis: m by n. With ``A = x + residual``
    and ``Q`` (n by r) from the round before: ``P = orthonormal(A Q)``, ``Q' = A^T P``. The payload is P and
    Q', decoded as ``P Q'^T``, the projection of A on the columns of P; ``residual' = A - P Q'^T``, and Q'
    waits for the next round (warm start: one step of the power iteration a round). A column of Q' that is
    zero starts anew.

    A tensor is sent as it is, without state, where the two matrices have not at least ``min_ratio`` times
    fewer elements than it: vectors, and small matrices.

    Each client sends its own two matrices. (In data-parallel training P and Q are averaged over all workers
    in two rounds of messages, which a client that takes part now and then cannot wait for.)

    Source: Vogels, Karimireddy, Jaggi, "PowerSGD: Practical Low-Rank Gradient Compression for Distributed
    Optimization", NeurIPS 2019 (arXiv 1905.13727), algorithms 1 and 2.

    Wire form "powersgd/1": where the tensor is sent as it is, its elements, little-endian in row-major order.
    Else one number s, float64 for a float64 tensor and float32 for others, then the elements of P and of
    ``Q' / s``, in the tensor's dtype; all little-endian, in row-major order. That is ``r (m + n) / (m n)``
    elements per element.

    Takes float16, bfloat16, float32 and float64. Denormal numbers are zero to TensorFlow's arithmetic.
    """

    name: ClassVar[str] = "powersgd"
    wire_id: ClassVar[str] = "powersgd/1"

    def __init__(self, rank: int = 2, *, min_ratio: float = 2, seed: int = 0) -> None:
        """Makes the encoder.

        Args:
            rank: r, at least 1.
            min_ratio: At least 1: how many times fewer elements the two matrices must have than the tensor.
            seed: Of the first Q, 0 to 2^31 - 1. All clients begin with the same one.

        Raises:
            ConfigError: One of them is out of range.
        """
        check_whole("powersgd rank", rank, 1)
        check_number("powersgd min_ratio", min_ratio, lambda ratio: ratio >= 1, "of at least 1")
        check_seed("powersgd", seed)
        self._rank = rank
        self._min_ratio = min_ratio
        self._seed = seed

    @property
    def capabilities(self) -> Capabilities:
        """Biased, and useless without its state."""
        return Capabilities(needs_client_state=True)

    def get_config(self) -> dict[str, Any]:
        """The arguments."""
        return {"rank": self._rank, "min_ratio": self._min_ratio, "seed": self._seed}

    def init_state(self, spec: tf.TensorSpec) -> State:
        """``{"residual": zeros like the tensor, "q": float[n, r]}``, or nothing where it is sent as it is."""
        if not self._is_factored(spec):
            return {}
        return {"residual": tf.zeros(spec.shape, spec.dtype), "q": self._first_q(spec)}

    def encode(self, x: tf.Tensor, state: State, round_num: tf.Tensor) -> tuple[Payload, State]:
        """``{"p": [m, r], "q": [n, r], "scale": scalar}``, or ``{"values": x}`` where that is sent."""
        del round_num
        spec = tf.TensorSpec(x.shape, x.dtype)
        if not self._is_factored(spec):
            return {"values": x}, {}
        carried = x + state["residual"]
        a = widened(tf.reshape(carried, _matrix_shape(spec)))
        scale = tf.reduce_max(tf.abs(a))  # or the products of large numbers would overflow
        a = tf.math.divide_no_nan(a, scale)
        p = tf.cast(matrices.orthonormal_columns(matrices.times(a, state["q"])), x.dtype)
        q = tf.cast(matrices.times_transposed(a, widened(p)), x.dtype)
        payload = {"p": p, "q": q, "scale": scale}
        empty = tf.reduce_all(q == 0, axis=0)
        return payload, {
            "residual": carried - self.decode(payload, spec),
            "q": tf.where(empty, self._first_q(spec), widened(q)),
        }

    def decode(self, payload: Payload, spec: tf.TensorSpec) -> tf.Tensor:
        """``P Q'^T``; what is too large for the dtype becomes its largest number."""
        if not self._is_factored(spec):
            return payload["values"]
        a = matrices.product(widened(payload["p"]), widened(payload["q"]))
        # Between two multiplications; or TensorFlow's optimizer would begin with the smaller tensors.
        a = tf.ensure_shape(a, _matrix_shape(spec))
        a = tf.clip_by_value(a * payload["scale"], float(spec.dtype.min), float(spec.dtype.max))
        return tf.reshape(tf.cast(a, spec.dtype), spec.shape)

    def to_wire(self, payload: Payload, spec: tf.TensorSpec) -> tf.Tensor:
        """See the class."""
        names = ("scale", "p", "q") if self._is_factored(spec) else ("values",)
        return tf.concat([ops.to_bytes(payload[name]) for name in names], axis=0)

    def from_wire(self, body: tf.Tensor, spec: tf.TensorSpec) -> Payload:
        """Refuses a wrong length, and numbers that cannot be those of the factors or are not finite."""
        if not self._is_factored(spec):
            length = spec.shape.num_elements() * spec.dtype.size
            values = _finite(of_length(body, length, "the bytes of a powersgd payload"), spec.dtype)
            return {"values": tf.reshape(values, spec.shape)}
        (m, n), wide = _matrix_shape(spec), wide_dtype(spec.dtype)
        length = wide.size + self._rank * (m + n) * spec.dtype.size
        body = of_length(body, length, "the bytes of a powersgd payload")
        scale = _finite(body[: wide.size], wide)[0]
        with require(scale >= 0, "the scale of a powersgd payload is negative"):
            scale = tf.identity(scale)
        p, q = tf.split(_finite(body[wide.size :], spec.dtype), [self._rank * m, self._rank * n])
        # Columns of P have length 1, and elements of A are at most 1; twice that leaves room for rounding.
        bounded = (_largest(p) <= 2) & (_largest(q) <= 2 * math.sqrt(m))
        with require(bounded, "the factors of a powersgd payload are too large"):
            return {
                "p": tf.reshape(p, [m, self._rank]),
                "q": tf.reshape(q, [n, self._rank]),
                "scale": scale,
            }

    def _is_factored(self, spec: tf.TensorSpec) -> bool:
        m, n = _matrix_shape(spec)
        return self._rank * (m + n) * self._min_ratio <= m * n

    def _first_q(self, spec: tf.TensorSpec) -> tf.Tensor:
        n = _matrix_shape(spec)[1]
        noise = shared_uniform(n * self._rank, ops.round_seed(self._seed, 0))
        return tf.cast(tf.reshape(2 * noise - 1, [n, self._rank]), wide_dtype(spec.dtype))


def _matrix_shape(spec: tf.TensorSpec) -> tuple[int, int]:
    shape = spec.shape.as_list() or [1]
    return math.prod(shape[:-1]), shape[-1]


def _largest(numbers: tf.Tensor) -> tf.Tensor:
    return tf.reduce_max(tf.abs(widened(numbers)))


def _finite(data: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    numbers = ops.from_bytes(data, dtype)
    with require(tf.reduce_all(tf.math.is_finite(numbers)), "a powersgd payload has a NaN or an infinity"):
        return tf.identity(numbers)
