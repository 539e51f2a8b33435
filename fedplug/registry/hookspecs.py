"""The hooks that a plugin may implement.

A plugin is a module named by an entry point of the group ``fedplug.v1``. Its functions are marked with
`hookimpl`. Every hook is optional. The module must be cheap to import: it is imported whenever a component
is looked up.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pluggy

from fedplug.registry.specs import (
    AggregatorSpec,
    DeviceSpec,
    EncoderSpec,
    OpLibrarySpec,
    RuntimeSpec,
    ScheduleSpec,
    StoreSpec,
)

__all__ = [
    "fedplug_aggregators",
    "fedplug_devices",
    "fedplug_encoders",
    "fedplug_experiment_started",
    "fedplug_op_libraries",
    "fedplug_process_built",
    "fedplug_round_evaluated",
    "fedplug_round_finished",
    "fedplug_runtimes",
    "fedplug_schedules",
    "fedplug_stores",
    "hookimpl",
]

hookspec = pluggy.HookspecMarker("fedplug")
hookimpl = pluggy.HookimplMarker("fedplug")


@hookspec
def fedplug_encoders() -> list[EncoderSpec]:  # type: ignore[empty-body]
    """Returns the plugin's encoders. Each class implements `fedplug.encoders.base.Encoder`."""


@hookspec
def fedplug_aggregators() -> list[AggregatorSpec]:  # type: ignore[empty-body]
    """Returns the plugin's aggregators. Each class implements `fedplug.tff.aggregators.base.Aggregator`."""


@hookspec
def fedplug_stores() -> list[StoreSpec]:  # type: ignore[empty-body]
    """Returns the plugin's client-state stores. Each class implements `fedplug.stores.base.StateStore`."""


@hookspec
def fedplug_schedules() -> list[ScheduleSpec]:  # type: ignore[empty-body]
    """Returns the plugin's schedules. Each class implements `fedplug.schedules.base.Schedule`."""


@hookspec
def fedplug_runtimes() -> list[RuntimeSpec]:  # type: ignore[empty-body]
    """Returns this plugin's runtimes. Each makes a `fedplug.tff.runtime.Runtime`."""


@hookspec
def fedplug_devices() -> list[DeviceSpec]:  # type: ignore[empty-body]
    """Returns the plugin's backends for arrays on devices. Each is a `fedplug.ops.device_array.Backend`."""


@hookspec
def fedplug_op_libraries() -> list[OpLibrarySpec]:  # type: ignore[empty-body]
    """Returns the compiled op libraries. `fedplug.ops.lowering.op_library` loads one on first use."""


@hookspec
def fedplug_process_built(process: object) -> None:
    """Observes a process that was built from components. Errors of the hook are only logged.

    Args:
        process: The `fedplug.tff.process.StatefulClientsProcess`. Its ``signature`` describes it.
    """


@hookspec
def fedplug_experiment_started(name: str, folder: Path, config: Mapping[str, object]) -> None:
    """Observes the start of an experiment, in every process that trains, perhaps repeatedly.

    The rounds until the next call belong to this experiment. Errors of the hook are only logged.

    Args:
        name: The name of the experiment.
        folder: The folder of its results.
        config: The configuration with all defaults, as in its ``config.json``, read-only.
    """


@hookspec
def fedplug_round_finished(
    process: object, process_id: str, round_num: int, metrics: Mapping[str, object]
) -> None:
    """Observes a round that was committed to the store. Errors of the hook are only logged.

    Args:
        process: The process. See `fedplug_process_built`.
        process_id: The id of this training in the store.
        round_num: The number of the round, from 1.
        metrics: The metrics of the round, as JSON values, read-only.
    """


@hookspec
def fedplug_round_evaluated(
    process: object, process_id: str, round_num: int, metrics: Mapping[str, float]
) -> None:
    """Observes metrics from `fedplug.Trainer.log_metrics`, after `fedplug_round_finished` of that round.

    `fedplug run` logs the ``test_accuracy`` of every round. An interrupted round is evaluated when training
    resumes. Errors of the hook are only logged.

    Args:
        process: The process. See `fedplug_process_built`.
        process_id: The id of this training in the store.
        round_num: The round whose model was evaluated; 0 is the initial model.
        metrics: Numbers by name, read-only.
    """
