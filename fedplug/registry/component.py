"""What encoders, aggregators and their like have in common: a name, a configuration, and equality by both."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

__all__ = ["Component"]


class Component(abc.ABC):
    """A value: immutable, made from its configuration, equal to every other made from the same."""

    name: ClassVar[str]
    """The name under which the registry knows this component, for instance ``"topk"``."""

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
