"""A budget for the bytes that a client sends in a round, kept by feedback from the sent part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeGuard

import numpy as np

import fedplug.ops as ops
from fedplug.encoders.arguments import check_number, check_whole
from fedplug.encoders.assignment import Control, EncoderAssignment, RateControl, adjustment_of
from fedplug.encoders.assignments.rules import Rules
from fedplug.encoders.base import Encoder, State
from fedplug.encoders.containers import container_bytes
from fedplug.encoders.model.statistics import is_statistic
from fedplug.encoders.pipeline.pipeline import as_encoder
from fedplug.encoders.quantizers import Identity
from fedplug.errors import CapabilityError, ConfigError
from fedplug.ops.types import Array, Scalar, Spec
from fedplug.registry.config import component_config
from fedplug.registry.specs import Capabilities

__all__ = ["Budget"]

_LARGEST_STEP = 8.0
_RATES = (1e-6, 1e6)
_ERROR_EXPONENT = 1 / 12
_TINY = 1e-9
_ERROR = ("squared_error", "squared_norm")


class Budget(EncoderAssignment):
    """Adjusts encoders from round to round, so that a client sends a number of bytes or reaches an error.

    >>> import fedplug, numpy as np
    >>> codec, state = fedplug.codec("budget('topk(0.1)', 1000)"), None
    >>> rng = np.random.default_rng(0)
    >>> for round_num in range(5):
    ...     model = {"kernel": rng.standard_normal(10_000).astype(np.float32)}
    ...     payloads, state = codec.encode_model(model, state, round_num)
    >>> len(payloads["kernel"])
    1002

    The encoder's own fractions, counts and bits are the start, and their proportions stay the same; a rate,
    equal for all clients, multiplies them from round to round. The update decides how tensors that share an
    encoder divide the rate, so that the error is minimal for the bytes: for entries with ``topk(...,
    scope="model")``, and always for the bits of ``qsgd``, which are then a mean over its tensors, see
    `MixedQSGD`. In a pipeline entries are adjusted, and bits are not.

    After a round in which the mean payload had b bytes, of which f are fixed (headers, and tensors whose
    encoders always send the same), the rate is multiplied by ``(budget - f) / (b - f)``. That is right if
    bytes grow in proportion to entries or bits. They nearly do, so that the mean payload is within 2 % of the
    budget after four rounds, unless it is out of reach: no element has more than 8 bits.

    With ``nmse`` the rate is multiplied by ``(1 - nmse) / (1 - measured)``: the energy sent grows with the
    entries, but never faster, so the step never goes too far. An error below that of a quantizer in the
    encoder cannot be reached. If only bits are adjusted, the factor is ``(measured / nmse)^(1/12)``, because
    one bit more makes the error 4 to 9 times smaller: around b bits it falls as the rate to the power -1.4 b
    or faster.

    A step is between 1/8 and 8, and a tensor that sends anything sends at least one entry.

    The normalised mean squared error is ``sum ||a - sent||^2 / sum ||a||^2`` over the clients of a round,
    where a is the update, plus the residual with error feedback. Statistics that are sent exactly do not
    count, because they are larger than all weights.

    The rate is part of the server's state, so a restarted run continues with it.
    """

    name: ClassVar[str] = "budget"

    def __init__(
        self,
        encoder: Encoder | EncoderAssignment | str | Mapping[str, object] | Sequence[object],
        bytes_per_client: int | None = None,
        *,
        nmse: float | None = None,
    ) -> None:
        """Makes the budget. Exactly one of ``bytes_per_client`` and ``nmse`` is given.

        Args:
            encoder: The encoder, expression or rules (see `Rules`) to adjust. Components with a fraction or a
                count can be adjusted, and a ``qsgd`` that stands alone.
            bytes_per_client: The mean number of bytes that a client sends in a round: all buffers of its
                update.
            nmse: The normalised mean squared error of the sent part, above 0 and below 1.

        Raises:
            CapabilityError: ``encoder`` is one encoder with nothing to adjust.
            ConfigError: Neither or both are given, or an argument is out of range.
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
        """The capabilities of the encoder."""
        return self._encoder.capabilities

    def get_config(self) -> dict[str, object]:
        given = {"bytes_per_client": self._bytes_per_client, "nmse": self._nmse}
        return {
            "encoder": component_config(self._encoder),
            **{key: value for key, value in given.items() if value is not None},
        }

    def assign(self, specs: Sequence[Spec]) -> list[Encoder]:
        """Returns the encoders as without a budget, each in its adjustable form."""
        if isinstance(self._encoder, Encoder):
            assigned = [self._encoder] * len(specs)
        else:
            assigned = self._encoder.assign(specs)
            _require_adjustable(assigned)
        adjustable = {
            id(encoder): _adjustable_form(encoder) for encoder in assigned
        }  # what is shared stays so
        return [adjustable[id(encoder)] for encoder in assigned]

    def for_share(self, share: float) -> Budget:
        """Returns the budget with this share of the bytes."""
        if self._bytes_per_client is None:
            return self
        return Budget(self._encoder, max(1, round(share * self._bytes_per_client)))

    def encodes_statistic(self, spec: Spec) -> bool:
        """Returns whether the adjusted assignment decides for this statistic."""
        return isinstance(self._encoder, EncoderAssignment) and self._encoder.encodes_statistic(spec)

    def rate_control(self, encoders: Sequence[Encoder], specs: Sequence[Spec]) -> RateControl:
        """Refuses a model that needs more bytes than the budget allows."""
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
    """The rate of a `Budget`. The control is ``{"rate": float32}``."""

    bytes_per_client: int | None
    nmse: float | None
    encoders: tuple[Encoder, ...]
    specs: tuple[Spec, ...]

    @property
    def reported(self) -> tuple[str, ...]:  # type: ignore[override]  # a constant of most others
        """The parts of the error, if it is needed."""
        return () if self.nmse is None else _ERROR

    @property
    def min_bytes(self) -> int:
        """The least size of all buffers of an update."""
        return sum(map(_min_bytes, self.encoders, self.specs))

    @property
    def _counts(self) -> list[bool]:
        """Whether each tensor counts in the error: floats do, but exactly sent statistics do not."""
        return [
            ops.is_floating(spec.dtype) and not (encoder.capabilities.lossless and is_statistic(spec.name))
            for encoder, spec in zip(self.encoders, self.specs, strict=True)
        ]

    def init(self) -> Control:
        """Returns rate 1."""
        return {"rate": np.float32(1)}

    def adjust(self, encoder: Encoder, control: Control) -> Encoder:
        """Returns the encoder at the rate, if it can be adjusted."""
        adjustment = adjustment_of(encoder)
        return encoder if adjustment is None else adjustment.at_rate(control["rate"])

    def report(
        self, xs: Sequence[Array], received: Sequence[Array], next_states: Sequence[State]
    ) -> dict[str, Scalar]:
        """Returns the squared error of the update and its squared norm."""
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

    def next(self, control: Control, measured: Mapping[str, Scalar]) -> Control:
        """See `Budget`; without payloads the rate does not change."""
        if self.bytes_per_client is not None:
            step = self._step_to_bytes(self.bytes_per_client, measured)
        else:
            step = self._step_to_error(measured)
        step = ops.clip(step, 1 / _LARGEST_STEP, _LARGEST_STEP)
        following = ops.clip(ops.astype(control["rate"], "float64") * step, *_RATES)
        return {
            "rate": ops.where(measured["payloads"] > 0, ops.astype(following, "float32"), control["rate"])
        }

    def metrics(self, control: Control, measured: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """Returns the rate, and the error if it is needed."""
        return dict(control) if self.nmse is None else {**control, "nmse": _measured_nmse(measured)}

    def _step_to_bytes(self, bytes_per_client: int, measured: Mapping[str, Scalar]) -> Array:
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

    def _step_to_error(self, measured: Mapping[str, Scalar]) -> Array:
        assert self.nmse is not None
        error = ops.astype(_measured_nmse(measured), "float64")
        found = [adjustment for adjustment in map(adjustment_of, self.encoders) if adjustment is not None]
        if all(adjustment.adjusts == "bits" for adjustment in found):
            return (error / self.nmse) ** _ERROR_EXPONENT
        return (1 - self.nmse) / ops.maximum(1 - error, _TINY)


def _are_rules(encoder: object) -> TypeGuard[Mapping[str, Any] | Sequence[Any]]:
    """Returns whether these are rules. `component_config` writes a component as a mapping with a name."""
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
    """Returns the least size of a tensor's buffer; a body of unknown size counts 0."""
    adjustment = adjustment_of(encoder)
    if adjustment is not None:
        body = adjustment.min_bytes(spec)
    else:
        body = ops.num_elements(spec) * ops.itemsize(spec.dtype) if encoder.wire_id == Identity.wire_id else 0
    return container_bytes(encoder.wire_id, spec) + body


def _measured_nmse(measured: Mapping[str, Scalar]) -> Array:
    """Returns the normalised mean squared error of a round, a float32 scalar; 0 if all tensors were zero."""
    return ops.divide_no_nan(measured["squared_error"], measured["squared_norm"])


def _squares(x: Array, sent: Array, next_state: State) -> tuple[Array, Array]:
    """Returns ``||a - sent||^2`` and ``||a||^2``, where a is ``sent`` plus the residual if there is one."""
    lost = ops.astype(next_state.get("residual", x - sent), "float64")
    return _square(lost), _square(lost + ops.astype(sent, "float64"))


def _square(x: Array) -> Array:
    mean = ops.mean_magnitude(ops.reshape(x * x, [-1]))  # a sum whose order does not depend on threads
    return ops.astype(mean * ops.astype(ops.size(x), x.dtype), "float32")
