"""The hooks a plugin may implement, and nothing else.

A plugin is a module named by an entry point of the group ``fedplug.v1``; its functions are marked with
`hookimpl`. Every hook is optional. The module must be cheap to import, which happens
whenever a component is looked up, and in `fedplug plugins list`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pluggy

from fedplug.registry.specs import AggregatorSpec, EncoderSpec, OpLibrarySpec, ScheduleSpec, StoreSpec

__all__ = [
    "fedplug_aggregators",
    "fedplug_encoders",
    "fedplug_experiment_started",
    "fedplug_op_libraries",
    "fedplug_process_built",
    "fedplug_round_evaluated",
    "fedplug_round_finished",
    "fedplug_schedules",
    "fedplug_stores",
    "hookimpl",
]

hookspec = pluggy.HookspecMarker("fedplug")
hookimpl = pluggy.HookimplMarker("fedplug")


@hookspec
def fedplug_encoders() -> list[EncoderSpec]:  # type: ignore[empty-body]
    """The encoders this plugin brings; a class follows `fedplug.encoders.base.Encoder`."""


@hookspec
def fedplug_aggregators() -> list[AggregatorSpec]:  # type: ignore[empty-body]
    """The aggregators this plugin brings; a class follows `fedplug.tff.aggregators.base.Aggregator`."""


@hookspec
def fedplug_stores() -> list[StoreSpec]:  # type: ignore[empty-body]
    """The client-state stores this plugin brings; a class follows `fedplug.stores.base.StateStore`."""


@hookspec
def fedplug_schedules() -> list[ScheduleSpec]:  # type: ignore[empty-body]
    """The schedules this plugin brings; a class follows `fedplug.schedules.base.Schedule`."""


@hookspec
def fedplug_op_libraries() -> list[OpLibrarySpec]:  # type: ignore[empty-body]
    """The plugin's compiled op libraries; `fedplug.ops.lowering.op_library` loads one on first use."""


@hookspec
def fedplug_process_built(process: Any) -> None:
    """Called after a process was built from components. What this raises is logged and changes nothing.

    Args:
        process: The `fedplug.tff.process.StatefulClientsProcess`; its ``signature`` says how it was built.
    """


@hookspec
def fedplug_experiment_started(name: str, folder: Path, config: Mapping[str, Any]) -> None:
    """Called by `fedplug run` before it trains, in every process that does, perhaps several times.

    The rounds until the next call are of this experiment. What this raises is logged and changes nothing.

    Args:
        name: Of the experiment.
        folder: Its results.
        config: With all defaults, as in its ``config.json``; to be read only.
    """


@hookspec
def fedplug_round_finished(process: Any, process_id: str, round_num: int, metrics: Mapping[str, Any]) -> None:
    """Called after a round was committed to the store. What this raises is logged and changes nothing.

    Args:
        process: As for `fedplug_process_built`.
        process_id: Under which the store keeps this training.
        round_num: The number of the round, from 1.
        metrics: Of the round, as JSON values; to be read only.
    """


@hookspec
def fedplug_round_evaluated(
    process: Any, process_id: str, round_num: int, metrics: Mapping[str, float]
) -> None:
    """Called by `fedplug.Trainer.log_metrics`, after `fedplug_round_finished` of that round.

    `fedplug run` logs the ``test_accuracy`` of every round. A round in which the process was interrupted is
    evaluated when it is resumed. What this raises is logged and changes nothing.

    Args:
        process: As for `fedplug_process_built`.
        process_id: As for `fedplug_round_finished`.
        round_num: The round whose model was evaluated; 0 is the initial one.
        metrics: By name; to be read only.
    """
