"""Encodes parts of a model's tensors, such as blocks of rows, by the encoders of the whole tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from fedplug.encoders.assignment import EncoderAssignment
from fedplug.encoders.base import Encoder
from fedplug.encoders.rate_control import RateControl
from fedplug.ops.types import Spec
from fedplug.registry.config import component_config
from fedplug.registry.specs import Capabilities

__all__ = ["Slices"]


class Slices(EncoderAssignment):
    """The assignment of `fedplug.Codec.for_slices`. It has the text of the encoder for the whole model."""

    name: ClassVar[str] = "slices"

    def __init__(
        self, whole: Encoder | EncoderAssignment, encoders: Mapping[str, Encoder], share: float
    ) -> None:
        """Takes the encoder of the model, that of each part by name, and the parts' share of a budget."""
        self._whole, self._encoders, self._share = whole, dict(encoders), share

    @property
    def capabilities(self) -> Capabilities:
        """The capabilities of the encoder for the whole model."""
        return self._whole.capabilities

    def get_config(self) -> dict[str, Any]:
        parts = {name: component_config(encoder) for name, encoder in self._encoders.items()}
        return {"whole": component_config(self._whole), "encoders": parts, "share": self._share}

    def assign(self, specs: Sequence[Spec]) -> list[Encoder]:
        """Returns the encoder of each part, for any of the parts."""
        return [self._encoders[spec.name or ""] for spec in specs]

    def encodes_statistic(self, spec: Spec) -> bool:
        """Returns True: the encoder of the whole model has decided."""
        del spec
        return True

    def rate_control(self, encoders: Sequence[Encoder], specs: Sequence[Spec]) -> RateControl | None:
        """Returns the rate control of the whole model, with these parts' share of the bytes."""
        if not isinstance(self._whole, EncoderAssignment):
            return None
        return self._whole.for_share(self._share).rate_control(encoders, specs)

    def __repr__(self) -> str:
        return repr(self._whole)
