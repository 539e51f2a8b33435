"""Encoders as arguments of other components."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedplug.encoders.base import Encoder
from fedplug.encoders.pipeline.pipeline import Pipeline
from fedplug.encoders.stages import Quantizer, Sparsifier
from fedplug.errors import ConfigError
from fedplug.registry.config import as_component

__all__ = ["as_encoder", "as_tensor_encoder", "without_error_feedback"]


def as_encoder(value: Any) -> Any:
    """Returns the encoder or assignment that an argument describes. Other values are returned unchanged.

    Args:
        value: The argument, as for `fedplug.registry.config.as_component`; a sparsifier or quantizer becomes
            a pipeline of that stage.

    Raises:
        ConfigError: The argument cannot be read, or a component refuses its arguments.
        UnknownNameError: There is no such component or argument.
    """
    component = as_component(value)
    return Pipeline([component]) if isinstance(component, Sparsifier | Quantizer) else component


def as_tensor_encoder(value: Any, what: str) -> Encoder:
    """Returns the encoder of one tensor that an argument describes.

    Args:
        value: The argument, as for `as_encoder`.
        what: The purpose for the error message, as in "the encoder of a rule".

    Raises:
        ConfigError: The argument is something else, or cannot be read.
        UnknownNameError: There is no such component.
    """
    encoder = as_encoder(value)
    if not isinstance(encoder, Encoder):
        raise ConfigError(f"{what} is {encoder!r}; it must be one for a tensor, such as 'topk(0.01)'")
    return encoder


def without_error_feedback(encoder: Any) -> Any:
    """Returns the same encoder or assignment with all error feedback switched off."""
    return encoder.from_config(_switched_off(encoder.get_config()))


def _switched_off(config: Any) -> Any:
    """Returns a configuration with every ``error_feedback`` set to false."""
    if isinstance(config, Mapping):
        return {key: key != "error_feedback" and _switched_off(value) for key, value in config.items()}
    return [_switched_off(value) for value in config] if isinstance(config, list) else config
