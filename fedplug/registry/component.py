"""The base class of encoders, aggregators and schedules: a name, a configuration, and equality by both."""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

__all__ = ["Component", "Description", "plain", "written_argument"]


def plain(value: Any) -> Any:
    """Converts scalars of NumPy, PyTorch or JAX to Python numbers, also inside lists and mappings.

    Other values are returned unchanged.
    """
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        return value.item()
    if type(value) in (list, tuple):
        return type(value)(map(plain, value))
    if type(value) is dict:
        return {key: plain(member) for key, member in value.items()}
    return value


class Component(abc.ABC):
    """An immutable value that is defined by its configuration. Equal configurations make equal components."""

    name: ClassVar[str]
    """The name of this component in the registry, for example ``"topk"``."""

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Makes `__init__` receive plain numbers, because a configuration must be JSON."""
        super().__init_subclass__(**kwargs)
        if "__init__" in cls.__dict__:
            cls.__init__ = _of_plain_numbers(cls.__init__)  # type: ignore[method-assign]

    @abc.abstractmethod
    def get_config(self) -> dict[str, object]:
        """Returns the keyword arguments that create an equal component, as JSON values."""

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        """Creates a component from the result of `get_config`."""
        return cls(**config)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.get_config() == other.get_config()  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self), repr(sorted(self.get_config().items()))))

    def __repr__(self) -> str:
        return _written(self.name, self.get_config())


def _written(name: str, config: Mapping[str, Any]) -> str:
    """Returns a component as in an expression. Components among its arguments are expressions in quotes."""
    if name == "pipeline" and "stages" in config:
        return " | ".join(_written(stage["name"], stage["config"]) for stage in config["stages"])
    arguments = ", ".join(f"{key}={written_argument(value)}" for key, value in config.items())
    return f"{name}({arguments})" if arguments else name


def written_argument(value: object) -> str:
    """Returns an argument for `repr`: the configuration of a component becomes an expression in quotes."""
    if isinstance(value, Mapping) and {"name", "config"} <= set(value) <= {"kind", "name", "config"}:
        return repr(_written(value["name"], value["config"]))
    return repr(value)


def _of_plain_numbers(init: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(init)
    def init_of_plain_numbers(self: Component, *args: object, **kwargs: object) -> None:
        init(self, *map(plain, args), **{name: plain(value) for name, value in kwargs.items()})

    return init_of_plain_numbers


Description: TypeAlias = "Component | str | Mapping[str, object] | Sequence[object]"
"""A component, or what describes one: an expression, a configuration, or rules."""
