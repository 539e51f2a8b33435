"""Any encoder on NumPy arrays, without TensorFlow: arrays to payloads, and payloads to arrays.

`codec` returns a codec, which encodes arrays. `decode` decodes payloads without a configuration. `Sum` and
`ModelSum` add payloads. `ClientCodec` keeps a client's state in a store. `TensorMetrics` measures how each
array is compressed. docs/codec.md has the guarantees.
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
