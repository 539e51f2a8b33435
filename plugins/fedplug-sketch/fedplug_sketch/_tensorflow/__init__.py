"""The functions of this package on TensorFlow's tensors. Each module is imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedplug.registry.first_use import imported_on_first_use

if TYPE_CHECKING:
    from fedplug_sketch._tensorflow import ops

__all__ = ["ops"]

if not TYPE_CHECKING:  # a type checker would take this for "any name exists"
    __getattr__ = imported_on_first_use(__name__)
