"""Checks of the arguments of encoders and stages, with the same errors everywhere.

``what`` is the encoder and its argument, as in "topk count".
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from fedplug.errors import ConfigError

__all__ = [
    "MOST_LOG2_BLOCK_SIZE",
    "check_block_size",
    "check_error_feedback",
    "check_number",
    "check_seed",
    "check_share",
    "check_whole",
]

_MAX_SEED = 2**31 - 1
MOST_LOG2_BLOCK_SIZE = 20
_MAX_BLOCK = 2**MOST_LOG2_BLOCK_SIZE


def check_number(what: str, value: Any, allowed: Callable[[float], bool], range_: str) -> None:
    """Raises ConfigError unless ``value`` is an allowed finite number. ``range_`` describes the range."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not abs(value) <= sys.float_info.max or not allowed(value):
        raise ConfigError(f"{what} is {value!r}; it must be a number {range_}")


def check_share(what: str, value: object) -> None:
    """Raises ConfigError unless ``value`` is a number above 0 and at most 1."""
    check_number(what, value, lambda share: 0 < share <= 1, "above 0 and at most 1")


def check_whole(what: str, value: Any, least: int, most: int | None = None) -> None:
    """Raises ConfigError unless ``value`` is a whole number from ``least`` to ``most``."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or value < least or (most is not None and value > most):
        range_ = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise ConfigError(f"{what} is {value!r}; it must be a whole number {range_}")


def check_error_feedback(encoder: str, error_feedback: bool) -> None:
    """Raises ConfigError unless ``error_feedback`` is true or false."""
    if not isinstance(error_feedback, bool):
        raise ConfigError(f"{encoder} error_feedback is {error_feedback!r}; it must be true or false")


def check_seed(encoder: str, seed: int) -> None:
    """Raises ConfigError unless ``seed`` is a whole number from 0 to 2^31 - 1."""
    check_whole(f"{encoder} seed", seed, 0, _MAX_SEED)


def check_block_size(encoder: str, size: int) -> None:
    """Raises ConfigError unless ``size`` is a power of two from 1 to 2^20."""
    if (
        not isinstance(size, int)
        or isinstance(size, bool)
        or not 1 <= size <= _MAX_BLOCK
        or size & (size - 1)
    ):
        raise ConfigError(
            f"{encoder} block_size is {size!r}; it must be a power of two, at most {_MAX_BLOCK}"
        )
