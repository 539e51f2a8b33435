"""Creates components by name: ``fedplug.encoder(...)``, ``fedplug.aggregator(...)`` and so on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from fedplug.errors import ConfigError
from fedplug.registry.component import Component, Description
from fedplug.registry.config import as_component, compose, from_config, make, to_config

if TYPE_CHECKING:
    from fedplug.encoders.assignment import EncoderAssignment
    from fedplug.encoders.base import Encoder
    from fedplug.schedules.base import Schedule
    from fedplug.tff.aggregators.base import Aggregator

__all__ = ["aggregator", "encoder", "from_config", "schedule", "to_config"]


def encoder(value: Description, /, **config: object) -> Encoder | EncoderAssignment:
    """Creates an encoder.

    >>> encoder("topk(0.01) | qsgd(8)").name
    'pipeline'
    >>> encoder("topk", fraction=0.01) == encoder("topk(0.01)")
    True

    Args:
        value: An expression; a name, with the arguments in ``config``. Rules (encoders by name patterns, or a
            list, see `fedplug.encoders.Rules`); a configuration, ``{"name": ..., "config": {...}}``, or an
            encoder or stage.
        config: The arguments of the encoder named by ``value``.

    Returns:
        A `fedplug.encoders.Encoder`; for rules, budgets and the like a `fedplug.encoders.EncoderAssignment`.
        A process accepts either. Only an `Encoder` encodes a single tensor.

    Raises:
        ConfigError: ``value`` is none of these, cannot be parsed, or an encoder rejects its arguments.
        CapabilityError: The stages are not a sparsifier, a quantizer, an entropy coder and an index coder,
            in this order.
        UnknownNameError: There is no such encoder or argument. The message lists the nearest names.
        PluginError: An encoder's plugin is broken.
    """
    if isinstance(value, list | tuple) or (isinstance(value, Mapping) and "name" not in value):
        return cast("EncoderAssignment", make("encoder", "rules", (value,), config))
    if not isinstance(value, str | Mapping | Component):
        raise ConfigError(
            "encoder must be an Encoder, an expression such as 'topk(0.01)', or rules such as "
            f"{{'*/bias': 'identity', '*': 'topk(0.01)'}}, found {value!r}"
        )
    return cast("Encoder | EncoderAssignment", compose([_component("encoder", value, config)]))


def aggregator(value: Aggregator | str | Mapping[str, object], /, **config: object) -> Aggregator:
    """Creates an aggregator, as in ``aggregator("mean")``. See `encoder` for arguments and errors."""
    return cast("Aggregator", _component("aggregator", value, config))


def schedule(value: Schedule | str | Mapping[str, object], /, **config: object) -> Schedule:
    """Creates a schedule, as in ``schedule("linear(0.1, 0.01, 20)")``. See `encoder`."""
    return cast("Schedule", _component("schedule", value, config))


def _component(kind: str, value: object, config: Mapping[str, object]) -> Any:
    if config:
        return make(kind, value, (), config)
    return as_component(value, kind=kind, of=Component, what=f"the {kind}")
