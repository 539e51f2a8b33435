"""The computations of clients and server in a round of a secure sum, on flat vectors.

The code is written with `fedplug.ops`, so NumPy arrays and TensorFlow's graphs give the same integers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedplug import ops
from fedplug.encoders.standalone.sharedk import SharedK
from fedplug.ops.types import Array
from fedplug.secure.support import expected_magnitudes, updated_growth

__all__ = ["EXTRA", "LEAST_LARGEST", "MOST_LARGEST", "Rounds", "Summed"]

EXTRA = 4
"""Numbers after the k values, see `Summed`."""

LEAST_LARGEST, MOST_LARGEST = float(np.float32(1e-30)), float(np.float32(1e30))

_CLIPPED = 1e-3
_MARGIN = 4.0


class Summed(NamedTuple):
    """The contents of the sum of a round.

    Attributes:
        update: The weighted mean of the updates at the support, zeros elsewhere; float32 ``[n]``.
        weight: The sum of the weights, as far as they counted; float32 scalar.
        clients: The number of clients with an update in the sum; int32 scalar.
        clipped: The number of values that were as large as possible; int32 scalar.
        refused: The number of clients whose update was not finite; int32 scalar.
    """

    update: Array
    weight: Array
    clients: Array
    clipped: Array
    refused: Array


class Rounds:
    """The rounds of one model.

    A client's vector is k values and four numbers: its weight, a one, the number of its values at the limit,
    and a zero. A value of a client with the weight w is its integer times ``largest / w``, where w is a whole
    number from 1 to L. The sum of the integers times ``largest`` is therefore the weighted sum.

    The server's state is ``<round_num=int32,largest=float32>``, which is also its message. If the server
    chooses a part of the support, the state has the arrays ``support=int32[k]``, ``growth=float32[n]`` and
    ``sent=int32[n]`` too, see `fedplug.secure.support`, and the message has ``support``.
    """

    def __init__(self, encoder: SharedK, shapes: Sequence[tuple[int, ...]]) -> None:
        """Takes the encoder and the shapes of the model's tensors."""
        self.encoder = encoder
        self.size = sum(map(math.prod, shapes))
        self.entries = encoder.entries(self.size)
        self.length = self.entries + EXTRA
        self._shapes = shapes
        self.chosen = round(encoder.chosen * self.entries)
        """The number of entries of a support that the server chooses."""

    def init_server(self) -> dict[str, NDArray[Any]]:
        """Returns the server's state before the first round, whose support is random."""
        state = {"round_num": np.array(0, np.int32), "largest": np.array(self.encoder.largest, np.float32)}
        if not self.chosen:
            return state
        return {
            **state,
            "support": self.encoder.random_support(self.entries, self.size, 0),
            "growth": np.zeros(self.size, np.float32),
            "sent": np.full(self.size, -1, np.int32),
        }

    def message(self, server: Mapping[str, Array]) -> dict[str, Array]:
        """Returns what the clients of a round need of the server's state."""
        return {key: x for key, x in server.items() if key in ("round_num", "largest", "support")}

    def encode(
        self, update: Array, residual: Array, weight: Array, message: Mapping[str, Array]
    ) -> tuple[Array, Array]:
        """Returns a client's vector, int32 ``[length]``, and its next residual.

        Args:
            update: The update; finite float32 ``[n]``.
            residual: The residual of this client; float32 ``[n]``.
            weight: The weight; a positive float32 scalar.
            message: See `message`.
        """
        encoder, limit = self.encoder, self.encoder.limit
        largest = message["largest"]
        if encoder.max_weight is None:
            # No quotient: TensorFlow's optimizer would multiply by the reciprocal, which rounds differently.
            counted, step = 0 * weight + limit, ops.multiply(largest, np.float32(1 / limit))
        else:
            share = ops.multiply(weight, np.float32(limit / encoder.max_weight))
            counted = ops.clip(ops.round(share), 1.0, float(limit))
            step = largest / counted
        here = encoder.in_round(step, self._support(message))
        payload, state = here.encode(update, {"residual": residual}, message["round_num"])
        integers = payload["integers"]
        at_limit = abs(encoder.signed(integers)) == limit
        clipped = ops.minimum(ops.sum(ops.astype(at_limit, "int32")), limit)
        one = ops.astype(0 * weight + 1, "int32")
        counts = [ops.astype(counted, "int32"), one, ops.astype(clipped, "int32")]
        extra = ops.stack([*counts, ops.zeros_like(one)])
        return ops.concat([integers, extra]), state["residual"]

    def decode(self, total: Array, server: Mapping[str, Array]) -> tuple[Summed, dict[str, Array]]:
        """Returns what the sum of a round says, and the server's next state.

        Args:
            total: The sum of the clients' vectors, modulo 2^bits or not; int32 ``[length]``.
            server: The server's state.

        Raises:
            PayloadError: It is not the sum of the vectors of at most as many clients as the encoder allows.
        """
        encoder = self.encoder
        signed = encoder.signed(total)
        weight, clients, clipped, refused = (signed[self.entries + place] for place in range(EXTRA))
        values, most = ops.identity(signed[: self.entries]), clients * encoder.limit
        possible = (
            (clients >= 0)
            & (refused >= 0)
            & (clients + refused <= encoder.clients)
            & (weight >= clients)
            & (weight <= most)
            & (clipped >= 0)
            & (clipped <= most)
            & ops.all(abs(values) <= most)
        )
        what = f"this is not the sum of the vectors of at most {encoder.clients} clients"
        with ops.require(possible, what):
            integers = ops.astype(values, "float32")
        counted = ops.astype(weight, "float32")
        means = ops.multiply(integers, ops.divide_no_nan(server["largest"], counted))
        unit = np.float32((encoder.max_weight or 1.0) / encoder.limit)
        update = ops.scatter_decode(self.size, means, self._support(server))
        summed = Summed(update, counted * unit, clients, clipped, refused)
        return summed, self._next_server(integers, means, summed, server)

    def no_update(self, refused: Array) -> Array:
        """Returns the vector of a client without a usable update; int32 ``[length]``.

        Args:
            refused: 1 if the update is not finite, else 0; int32 scalar.
        """
        return ops.concat(
            [ops.repeat(ops.reshape(0 * refused, [1]), self.length - 1), ops.reshape(refused, [1])]
        )

    def _next_server(
        self, integers: Array, means: Array, summed: Summed, server: Mapping[str, Array]
    ) -> dict[str, Array]:
        round_num = server["round_num"]
        after = {
            "round_num": ops.astype(round_num + 1, "int32"),
            "largest": self._next_largest(integers, summed, server),
        }
        if not self.chosen:
            return after
        support, counts = server["support"], summed.clients > 0
        growth = updated_growth(server["growth"], server["sent"], means, support, round_num)
        moved = ops.astype(round_num - ops.take(server["sent"], support), "float32")
        sent = server["sent"] + ops.astype(ops.scatter_decode(self.size, moved, support), "int32")
        expected = expected_magnitudes(growth, sent, round_num + 1, self._shapes)
        forced = self.encoder.random_support(self.entries - self.chosen, self.size, round_num + 1)
        ones = ops.astype(ops.arange(self.entries - self.chosen) * 0 + 1, "float32")
        marks = ops.scatter_decode(self.size, ones, forced)
        expected = ops.where(marks > 0, ops.max(expected) * 2 + 1, expected)
        best = ops.topk_residual(expected, ops.no_residual(expected), self.entries).indices
        new = {"support": best, "growth": growth, "sent": sent}
        return {**after, **{key: ops.where(counts, x, server[key]) for key, x in new.items()}}

    def _next_largest(self, integers: Array, summed: Summed, server: Mapping[str, Array]) -> Array:
        """Returns the largest magnitude of the next round, a float32 scalar.

        It is at least four times the largest magnitude of a mean client. Otherwise it is half of the last
        one, or twice the last one if more than a thousandth of all values reached it.
        """
        largest, clients = server["largest"], ops.astype(summed.clients, "float32")
        peak = ops.divide_no_nan(ops.max(abs(integers)), clients * np.float32(self.encoder.limit))
        many = ops.astype(summed.clipped, "float32") > np.float32(_CLIPPED * self.entries) * clients
        factor = ops.maximum(_MARGIN * peak, ops.where(many, 0 * peak + 2.0, 0 * peak + 0.5))
        moved = ops.clip(largest * factor, LEAST_LARGEST, MOST_LARGEST)
        return ops.astype(ops.where(summed.clients > 0, moved, largest), "float32")

    def _support(self, message: Mapping[str, Array]) -> Array:
        if "support" in message:
            return message["support"]
        return self.encoder.random_support(self.entries, self.size, message["round_num"])
