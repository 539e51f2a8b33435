"""The ops on device arrays. They are in the package fedplug-cuda, which need not be installed.

Each module is imported on first use. No other file of fedplug imports fedplug-cuda.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from fedplug.registry.first_use import imported_on_first_use

if TYPE_CHECKING:
    from fedplug_cuda.ops import (
        arrays,
        checks,
        chunked_topk,
        floats,
        gather_sum,
        rotated_code,
        scatter,
        sums,
        threshold,
        topk,
        topk_momentum,
        value_code,
    )

__all__ = [
    "arrays",
    "checks",
    "chunked_topk",
    "floats",
    "gather_sum",
    "rotated_code",
    "scatter",
    "sums",
    "threshold",
    "topk",
    "topk_momentum",
    "value_code",
]

_PACKAGE = "fedplug_cuda.ops"

if not TYPE_CHECKING:  # a type checker would take this for "any name exists"
    _module = imported_on_first_use(_PACKAGE, {name: f"{_PACKAGE}.{name}" for name in __all__})
    __getattr__ = functools.cache(_module)  # every call of an op asks
