"""Encoders: each compresses one tensor at a time, functionally. The contract is in `base`."""

from __future__ import annotations

from fedplug.encoders.base import Encoder, Payload, State
from fedplug.encoders.identity import Identity
from fedplug.encoders.index_coder import IndexCoder
from fedplug.encoders.model import ModelEncoder
from fedplug.encoders.pipeline import Pipeline
from fedplug.encoders.quantizer import Quantizer
from fedplug.encoders.sparsifier import Selection, Sparsifier
from fedplug.encoders.topk import TopK

__all__ = [
    "Encoder",
    "Identity",
    "IndexCoder",
    "ModelEncoder",
    "Payload",
    "Pipeline",
    "Quantizer",
    "Selection",
    "Sparsifier",
    "State",
    "TopK",
]
