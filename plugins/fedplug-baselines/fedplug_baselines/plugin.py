"""The declarations of this distribution, found through its entry point in the group ``fedplug.v1``.

fedplug imports this module whenever it lists plugins, so it imports only fedplug's hooks and specs.
"""

from __future__ import annotations

from fedplug.registry.hookspecs import hookimpl
from fedplug.registry.specs import EXECUTIONS, EncoderSpec


@hookimpl
def fedplug_encoders() -> list[EncoderSpec]:
    """Declares the methods."""
    return [
        EncoderSpec(
            name="threshold",
            target="fedplug_baselines.threshold:Threshold",
            summary="the entries of at least some magnitude, with error feedback",
            examples=("threshold(0.5)",),
            executes_on=EXECUTIONS,
        ),
        EncoderSpec(
            name="dgc",
            target="fedplug_baselines.dgc:DGC",
            summary="the k largest sums of updates with momentum",
            examples=("dgc(0.3)",),
            executes_on=EXECUTIONS,
        ),
        EncoderSpec(
            name="terngrad",
            target="fedplug_baselines.terngrad:TernGrad",
            summary="-1, 0 or 1 times a scale, with stochastic rounding",
            wire_id="terngrad/1",
            executes_on=EXECUTIONS,
        ),
        EncoderSpec(
            name="eden",
            target="fedplug_baselines.eden:Eden",
            summary="1 to 4 bits per element after a random rotation",
            wire_id="eden/1",
            executes_on=EXECUTIONS,
        ),
        EncoderSpec(
            name="powersgd",
            target="fedplug_baselines.powersgd:PowerSGD",
            summary="matrices as products of two thin ones, with error feedback",
            examples=("powersgd(1)",),
            wire_id="powersgd/1",
            executes_on=EXECUTIONS,
        ),
    ]
