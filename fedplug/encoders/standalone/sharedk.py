"""Shared-k: integers of a ring on a support that all clients of a round share, for secure aggregation."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

import fedplug.ops as ops
from fedplug.encoders.arguments import check_number, check_seed, check_whole
from fedplug.encoders.base import Encoder, Payload, State
from fedplug.encoders.stages import Sparsity
from fedplug.errors import ConfigError, PayloadError
from fedplug.ops.scatter import add_selected
from fedplug.ops.types import Array, Scalar, Spec
from fedplug.registry.specs import EXECUTIONS, Capabilities

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

__all__ = ["SharedK"]

_LEAST_BITS, _MOST_BITS = 4, 24
_LEAST_LIMIT, _FINE_LIMIT = 7, 25
_ABOUT_BYTES = 13
_LEAST_MAGNITUDE, _MOST_MAGNITUDE = 1e-30, 1e30


class SharedK(Encoder):
    """Sends k entries of ``x + residual`` as integers that masks can hide and that add exactly.

    >>> import fedplug, numpy as np
    >>> codec = fedplug.codec("sharedk(0.5, clients=10, largest=8)")
    >>> payload, state = codec.encode(np.float32([1, -5, 2, 4]))
    >>> np.round(fedplug.decode(payload))
    array([ 0., -5.,  2.,  0.], dtype=float32)
    >>> bool(abs(state["residual"]).max() > 3.9)  # the others, and errors of rounding
    True

    All clients of a round send the same entries. A value v becomes the integer nearest to ``v / step``,
    limited to the range from -L to L, where ``L = (2^(bits - 1) - 1) // clients``. A sum of at most
    ``clients`` of them lies between -2^(bits - 1) and 2^(bits - 1), so it never wraps. The residual keeps the
    unsent part, rounded or limited.

    The support is that of `randomk` for the round. `fedplug.secure` chooses the step of every round, and
    sends products of matrices instead of entries with ``rank``. Without it the step is ``largest / L``.

    Source: Bonawitz et al., "Practical Secure Aggregation for Privacy-Preserving Machine Learning", CCS 2017,
    for sums of integers of a ring. Stich, Cordonnier, Jaggi, "Sparsified SGD with Memory", NeurIPS 2018
    (arXiv 1809.07599), for the residual.

    Wire form "sharedk/1" (docs/wire-format.md): 2 bytes for each integer, 4 if bits is above 16. Masked
    payloads take ``bits`` bits for each instead, see `fedplug.secure.pack`.
    """

    name: ClassVar[str] = "sharedk"
    wire_id: ClassVar[str] = "sharedk/1"

    def __init__(
        self,
        fraction: float = 0.25,
        *,
        clients: int,
        bits: int | None = None,
        rank: int | None = 23,
        max_weight: float | None = None,
        largest: float = 1.0,
        seed: int = 0,
    ) -> None:
        """Makes the encoder.

        Args:
            fraction: The share of the elements to send, above 0 and at most 1; at least one entry is sent.
            clients: The most clients whose integers are added.
            bits: Bits of an integer of the ring, which a sum takes too; 4 to 24. None: the least for which L
                is at least 25, as more directions lose less than finer integers of equal bytes.
            rank: The number of directions in which `fedplug.secure` sends a matrix, from 1 on, if these are
                fewer integers than its entries, see `fedplug.secure.low_rank`. None: always entries.
            max_weight: The weight from which on clients count the same in `fedplug.secure`, 1e-30 to 1e30.
                None: all clients count the same.
            largest: The largest magnitude that is sent in the first round. Larger values are limited to it.
            seed: The seed of the random entries, 0 to 2^31 - 1.

        Raises:
            ConfigError: An argument is out of range, or L is below 7 for that many clients.
        """
        check_number("sharedk fraction", fraction, lambda part: 0 < part <= 1, "above 0 and at most 1")
        self._sparsity = Sparsity("sharedk", fraction, None)
        check_whole("sharedk clients", clients, 1)
        bits = _bits(clients, _FINE_LIMIT) if bits is None else bits
        check_whole("sharedk bits", bits, _LEAST_BITS, _MOST_BITS)
        if rank is not None:
            check_whole("sharedk rank", rank, 1)
        if max_weight is not None:
            check_number("sharedk max_weight", max_weight, _is_magnitude, "from 1e-30 to 1e30")
        check_number("sharedk largest", largest, _is_magnitude, "from 1e-30 to 1e30")
        check_seed("sharedk", seed)
        self.limit = (2 ** (bits - 1) - 1) // clients
        """L, the largest integer that a client sends."""
        # With less, the magnitudes of rounds would not tell values from errors of rounding.
        if self.limit < _LEAST_LIMIT:
            raise ConfigError(
                f"sharedk: {bits} bits leave each of {clients} clients integers from {-self.limit} to "
                f"{self.limit}; use at least {_bits(clients, _LEAST_LIMIT)} bits for {_LEAST_LIMIT}, or "
                "fewer clients"
            )
        self.clients, self.bits, self.rank = clients, bits, rank
        self.max_weight, self.largest, self.seed = max_weight, largest, seed

    @classmethod
    def from_payload(cls, body: Array, spec: Spec) -> Self:
        """Reads the number of bits."""
        del spec
        if ops.size(body) < _ABOUT_BYTES or not _LEAST_BITS <= body[_ABOUT_BYTES - 1] <= _MOST_BITS:
            raise PayloadError("a sharedk payload is too short, or has a wrong number of bits")
        return cls(1.0, clients=1, bits=int(body[_ABOUT_BYTES - 1]))

    @property
    def capabilities(self) -> Capabilities:
        """Its integers may be masked. It keeps a residual."""
        return Capabilities(
            commutes_with_sum=True,
            needs_client_state=True,
            needs_seed=True,
            secure_aggregation_safe=True,
            ring_bits=self.bits,
            most_summands=self.clients,
            fixed_size=True,
            decode_copies=4,
            executes_on=EXECUTIONS,
        )

    def get_config(self) -> dict[str, object]:
        return {
            **self._sparsity.get_config(),
            "clients": self.clients,
            "bits": self.bits,
            "rank": self.rank,
            "max_weight": self.max_weight,
            "largest": self.largest,
            "seed": self.seed,
        }

    def entries(self, size: int) -> int:
        """Returns k for a tensor of ``size`` elements."""
        return int(self._sparsity.of_size(size))

    def init_state(self, spec: Spec) -> State:
        """Returns ``{"residual": zeros}``."""
        return {"residual": ops.zeros(ops.wide_spec(spec))}

    def encode(self, x: Array, state: State, round_num: Scalar) -> tuple[Payload, State]:
        """Returns ``{"integers": int32[k], "about": uint8[13]}``, and the next residual.

        The integers are residues, from 0 to 2^bits - 1. They add modulo 2^bits, and the rest is the same for
        all clients of a round.
        """
        support = self.random_support(self.entries(ops.num_elements(x)), ops.num_elements(x), round_num)
        step = ops.asarray(np.float32(self.largest / self.limit), like=ops.widened(x))
        signed, residual = self.take(x, state["residual"], step, support)
        payload = {"integers": self.residues(signed), "about": self._about(step, round_num)}
        return payload, {"residual": ops.ensure_shape(residual, x.shape)}

    def take(self, x: Array, residual: Array, step: Array, support: Array) -> tuple[Array, Array]:
        """Returns the integers of ``x + residual`` at a support, from -L to L, and the next residual."""
        taken = ops.take_from_sum(ops.widened(x), residual, support)
        step = ops.astype(step, taken.values.dtype)
        whole = self.rounded(taken.values, step)
        lost = taken.values - ops.widened(ops.saturate_cast(ops.multiply(whole, step), x.dtype))
        (rest,) = add_selected([taken.residual], [lost], [support])
        return ops.astype(whole, "int32"), rest

    def rounded(self, values: Array, step: Array) -> Array:
        """Returns whole numbers from -L to L: the nearest to ``values / step``, limited to them.

        The residual keeps the error, so it need not be unbiased.
        """
        return ops.clip(ops.round(ops.divide_no_nan(values, step)), -self.limit, self.limit)

    def decode(self, payload: Payload, spec: Spec) -> Array:
        """Returns the values at the support, and zeros elsewhere."""
        step, seed, round_num = _read_about(payload["about"])
        integers, size = payload["integers"], ops.num_elements(spec)
        support = ops.draw_indices(ops.round_seed(seed, round_num), ops.size(integers), size)
        wide = ops.wide_dtype(spec.dtype)
        values = ops.multiply(ops.astype(self.signed(integers), wide), ops.astype(step, wide))
        values = ops.saturate_cast(values, spec.dtype)
        return ops.reshape(ops.scatter_decode(size, values, support), spec.shape)

    def signed(self, integers: Array) -> Array:
        """Returns the numbers that residues stand for, or sums of residues: from -2^(bits - 1) on."""
        integers = integers % 2**self.bits
        return ops.where(integers >= 2 ** (self.bits - 1), integers - 2**self.bits, integers)

    def residues(self, signed: Array) -> Array:
        """Returns the residues of numbers from -2^(bits - 1) on."""
        return ops.where(signed < 0, signed + 2**self.bits, signed)

    def random_support(self, count: int, size: int, round_num: Scalar) -> Array:
        """Returns ``count`` entries drawn from the seed and the round. int32, ascending."""
        return ops.draw_indices(ops.round_seed(self.seed, round_num), count, size)

    def to_wire(self, payload: Payload, spec: Spec) -> Array:
        """See the class."""
        del spec
        integers = ops.astype(self.signed(payload["integers"]), self._width)
        return ops.concat([payload["about"], ops.to_bytes(integers)])

    def from_wire(self, body: Array, spec: Spec) -> Payload:
        """Refuses another number of bits, more integers than elements, and numbers out of range."""
        with ops.require(ops.size(body) >= _ABOUT_BYTES, "a sharedk payload is too short"):
            about = ops.identity(body[:_ABOUT_BYTES])
            integers = ops.astype(ops.from_bytes(body[_ABOUT_BYTES:], self._width), "int32")
        step, seed, round_num = _read_about(about)
        half = 2 ** (self.bits - 1)
        valid = (
            (about[_ABOUT_BYTES - 1] == self.bits)
            & (step >= 0)
            & (step <= _MOST_MAGNITUDE)
            & (seed >= 0)
            & (round_num >= 0)
            & (ops.size(integers) <= ops.num_elements(spec))
            & ops.all((integers >= -half) & (integers < half))
        )
        with ops.require(valid, "a sharedk payload has numbers that are out of range"):
            return {"integers": self.residues(integers), "about": about}

    @property
    def _width(self) -> str:
        return "int16" if self.bits <= 16 else "int32"

    def _about(self, step: Array, round_num: Scalar) -> Array:
        """Returns the values beside the integers that the server needs, which depend on no client's data."""
        words = ops.astype(ops.stack([ops.astype(round_num, "int32") * 0 + self.seed, round_num]), "int32")
        parts = [ops.to_bytes(ops.reshape(ops.astype(step, "float32"), [1])), ops.to_bytes(words)]
        return ops.concat([*parts, ops.asarray([self.bits], like=parts[0])])


def _bits(clients: int, limit: int) -> int:
    """Returns the least bits with which each of some clients sends integers from -limit to limit."""
    return (limit * clients).bit_length() + 1


def _is_magnitude(number: float) -> bool:
    return _LEAST_MAGNITUDE <= number <= _MOST_MAGNITUDE


def _read_about(about: Array) -> tuple[Array, Array, Array]:
    """Returns the step, the seed and the round."""
    words = ops.from_bytes(about[4:12], "int32")
    return ops.finite_from_bytes(about[:4], 1, "float32")[0], words[0], words[1]
