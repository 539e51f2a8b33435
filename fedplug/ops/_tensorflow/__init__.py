"""The ops on TensorFlow's tensors: each calls the compiled op or its reference.

A reference consists of stock TensorFlow ops, for runtimes without custom ops and for tests. It gives the bits
of the compiled op, except for denormal numbers, which TensorFlow flushes to zero.

A module has the functions of the module of the same name in `fedplug.ops`, which documents them. Each module
is imported on first use: importing this package loads no TensorFlow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedplug.registry.first_use import imported_on_first_use

if TYPE_CHECKING:
    from fedplug.ops._tensorflow import (
        arrays,
        checks,
        container,
        index_code,
        low_rank,
        packing,
        prng,
        scales,
        scatter,
        serialization,
        spec,
        statistics,
        symbol_code,
        topk,
        value_code,
    )

__all__ = [
    "arrays",
    "checks",
    "container",
    "index_code",
    "low_rank",
    "packing",
    "prng",
    "scales",
    "scatter",
    "serialization",
    "spec",
    "statistics",
    "symbol_code",
    "topk",
    "value_code",
]

if not TYPE_CHECKING:  # a type checker would take this for "any name exists"
    __getattr__ = imported_on_first_use(__name__)
