"""Additive increase, multiplicative decrease of the rate of any adjustable encoder, as in TCP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import tensorflow as tf

from fedplug.encoders import Control, Encoder, EncoderAssignment, RateControl, adjustment_of
from fedplug.encoders.pipeline.pipeline import as_tensor_encoder
from fedplug.registry.config import component_config
from fedplug.registry.specs import Capabilities

STEP = 0.125


class Halving(EncoderAssignment):
    """The same encoder for every tensor, at a rate that `Rate` steers."""

    name: ClassVar[str] = "halving"

    def __init__(self, encoder: Any, limit: int) -> None:
        """Takes an adjustable encoder and the bytes that a payload of a whole model may have."""
        self._encoder = as_tensor_encoder(encoder, "the encoder of halving")
        self._limit = limit

    @property
    def capabilities(self) -> Capabilities:
        """Those of the encoder."""
        return self._encoder.capabilities

    def get_config(self) -> dict[str, Any]:
        """The arguments."""
        return {"encoder": component_config(self._encoder), "limit": self._limit}

    def assign(self, specs: Sequence[tf.TensorSpec]) -> list[Encoder]:
        """One for all."""
        return [self._encoder] * len(specs)

    def rate_control(self, encoders: Sequence[Encoder], specs: Sequence[tf.TensorSpec]) -> RateControl:
        """Of the whole model."""
        return Rate(self._limit)


class Rate(RateControl):
    """The control is ``{"rate": float32, "halved": int32}``: the rate, and how often it was halved."""

    reported = ("entries",)

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def init(self) -> Control:
        return {"rate": tf.constant(1.0), "halved": tf.constant(0)}

    def adjust(self, encoder: Encoder, control: Control) -> Encoder:
        adjustment = adjustment_of(encoder)
        return encoder if adjustment is None else adjustment.at_rate(control["rate"])

    def report(self, xs: Any, received: Sequence[tf.Tensor], next_states: Any) -> dict[str, tf.Tensor]:
        counts = [tf.math.count_nonzero(x, dtype=tf.float32) for x in received]
        return {"entries": tf.add_n(counts)}

    def next(self, control: Control, measured: Mapping[str, tf.Tensor]) -> Control:
        limit = self._limit * tf.cast(measured["payloads"], tf.int64)
        too_long = tf.reduce_sum(measured["tensor_bytes"]) > limit
        return {
            "rate": tf.where(too_long, control["rate"] / 2, control["rate"] + STEP),
            "halved": control["halved"] + tf.cast(too_long, tf.int32),
        }

    def metrics(self, control: Control, measured: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        return {"rate": control["rate"], "entries": measured["entries"]}
