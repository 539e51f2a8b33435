"""Encoders as they are written inside other parts' arguments: objects, expressions, JSON values.

Knows the registry, by which names are read; must not know any encoder.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedplug import api, manager
from fedplug.errors import ConfigError

__all__ = ["as_part", "part_config"]


def as_part(value: Any) -> Any:
    """The encoder, stage or rules that an argument stands for.

    Args:
        value: An expression such as ``"topk(0.01)"``; ``{"name": ..., "config": {...}}``, as `part_config`
            writes it; anything else is returned as it is.

    Raises:
        ConfigError: It cannot be read.
        UnknownNameError: No such part.
    """
    if isinstance(value, str):
        return api.encoder(value)
    if not isinstance(value, Mapping):
        return value
    if not {"name"} <= set(value) <= {"name", "config"}:
        raise ConfigError(f"{dict(value)!r} is no encoder; it must have a name and a config")
    return manager.resolve("encoder", value["name"]).from_config(value.get("config", {}))


def part_config(part: Any) -> dict[str, Any]:
    """A part as JSON values: ``{"name": ..., "config": {...}}``."""
    return {"name": part.name, "config": part.get_config()}
