"""The compiled kernels on tensors, each beside a reference of stock TensorFlow ops that gives the same bits.

Beside the ops are the few neutral steps that encoders need between them: bytes of tensors and back, refusing
hostile bytes, reproducible random numbers. Functional: arguments are never changed, but the variables of what
ends in ``_update``. Nothing here is differentiable. Importing this package loads no shared object; the op
library is loaded when the first compiled op is built.
"""

from __future__ import annotations

from fedplug.ops._loader import op_library
from fedplug.ops.block_scaling import block_count, block_scales, scales_from_bytes
from fedplug.ops.checks import of_length, require
from fedplug.ops.checksum import crc32
from fedplug.ops.container import frame, unframe
from fedplug.ops.floats import wide_dtype, widened
from fedplug.ops.index_code import IndexForm, decode_indices, encode_indices
from fedplug.ops.lowering import Lowering, available, resolve_lowering, use_lowering
from fedplug.ops.mean_magnitude import mean_magnitude
from fedplug.ops.packing import pack, packed_size, unpack
from fedplug.ops.prng import dither, round_seed, shared_uniform
from fedplug.ops.random_indices import draw_indices
from fedplug.ops.scatter import scatter_decode, scatter_decode_add, scatter_decode_update
from fedplug.ops.serialization import from_bytes, to_bytes
from fedplug.ops.sparse_form import sparse_body, split_sparse_body
from fedplug.ops.symbol_code import decode_symbols, encode_symbols
from fedplug.ops.threshold import AboveThreshold, threshold_residual
from fedplug.ops.topk import GroupedTopK, TopK, grouped_topk_residual, topk_residual
from fedplug.ops.topk_momentum import TopKMomentum, topk_momentum
from fedplug.ops.topk_update import (
    GroupedTopKUpdate,
    TopKUpdate,
    grouped_topk_residual_update,
    topk_residual_update,
)
from fedplug.ops.value_code import ValueForm, decode_values, encode_values

__all__ = [
    "AboveThreshold",
    "GroupedTopK",
    "GroupedTopKUpdate",
    "IndexForm",
    "Lowering",
    "TopK",
    "TopKMomentum",
    "TopKUpdate",
    "ValueForm",
    "available",
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
    "frame",
    "from_bytes",
    "grouped_topk_residual",
    "grouped_topk_residual_update",
    "mean_magnitude",
    "of_length",
    "op_library",
    "pack",
    "packed_size",
    "require",
    "resolve_lowering",
    "round_seed",
    "scales_from_bytes",
    "scatter_decode",
    "scatter_decode_add",
    "scatter_decode_update",
    "shared_uniform",
    "sparse_body",
    "split_sparse_body",
    "threshold_residual",
    "to_bytes",
    "topk_momentum",
    "topk_residual",
    "topk_residual_update",
    "unframe",
    "unpack",
    "use_lowering",
    "wide_dtype",
    "widened",
]
