"""The declarations of this distribution, found through its entry point in the group ``fedplug.v1``.

fedplug imports this module whenever it lists plugins, so it imports only fedplug's hooks and specs.
"""

from __future__ import annotations

from fedplug.registry.hookspecs import hookimpl
from fedplug.registry.specs import EXECUTIONS, EncoderSpec, OpLibrarySpec


@hookimpl
def fedplug_encoders() -> list[EncoderSpec]:
    """Declares the encoder."""
    return [
        EncoderSpec(
            name="countsketch",
            target="fedplug_sketch.encoder:CountSketch",
            summary="random sums of elements; sums of payloads are payloads of sums",
            examples=("countsketch(0.5)", "countsketch(0.5, rows=3)"),
            wire_id="countsketch/1",
            executes_on=EXECUTIONS,
        )
    ]


@hookimpl
def fedplug_op_libraries() -> list[OpLibrarySpec]:
    """Declares the op library."""
    return [
        OpLibrarySpec(
            name="sketch",
            target="fedplug_sketch:_sketch_ops.so",
            summary="count-sketch and its estimates",
        )
    ]
