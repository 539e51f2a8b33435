"""Encoders: each compresses one tensor at a time, functionally. The contract is in `base`.

Most are a `Pipeline` of stages, whose contracts are in `stages`. An `EncoderAssignment` encodes a whole
model, with different encoders for different tensors.
"""

from __future__ import annotations

from fedplug.encoders import arguments
from fedplug.encoders.assignment import (
    Adjustable,
    Adjustment,
    Control,
    EncoderAssignment,
    RateControl,
    adjustment_of,
)
from fedplug.encoders.assignments.auto import Auto
from fedplug.encoders.assignments.budget import Budget
from fedplug.encoders.assignments.rules import Rule, Rules
from fedplug.encoders.base import BodyParts, Encoder, Measured, Payload, State
from fedplug.encoders.model.model_encoder import ModelEncoder
from fedplug.encoders.model.trials import BreakEven, break_even
from fedplug.encoders.pipeline.pipeline import Pipeline
from fedplug.encoders.quantizers import Identity
from fedplug.encoders.sparsifiers import TopK
from fedplug.encoders.stages import (
    EntropyCoder,
    IndexCoder,
    PackedSymbols,
    Quantizer,
    Selection,
    Sparsifier,
    Sparsity,
)

__all__ = [
    "Adjustable",
    "Adjustment",
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
    "Measured",
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
    "adjustment_of",
    "arguments",
    "break_even",
]
