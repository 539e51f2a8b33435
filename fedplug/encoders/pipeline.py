"""Pipelines: ``sparsifier | quantizer | entropy coder | index coder`` as one encoder.

Knows the contracts of the stages; must not know any particular stage but the defaults, nor TFF.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Self

import tensorflow as tf

from fedplug import wire
from fedplug.encoders.assignment.base import EncoderAssignment
from fedplug.encoders.base import Encoder, Payload, State
from fedplug.encoders.coders.index import Rice
from fedplug.encoders.entropy_coded import EntropyCoded
from fedplug.encoders.entropy_coder import EntropyCoder
from fedplug.encoders.index_coder import IndexCoder
from fedplug.encoders.quantizer import Quantizer
from fedplug.encoders.quantizers.qsgd import QSGD
from fedplug.encoders.quantizers.raw import Raw
from fedplug.encoders.reading import as_component, component_config
from fedplug.encoders.sparse_form import SparseEncoder, SparseForm
from fedplug.encoders.sparsifier import Selection, Sparsifier
from fedplug.encoders.sparsifiers.topk import TopK
from fedplug.errors import CapabilityError, ConfigError
from fedplug.registry.specs import Capabilities

__all__ = ["Pipeline", "Stage"]

Stage = Encoder | EntropyCoder | IndexCoder

_ROLES: tuple[tuple[type, str], ...] = (
    (Sparsifier, "a sparsifier"),
    (Quantizer, "a quantizer"),
    (EntropyCoder, "an entropy coder"),
    (IndexCoder, "an index coder"),
)
_ENTROPY_CODER = 2


class Pipeline(SparseEncoder):
    """The sparsifier chooses entries, the quantizer shortens their values, the index coder their indices.

    An entropy coder after the quantizer shortens what that wrote; see `EntropyCoded`.

    With error feedback the sparsifier's residual also takes what the quantizer lost of the chosen entries, so
    that ``decode(payload) + residual' == x + residual`` up to the rounding of one subtraction.

    Written as ``fedplug.encoder("topk(0.01) | qsgd(8) | rice")``. Quantizer and index coder may be left out:
    values then go as they are, and indices through the sparsifier's own coder.

    Wire form: see `SparseForm`; the wire id names those of quantizer and index coder, for instance
    "sparse+qsgd/1+rice/1". Bytes per element: those of the index code, plus k/n times the quantizer's.
    """

    name: ClassVar[str] = "pipeline"

    def __init__(self, stages: Sequence[Stage | str | Mapping[str, Any]]) -> None:
        """Makes the encoder.

        Args:
            stages: A sparsifier, then perhaps a quantizer, and an entropy coder for it, then perhaps an index
                coder; each the part itself, an expression, or ``{"name": ..., "config": {...}}``.

        Raises:
            CapabilityError: The stages are not in this order, or the entropy coder finds nothing to shorten.
            ConfigError: A configuration cannot be read, or together they have too long a wire id.
            UnknownNameError: No such stage.
        """
        if isinstance(stages, str | Mapping):
            raise ConfigError(f"the stages of a pipeline are {stages!r}; give a list of them")
        parts = [as_component(stage) for stage in stages]
        _check_order(parts)
        self._stages = parts
        self._sparsifier: Sparsifier = next(part for part in parts if isinstance(part, Sparsifier))
        self._form = SparseForm(
            _quantizer(parts),
            next((part for part in parts if isinstance(part, IndexCoder)), self._sparsifier.index_coder),
        )
        if len(self.wire_id) > wire.MAX_WIRE_ID:
            raise ConfigError(
                f"a wire id has at most {wire.MAX_WIRE_ID} characters, and that of {self!r} is longer: "
                f"{self.wire_id!r}; its stages need shorter ones"
            )

    @classmethod
    def compose(cls, parts: Sequence[Any]) -> Encoder | EncoderAssignment:
        """What these stages mean together.

        A single encoder is itself, a quantizer and an entropy coder are one, everything else is a pipeline.
        """
        if len(parts) == 1 and isinstance(parts[0], Encoder | EncoderAssignment):
            return parts[0]
        if len(parts) == 2 and isinstance(parts[0], Quantizer) and isinstance(parts[1], EntropyCoder):
            return EntropyCoded(*parts)
        return cls(parts)

    @property
    def form(self) -> SparseForm:
        """The quantizer's values, the coder's indices."""
        return self._form

    @property
    def wire_id(self) -> str:  # type: ignore[override]  # a constant of every other encoder
        """See the class."""
        return self._form.wire_id

    @property
    def capabilities(self) -> Capabilities:
        """What the sparsifier promises, as far as the quantizer keeps it."""
        kept, values = self._sparsifier.capabilities, self._form.quantizer.capabilities
        return Capabilities(
            unbiased=kept.unbiased and values.unbiased,
            needs_client_state=kept.needs_client_state,
            needs_seed=kept.needs_seed or values.needs_seed,
            bounded_sensitivity=kept.bounded_sensitivity and values.bounded_sensitivity,
            dtypes=tuple(dtype for dtype in kept.dtypes if dtype in values.dtypes),
        )

    def get_config(self) -> dict[str, Any]:
        """The stages that were given, by name and configuration."""
        return {"stages": [component_config(part) for part in self._stages]}

    def init_state(self, spec: tf.TensorSpec) -> State:
        """The sparsifier's."""
        return self._sparsifier.init_state(spec)

    def encode(self, x: tf.Tensor, state: State, round_num: tf.Tensor) -> tuple[Payload, State]:
        """See the class, and `SparseForm` for the payload."""
        return self._as_payload(x, self._sparsifier.select(x, state, round_num), round_num)

    def grouped_encode(
        self, xs: Sequence[tf.Tensor], states: Sequence[State], round_num: tf.Tensor
    ) -> list[tuple[Payload, State]]:
        """What the sparsifier chooses from all of them, each as a payload of its own."""
        selections = self._sparsifier.grouped_select(xs, states, round_num)
        return [self._as_payload(x, chosen, round_num) for x, chosen in zip(xs, selections, strict=True)]

    def _as_payload(self, x: tf.Tensor, chosen: Selection, round_num: tf.Tensor) -> tuple[Payload, State]:
        payload = self._form.payload(chosen.values, chosen.indices, x.shape.num_elements(), round_num)
        lost = chosen.values - self._form.values(payload, x.dtype)
        return payload, self._sparsifier.update_residual(chosen.state, lost, chosen.indices)

    @property
    def adjustable(self) -> bool:
        """As the sparsifier is."""
        return self._sparsifier.adjustable

    def at_rate(self, rate: tf.Tensor) -> Self:
        """With the sparsifier at that rate."""
        adjusted = copy.copy(self)
        adjusted._sparsifier = self._sparsifier.at_rate(rate)
        return adjusted

    def __repr__(self) -> str:
        return " | ".join(map(repr, self._stages))


def _quantizer(parts: Sequence[Any]) -> Quantizer:
    """What the values go through, the entropy coder included."""
    quantizer = next((part for part in parts if isinstance(part, Quantizer)), Raw())
    coder = next((part for part in parts if isinstance(part, EntropyCoder)), None)
    return quantizer if coder is None else EntropyCoded(quantizer, coder)


def _check_order(parts: Sequence[Any]) -> None:
    """The stages as the roles are listed: the first must be there, and none may come twice.

    Before an entropy coder there must be a quantizer, too.
    """
    if not parts:
        raise ConfigError("a pipeline has no stages; it needs at least a sparsifier, for instance topk(0.01)")
    places = [_place(part, parts) for part in parts]
    if places[0] != 0:
        raise CapabilityError(
            "a pipeline begins with a sparsifier, which leaves values to quantize and indices to code; "
            f"{parts[0]!r} is {_ROLES[places[0]][1]}; use {_remedy(parts)}"
        )
    for (left, left_place), (right, right_place) in pairwise(zip(parts, places, strict=True)):
        if left_place >= right_place:
            raise CapabilityError(
                "the stages of a pipeline are sparsifier | quantizer | entropy coder | index coder, each at "
                "most once; "
                f"{left!r} is {_ROLES[left_place][1]} and cannot be followed by {right!r}, "
                f"{_ROLES[right_place][1]}; use {_remedy(parts)}"
            )
    if _ENTROPY_CODER in places and _ENTROPY_CODER - 1 not in places:
        raise CapabilityError(
            f"{parts[places.index(_ENTROPY_CODER)]!r} is an entropy coder, which shortens what a quantizer "
            f"wrote, and there is none before it; use {_remedy(parts)}"
        )


def _place(part: Any, parts: Sequence[Any]) -> int:
    for place, (role, _) in enumerate(_ROLES):
        if isinstance(part, role):
            return place
    raise CapabilityError(
        f"{part!r} is neither a sparsifier nor a quantizer nor an entropy coder nor an index coder, so it "
        f"cannot be a stage of a pipeline; use it alone, or {_remedy(parts)}"
    )


def _remedy(parts: Sequence[Any]) -> str:
    """A stack that works, made of these parts as far as there is a place for them."""
    coded = any(isinstance(part, EntropyCoder) for part in parts)
    defaults: tuple[Any, ...] = (TopK(0.01), QSGD() if coded else None, None, Rice())
    chosen = [
        next((part for part in parts if isinstance(part, role)), default)
        for (role, _), default in zip(_ROLES, defaults, strict=True)
    ]
    return repr(" | ".join(repr(part) for part in chosen if part is not None))
