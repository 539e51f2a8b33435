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
            name="powersgd",
            target="fedplug_powersgd.encoder:PowerSGD",
            summary="matrices as products of two thin ones, with error feedback",
            examples=("powersgd(1, min_ratio=1)",),
            wire_id="powersgd/1",
            executes_on=EXECUTIONS,
        )
    ]
