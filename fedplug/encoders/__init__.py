"""Encoders: each compresses one tensor at a time, functionally. The contract is in `base`.

What encodes a whole model, tensor by tensor in different ways, is a `EncoderAssignment`.
"""

from __future__ import annotations

from fedplug.encoders.assignment.base import EncoderAssignment
from fedplug.encoders.assignment.budget import Budget
from fedplug.encoders.assignment.rules import Rule, Rules
from fedplug.encoders.base import Encoder, Payload, State
from fedplug.encoders.break_even import BreakEven, break_even
from fedplug.encoders.entropy_coded import EntropyCoded
from fedplug.encoders.entropy_coder import EntropyCoder
from fedplug.encoders.identity import Identity
from fedplug.encoders.index_coder import IndexCoder
from fedplug.encoders.model import ModelEncoder
from fedplug.encoders.pipeline import Pipeline
from fedplug.encoders.quantizer import PackedSymbols, Quantizer
from fedplug.encoders.sparsifier import Selection, Sparsifier
from fedplug.encoders.sparsifiers.topk import TopK

__all__ = [
    "BreakEven",
    "Budget",
    "Encoder",
    "EncoderAssignment",
    "EntropyCoded",
    "EntropyCoder",
    "Identity",
    "IndexCoder",
    "ModelEncoder",
    "PackedSymbols",
    "Payload",
    "Pipeline",
    "Quantizer",
    "Rule",
    "Rules",
    "Selection",
    "Sparsifier",
    "State",
    "TopK",
    "break_even",
]
