"""The index coders that come with fedplug. Must not know sparsifiers or pipelines."""

from __future__ import annotations

from typing import ClassVar

import tensorflow as tf

from fedplug import ops
from fedplug.encoders import bit_packing
from fedplug.encoders.checks import require
from fedplug.encoders.index_coder import IndexCoder

__all__ = ["BitPack", "Bitmap", "Rice", "Shortest"]


class Rice(IndexCoder):
    """Gaps between indices in Rice code: about ``log2(n / k) + 1.5`` bits an index where they lie at random.

    Sources: Rice & Plaunt, IEEE Trans. Commun. 1971; Golomb, IEEE Trans. Inf. Theory 1966. The layout is
    specified in csrc/core/index_code.h.
    """

    name: ClassVar[str] = "rice"
    wire_id: ClassVar[str] = "rice/1"

    def encode(self, indices: tf.Tensor, size: int, round_num: tf.Tensor) -> tf.Tensor:
        """See `fedplug.ops.encode_indices`."""
        del round_num
        return ops.encode_indices(indices, size)

    def decode(self, code: tf.Tensor, count: tf.Tensor, size: int) -> tf.Tensor:
        """See `fedplug.ops.decode_indices`."""
        return ops.decode_indices(code, count, size)


class Bitmap(IndexCoder):
    """A bit for every element, set where there is an index: ``n / 8`` bytes, whatever the indices.

    Layout: the bit of element ``8 i + j`` is bit j of byte i; unused bits are 0.
    """

    name: ClassVar[str] = "bitmap"
    wire_id: ClassVar[str] = "bitmap/1"

    def encode(self, indices: tf.Tensor, size: int, round_num: tf.Tensor) -> tf.Tensor:
        """See the class."""
        del round_num
        present = tf.scatter_nd(indices[:, tf.newaxis], tf.ones_like(indices), [size])
        return bit_packing.pack(tf.cast(present, tf.uint8), bits=1)

    def decode(self, code: tf.Tensor, count: tf.Tensor, size: int) -> tf.Tensor:
        """Refuses another length than the size asks for, and another number of bits set than ``count``."""
        present = bit_packing.unpack(code, size, bits=1, what="the bytes of a bitmap of indices")
        indices = tf.cast(tf.where(present == 1)[:, 0], tf.int32)
        with require(tf.size(indices) == count, "a bitmap of indices has another number of bits set"):
            return tf.identity(indices)


class BitPack(IndexCoder):
    """Every index as it is, in the fewest bits that hold any: ``bits(n - 1)`` bits an index.

    Layout: one index after the other, its lowest bit first, eight bits a byte; unused bits are 0.
    """

    name: ClassVar[str] = "bitpack"
    wire_id: ClassVar[str] = "bitpack/1"

    def encode(self, indices: tf.Tensor, size: int, round_num: tf.Tensor) -> tf.Tensor:
        """See the class."""
        del round_num
        bits = tf.bitwise.right_shift(indices[:, tf.newaxis], tf.range(_width(size))) & 1
        return bit_packing.pack(tf.reshape(tf.cast(bits, tf.uint8), [-1]), bits=1)

    def decode(self, code: tf.Tensor, count: tf.Tensor, size: int) -> tf.Tensor:
        """Refuses another length than the count asks for, and indices out of range or order."""
        width = _width(size)
        with require(
            tf.size(code, tf.int64) == (tf.cast(count, tf.int64) * width + 7) // 8,
            "the bytes of packed indices have the wrong length",
        ):
            code = tf.identity(code)
        bits = bit_packing.unpack(code, count * width, bits=1, what="the bytes of packed indices")
        places = tf.bitwise.left_shift(tf.cast(tf.reshape(bits, [count, width]), tf.int32), tf.range(width))
        indices = tf.reduce_sum(places, axis=1)
        valid = tf.reduce_all(indices < size) & tf.reduce_all(indices[1:] > indices[:-1])
        with require(valid, "packed indices leave the tensor, or do not ascend"):
            return tf.identity(indices)


class Shortest(IndexCoder):
    """The shortest of the codes of `Rice`, `BitPack` and `Bitmap`, chosen anew for every tensor.

    Layout: a byte that says which, 0, 1 or 2 in this order (the first of equally short ones), and the code.
    """

    name: ClassVar[str] = "shortest"
    wire_id: ClassVar[str] = "shortest/1"

    _CODERS = (Rice(), BitPack(), Bitmap())

    def encode(self, indices: tf.Tensor, size: int, round_num: tf.Tensor) -> tf.Tensor:
        """See the class."""
        rice = self._CODERS[0].encode(indices, size, round_num)
        packed = (tf.size(indices, tf.int64) * _width(size) + 7) // 8
        choice = tf.argmin(tf.stack([tf.size(rice, tf.int64), packed, (size + 7) // 8]), output_type=tf.int32)
        code = tf.switch_case(
            choice,
            [
                lambda: rice,
                lambda: self._CODERS[1].encode(indices, size, round_num),
                lambda: self._CODERS[2].encode(indices, size, round_num),
            ],
        )
        return tf.concat([tf.cast(choice, tf.uint8)[tf.newaxis], code], axis=0)

    def decode(self, code: tf.Tensor, count: tf.Tensor, size: int) -> tf.Tensor:
        """Refuses an unknown choice and what the chosen coder refuses."""
        with require(tf.size(code) >= 1, "a code of indices is too short to say which it is"):
            choice = tf.cast(tf.reduce_max(code[:1]), tf.int32)
        with require(choice < len(self._CODERS), "a code of indices is of no known kind"):
            choice = tf.identity(choice)
        return tf.switch_case(
            choice, [lambda coder=coder: coder.decode(code[1:], count, size) for coder in self._CODERS]
        )


def _width(size: int) -> int:
    """Bits of the largest index into ``size`` elements."""
    return max(size - 1, 0).bit_length()
