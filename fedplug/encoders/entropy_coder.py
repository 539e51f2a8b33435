"""The contract of an entropy coder: the stage of a pipeline that writes a quantizer's symbols in fewer bits.

Knows TensorFlow tensors; must not know quantizers, or what the symbols stand for.
"""

from __future__ import annotations

import abc
from typing import Any, ClassVar

import tensorflow as tf

from fedplug.registry.component import Component

__all__ = ["EntropyCoder"]


class EntropyCoder(Component):
    """Makes packed symbols shorter, losing nothing. A value, and traced into graphs, like `Encoder`."""

    wire_id: ClassVar[str]
    """Names the frozen layout of `encode`, for instance ``"rans/1"``; part of what it follows' wire id."""

    def get_config(self) -> dict[str, Any]:
        """The keyword arguments that make an equal coder; JSON values only. Default: none."""
        return {}

    @abc.abstractmethod
    def encode(self, packed: tf.Tensor, count: tf.Tensor | int, bits: int) -> tf.Tensor:
        """The code, a uint8 vector.

        Args:
            packed: The symbols as `bit_packing.pack` packs them; uint8 vector.
            count: How many symbols there are.
            bits: Of each symbol, 1 to 8.
        """

    @abc.abstractmethod
    def decode(self, code: tf.Tensor, count: tf.Tensor | int, bits: int) -> tf.Tensor:
        """The inverse of `encode`.

        The bytes are hostile: the result has the size of ``count`` packed symbols, or is an
        `tf.errors.InvalidArgumentError`.

        Args:
            code: uint8 vector.
            count: How many symbols there must be.
            bits: Of each symbol, 1 to 8.
        """
