"""A budget for what a client sends in a round, kept by feedback from what was sent. Must not know TFF."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeGuard

import tensorflow as tf

from fedplug.encoders.arguments import check_number, check_whole
from fedplug.encoders.assignment.base import EncoderAssignment
from fedplug.encoders.assignment.rules import Rules
from fedplug.encoders.base import Encoder
from fedplug.encoders.quantizer import Quantizer
from fedplug.encoders.reading import as_component, component_config
from fedplug.errors import CapabilityError, ConfigError
from fedplug.registry.specs import Capabilities

__all__ = ["Budget", "measured_nmse"]

_LARGEST_STEP = 8.0
_RATES = (1e-6, 1e6)
_ERROR_EXPONENT = 1 / 12
_TINY = 1e-9


class Budget(EncoderAssignment):
    """Sends as much as a number of bytes or an error allows, whatever the data are like.

    The encoder's own fractions, counts and bits are where it begins, and how they stand to each other stays
    as it is; a rate, the same for all clients, multiplies them from round to round. What the tensors that
    share an encoder get of it follows from the update, so that of all ways to spend the bytes the one is
    taken that loses least: the entries with ``topk(..., scope="model")``, and always the bits of ``qsgd``,
    which are a mean over its tensors then, see `MixedQSGD`. In a pipeline entries are adjusted, and bits
    stay.

    After a round in which the mean payload had b bytes, f of them fixed (headers, and tensors whose encoders
    always send the same), the rate is multiplied by ``(budget - f) / (b - f)``, which the next round needs if
    bytes grow in proportion to entries or bits. They nearly do, so that the mean payload is within 2 % of the
    budget after four rounds, unless it is out of reach: no element has more than 8 bits.

    With ``nmse`` the rate is multiplied by ``(1 - nmse) / (1 - measured)``: the energy sent grows with the
    entries, but never faster than they do, so the step never goes too far; an error below that of a quantizer
    in the encoder cannot be reached. Where only bits are adjusted it is ``(measured / nmse)^(1/12)``, as
    one bit more makes the error 4 to 9 times smaller: around b bits it falls as the rate to the power -1.4 b
    or faster.

    No step is larger than 8 or smaller than 1/8, and a tensor of which anything is sent sends one entry at
    least.

    The normalised mean squared error is ``sum ||a - sent||^2 / sum ||a||^2`` over the clients of a round,
    where a is the update, with error feedback together with what earlier rounds left.

    The rate is part of the server's state: a restarted run goes on with it.
    """

    name: ClassVar[str] = "budget"

    def __init__(
        self,
        encoder: Encoder | EncoderAssignment | str | Mapping[str, Any] | Sequence[Any],
        bytes_per_client: int | None = None,
        *,
        nmse: float | None = None,
        megabits_per_second: float | None = None,
    ) -> None:
        """Exactly one of ``bytes_per_client`` and ``nmse`` is given.

        Args:
            encoder: What is adjusted: an encoder, an expression, or rules, see `Rules`. Of its parts those
                with a fraction or a count can be, and ``qsgd`` where it stands alone.
            bytes_per_client: That a client sends in a round, on average: all buffers of its update.
            nmse: The normalised mean squared error of what is sent, above 0 and below 1.
            megabits_per_second: Of the link from a client to the server; given that, a process that is built
                with this budget warns where compressing takes longer than it saves, see `break_even`.

        Raises:
            CapabilityError: It is one encoder, and that has nothing to adjust.
            ConfigError: Neither or both are given, or something is out of range.
        """
        inner = Rules(encoder) if _are_rules(encoder) else as_component(encoder)
        if not isinstance(inner, Encoder | EncoderAssignment) or isinstance(inner, Budget):
            raise ConfigError(f"a budget is for an encoder or rules, such as 'topk(0.01)', not for {inner!r}")
        if (bytes_per_client is None) == (nmse is None):
            raise ConfigError(
                "a budget takes either bytes_per_client or nmse, for instance budget('topk(0.01)', 20000)"
            )
        if bytes_per_client is not None:
            check_whole("budget bytes_per_client", bytes_per_client, 1)
        if nmse is not None:
            check_number("budget nmse", nmse, lambda error: 0 < error < 1, "above 0 and below 1")
        if megabits_per_second is not None:
            check_number(
                "budget megabits_per_second", megabits_per_second, lambda speed: speed > 0, "above 0"
            )
        if isinstance(inner, Encoder):
            _require_adjustable([inner.for_budget()])
        self.encoder: Encoder | EncoderAssignment = inner
        self.bytes_per_client = bytes_per_client
        self.nmse = nmse
        self.megabits_per_second = megabits_per_second

    @property
    def capabilities(self) -> Capabilities:
        """Those of the encoder."""
        return self.encoder.capabilities

    def get_config(self) -> dict[str, Any]:
        """The arguments that were given."""
        given = {
            "bytes_per_client": self.bytes_per_client,
            "nmse": self.nmse,
            "megabits_per_second": self.megabits_per_second,
        }
        return {
            "encoder": component_config(self.encoder),
            **{key: value for key, value in given.items() if value is not None},
        }

    def assign(self, specs: Sequence[tf.TensorSpec]) -> list[Encoder]:
        """As without a budget, each in the form that can be adjusted."""
        if isinstance(self.encoder, Encoder):
            return [self.encoder.for_budget()] * len(specs)
        assigned = self.encoder.assign(specs)
        adjusted = {id(encoder): encoder.for_budget() for encoder in assigned}  # what is shared remains so
        encoders = [adjusted[id(encoder)] for encoder in assigned]
        _require_adjustable(encoders)
        return encoders

    def require_feasible(self, min_bytes: int) -> None:
        """Refuses a model of which more has to be sent than the budget allows.

        Raises:
            ConfigError: It is so; the message says how much.
        """
        if self.bytes_per_client is not None and self.bytes_per_client <= min_bytes:
            raise ConfigError(
                f"a budget of {self.bytes_per_client} bytes leaves nothing to adjust: headers, tensors that "
                f"are sent as they are, and the fewest bits of the others take {min_bytes} bytes"
            )

    def next_rate(
        self, rate: tf.Tensor, measured: Mapping[str, tf.Tensor], encoders: Sequence[Encoder]
    ) -> tf.Tensor:
        """The rate of the next round; without payloads that of this one.

        Args:
            rate: Of this round; float32 scalar.
            measured: ``uplink_bytes``, ``adjustable_bytes`` and ``payloads`` of this round, and with ``nmse``
                the sums ``squared_error`` and ``squared_norm``.
            encoders: Of the tensors.
        """
        if self.bytes_per_client is not None:
            step = _step_to_bytes(self.bytes_per_client, measured)
        else:
            assert self.nmse is not None
            only_bits = all(isinstance(each, Quantizer) for each in encoders if each.adjustable)
            step = (_step_to_error_by_bits if only_bits else _step_to_error)(self.nmse, measured)
        step = tf.clip_by_value(step, 1 / _LARGEST_STEP, _LARGEST_STEP)
        following = tf.cast(tf.clip_by_value(tf.cast(rate, tf.float64) * step, *_RATES), tf.float32)
        return tf.where(measured["payloads"] > 0, following, rate)


def _are_rules(encoder: object) -> TypeGuard[Mapping[str, Any] | Sequence[Any]]:
    """A mapping with a name is what `component_config` writes of a part."""
    return isinstance(encoder, list | tuple) or (isinstance(encoder, Mapping) and "name" not in encoder)


def _step_to_bytes(bytes_per_client: int, measured: Mapping[str, tf.Tensor]) -> tf.Tensor:
    adjustable = tf.cast(measured["adjustable_bytes"], tf.float64)
    fixed = tf.cast(measured["uplink_bytes"], tf.float64) - adjustable
    wanted = bytes_per_client * tf.cast(measured["payloads"], tf.float64) - fixed
    return wanted / tf.maximum(adjustable, _TINY)


def _step_to_error(nmse: float, measured: Mapping[str, tf.Tensor]) -> tf.Tensor:
    return (1 - nmse) / tf.maximum(1 - tf.cast(measured_nmse(measured), tf.float64), _TINY)


def _step_to_error_by_bits(nmse: float, measured: Mapping[str, tf.Tensor]) -> tf.Tensor:
    return (tf.cast(measured_nmse(measured), tf.float64) / nmse) ** _ERROR_EXPONENT


def measured_nmse(measured: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """The normalised mean squared error of a round; 0 where nothing was to be sent. float32 scalar."""
    return tf.math.divide_no_nan(measured["squared_error"], measured["squared_norm"])


def _require_adjustable(encoders: Sequence[Encoder]) -> None:
    if not any(encoder.adjustable for encoder in encoders):
        raise CapabilityError(
            f"a budget cannot be kept by {encoders[0]!r}: it adjusts fractions, counts, and the bits of a "
            "qsgd that stands alone, and there is none of these; use qsgd(8), or an encoder with a fraction, "
            "such as topk(0.01), perhaps in a pipeline: \"topk(0.01, scope='model') | qsgd(8)\""
        )
