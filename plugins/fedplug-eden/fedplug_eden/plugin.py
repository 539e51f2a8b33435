"""What this distribution brings; named by its entry point in the group ``fedplug.v1``.

Must import nothing but fedplug's hooks and specs, as it is looked at whenever fedplug lists its plugins.
"""

from __future__ import annotations

from fedplug.registry.hookspecs import hookimpl
from fedplug.registry.specs import EXECUTIONS, EncoderSpec


@hookimpl
def fedplug_encoders() -> list[EncoderSpec]:
    """One encoder."""
    return [
        EncoderSpec(
            name="eden",
            target="fedplug_eden.encoder:Eden",
            summary="1 to 8 bits an element after a random rotation",
            wire_id="eden/1",
            executes_on=EXECUTIONS,
        )
    ]
