"""Any encoder on NumPy arrays: bytes out, arrays in. Must not know TensorFlow, processes or runtimes.

``codec`` makes bytes of arrays, ``decode`` arrays of bytes without any configuration, and ``Sum`` adds
payloads up. docs/codec.md says what is promised.
"""

from __future__ import annotations

from fedplug.codecs.encoding import Codec, codec
from fedplug.codecs.reading import DEFAULT_MAX_BYTES, decode, decode_model
from fedplug.codecs.sums import Sum

__all__ = ["DEFAULT_MAX_BYTES", "Codec", "Sum", "codec", "decode", "decode_model"]
