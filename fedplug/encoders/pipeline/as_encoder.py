"""Encoders as they are written inside other components' arguments."""

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
    """The encoder or assignment that an argument stands for; anything else is returned unchanged.

    Args:
        value: As for `fedplug.registry.config.as_component`; a sparsifier or quantizer stands for a pipeline
            of that stage.

    Raises:
        ConfigError: It cannot be read, or a component refuses its arguments.
        UnknownNameError: No such component, or no such argument.
    """
    component = as_component(value)
    return Pipeline([component]) if isinstance(component, Sparsifier | Quantizer) else component


def as_tensor_encoder(value: Any, what: str) -> Encoder:
    """The same where only an encoder of one tensor will do.

    Args:
        value: As for `as_encoder`.
        what: What it is needed for, as in "the encoder of a rule"; for the message.

    Raises:
        ConfigError: It is something else, or cannot be read.
        UnknownNameError: No such component.
    """
    encoder = as_encoder(value)
    if not isinstance(encoder, Encoder):
        raise ConfigError(f"{what} is {encoder!r}; it must be one for a tensor, such as 'topk(0.01)'")
    return encoder


def without_error_feedback(encoder: Any) -> Any:
    """The same encoder or assignment with every error feedback in it switched off."""
    return encoder.from_config(_switched_off(encoder.get_config()))


def _switched_off(config: Any) -> Any:
    """A configuration with every ``error_feedback`` in it set to false."""
    if isinstance(config, Mapping):
        return {key: key != "error_feedback" and _switched_off(value) for key, value in config.items()}
    return [_switched_off(value) for value in config] if isinstance(config, list) else config
