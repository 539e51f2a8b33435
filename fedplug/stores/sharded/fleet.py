"""How a sharded store reaches its shards."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any

from fedplug.stores.sharded.shard import Reader

__all__ = ["Fleet"]


class Fleet(abc.ABC):
    """The shards that can be reached, by name."""

    @property
    @abc.abstractmethod
    def places(self) -> Mapping[str, str]:
        """Of every shard, the machine and folder, for errors."""

    @abc.abstractmethod
    def call(self, method: str, arguments: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
        """Calls a method of `Shard` on some shards at once; returns when all have ended, well or not.

        Args:
            method: Its name.
            arguments: By shard.

        Returns:
            The results, by shard.

        Raises:
            StoreError: The first that a shard raised, in the order of the arguments.
        """

    @abc.abstractmethod
    def reader(self, shard: str) -> Reader:
        """A shard, for others to read from."""

    @abc.abstractmethod
    def close(self) -> None:
        """Lets go of the shards; legal twice."""
