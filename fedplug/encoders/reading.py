"""Encoders as they are written inside other components' arguments; see `fedplug.registry.config`."""

from __future__ import annotations

from typing import Any

from fedplug.encoders.base import Encoder
from fedplug.registry.config import as_component, component_config

__all__ = ["as_component", "as_tensor_encoder", "component_config"]


def as_tensor_encoder(value: Any, what: str) -> Encoder:
    """The encoder of one tensor that ``value`` stands for. Raises as `as_component`."""
    return as_component(value, of=Encoder, what=what)
