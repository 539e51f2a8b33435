"""Refuses encoders whose error is too large for a model. Independent of TFF and of the broadcast's state."""

from __future__ import annotations

import tensorflow as tf

from fedplug.encoders.model.model_encoder import ModelEncoder
from fedplug.encoders.model.normal_numbers import normal_numbers
from fedplug.errors import CapabilityError, ConfigError
from fedplug.ops.lowering import use_lowering

__all__ = ["check_broadcast_encoder"]

_CLOSE = 0.1
"""The largest accepted ``||x - decode(encode(x))||^2 / ||x||^2`` of normally distributed numbers."""


def check_broadcast_encoder(encoder: ModelEncoder, lowering: str) -> None:
    """Checks that every tensor of a model keeps all its entries, with a small error.

    Args:
        encoder: The encoder of the model.
        lowering: ``"fused"`` or ``"reference"``, used to measure the error.

    Raises:
        CapabilityError: An encoder leaves entries out, or its error is too large.
        ConfigError: The encoder has rate control, which is measured on updates.
    """
    if encoder.rate_control is not None:
        raise ConfigError(
            f"{encoder.encoder!r} cannot encode a broadcast: a broadcast has no rate control; use an encoder "
            "without a budget, such as bfp(5) | rans"
        )
    errors = _relative_errors(encoder, lowering)
    for spec, each, error in zip(encoder.specs, encoder.encoders, errors, strict=True):
        promises = each.capabilities
        if not promises.lossless and not (promises.sends_every_entry and error < _CLOSE):
            raise CapabilityError(
                f"{each!r} cannot encode a broadcast: clients train on what is decoded, so every entry must "
                f"be sent with a squared error below {_CLOSE:.0%}, and the error of tensor "
                f"{spec.name!r} is {error:.0%}; use an encoder that comes closer, such as bfp(5) | rans"
            )


def _relative_errors(encoder: ModelEncoder, lowering: str) -> list[float]:
    """Returns ``||x - decode(encode(x))||^2 / ||x||^2`` of normally distributed numbers for each tensor."""
    xs = normal_numbers(encoder.specs)
    with use_lowering(lowering):
        buffers, _ = encoder.encode(xs, encoder.init_state(), tf.constant(0))
        decoded = encoder.decode(buffers)
    return [
        float(tf.math.divide_no_nan(_squares(x - y), _squares(x))) if x.dtype.is_floating else 0.0
        for x, y in zip(xs, decoded, strict=True)
    ]


def _squares(x: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.square(tf.cast(x, tf.float64)))
