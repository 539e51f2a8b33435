"""What encoders, aggregators and their like have in common: a name, a configuration, and equality by both."""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

__all__ = ["Component", "plain"]


def plain(value: Any) -> Any:
    """Returns Python's own number for a scalar of NumPy, PyTorch or JAX, also inside lists and mappings.

    Anything else is returned unchanged.
    """
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        return value.item()
    if type(value) in (list, tuple):
        return type(value)(map(plain, value))
    if type(value) is dict:
        return {key: plain(member) for key, member in value.items()}
    return value


class Component(abc.ABC):
    """A value: immutable, made from its configuration, equal to every other made from the same."""

    name: ClassVar[str]
    """The name under which the registry knows this component, for instance ``"topk"``."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Gives `__init__` plain numbers: a configuration is JSON, and part of a state's owner."""
        super().__init_subclass__(**kwargs)
        if "__init__" in cls.__dict__:
            cls.__init__ = _of_plain_numbers(cls.__init__)  # type: ignore[method-assign]

    @abc.abstractmethod
    def get_config(self) -> dict[str, Any]:
        """The keyword arguments that make an equal component; JSON values only."""

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """The inverse of `get_config`."""
        return cls(**config)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.get_config() == other.get_config()  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self), repr(sorted(self.get_config().items()))))

    def __repr__(self) -> str:
        arguments = ", ".join(f"{key}={value!r}" for key, value in self.get_config().items())
        return f"{self.name}({arguments})" if arguments else self.name


def _of_plain_numbers(init: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(init)
    def init_of_plain_numbers(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *map(plain, args), **{name: plain(value) for name, value in kwargs.items()})

    return init_of_plain_numbers
