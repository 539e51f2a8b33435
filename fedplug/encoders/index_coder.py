"""The contract of an index coder: the last stage of a pipeline, ``sparsifier | quantizer | index coder``.

Knows TensorFlow tensors; must not know what the indices point into.
"""

from __future__ import annotations

import abc
from typing import Any, ClassVar

import tensorflow as tf

from fedplug.registry.component import Component

__all__ = ["IndexCoder"]


class IndexCoder(Component):
    """Writes strictly ascending indices as bytes. A value, like `Encoder`, and traced into graphs like it."""

    wire_id: ClassVar[str]
    """Names the frozen layout of `encode`, for instance ``"rice/1"``; part of a pipeline's wire id."""

    def get_config(self) -> dict[str, Any]:
        """The keyword arguments that make an equal coder; JSON values only. Default: none."""
        return {}

    @abc.abstractmethod
    def encode(self, indices: tf.Tensor, size: int, round_num: tf.Tensor) -> tf.Tensor:
        """The code, a uint8 vector.

        Args:
            indices: Strictly ascending, in ``[0, size)``; int32 vector.
            size: Of the tensor they point into.
            round_num: The round in which they were chosen, int32 scalar.
        """

    @abc.abstractmethod
    def decode(self, code: tf.Tensor, count: tf.Tensor, size: int) -> tf.Tensor:
        """The inverse of `encode`.

        The bytes are hostile: the result is ``count`` strictly ascending indices in ``[0, size)``, or an
        `tf.errors.InvalidArgumentError`.

        Args:
            code: uint8 vector.
            count: How many indices there must be; int32 scalar, already known to be in ``[0, size]``.
            size: Of the tensor they point into.
        """
