"""Making parts by name: what users call as ``fedplug.encoder(...)``, ``fedplug.from_config(...)`` and so on.

Must not import NumPy or TensorFlow itself; the classes it resolves do.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from fedplug.errors import ConfigError, UnknownNameError
from fedplug.registry import expression, resolve

if TYPE_CHECKING:
    from fedplug.aggregators.base import Aggregator
    from fedplug.encoders.assignment.base import EncoderAssignment
    from fedplug.encoders.base import Encoder
    from fedplug.registry.component import Component
    from fedplug.schedules.base import Schedule

__all__ = [
    "aggregator",
    "composed",
    "encoder",
    "from_config",
    "get_aggregator",
    "get_encoder",
    "get_schedule",
    "schedule",
    "stages",
    "to_config",
]

_CONFIG_KEYS = ("kind", "name", "config")
_CONFIGURED_KINDS = ("aggregator", "encoder", "schedule")
_MADE_BY = {
    "encoder": "`fedplug.encoder` makes those",
    "aggregator": "`fedplug.aggregator` makes those",
    "schedule": "write it as an argument of an encoder, as in 'topk(linear(0.1, 0.01, 20))'",
    "store": "`fedplug.open_store` opens those",
}
_QUOTED = "write an encoder that is an argument in quotes, as in \"budget('qsgd(4)', 20000)\""


def encoder(text: str) -> Encoder | EncoderAssignment:
    """The encoder an expression describes, such as ``"topk(0.01)"`` or ``"topk(0.01) | qsgd(8) | rice"``.

    Returns:
        An `fedplug.encoders.Encoder`, or for rules, budgets and their like a
        `fedplug.encoders.EncoderAssignment`. Either stands wherever a process takes an encoder; only the former encodes a tensor by itself.

    Raises:
        ConfigError: The expression cannot be read, or an encoder refuses its arguments.
        CapabilityError: Several stages are not a sparsifier, a quantizer, an entropy coder and an index
            coder, in this order.
        UnknownNameError: No such encoder, or no such argument; the message lists the nearest.
        PluginError: An encoder's plugin is broken.
    """
    return composed(stages(text))


def stages(text: str) -> list[Any]:
    """The parts that an encoder's expression names, one for each stage. Raises as `encoder` does."""
    return [_from_stage("encoder", stage) for stage in expression.parse(text)]


def composed(parts: Sequence[Any]) -> Encoder | EncoderAssignment:
    """The encoder that these stages are together. Raises as `encoder` does."""
    pipeline: Any = resolve.resolve("encoder", "pipeline")
    return cast("Encoder | EncoderAssignment", pipeline.compose(parts))


def get_encoder(name: str, **config: Any) -> Encoder | EncoderAssignment:
    """The encoder of that name: ``get_encoder("topk", fraction=0.01)``. Returns and raises as `encoder`."""
    return composed([_make("encoder", name, (), config)])


def aggregator(text: str) -> Aggregator:
    """The aggregator an expression describes, for instance ``"mean"``. Raises as `encoder` does."""
    return cast("Aggregator", _from_stage("aggregator", _only_stage("aggregator", text)))


def get_aggregator(name: str, **config: Any) -> Aggregator:
    """The aggregator of that name. Raises as `encoder` does."""
    return cast("Aggregator", _make("aggregator", name, (), config))


def schedule(text: str) -> Schedule:
    """The schedule an expression describes: ``"linear(0.1, 0.01, 20)"``. Raises as `encoder` does."""
    return cast("Schedule", _from_stage("schedule", _only_stage("schedule", text)))


def get_schedule(name: str, **config: Any) -> Schedule:
    """The schedule of that name: ``get_schedule("constant", value=0.01)``. Raises as `encoder` does."""
    return cast("Schedule", _make("schedule", name, (), config))


def to_config(part: Component) -> dict[str, Any]:
    """A part as JSON values, ``{"kind": "encoder", "name": "topk", "config": part.get_config()}``.

    Raises:
        ConfigError: The registry does not know the part's class under its name, so it could not be read back.
    """
    name = getattr(part, "name", None)
    for kind in _CONFIGURED_KINDS:
        if name in resolve.catalog().names(kind) and resolve.resolve(kind, str(name)) is type(part):
            return {"kind": kind, "name": name, "config": part.get_config()}
    raise ConfigError(
        f"{type(part).__module__}.{type(part).__qualname__} is not a registered part; "
        "declare it in a plugin, see docs/plugins.md"
    )


def from_config(config: Mapping[str, Any]) -> Component:
    """The inverse of `to_config`; equal to the part that was written, and of its class.

    Raises:
        ConfigError: A key is missing, or the part refuses its configuration.
        UnknownNameError: No such key, kind, part or argument.
        PluginError: The part's plugin is broken.
    """
    if not isinstance(config, Mapping):
        raise ConfigError(
            f"the configuration of a part is {config!r}; it must be a mapping as of `fedplug.to_config`"
        )
    for key in config:
        if key not in _CONFIG_KEYS:
            raise UnknownNameError("key", str(key), _CONFIG_KEYS, where="the configuration of a part")
    missing = [key for key in ("kind", "name") if key not in config]
    if missing:
        raise ConfigError(
            f"the configuration of a part lacks {' and '.join(map(repr, missing))}: {dict(config)!r}"
        )
    kind, name, arguments = config["kind"], config["name"], config.get("config", {})
    if kind not in _CONFIGURED_KINDS:
        raise UnknownNameError("kind of part", str(kind), _CONFIGURED_KINDS)
    if not isinstance(arguments, Mapping) or not all(isinstance(key, str) for key in arguments):
        raise ConfigError(
            f"the 'config' of {kind} {name!r} is {arguments!r}; it must map names of arguments to values"
        )
    return cast("Component", _make(kind, name, (), arguments))


def _only_stage(kind: str, text: str) -> expression.Stage:
    found = expression.parse(text)
    if len(found) > 1:
        article = "an" if kind == "aggregator" else "a"
        raise ConfigError(f"{text!r} has {len(found)} stages, but {article} {kind} has one; keep one of them")
    return found[0]


def _from_stage(kind: str, stage: expression.Stage) -> Any:
    """The part; an argument that is itself a stage, as in ``topk(linear(0.1, 0.01, 20))``, is a schedule."""

    def argument(value: Any) -> Any:
        return _from_stage("schedule", value) if isinstance(value, expression.Stage) else value

    kwargs = {key: argument(value) for key, value in stage.kwargs.items()}
    return _make(kind, stage.name, tuple(map(argument, stage.args)), kwargs)


def _require_in_place(kind: str, name: str) -> None:
    """Says of a part of another kind than is wanted how those are made."""
    known = resolve.catalog().names
    if name in known(kind):
        return
    for other, made_by in _MADE_BY.items():
        if name in known(other):
            # An argument that is a call is read as a schedule: there an encoder was meant.
            remedy = _QUOTED if (kind, other) == ("schedule", "encoder") else made_by
            raise ConfigError(f"{name!r} is one of the {other}s, not of the {kind}s; {remedy}")


def _make(kind: str, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    if not isinstance(name, str):
        raise ConfigError(f"the name of a part is {name!r}; it must be text, as in `fedplug plugins list`")
    _require_in_place(kind, name)
    make = resolve.resolve(kind, name)
    _check_arguments(f"{kind} {name!r}", make, args, kwargs)
    try:
        return make(*args, **kwargs)
    except TypeError as error:  # of a value whose type the class did not expect: it came from the caller
        raise ConfigError(f"{kind} {name!r} refuses its arguments: {error}") from error


def _check_arguments(
    what: str, make: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Python's own message names neither the part nor the argument that was meant."""
    signature = inspect.signature(make)
    parameters = signature.parameters.values()
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        for key in kwargs:
            if key not in named:
                raise UnknownNameError("argument", key, named, where=what)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        takes = [f"{p.name}=" if p.kind is p.KEYWORD_ONLY else p.name for p in parameters if p.name in named]
        raise ConfigError(f"{what}: {error}; it takes {', '.join(takes) or 'no arguments'}") from error
