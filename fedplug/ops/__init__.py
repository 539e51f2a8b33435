"""Operations on arrays, for writing encoders.

An op gives the same bits on NumPy arrays and on TensorFlow tensors. On NumPy arrays it runs at once, through
`fedplug.kernels`. On TensorFlow tensors it builds the compiled op if the op library can be loaded, and else
its reference of stock TensorFlow ops. A few ops also run on a `fedplug.ops.device_array.DeviceArray`.
`fedplug.ops.dispatch` chooses between these.

Ops do not change their arguments, except residuals that the caller donated (`fedplug.ops.donation`). A
gradient through a kernel is refused with a LookupError. Array functions have the gradients of TensorFlow.
Importing this package loads neither TensorFlow nor the op library (`load_library`).

Many ops have an argument ``lowering``: "fused" for the compiled TensorFlow op, "reference" for its reference,
"auto" for either. None takes the value of `fedplug.ops.lowering.use_lowering`. A call that names a lowering
runs on TensorFlow, whatever its arguments are. It raises an `UnknownNameError` for another word, and an
`OpLibraryError` for "fused" if the op library cannot be loaded.

On NumPy arrays, invalid untrusted bytes raise a `fedplug.errors.PayloadError`, and other invalid arguments an
`ArgumentError` or a `NonFiniteError`. In TensorFlow, all of these are a `tf.errors.InvalidArgumentError` when
the graph runs. While the graph is built, a wrong static shape raises a ValueError.

A wrong dtype raises a `fedplug.errors.DTypeError`, which is an ArgumentError and a TypeError. Counts,
indices, bits, sizes, seeds and rounds must be of an integer type: 2.0, True and "2" are refused, and a number
is never cut or wrapped to fit.
"""

from __future__ import annotations

from fedplug.ops import arrays
from fedplug.ops.arrays import *  # noqa: F403
from fedplug.ops.checks import all_finite, of_length, require, require_finite
from fedplug.ops.container import frame, sparse_body, split_sparse_body, unframe
from fedplug.ops.index_code import decode_indices, draw_indices, encode_indices
from fedplug.ops.low_rank import low_rank_matrix, matrix_times, orthonormal_columns
from fedplug.ops.lowering import load_library
from fedplug.ops.packing import pack, packed_size, unpack
from fedplug.ops.prng import dither, random_words, round_seed, shared_uniform
from fedplug.ops.scales import block_count, block_scales, mean_magnitude
from fedplug.ops.scatter import scatter_decode, scatter_decode_add, take_from_sum
from fedplug.ops.serialization import crc32, finite_from_bytes, from_bytes, to_bytes
from fedplug.ops.spec import (
    has_known_shape,
    is_floating,
    itemsize,
    narrowed,
    num_elements,
    spec_of,
    wide_dtype,
    wide_spec,
    widened,
)
from fedplug.ops.statistics import subset_bits, sum_of_squares, symbol_bits
from fedplug.ops.symbol_code import decode_symbols, encode_symbols
from fedplug.ops.topk import grouped_topk_residual, topk_residual
from fedplug.ops.value_code import decode_values, encode_values

__all__ = [
    "all_finite",
    "block_count",
    "block_scales",
    "crc32",
    "decode_indices",
    "decode_symbols",
    "decode_values",
    "dither",
    "draw_indices",
    "encode_indices",
    "encode_symbols",
    "encode_values",
    "finite_from_bytes",
    "frame",
    "from_bytes",
    "grouped_topk_residual",
    "has_known_shape",
    "is_floating",
    "itemsize",
    "load_library",
    "low_rank_matrix",
    "matrix_times",
    "mean_magnitude",
    "narrowed",
    "num_elements",
    "of_length",
    "orthonormal_columns",
    "pack",
    "packed_size",
    "random_words",
    "require",
    "require_finite",
    "round_seed",
    "scatter_decode",
    "scatter_decode_add",
    "shared_uniform",
    "sparse_body",
    "spec_of",
    "split_sparse_body",
    "subset_bits",
    "sum_of_squares",
    "symbol_bits",
    "take_from_sum",
    "to_bytes",
    "topk_residual",
    "unframe",
    "unpack",
    "wide_dtype",
    "wide_spec",
    "widened",
]
__all__ += arrays.__all__
