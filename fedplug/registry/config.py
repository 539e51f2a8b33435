"""Creates components from expressions, names and JSON values, and converts them to JSON values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard, TypeVar, cast, overload

from fedplug.errors import ConfigError, UnknownNameError
from fedplug.registry import expression, resolve
from fedplug.registry.component import Component

__all__ = ["as_component", "component_config", "compose", "from_config", "make", "parse", "to_config"]

_T = TypeVar("_T")

_CONFIG_KEYS = ("kind", "name", "config")
_KINDS = ("aggregator", "encoder", "schedule")
_EXAMPLES = {"aggregator": "mean", "encoder": "topk(0.01)", "schedule": "linear(0.1, 0.01, 20)"}
_MADE_BY = {
    "encoder": "create it with `fedplug.encoder`",
    "aggregator": "create it with `fedplug.aggregator`",
    "schedule": "write it as an argument of an encoder, as in 'topk(linear(0.1, 0.01, 20))'",
    "store": "open it with `fedplug.open_store`",
}
_DEEPEST = 64
_QUOTED = "quote an encoder that is an argument, as in \"budget('qsgd(4)', 20000)\""


@overload
def as_component(value: object, *, kind: str = ...) -> Any: ...


@overload
def as_component(value: object, *, kind: str = ..., of: type[_T], what: str) -> _T: ...


def as_component(value: object, *, kind: str = "encoder", of: Any = Any, what: str = "") -> Any:
    """Returns the component that an argument describes.

    Args:
        value: An expression such as ``"topk(0.01)"``, or ``"rice"`` for a stage, or a configuration from
            `component_config` or `to_config`. Other values are returned unchanged.
        kind: The kind of the component: ``"aggregator"``, ``"encoder"`` or ``"schedule"``.
        of: The required class. Any class by default.
        what: The name of the argument for the error message, as in "the encoder of a rule".

    Raises:
        ConfigError: The value cannot be parsed or has another class, or the component rejects its arguments.
        UnknownNameError: There is no such component or argument.
        PluginError: The component's plugin is broken.
    """
    component = _read(value, kind)
    if of is not Any and not isinstance(component, of):
        raise ConfigError(
            f"{what} is {component!r}; it must be {_article(of.__name__)}, such as {_EXAMPLES[kind]!r}"
        )
    return component


def _read(value: object, kind: str) -> object:
    if isinstance(value, str):
        components = parse(value, kind)
        return components[0] if len(components) == 1 else compose(components)
    if not isinstance(value, Mapping):
        return value
    _require_shallow(value)
    if not {"name"} <= set(value) <= set(_CONFIG_KEYS) or value.get("kind", kind) != kind:
        raise ConfigError(f"{dict(value)!r} is not {_article(kind)}; it must have a name and a config")
    return from_config({"kind": kind, **value})


def component_config(component: Component) -> dict[str, object]:
    """Returns a component as JSON values: ``{"name": ..., "config": {...}}``."""
    return {"name": component.name, "config": component.get_config()}


def parse(text: str, kind: str = "encoder") -> list[object]:
    """Returns the components of an expression, one for each stage; only encoders can have several.

    Raises:
        ConfigError: The expression cannot be parsed, or a component rejects its arguments.
        UnknownNameError: There is no such component or argument. The message lists the nearest names.
        PluginError: A component's plugin is broken.
    """
    stages = expression.parse(text)
    if len(stages) > 1 and kind != "encoder":
        raise ConfigError(
            f"{text!r} has {len(stages)} stages, but {_article(kind)} has one; keep one of them"
        )
    return [_from_stage(kind, stage) for stage in stages]


def compose(stages: Sequence[object]) -> Any:
    """Combines stages into one encoder, or into an assignment of encoders to a model.

    Raises:
        CapabilityError: The stages are not a sparsifier, a quantizer, an entropy coder and an index coder,
            in this order.
    """
    pipeline: Any = resolve.resolve("encoder", "pipeline")
    return pipeline.compose(stages)


def to_config(component: Component) -> dict[str, object]:
    """Returns a component as JSON values.

    >>> from fedplug.schedules import Constant
    >>> to_config(Constant(0.1))
    {'kind': 'schedule', 'name': 'constant', 'config': {'value': 0.1}}

    Raises:
        ConfigError: The registry does not have this class under its name, so `from_config` would fail.
    """
    name = getattr(component, "name", None)
    for kind in _KINDS:
        if name in resolve.catalog().names(kind) and resolve.resolve(kind, str(name)) is type(component):
            return {"kind": kind, **component_config(component)}
    raise ConfigError(
        f"{type(component).__module__}.{type(component).__qualname__} is not a registered component; "
        "declare it in a plugin, see docs/plugins.md"
    )


def from_config(config: Mapping[str, object]) -> Component:
    """Creates a component equal to the one passed to `to_config`.

    Raises:
        ConfigError: A key is missing, or the component rejects its configuration.
        UnknownNameError: There is no such key, kind, component or argument.
        PluginError: The component's plugin is broken.
    """
    if not isinstance(config, Mapping):
        raise ConfigError(
            f"the configuration of a component is {config!r}; it must be a mapping from `fedplug.to_config`"
        )
    _require_shallow(config)
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
            f"the 'config' of {kind} {name!r} is {arguments!r}; it must map argument names to values"
        )
    return cast("Component", make(str(kind), name, (), arguments))


def make(kind: str, name: object, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
    """Creates the component of that kind and name with these arguments. See `from_config` for errors."""
    if not isinstance(name, str):
        raise ConfigError(
            f"the name of a component is {name!r}; it must be text, one of `fedplug plugins list`"
        )
    _require_shallow([args, kwargs])
    _require_of_kind(kind, name)
    component_class = resolve.resolve(kind, name)
    _check_arguments(f"{kind} {name!r}", component_class, args, kwargs)
    try:
        return component_class(*args, **kwargs)
    except TypeError as error:  # the caller passed a value of a type that the class does not support
        raise ConfigError(f"{kind} {name!r} rejects its arguments: {error}") from error


def _from_stage(kind: str, stage: expression.Stage) -> object:
    """Creates one stage. A stage as an argument is a schedule, as in ``topk(linear(0.1, 0.01, 20))``."""

    def argument(value: object) -> object:
        return _from_stage("schedule", value) if isinstance(value, expression.Stage) else value

    kwargs = {key: argument(value) for key, value in stage.kwargs.items()}
    return make(kind, stage.name, tuple(map(argument, stage.args)), kwargs)


def _require_shallow(value: object) -> None:
    """Raises ConfigError for untrusted values that are nested too deeply for recursive functions."""
    level: list[object] = [value]
    for _ in range(_DEEPEST):
        inner = [each.values() if isinstance(each, Mapping) else each for each in level if _is_nested(each)]
        level = [member for members in inner for member in members]
        if not level:
            return
    raise ConfigError(f"a configuration is nested more than {_DEEPEST} levels deep; no component needs that")


def _is_nested(value: object) -> TypeGuard[Mapping[object, object] | list[object] | tuple[object, ...]]:
    return isinstance(value, Mapping | list | tuple)


def _require_of_kind(kind: str, name: str) -> None:
    """Raises an error with advice if the name belongs to a component of another kind."""
    known = resolve.catalog().names
    if name in known(kind):
        return
    for other, made_by in _MADE_BY.items():
        if name in known(other):
            # An unquoted call as an argument is read as a schedule, but an encoder was meant.
            remedy = _QUOTED if (kind, other) == ("schedule", "encoder") else made_by
            raise ConfigError(f"{name!r} is one of the {other}s, not of the {kind}s; {remedy}")


def _check_arguments(
    what: str, make: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
) -> None:
    """Raises errors that name the component and the nearest argument, unlike Python's own."""
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
