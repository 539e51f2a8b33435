"""Decimal units for numbers of bytes; the caller decides on the number of digits."""

from __future__ import annotations

__all__ = ["byte_unit"]

_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))


def byte_unit(largest: float) -> tuple[float, str]:
    """Returns the size and the name of the decimal unit for byte counts up to ``largest``."""
    return next((unit for unit in _UNITS if largest >= unit[0]), _UNITS[-1])
