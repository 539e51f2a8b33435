"""Any encoder on NumPy arrays: bytes out, arrays in. Must not know TensorFlow, processes or runtimes.

``codec`` makes bytes of arrays, ``decode`` arrays of bytes without any configuration, ``Sum`` and
``ModelSum`` add payloads up, ``ClientCodec`` keeps a client's state in a store, and ``TensorMetrics`` tells
what became of each array. docs/codec.md says what is promised.
"""

from __future__ import annotations

from fedplug.codecs.client import ClientCodec
from fedplug.codecs.decoding import DEFAULT_MAX_BYTES, decode, decode_model
from fedplug.codecs.encoding import Codec, codec
from fedplug.codecs.metrics import TensorMetrics
from fedplug.codecs.sums import ModelSum, Sum
from fedplug.codecs.wire_ids import BUILT_IN

__all__ = [
    "BUILT_IN",
    "DEFAULT_MAX_BYTES",
    "ClientCodec",
    "Codec",
    "ModelSum",
    "Sum",
    "TensorMetrics",
    "codec",
    "decode",
    "decode_model",
]
