"""The compiled kernels on tensors, each beside a twin made of plain TensorFlow ops that gives the same bits.

The twins of value codes and containers are with those who use them, in `fedplug.encoders`.

Functional: arguments are never changed, but the variables of what ends in ``_update``. Nothing here is
differentiable. Importing this package loads no shared object; the op library is loaded when the first fused
op is built. Must not know TFF, encoders or stores.
"""

from __future__ import annotations

from fedplug.ops._loader import op_library
from fedplug.ops.checksum import crc32
from fedplug.ops.container import frame, unframe
from fedplug.ops.index_code import IndexForm, decode_indices, encode_indices
from fedplug.ops.lowering import Lowering, available, resolve_lowering, use_lowering
from fedplug.ops.random_indices import draw_indices
from fedplug.ops.scatter import scatter_decode, scatter_decode_add, scatter_decode_update
from fedplug.ops.sign import SignCode, sign_residual
from fedplug.ops.symbol_code import decode_symbols, encode_symbols
from fedplug.ops.threshold import AboveThreshold, threshold_residual
from fedplug.ops.topk import GroupedTopK, TopK, grouped_topk_residual, topk_residual
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
    "SignCode",
    "TopK",
    "TopKUpdate",
    "ValueForm",
    "available",
    "crc32",
    "decode_indices",
    "decode_symbols",
    "decode_values",
    "draw_indices",
    "encode_indices",
    "encode_symbols",
    "encode_values",
    "frame",
    "grouped_topk_residual",
    "grouped_topk_residual_update",
    "op_library",
    "resolve_lowering",
    "scatter_decode",
    "scatter_decode_add",
    "scatter_decode_update",
    "sign_residual",
    "threshold_residual",
    "topk_residual",
    "topk_residual_update",
    "unframe",
    "use_lowering",
]
