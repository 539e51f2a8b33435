"""Makes components from expressions, names with arguments and JSON values, and writes them as JSON values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast, overload

from fedplug.errors import ConfigError, UnknownNameError
from fedplug.registry import expression, resolve
from fedplug.registry.component import Component

__all__ = ["as_component", "component_config", "compose", "from_config", "make", "parse", "to_config"]

_T = TypeVar("_T")

_CONFIG_KEYS = ("kind", "name", "config")
_KINDS = ("aggregator", "encoder", "schedule")
_EXAMPLES = {"aggregator": "mean", "encoder": "topk(0.01)", "schedule": "linear(0.1, 0.01, 20)"}
_MADE_BY = {
    "encoder": "`fedplug.encoder` makes those",
    "aggregator": "`fedplug.aggregator` makes those",
    "schedule": "write it as an argument of an encoder, as in 'topk(linear(0.1, 0.01, 20))'",
    "store": "`fedplug.open_store` opens those",
}
_QUOTED = "write an encoder that is an argument in quotes, as in \"budget('qsgd(4)', 20000)\""


@overload
def as_component(value: Any, *, kind: str = ...) -> Any: ...


@overload
def as_component(value: Any, *, kind: str = ..., of: type[_T], what: str) -> _T: ...


def as_component(value: Any, *, kind: str = "encoder", of: Any = Any, what: str = "") -> Any:
    """The component that an argument stands for.

    Args:
        value: An expression such as ``"topk(0.01)"``, or ``"rice"`` for a stage; a configuration as
            `component_config` or `to_config` writes it; anything else is returned unchanged.
        kind: Of the component: ``"aggregator"``, ``"encoder"`` or ``"schedule"``.
        of: The class it must have; without one, any will do.
        what: The argument's name, as in "the encoder of a rule"; for the message.

    Raises:
        ConfigError: It cannot be read, is not of that class, or the component refuses its arguments.
        UnknownNameError: No such component, or no such argument.
        PluginError: The component's plugin is broken.
    """
    component = _read(value, kind)
    if of is not Any and not isinstance(component, of):
        raise ConfigError(
            f"{what} is {component!r}; it must be {_article(of.__name__)}, such as {_EXAMPLES[kind]!r}"
        )
    return component


def _read(value: Any, kind: str) -> Any:
    if isinstance(value, str):
        components = parse(value, kind)
        return components[0] if len(components) == 1 else compose(components)
    if not isinstance(value, Mapping):
        return value
    if not {"name"} <= set(value) <= set(_CONFIG_KEYS) or value.get("kind", kind) != kind:
        raise ConfigError(f"{dict(value)!r} is no {kind}; it must have a name and a config")
    return from_config({"kind": kind, **value})


def component_config(component: Component) -> dict[str, Any]:
    """A component as JSON values: ``{"name": ..., "config": {...}}``."""
    return {"name": component.name, "config": component.get_config()}


def parse(text: str, kind: str = "encoder") -> list[Any]:
    """The components that an expression names, one for each stage; only an encoder's has several.

    Raises:
        ConfigError: The expression cannot be read, or a component refuses its arguments.
        UnknownNameError: No such component, or no such argument; the message lists the nearest.
        PluginError: A component's plugin is broken.
    """
    stages = expression.parse(text)
    if len(stages) > 1 and kind != "encoder":
        raise ConfigError(
            f"{text!r} has {len(stages)} stages, but {_article(kind)} has one; keep one of them"
        )
    return [_from_stage(kind, stage) for stage in stages]


def compose(stages: Sequence[Any]) -> Any:
    """The encoder, or the encoders of a model, that these stages are together.

    Raises:
        CapabilityError: They are not a sparsifier, a quantizer, an entropy coder and an index coder, in this
            order.
    """
    pipeline: Any = resolve.resolve("encoder", "pipeline")
    return pipeline.compose(stages)


def to_config(component: Component) -> dict[str, Any]:
    """A component as JSON values, ``{"kind": "encoder", "name": "topk", "config": component.get_config()}``.

    Raises:
        ConfigError: Its class is not in the registry under its name, so it could not be read back.
    """
    name = getattr(component, "name", None)
    for kind in _KINDS:
        if name in resolve.catalog().names(kind) and resolve.resolve(kind, str(name)) is type(component):
            return {"kind": kind, **component_config(component)}
    raise ConfigError(
        f"{type(component).__module__}.{type(component).__qualname__} is not a registered component; "
        "declare it in a plugin, see docs/plugins.md"
    )


def from_config(config: Mapping[str, Any]) -> Component:
    """The inverse of `to_config`; equal to the component that was written, and of its class.

    Raises:
        ConfigError: A key is missing, or the component refuses its configuration.
        UnknownNameError: No such key, kind, component or argument.
        PluginError: The component's plugin is broken.
    """
    if not isinstance(config, Mapping):
        raise ConfigError(
            f"the configuration of a component is {config!r}; it must be a mapping as of `fedplug.to_config`"
        )
    for key in config:
        if key not in _CONFIG_KEYS:
            raise UnknownNameError("key", str(key), _CONFIG_KEYS, where="the configuration of a component")
    missing = [key for key in ("kind", "name") if key not in config]
    if missing:
        raise ConfigError(
            f"the configuration of a component lacks {' and '.join(map(repr, missing))}: {dict(config)!r}"
        )
    kind, name, arguments = config["kind"], config["name"], config.get("config", {})
    if kind not in _KINDS:
        raise UnknownNameError("kind of component", str(kind), _KINDS)
    if not isinstance(arguments, Mapping) or not all(isinstance(key, str) for key in arguments):
        raise ConfigError(
            f"the 'config' of {kind} {name!r} is {arguments!r}; it must map names of arguments to values"
        )
    return cast("Component", make(kind, name, (), arguments))


def make(kind: str, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The component of that kind and name, made with these arguments. Raises as `from_config`."""
    if not isinstance(name, str):
        raise ConfigError(
            f"the name of a component is {name!r}; it must be text, as in `fedplug plugins list`"
        )
    _require_of_kind(kind, name)
    component_class = resolve.resolve(kind, name)
    _check_arguments(f"{kind} {name!r}", component_class, args, kwargs)
    try:
        return component_class(*args, **kwargs)
    except TypeError as error:  # of a value whose type the class did not expect: it came from the caller
        raise ConfigError(f"{kind} {name!r} refuses its arguments: {error}") from error


def _from_stage(kind: str, stage: expression.Stage) -> Any:
    """Makes one stage; an argument that is a stage, as in ``topk(linear(0.1, 0.01, 20))``, is a schedule."""

    def argument(value: Any) -> Any:
        return _from_stage("schedule", value) if isinstance(value, expression.Stage) else value

    kwargs = {key: argument(value) for key, value in stage.kwargs.items()}
    return make(kind, stage.name, tuple(map(argument, stage.args)), kwargs)


def _require_of_kind(kind: str, name: str) -> None:
    """Says how a component is made that is of another kind than asked for."""
    known = resolve.catalog().names
    if name in known(kind):
        return
    for other, made_by in _MADE_BY.items():
        if name in known(other):
            # A call as an argument is read as a schedule: there an encoder was meant.
            remedy = _QUOTED if (kind, other) == ("schedule", "encoder") else made_by
            raise ConfigError(f"{name!r} is one of the {other}s, not of the {kind}s; {remedy}")


def _check_arguments(
    what: str, make: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Python's own message names neither the component nor the argument that was meant."""
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


def _article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiouAEIOU' else 'a'} {noun}"
