"""A budget for what a client sends in a round, kept by feedback from what was sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeGuard

import numpy as np

from fedplug import ops
from fedplug.encoders.arguments import check_number, check_whole
from fedplug.encoders.assignment import EncoderAssignment
from fedplug.encoders.assignments.rules import Rules
from fedplug.encoders.base import Encoder, State
from fedplug.encoders.model.framing import container_bytes
from fedplug.encoders.model.statistics import is_statistic
from fedplug.encoders.pipeline.as_encoder import as_encoder
from fedplug.encoders.rate_control import Control, RateControl, adjustment_of
from fedplug.encoders.standalone.identity import Identity
from fedplug.errors import CapabilityError, ConfigError
from fedplug.ops.types import Array, Spec
from fedplug.registry.config import component_config
from fedplug.registry.specs import Capabilities

__all__ = ["Budget"]

_LARGEST_STEP = 8.0
_RATES = (1e-6, 1e6)
_ERROR_EXPONENT = 1 / 12
_TINY = 1e-9
_ERROR = ("squared_error", "squared_norm")


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
    where a is the update, with error feedback together with what earlier rounds left. Statistics that are
    sent exactly do not count: theirs are larger than those of all weights.

    The rate is part of the server's state: a restarted run goes on with it.
    """

    name: ClassVar[str] = "budget"

    def __init__(
        self,
        encoder: Encoder | EncoderAssignment | str | Mapping[str, Any] | Sequence[Any],
        bytes_per_client: int | None = None,
        *,
        nmse: float | None = None,
    ) -> None:
        """Exactly one of ``bytes_per_client`` and ``nmse`` is given.

        Args:
            encoder: What is adjusted: an encoder, an expression, or rules, see `Rules`. Of its components
                those with a fraction or a count can be, and ``qsgd`` where it stands alone.
            bytes_per_client: That a client sends in a round, on average: all buffers of its update.
            nmse: The normalised mean squared error of what is sent, above 0 and below 1.

        Raises:
            CapabilityError: It is one encoder, and that has nothing to adjust.
            ConfigError: Neither or both are given, or something is out of range.
        """
        inner = Rules(encoder) if _are_rules(encoder) else as_encoder(encoder)
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
        if isinstance(inner, Encoder):
            _require_adjustable([inner])
        self._encoder: Encoder | EncoderAssignment = inner
        self._bytes_per_client = bytes_per_client
        self._nmse = nmse

    @property
    def capabilities(self) -> Capabilities:
        """Those of the encoder."""
        return self._encoder.capabilities

    def get_config(self) -> dict[str, Any]:
        given = {"bytes_per_client": self._bytes_per_client, "nmse": self._nmse}
        return {
            "encoder": component_config(self._encoder),
            **{key: value for key, value in given.items() if value is not None},
        }

    def assign(self, specs: Sequence[Spec]) -> list[Encoder]:
        """As without a budget, each in the form that can be adjusted."""
        if isinstance(self._encoder, Encoder):
            assigned = [self._encoder] * len(specs)
        else:
            assigned = self._encoder.assign(specs)
            _require_adjustable(assigned)
        adjustable = {
            id(encoder): _adjustable_form(encoder) for encoder in assigned
        }  # what is shared stays so
        return [adjustable[id(encoder)] for encoder in assigned]

    def encodes_statistic(self, spec: Spec) -> bool:
        """Whether the encoder that is adjusted says how this statistic is encoded."""
        return isinstance(self._encoder, EncoderAssignment) and self._encoder.encodes_statistic(spec)

    def rate_control(self, encoders: Sequence[Encoder], specs: Sequence[Spec]) -> RateControl:
        """Refuses a model of which more has to be sent than the budget allows."""
        control = _Feedback(self._bytes_per_client, self._nmse, tuple(encoders), tuple(specs))
        least = control.min_bytes
        if self._bytes_per_client is not None and self._bytes_per_client <= least:
            raise ConfigError(
                f"a budget of {self._bytes_per_client} bytes leaves nothing to adjust: headers, tensors that "
                f"are sent uncompressed, and the fewest bits of the others take {least} bytes"
            )
        return control


@dataclass(frozen=True)
class _Feedback(RateControl):
    """The rate that `Budget` describes: the control is ``{"rate": float32}``."""

    bytes_per_client: int | None
    nmse: float | None
    encoders: tuple[Encoder, ...]
    specs: tuple[Spec, ...]

    @property
    def reported(self) -> tuple[str, ...]:  # type: ignore[override]  # a constant of most others
        """What the error is made of, where it is wanted."""
        return () if self.nmse is None else _ERROR

    @property
    def min_bytes(self) -> int:
        """Of all buffers of an update, whatever is sent."""
        return sum(map(_min_bytes, self.encoders, self.specs))

    @property
    def _counts(self) -> list[bool]:
        """Whether each tensor counts in the error: those of floats, but for statistics that are exact."""
        return [
            ops.is_floating(spec.dtype) and not (encoder.capabilities.lossless and is_statistic(spec.name))
            for encoder, spec in zip(self.encoders, self.specs, strict=True)
        ]

    def init(self) -> Control:
        """As the encoders are configured."""
        return {"rate": np.float32(1)}

    def adjust(self, encoder: Encoder, control: Control) -> Encoder:
        """At the rate, if it can be."""
        adjustment = adjustment_of(encoder)
        return encoder if adjustment is None else adjustment.at_rate(control["rate"])

    def report(
        self, xs: Sequence[Array], received: Sequence[Array], next_states: Sequence[State]
    ) -> dict[str, Array]:
        """The squared error of the update and its squared norm."""
        if self.nmse is None:
            return {}
        squares = [
            _squares(x, sent, state)
            for x, sent, state, counts in zip(xs, received, next_states, self._counts, strict=True)
            if counts
        ]
        if not squares:
            return dict.fromkeys(_ERROR, np.float32(0))
        sums = (ops.add_n(parts) for parts in zip(*squares, strict=True))
        return dict(zip(_ERROR, sums, strict=True))

    def next(self, control: Control, measured: Mapping[str, Array]) -> Control:
        """See `Budget`; without payloads the rate stays."""
        if self.bytes_per_client is not None:
            step = self._step_to_bytes(self.bytes_per_client, measured)
        else:
            step = self._step_to_error(measured)
        step = ops.clip(step, 1 / _LARGEST_STEP, _LARGEST_STEP)
        following = ops.clip(ops.astype(control["rate"], "float64") * step, *_RATES)
        return {
            "rate": ops.where(measured["payloads"] > 0, ops.astype(following, "float32"), control["rate"])
        }

    def metrics(self, control: Control, measured: Mapping[str, Array]) -> dict[str, Array]:
        """The rate, and the error where it is wanted."""
        return dict(control) if self.nmse is None else {**control, "nmse": _measured_nmse(measured)}

    def _step_to_bytes(self, bytes_per_client: int, measured: Mapping[str, Array]) -> Array:
        payloads = ops.astype(measured["payloads"], "float64")
        by_tensor = ops.astype(measured["tensor_bytes"], "float64")
        bodies = [
            by_tensor[place] - payloads * container_bytes(encoder.wire_id, spec)
            for place, (encoder, spec) in enumerate(zip(self.encoders, self.specs, strict=True))
            if adjustment_of(encoder) is not None
        ]
        adjustable = ops.add_n(bodies) if bodies else ops.zeros_like(payloads)
        fixed = ops.sum(by_tensor) - adjustable
        return (bytes_per_client * payloads - fixed) / ops.maximum(adjustable, _TINY)

    def _step_to_error(self, measured: Mapping[str, Array]) -> Array:
        assert self.nmse is not None
        error = ops.astype(_measured_nmse(measured), "float64")
        found = [adjustment for adjustment in map(adjustment_of, self.encoders) if adjustment is not None]
        if all(adjustment.adjusts == "bits" for adjustment in found):
            return (error / self.nmse) ** _ERROR_EXPONENT
        return (1 - self.nmse) / ops.maximum(1 - error, _TINY)


def _are_rules(encoder: object) -> TypeGuard[Mapping[str, Any] | Sequence[Any]]:
    """A mapping with a name is what `component_config` writes of a component."""
    return isinstance(encoder, list | tuple) or (isinstance(encoder, Mapping) and "name" not in encoder)


def _adjustable_form(encoder: Encoder) -> Encoder:
    adjustment = adjustment_of(encoder)
    return encoder if adjustment is None else adjustment.encoder


def _require_adjustable(encoders: Sequence[Encoder]) -> None:
    if all(adjustment_of(encoder) is None for encoder in encoders):
        raise CapabilityError(
            f"a budget cannot be kept by {encoders[0]!r}: it adjusts fractions, counts, and the bits of a "
            "qsgd that stands alone, and there is none of these; use qsgd(8), or an encoder with a fraction, "
            "such as topk(0.01), perhaps in a pipeline: \"topk(0.01, scope='model') | qsgd(8)\""
        )


def _min_bytes(encoder: Encoder, spec: Spec) -> int:
    """Of a tensor's buffer: 0 for a body of unknown size, which is never wrong."""
    adjustment = adjustment_of(encoder)
    if adjustment is not None:
        body = adjustment.min_bytes(spec)
    else:
        body = ops.num_elements(spec) * ops.itemsize(spec.dtype) if encoder.wire_id == Identity.wire_id else 0
    return container_bytes(encoder.wire_id, spec) + body


def _measured_nmse(measured: Mapping[str, Array]) -> Array:
    """The normalised mean squared error of a round; 0 where nothing was to be sent. float32 scalar."""
    return ops.divide_no_nan(measured["squared_error"], measured["squared_norm"])


def _squares(x: Array, sent: Array, next_state: State) -> tuple[Array, Array]:
    """``||a - sent||^2`` and ``||a||^2``; with a residual a is what is sent and what is left together."""
    lost = ops.astype(next_state.get("residual", x - sent), "float64")
    return _square(lost), _square(lost + ops.astype(sent, "float64"))


def _square(x: Array) -> Array:
    mean = ops.mean_magnitude(ops.reshape(x * x, [-1]))  # a sum whose order does not depend on threads
    return ops.astype(mean * ops.astype(ops.size(x), x.dtype), "float32")
