"""Schedules: numbers that depend on the round, for encoders that change as training goes on.

The contract is in `base`.
"""

from __future__ import annotations

from typing import Any

from fedplug.errors import ConfigError
from fedplug.registry.config import as_component, component_config
from fedplug.schedules.base import MAX_ROUNDS, Schedule
from fedplug.schedules.ramps import Cosine, Exponential, Linear
from fedplug.schedules.steps import Constant, Step

__all__ = [
    "MAX_ROUNDS",
    "Constant",
    "Cosine",
    "Exponential",
    "Linear",
    "Schedule",
    "Step",
    "as_schedule",
    "schedule_config",
]


def as_schedule(value: Any) -> Schedule:
    """The schedule that an argument stands for.

    Args:
        value: A schedule; a number, for one that stays; an expression such as ``"linear(0.1, 0.01, 20)"``; or
            what `schedule_config` wrote.

    Raises:
        ConfigError: It is none of these, or the schedule refuses its arguments.
        UnknownNameError: No schedule of that name is installed; the message lists the nearest.
    """
    if isinstance(value, int | float):
        return Constant(value)
    schedule = as_component(value, kind="schedule")
    if not isinstance(schedule, Schedule):
        raise ConfigError(
            f"{value!r} is no schedule; give a number or an expression such as 'linear(0.1, 0.01, 20)'"
        )
    return schedule


def schedule_config(schedule: Schedule) -> Any:
    """The schedule as a JSON value, for the configuration of an encoder: a number if it is a constant one."""
    if isinstance(schedule, Constant):
        return schedule.get_config()["value"]
    return component_config(schedule)
