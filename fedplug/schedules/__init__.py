"""Schedules: numbers that depend on the round, for encoders whose settings change during training."""

from __future__ import annotations

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


def as_schedule(value: object) -> Schedule:
    """Returns the schedule that an argument describes.

    Args:
        value: A schedule; a number, which is constant. An expression such as ``"linear(0.1, 0.01, 20)"``, or
            a configuration from `schedule_config`.

    Raises:
        ConfigError: ``value`` is none of these, or the schedule rejects its arguments.
        UnknownNameError: No schedule of that name is installed. The message lists the nearest names.
    """
    if isinstance(value, int | float):
        return Constant(value)
    schedule = as_component(value, kind="schedule")
    if not isinstance(schedule, Schedule):
        raise ConfigError(
            f"{value!r} is not a schedule; give a number or an expression such as 'linear(0.1, 0.01, 20)'"
        )
    return schedule


def schedule_config(schedule: Schedule) -> object:
    """Returns the schedule as a JSON value for an encoder's configuration; a number if it is constant."""
    if isinstance(schedule, Constant):
        return schedule.get_config()["value"]
    return component_config(schedule)
