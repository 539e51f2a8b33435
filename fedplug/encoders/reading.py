"""Encoders as they are written inside other parts' arguments: objects, expressions, JSON values.

Knows the registry, by which names are read, and the contract; must not know any encoder.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedplug import api
from fedplug.encoders.base import Encoder
from fedplug.errors import ConfigError

__all__ = ["as_component", "as_tensor_encoder", "component_config"]


def as_component(value: Any) -> Any:
    """The encoder, stage or rules that an argument stands for.

    Args:
        value: An expression such as ``"topk(0.01)"``, or ``"rice"`` for a stage; ``{"name": ..., "config":
            {...}}``, as `component_config` writes it; anything else is returned as it is.

    Raises:
        ConfigError: It cannot be read, or the part refuses its arguments.
        UnknownNameError: No such part, or no such argument.
    """
    if isinstance(value, str):
        parts = api.stages(value)
        return parts[0] if len(parts) == 1 else api.composed(parts)
    if not isinstance(value, Mapping):
        return value
    if not {"name"} <= set(value) <= {"name", "config"}:
        raise ConfigError(f"{dict(value)!r} is no encoder; it must have a name and a config")
    return api.from_config({"kind": "encoder", **value})


def as_tensor_encoder(value: Any, what: str) -> Encoder:
    """The same where only an encoder of one tensor will do.

    Args:
        value: As for `as_component`.
        what: What it is needed for, as in "the encoder of a rule"; for the message.

    Raises:
        ConfigError: It is something else, or cannot be read.
        UnknownNameError: No such part.
    """
    part = as_component(value)
    if not isinstance(part, Encoder):
        raise ConfigError(f"{what} is {part!r}; it must be one for a tensor, such as 'topk(0.01)'")
    return part


def component_config(part: Any) -> dict[str, Any]:
    """A part as JSON values: ``{"name": ..., "config": {...}}``."""
    return {"name": part.name, "config": part.get_config()}
