"""A plugin package that brings rate control of its own, as a third party would."""

from __future__ import annotations

from fedplug.registry.hookspecs import hookimpl
from fedplug.registry.specs import EncoderSpec


@hookimpl
def fedplug_encoders() -> list[EncoderSpec]:
    """One assignment."""
    return [
        EncoderSpec(
            name="halving",
            target="fedplug_halving.assignment:Halving",
            summary="halves the rate while payloads are too long, and raises it slowly else",
            examples=("halving('topk(0.3)', 200)",),
        )
    ]
