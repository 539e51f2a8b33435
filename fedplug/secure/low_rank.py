"""A matrix as a few products with directions that all clients of a round share.

Let A be a client's update plus its residual, with its shorter side first. All clients send ``X = A B`` and
``Y = p' (A - X B')``, which are linear in A, so the sum of clients is that of their sum. ``X B' + p Y`` is
added to the model, and the residual keeps the rest. The directions come from sums that the server has seen:
B, with orthonormal columns, from the last rows of sums of Y, and p, with two such columns, from the last sum
of X. This is the power iteration of PowerSGD with its two halves in different rounds, and B as the memory of
several of them.

Source: Vogels, Karimireddy, Jaggi, "PowerSGD: Practical Low-Rank Gradient Compression for Distributed
Optimization", NeurIPS 2019 (arXiv 1905.13727).
"""

from __future__ import annotations

from typing import NamedTuple

import fedplug.ops as ops
from fedplug.encoders.standalone.sharedk import SharedK
from fedplug.ops.types import Array

__all__ = ["Directions", "Matrix"]


class Directions(NamedTuple):
    """The directions of a round: B, ``float32[long, rank]``, and p, ``float32[short, probes]``."""

    basis: Array
    probe: Array


class Matrix(NamedTuple):
    """The form of a matrix of a model. Its sides are called short and long.

    Attributes:
        rows: The number of rows.
        columns: The number of columns.
        rank: The number of columns of B.
    """

    rows: int
    columns: int
    rank: int

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        return self.rows, self.columns

    @property
    def probes(self) -> int:
        """The number of columns of p. Two learn more from equal bytes than one and a larger rank."""
        return min(2, self.rank, *self.shape)

    @property
    def counts(self) -> tuple[int, int]:
        """The numbers of integers of X and of Y."""
        return min(self.shape) * self.rank, max(self.shape) * self.probes

    @property
    def memory(self) -> int:
        """The number of sums from which directions come: the last X, and the last ``rank`` rows of Y."""
        return self.counts[0] + max(self.shape) * self.rank

    def directions(self, sums: Array, mix: Array) -> Directions:
        """Returns the directions of a round.

        Args:
            sums: The sums, with noise, so that zeros give random directions. float32 ``[memory]``.
            mix: The factors of the columns of X in p. float32 ``[rank, 2]``.
        """
        of_x = self.counts[0]
        x, mix = ops.reshape(sums[:of_x], [-1, self.rank]), mix[:, : self.probes]
        basis = ops.orthonormal_columns(ops.transpose(ops.reshape(sums[of_x:], [self.rank, -1])))
        return Directions(basis, ops.orthonormal_columns(ops.matrix_times(x, mix)))

    def next_sums(self, integers: Array, sums: Array) -> Array:
        """Returns the sums after a round: the newest rows of Y replace the oldest."""
        return ops.concat([integers, sums[self.counts[0] : self.memory - self.counts[1]]])

    def encode(
        self, a: Array, given: Directions, steps: Array, encoder: SharedK
    ) -> tuple[list[Array], Array]:
        """Returns the integers of X and of Y, and their error from the matrix.

        Args:
            a: The matrix, float32 ``[rows, columns]``.
            given: The directions of the round.
            steps: The steps of X and of Y. float32 ``[2]``.
            encoder: The encoder, which rounds.
        """
        wide = self.rows <= self.columns
        x = ops.matrix_times(a, given.basis, transposed=not wide)
        x = encoder.rounded(x, steps[0])
        a = a - ops.low_rank_matrix(*self._factors(ops.multiply(x, steps[0]), given.basis))
        y = ops.matrix_times(a, given.probe, transposed=wide)
        y = encoder.rounded(y, steps[1])
        rest = a - ops.low_rank_matrix(*self._factors(given.probe, ops.multiply(y, steps[1])))
        return [ops.astype(ops.reshape(each, [-1]), "int32") for each in (x, ops.transpose(y))], rest

    def decode(self, values: Array, given: Directions) -> Array:
        """Returns ``X B' + p Y``, float32 ``[rows * columns]``, from the values of X and Y."""
        of_x = self.counts[0]
        x = ops.reshape(values[:of_x], [-1, self.rank])
        y = ops.transpose(ops.reshape(values[of_x:], [self.probes, -1]))
        parts = self._factors(x, given.basis), self._factors(given.probe, y)
        return ops.reshape(ops.low_rank_matrix(*parts[0]) + ops.low_rank_matrix(*parts[1]), [-1])

    def _factors(self, short: Array, long: Array) -> tuple[Array, Array]:
        return (short, long) if self.rows <= self.columns else (long, short)
