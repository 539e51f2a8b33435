"""Refuses encoders whose error is too large for a model that is sent to clients."""

from __future__ import annotations

import fedplug.ops as ops
from fedplug.encoders.base import Encoder
from fedplug.encoders.model.model_encoder import ModelEncoder
from fedplug.encoders.model.normal_numbers import normal_numbers
from fedplug.errors import CapabilityError, ConfigError
from fedplug.ops.types import Array, Scalar, Spec

__all__ = ["check_broadcast_encoder"]

_CLOSE = 0.1
"""The largest accepted ``||x - decode(encode(x))||^2 / ||x||^2`` of normally distributed numbers."""


def check_broadcast_encoder(encoder: ModelEncoder) -> None:
    """Checks that every tensor of a model keeps all its entries, with a small error.

    Raises:
        CapabilityError: An encoder leaves entries out, or its error is too large.
        ConfigError: The encoder has rate control, which is measured on updates.
    """
    if encoder.rate_control is not None:
        raise ConfigError(
            f"{encoder.encoder!r} cannot encode a broadcast: a broadcast has no rate control; use an encoder "
            "without a budget, such as bfp(5) | rans"
        )
    for each, spec in _smallest_of_each(encoder).values():
        promises = each.capabilities
        error = _relative_error(each, spec)
        if not promises.sends_every_entry or error >= _CLOSE:
            raise CapabilityError(
                f"{each!r} cannot encode a broadcast: clients train on what is decoded, so every entry must "
                f"be sent with a squared error below {_CLOSE:.0%}, and the error of tensor "
                f"{spec.name!r} is {error:.0%}; use an encoder that comes closer, such as bfp(5) | rans"
            )


def _smallest_of_each(encoder: ModelEncoder) -> dict[int, tuple[Encoder, Spec]]:
    """Returns each lossy encoder, by its id, with the smallest tensor that it encodes."""
    each = zip(encoder.encoders, encoder.specs, strict=True)
    lossy = [(one, spec) for one, spec in each if not one.capabilities.lossless]
    return {id(one): (one, spec) for one, spec in sorted(lossy, key=lambda pair: -ops.num_elements(pair[1]))}


def _relative_error(encoder: Encoder, spec: Spec) -> float:
    """Returns ``||x - decode(encode(x))||^2 / ||x||^2`` of normally distributed numbers."""
    alone = ModelEncoder(encoder, [spec], min_size=0)
    [x] = normal_numbers([spec])
    buffers, _ = alone.encode([x], alone.init_state(), 0)
    [y] = alone.decode(buffers)
    return float(ops.divide_no_nan(_squares(x - y), _squares(x)))


def _squares(x: Array) -> Scalar:
    return ops.sum_of_squares(ops.astype(x, "float64"))
