"""The computations of clients and server in a round of a secure sum, on flat vectors.

The code is written with `fedplug.ops`, so NumPy arrays and TensorFlow's graphs give the same integers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import fedplug.ops as ops
from fedplug.encoders.standalone.sharedk import SharedK
from fedplug.ops.types import Array, Scalar
from fedplug.secure.low_rank import Directions, Matrix

__all__ = ["LEAST_LARGEST", "MOST_LARGEST", "Rounds", "Summed"]

LEAST_LARGEST, MOST_LARGEST = float(np.float32(1e-30)), float(np.float32(1e30))

_CLIPPED, _MARGIN, _SHRINK, _LEVELS = 1e-3, 4.0, 0.95, 4


class Summed(NamedTuple):
    """The contents of the sum of a round.

    Attributes:
        update: The weighted mean of the updates at the support, zeros elsewhere. float32 ``[n]``.
        weight: The sum of the weights, as far as they counted. float32 scalar.
        clients: The number of clients with an update in the sum. int32 scalar.
        clipped: The number of values that were as large as possible. int32 scalar.
        refused: The number of clients whose update was not finite. int32 scalar.
    """

    update: Array
    weight: Array
    clients: Array
    clipped: Array
    refused: Array


class Rounds:
    """The rounds of one model.

    A client's vector is values in groups, then its weight, a one, the number of its values at the limit in
    every group, and a zero. With ``rank``, X and Y of a matrix are a group each, see
    `fedplug.secure.low_rank`, if they are fewer integers than its entries would be. k entries of all other
    tensors are the last group. A value of a client with the weight w is its integer times ``largest / w``,
    where w is a whole number from 1 to L. The sum of the integers times ``largest`` is therefore the weighted
    sum.

    The server's state is ``<round_num=int32,largest=float32>``, which is also its message. With matrices it
    is ``<round_num=int32,largest=float32[groups],sums=int32[memory]>``. The directions come from the sums.
    """

    def __init__(self, encoder: SharedK, shapes: Sequence[tuple[int, ...]]) -> None:
        """Takes the encoder and the shapes of the model's tensors."""
        self.encoder = encoder
        self.size = sum(map(math.prod, shapes))
        found = [self._matrix(shape) for shape in shapes]
        self._matrices = {place: matrix for place, matrix in enumerate(found) if matrix}
        # Without matrices the model is one piece.
        self._sizes = [math.prod(shape) for shape in shapes] if self._matrices else [self.size]
        self._others = [place for place in range(len(self._sizes)) if place not in self._matrices]
        self._others_size = sum(self._sizes[place] for place in self._others)
        self.entries = encoder.entries(self._others_size) if self._others_size else 0
        """The number of entries of a support."""
        self._counts = [count for matrix in self._matrices.values() for count in matrix.counts]
        self._counts += [self.entries] if self.entries else []
        self.length = sum(self._counts) + len(self._counts) + 3
        self.memory = sum(matrix.memory for matrix in self._matrices.values())
        """The number of sums of earlier rounds in a message."""
        self.magnitudes = (len(self._counts),) if self._matrices else ()
        """The shape of the largest magnitudes in a message, one for each group."""

    def init_server(self) -> dict[str, NDArray[np.generic]]:
        """Returns the server's state before the first round, whose directions are random."""
        state: dict[str, NDArray[np.generic]] = {
            "round_num": np.array(0, np.int32),
            "largest": np.full(self.magnitudes, self.encoder.largest, np.float32),
        }
        return {**state, "sums": np.zeros(self.memory, np.int32)} if self.memory else state

    def encode(
        self, update: Array, residual: Array, weight: Scalar, message: Mapping[str, Array]
    ) -> tuple[Array, Array]:
        """Returns a client's vector, int32 ``[length]``, and its next residual.

        Args:
            update: The update. Finite float32 ``[n]``.
            residual: The residual of this client. float32 ``[n]``.
            weight: The weight; a positive float32 scalar.
            message: The server's state.
        """
        encoder, limit = self.encoder, self.encoder.limit
        largest = ops.reshape(message["largest"], [-1])
        if encoder.max_weight is None:
            # No quotient: TensorFlow's optimizer would multiply by the reciprocal, which rounds differently.
            counted, steps = 0 * weight + limit, ops.multiply(largest, np.float32(1 / limit))
        else:
            share = ops.multiply(weight, np.float32(limit / encoder.max_weight))
            counted = ops.clip(ops.round(share), 1.0, float(limit))
            steps = largest / counted
        updates, residuals = (_split(x, self._sizes) for x in (update, residual))
        integers = self._encode_matrices(updates, residuals, steps, message)
        integers += self._encode_others(updates, residuals, steps, message)
        at_limit = [ops.sum(ops.astype(abs(group) == limit, "int32")) for group in integers]
        clipped = [ops.astype(ops.minimum(count, limit), "int32") for count in at_limit]
        one = ops.astype(0 * weight + 1, "int32")
        extra = ops.stack([ops.astype(counted, "int32"), one, *clipped, ops.zeros_like(one)])
        return ops.concat([*map(encoder.residues, integers), extra]), _join(residuals)

    def decode(self, total: Array, server: Mapping[str, Array]) -> tuple[Summed, dict[str, Array]]:
        """Reads the sum of a round. Returns its content, and the server's next state.

        Args:
            total: The sum of the clients' vectors, modulo 2^bits or not. int32 ``[length]``.
            server: The server's state.

        Raises:
            PayloadError: It is not the sum of the vectors of at most as many clients as the encoder allows.
        """
        encoder = self.encoder
        signed = encoder.signed(total)
        values, extra, clipped, last = _split(signed, [sum(self._counts), 2, len(self._counts), 1])
        weight, clients, refused = extra[0], extra[1], last[0]
        most = clients * encoder.limit
        possible = (
            (clients >= 0)
            & (refused >= 0)
            & (clients + refused <= encoder.clients)
            & (weight >= clients)
            & (weight <= most)
            & ops.all((clipped >= 0) & (clipped <= most))
            & ops.all(abs(values) <= most)
        )
        what = f"this is not the sum of the vectors of at most {encoder.clients} clients"
        with ops.require(possible, what):
            integers = _split(ops.identity(values), self._counts)
        counted = ops.astype(weight, "float32")
        units = ops.divide_no_nan(ops.reshape(server["largest"], [-1]), counted)
        means = [ops.multiply(ops.astype(x, "float32"), units[i]) for i, x in enumerate(integers)]
        unit = np.float32((encoder.max_weight or 1.0) / encoder.limit)
        limited = ops.astype(ops.sum(clipped), "int32")
        summed = Summed(self._update(means, server), counted * unit, clients, limited, refused)
        return summed, self._next_server(integers, clipped, clients, server)

    def no_update(self, refused: Array) -> Array:
        """Returns the vector of a client without a usable update. int32 ``[length]``.

        Args:
            refused: 1 if the update is not finite, else 0. int32 scalar.
        """
        return ops.concat(
            [ops.repeat(ops.reshape(0 * refused, [1]), self.length - 1), ops.reshape(refused, [1])]
        )

    def _matrix(self, shape: tuple[int, ...]) -> Matrix | None:
        """Returns the matrix of a tensor, if it takes fewer integers than entries of the tensor."""
        if self.encoder.rank is None or not math.prod(shape):
            return None
        columns = shape[-1] if shape else 1
        matrix = Matrix(math.prod(shape) // columns, columns, self.encoder.rank)
        return matrix if sum(matrix.counts) < self.encoder.entries(math.prod(shape)) else None

    def _directions(self, message: Mapping[str, Array]) -> list[Directions]:
        """Returns the directions of each matrix in a round.

        The noise is below the rounding errors of the sums. It gives random directions where sums are zero.
        """
        rank = self.encoder.rank
        if rank is None or not self._matrices:
            return []
        seed = ops.round_seed(self.encoder.seed, message["round_num"])
        noise = ops.astype(ops.shared_uniform(self.memory + 2 * rank, seed) - 0.5, "float32")
        sums = ops.astype(message["sums"], "float32") + noise[: self.memory]
        mix = ops.reshape(noise[self.memory :], [-1, 2])
        each = zip(self._matrices.values(), self._sums(sums), strict=True)
        return [matrix.directions(part, mix) for matrix, part in each]

    def _sums(self, memory: Array) -> list[Array]:
        """Returns the part of each matrix in the sums of earlier rounds."""
        return _split(memory, [matrix.memory for matrix in self._matrices.values()])

    def _by_matrix(self, groups: list[Array]) -> list[Array]:
        """Returns X and Y of each matrix as one vector, from the groups of a client's vector."""
        return [ops.concat(groups[at : at + 2]) for at in range(0, 2 * len(self._matrices), 2)]

    def _encode_matrices(
        self, updates: list[Array], residuals: list[Array], steps: Array, message: Mapping[str, Array]
    ) -> list[Array]:
        """Returns the integers of all matrices, and replaces their residuals."""
        integers: list[Array] = []
        for (place, matrix), given in zip(self._matrices.items(), self._directions(message), strict=True):
            carried = ops.add_residual(updates[place], residuals[place])
            ops.require_finite(carried, "the update, or its sum with the residual,")
            # Sums of products of larger numbers could be infinite.
            carried = ops.clip(carried, -MOST_LARGEST, MOST_LARGEST)
            of_matrix = steps[len(integers) : len(integers) + 2]
            found, rest = matrix.encode(ops.reshape(carried, matrix.shape), given, of_matrix, self.encoder)
            integers += found
            residuals[place] = ops.reshape(rest, [-1])
        return integers

    def _encode_others(
        self, updates: list[Array], residuals: list[Array], steps: Array, message: Mapping[str, Array]
    ) -> list[Array]:
        """Returns the integers of the entries of all other tensors, and replaces their residuals."""
        if not self.entries:
            return []
        update, residual = (_join([x[place] for place in self._others]) for x in (updates, residuals))
        signed, rest = self.encoder.take(
            update, residual, steps[len(self._counts) - 1], self._support(message)
        )
        parts = _split(rest, [self._sizes[place] for place in self._others])
        for place, part in zip(self._others, parts, strict=True):
            residuals[place] = part
        return [signed]

    def _update(self, means: list[Array], message: Mapping[str, Array]) -> Array:
        """Returns the mean update, float32 ``[n]``."""
        parts: dict[int, Array] = {}
        each = zip(self._matrices.items(), self._by_matrix(means), self._directions(message), strict=True)
        for (place, matrix), values, given in each:
            parts[place] = matrix.decode(values, given)
        if self.entries:
            others = ops.scatter_decode(self._others_size, means[-1], self._support(message))
            sizes = [self._sizes[place] for place in self._others]
            parts.update(zip(self._others, _split(others, sizes), strict=True))
        return _join([parts[place] for place in range(len(self._sizes))])

    def _next_server(
        self, integers: list[Array], clipped: Array, clients: Array, server: Mapping[str, Array]
    ) -> dict[str, Array]:
        round_num = server["round_num"]
        after = {
            "round_num": ops.astype(round_num + 1, "int32"),
            "largest": self._next_largest(integers, clipped, clients, server["largest"]),
        }
        new = {}
        if self._matrices:
            each = zip(
                self._matrices.values(), self._by_matrix(integers), self._sums(server["sums"]), strict=True
            )
            new["sums"] = ops.concat([matrix.next_sums(newest, sums) for matrix, newest, sums in each])
        return {**after, **{key: ops.where(clients > 0, x, server[key]) for key, x in new.items()}}

    def _next_largest(self, integers: list[Array], clipped: Array, clients: Array, largest: Array) -> Array:
        """Returns the largest magnitudes of the next round.

        Each is at least four times the largest magnitude of a mean client. Otherwise it is twice the last one
        if more than a thousandth of its values reached it, half while the largest integer of a mean client is
        below 4, else a little less: a client with long updates, which is absent now, comes back.
        """
        counted = ops.astype(clients, "float32")
        levels = ops.stack([ops.max(ops.astype(abs(group), "float32")) for group in integers])
        levels = ops.divide_no_nan(levels, counted)
        few = np.array([_CLIPPED * count for count in self._counts], np.float32) * counted
        many = ops.astype(clipped, "float32") > few
        smaller = ops.where(levels < _LEVELS, 0 * levels + 0.5, 0 * levels + _SHRINK)
        needed = ops.multiply(levels, np.float32(_MARGIN / self.encoder.limit))
        factors = ops.maximum(needed, ops.where(many, 0 * levels + 2.0, smaller))
        moved = ops.clip(largest * ops.reshape(factors, self.magnitudes), LEAST_LARGEST, MOST_LARGEST)
        return ops.astype(ops.where(clients > 0, moved, largest), "float32")

    def _support(self, message: Mapping[str, Array]) -> Array:
        return self.encoder.random_support(self.entries, self._others_size, message["round_num"])


def _split(x: Array, sizes: Sequence[int]) -> list[Array]:
    """Splits a vector into parts of these sizes."""
    ends = np.cumsum(sizes).tolist()
    return [x[end - size : end] for size, end in zip(sizes, ends, strict=True)]


def _join(parts: Sequence[Array]) -> Array:
    return parts[0] if len(parts) == 1 else ops.concat(parts)
