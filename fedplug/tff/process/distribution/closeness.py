"""Whether encoders come close enough for a broadcast: tried on normal numbers when a process is built.

Must not know TFF, nor how the reference model follows the server's.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from fedplug import ops
from fedplug.encoders.base import Encoder
from fedplug.encoders.model.model_encoder import ModelEncoder
from fedplug.encoders.model.normal_numbers import normal_numbers
from fedplug.errors import CapabilityError, ConfigError

__all__ = ["check_contraction", "check_snapshot", "common_memory_rate", "relative_errors", "sends_models"]

_CLOSE = 0.1
"""The squared error of normal numbers, relative to theirs, up to which a model may be sent as it is."""


def sends_models(encoder: Encoder, error: float) -> bool:
    """Whether a model may be sent as the encoder makes it, given the relative error that it makes."""
    capabilities = encoder.capabilities
    return capabilities.lossless or (capabilities.sends_every_entry and error < _CLOSE)


def relative_errors(encoder: ModelEncoder, lowering: str) -> list[float]:
    """Of normal numbers: ``||x - decode(encode(x))||^2 / ||x||^2`` for every tensor."""
    xs = normal_numbers(encoder.specs)
    with ops.use_lowering(lowering):
        buffers, _ = encoder.encode(xs, encoder.init_state(), tf.constant(0))
        decoded = encoder.decode(buffers)
    return [
        float(tf.math.divide_no_nan(_squares(x - y), _squares(x))) if x.dtype.is_floating else 0.0
        for x, y in zip(xs, decoded, strict=True)
    ]


def _squares(x: tf.Tensor) -> tf.Tensor:
    return tf.reduce_sum(tf.square(tf.cast(x, tf.float64)))


def common_memory_rate(encoder: ModelEncoder, places: Sequence[int]) -> float | None:
    """Of the tensors at these places, whose memory is not simply what was sent; None: there is no memory.

    Raises:
        CapabilityError: The rates differ.
    """
    rates = {encoder.encoders[place].capabilities.memory_rate or 1.0 for place in places}
    if len(rates) > 1:
        raise CapabilityError(
            f"{encoder.encoder!r} cannot encode a broadcast: some of its memories move at other rates than "
            f"others, {sorted(rates)}; give the encoders of all tensors the same rate"
        )
    return next((rate for rate in rates if rate < 1), None)


def check_contraction(encoder: ModelEncoder, place: int, error: float, rate: float | None) -> None:
    """A necessary condition: ``||x - decode(encode(x))|| < ||x||``, or the same of what is left to a memory.

    What a difference leaves out comes back in the next one, so it dies out only if encoding is such a
    contraction, as EF21-P asks for. Unbiased encoders that scale up what they send, such as ``randomk``
    without error feedback or ``terngrad``, are none. A share a of what they send is: with
    ``E ||x - decode(encode(x))||^2 = v ||x||^2`` it leaves ``1 - 2 a + a^2 (1 + v)`` of the square.

    Raises:
        CapabilityError: It is not met.
    """
    if rate is None and not error < 1:
        raise CapabilityError(
            f"{encoder.encoder!r} cannot encode a broadcast: for tensor {place} it leaves out "
            f"{error**0.5:.2f} times what it was given, so what is left out would grow from round to round; "
            "take an encoder that comes closer, for instance topk(0.1) or bfp(5)"
        )
    if rate is not None and not rate * (1 + error) < 2:
        raise CapabilityError(
            f"{encoder.encoder!r} cannot encode a broadcast: for tensor {place} it leaves out "
            f"{error**0.5:.2f} times what it was given, and a memory that moves at {rate} would go away from "
            f"the model; take a rate of at most {1 / (1 + error):.2g}"
        )


def check_snapshot(snapshot: ModelEncoder, lowering: str) -> None:
    """Refuses what could not stand for the model.

    Raises:
        CapabilityError: Some entries are not sent, or too coarsely.
        ConfigError: It has rate control.
    """
    if snapshot.rate_control is not None:
        raise ConfigError(
            f"{snapshot.encoder!r} cannot encode snapshots: clients would have to know its rate; take one "
            "without a budget, for instance bfp(8)"
        )
    for place, (encoder, error) in enumerate(
        zip(snapshot.encoders, relative_errors(snapshot, lowering), strict=True)
    ):
        if not sends_models(encoder, error):
            raise CapabilityError(
                f"{encoder!r} cannot encode snapshots: of tensor {place} it does not send every entry with "
                f"an error below {_CLOSE:.0%}; take one that comes closer, for instance bfp(8)"
            )
