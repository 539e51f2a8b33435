"""A matrix as a few products with directions that all clients of a round share.

Let A be a client's update plus its residual, with its shorter side first. All clients send ``X = A B`` and
``y = (A - X B')' p``, which are linear in A, so the sum of clients is that of their sum. ``X B' + p y'`` is
added to the model, and the residual keeps the rest. The directions come from sums that the server has seen:
B, with orthonormal columns, from the last sums of y, and p from the last sum of X. This is the power
iteration of PowerSGD with its two halves in different rounds, and B as the memory of several of them.

Source: Vogels, Karimireddy, Jaggi, "PowerSGD: Practical Low-Rank Gradient Compression for Distributed
Optimization", NeurIPS 2019 (arXiv 1905.13727).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import fedplug.ops as ops
from fedplug.encoders.standalone.sharedk import SharedK
from fedplug.ops.types import Array

__all__ = ["Directions", "Matrix"]


class Directions(NamedTuple):
    """The directions of a round: B, ``float32[long, rank]``, and p, ``float32[short, 1]``."""

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
    def counts(self) -> tuple[int, int]:
        """The numbers of integers of X and of y."""
        return min(self.shape) * self.rank, max(self.shape)

    @property
    def memory(self) -> int:
        """The number of sums from which directions come: of the last X and of the last ``rank`` y."""
        return self.counts[0] + self.counts[1] * self.rank

    def directions(self, sums: Array, mix: Array) -> Directions:
        """Returns the directions of a round.

        Args:
            sums: The sums, with noise, so that zeros give random directions. float32 ``[memory]``.
            mix: The factors of the columns of X in p. float32 ``[rank, 1]``.
        """
        of_x, long = self.counts
        x = ops.reshape(sums[:of_x], [-1, self.rank])
        basis = ops.orthonormal_columns(ops.transpose(ops.reshape(sums[of_x:], [self.rank, long])))
        return Directions(basis, ops.orthonormal_columns(ops.matrix_times(x, mix)))

    def next_sums(self, integers: Array, sums: Array) -> Array:
        """Returns the sums after a round: the newest y replaces the oldest."""
        return ops.concat([integers, sums[self.counts[0] : self.memory - self.counts[1]]])

    def encode(
        self, a: Array, given: Directions, steps: Array, encoder: SharedK
    ) -> tuple[list[Array], Array]:
        """Returns the integers of X and of y, and their error from the matrix.

        Rounding is to the nearest integer: the residual keeps the error, so it need not be unbiased.

        Args:
            a: The matrix, float32 ``[rows, columns]``. It may be overwritten.
            given: The directions of the round.
            steps: The steps of X and of y. float32 ``[2]``.
            encoder: The encoder, which rounds.
        """
        wide, nearest = self.rows <= self.columns, np.float32(0.5)
        x = ops.matrix_times(a, given.basis, transposed=not wide)
        x = encoder.rounded(x, steps[0], nearest)
        a = ops.low_rank_residual(a, *self._factors(ops.multiply(x, steps[0]), given.basis))
        y = ops.matrix_times(a, given.probe, transposed=wide)
        y = encoder.rounded(y, steps[1], nearest)
        rest = ops.low_rank_residual(a, *self._factors(given.probe, ops.multiply(y, steps[1])))
        return [ops.astype(ops.reshape(each, [-1]), "int32") for each in (x, y)], rest

    def decode(self, values: Array, given: Directions) -> Array:
        """Returns ``X B' + p y'``, float32 ``[rows * columns]``, from the values of X and y."""
        of_x = self.counts[0]
        x, y = ops.reshape(values[:of_x], [-1, self.rank]), ops.reshape(values[of_x:], [-1, 1])
        found = ops.low_rank_matrix(*self._factors(x, given.basis))
        # Subtracting -y adds p y' over the first product.
        return ops.reshape(ops.low_rank_residual(found, *self._factors(given.probe, -y)), [-1])

    def _factors(self, short: Array, long: Array) -> tuple[Array, Array]:
        return (short, long) if self.rows <= self.columns else (long, short)
