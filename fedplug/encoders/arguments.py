"""Refusing arguments of encoders that several of them take. Must not know TensorFlow, nor any encoder."""

from __future__ import annotations

from fedplug.errors import ConfigError

__all__ = ["check_error_feedback", "check_seed"]

_MAX_SEED = 2**31 - 1


def check_error_feedback(encoder: str, error_feedback: bool) -> None:
    """Raises ConfigError unless ``error_feedback`` is true or false."""
    if not isinstance(error_feedback, bool):
        raise ConfigError(f"{encoder} error_feedback is {error_feedback!r}; it must be true or false")


def check_seed(encoder: str, seed: int) -> None:
    """Raises ConfigError unless ``seed`` is a whole number from 0 to 2^31 - 1."""
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed <= _MAX_SEED:
        raise ConfigError(f"{encoder} seed is {seed!r}; it must be a whole number from 0 to {_MAX_SEED}")
