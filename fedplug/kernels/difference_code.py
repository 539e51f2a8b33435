"""Exact differences between two versions of an array."""

from __future__ import annotations

from typing import TYPE_CHECKING

import fedplug._kernels as _kernels
from fedplug.kernels.arguments import whole

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from fedplug.types import Array

__all__ = ["decode_difference", "encode_difference"]


def encode_difference(
    before: Array | None, after: Array, item_bytes: int, mantissa_bits: int
) -> NDArray[np.uint8]:
    """Encodes the bytes of an array, given those of its old version.

    docs/wire-format.md specifies the layout. Its code of little change is within a
    few percent of the entropy of the changed elements' places and steps, given the exponents of the old ones.

    Args:
        before: The bytes of the old version, as many as ``after`` has. None for a code of ``after`` alone.
        after: The bytes of the new version, little-endian.
        item_bytes: Bytes of an element: 1, 2, 4 or 8.
        mantissa_bits: Bits of an element below its exponent. ``8 * item_bytes - 1`` if it has none.

    Returns:
        ``[bytes]`` uint8. Hardly longer than ``after`` at most.

    Raises:
        ArgumentError: An array cannot be used, or another argument is out of range.
    """
    return _kernels.encode_difference(
        before, after, whole("item_bytes", item_bytes), whole("mantissa_bits", mantissa_bits)
    )


def decode_difference(
    code: Array,
    before: Array | None,
    out: Array,
    item_bytes: int,
    mantissa_bits: int,
) -> None:
    """Decodes the new version from untrusted bytes that :func:`encode_difference` wrote.

    Args:
        code: ``[bytes]`` uint8.
        before: The bytes of the old version, or None, as for the encoder. Another old version is detected
            only by chance. Compare a checksum.
        out: An array for the bytes of the new version. Shares no memory with the others.
        item_bytes: See :func:`encode_difference`.
        mantissa_bits: See :func:`encode_difference`.

    Raises:
        ArgumentError: An array cannot be used, or another argument is out of range.
        PayloadError: The bytes are not such a code for ``before``.
    """
    _kernels.decode_difference(
        code, before, out, whole("item_bytes", item_bytes), whole("mantissa_bits", mantissa_bits)
    )
