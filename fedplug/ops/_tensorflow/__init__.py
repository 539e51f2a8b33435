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
    from fedplug.ops._tensorflow import arrays as arrays
    from fedplug.ops._tensorflow import checks as checks
    from fedplug.ops._tensorflow import container as container
    from fedplug.ops._tensorflow import index_code as index_code
    from fedplug.ops._tensorflow import low_rank as low_rank
    from fedplug.ops._tensorflow import packing as packing
    from fedplug.ops._tensorflow import prng as prng
    from fedplug.ops._tensorflow import scales as scales
    from fedplug.ops._tensorflow import scatter as scatter
    from fedplug.ops._tensorflow import serialization as serialization
    from fedplug.ops._tensorflow import spec as spec
    from fedplug.ops._tensorflow import statistics as statistics
    from fedplug.ops._tensorflow import symbol_code as symbol_code
    from fedplug.ops._tensorflow import topk as topk
    from fedplug.ops._tensorflow import value_code as value_code

if not TYPE_CHECKING:  # a type checker would take this for "any name exists"
    __getattr__ = imported_on_first_use(__name__)
