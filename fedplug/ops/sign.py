"""One bit for each entry, with error feedback."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from fedplug.ops import _loader
from fedplug.ops._arguments import require_equal_shapes, require_floating
from fedplug.ops._reference import value_code as reference
from fedplug.ops.lowering import resolve_lowering

__all__ = ["SignCode", "sign_residual"]

tf.no_gradient("Fedplug>SignResidual")


class SignCode(NamedTuple):
    """What `sign_residual` returns.

    Attributes:
        code: The bytes that travel; uint8 vector.
        residual: What is left for the next round. Shape and dtype of ``delta``.
    """

    code: tf.Tensor
    residual: tf.Tensor


def sign_residual(delta: Any, residual: Any, *, lowering: str | None = None) -> SignCode:
    """Quantizes ``a = delta + residual`` to signs and their mean magnitude, and keeps the error.

    The code is what `fedplug.ops.encode_values` makes of ``a`` with the form "sign"; the residual is ``a``
    minus what `fedplug.ops.decode_values` makes of that.

    Args:
        delta: The update of this round; any shape of ``n < 2^31`` elements, a floating dtype.
        residual: What earlier rounds left behind; shape and dtype of ``delta``.
        lowering: "auto", "fused" or "reference"; default: see `fedplug.ops.use_lowering`.

    Raises:
        TypeError: ``delta`` is not floating.
        ValueError: The static shapes differ.
        UnknownNameError: ``lowering`` is not one of the words above.
        OpLibraryError: "fused" was asked for and cannot be loaded.
        tf.errors.InvalidArgumentError: When run: the shapes differ, or a sum is not finite.
    """
    delta = tf.convert_to_tensor(delta)
    residual = tf.convert_to_tensor(residual, delta.dtype)
    require_floating(delta=delta)
    require_equal_shapes(delta=delta, residual=residual)
    if resolve_lowering(lowering) == "fused":
        return SignCode(*_loader.library().fedplug_sign_residual(delta, residual))
    return SignCode(*reference.sign_residual(delta, residual))
