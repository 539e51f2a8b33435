"""Checks of the arguments of the built-in schedules."""

from __future__ import annotations

import sys

from fedplug.errors import ConfigError
from fedplug.schedules.base import MAX_ROUNDS

__all__ = ["check_number", "check_rounds"]


def check_number(what: str, value: object) -> None:
    """Raises `ConfigError` unless the value is a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        raise ConfigError(f"{what} is {value!r}; it must be a finite number")


def check_rounds(what: str, value: object, least: int) -> None:
    """Raises `ConfigError` unless the value is a whole number of rounds from ``least`` to `MAX_ROUNDS`."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MAX_ROUNDS:
        raise ConfigError(
            f"{what} is {value!r}; it must be a whole number of rounds, {least} to {MAX_ROUNDS}"
        )
