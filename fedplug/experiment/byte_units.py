"""Decimal units for numbers of bytes; how many digits are shown is up to the caller. Imports nothing."""

from __future__ import annotations

__all__ = ["byte_unit"]

_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))


def byte_unit(largest: float) -> tuple[float, str]:
    """The decimal unit for numbers of bytes up to the largest: how many bytes it has, and its name."""
    return next((unit for unit in _UNITS if largest >= unit[0]), _UNITS[-1])
