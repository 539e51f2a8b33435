"""Encoders: each compresses one tensor at a time, functionally. The contract is in `base`."""

from __future__ import annotations

from fedplug.encoders.base import Encoder, Payload, State
from fedplug.encoders.identity import Identity
from fedplug.encoders.model import ModelEncoder
from fedplug.encoders.topk import TopK

__all__ = ["Encoder", "Identity", "ModelEncoder", "Payload", "State", "TopK"]
