"""Encoders: each compresses one tensor at a time, functionally. The contract is in `base`.

Most are a `Pipeline` of stages, whose contracts are in `stages`. What encodes a whole model, with
another encoder for other tensors, is an `EncoderAssignment`.
"""

from __future__ import annotations

from fedplug.encoders.assignment.auto import Auto
from fedplug.encoders.assignment.base import EncoderAssignment
from fedplug.encoders.assignment.budget import Budget
from fedplug.encoders.assignment.rate_control import Control, RateControl
from fedplug.encoders.assignment.rules import Rule, Rules
from fedplug.encoders.base import Adjustable, BodyParts, Encoder, Payload, State
from fedplug.encoders.break_even import BreakEven, break_even
from fedplug.encoders.identity import Identity
from fedplug.encoders.model import ModelEncoder
from fedplug.encoders.pipeline import Pipeline
from fedplug.encoders.sparsifiers.sparsity import Sparsity
from fedplug.encoders.sparsifiers.topk import TopK
from fedplug.encoders.stages import (
    EntropyCoder,
    IndexCoder,
    PackedSymbols,
    Quantizer,
    Selection,
    Sparsifier,
)

__all__ = [
    "Adjustable",
    "Auto",
    "BodyParts",
    "BreakEven",
    "Budget",
    "Control",
    "Encoder",
    "EncoderAssignment",
    "EntropyCoder",
    "Identity",
    "IndexCoder",
    "ModelEncoder",
    "PackedSymbols",
    "Payload",
    "Pipeline",
    "Quantizer",
    "RateControl",
    "Rule",
    "Rules",
    "Selection",
    "Sparsifier",
    "Sparsity",
    "State",
    "TopK",
    "break_even",
]
