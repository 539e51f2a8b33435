"""How a sharded store reaches its shards."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fedplug.errors import StoreError
from fedplug.stores.sharded.shard import Reader

__all__ = ["Fleet"]


class Fleet(abc.ABC):
    """The shards that can be reached, by name."""

    @property
    @abc.abstractmethod
    def places(self) -> Mapping[str, str]:
        """Of every shard, the machine and folder, for errors."""

    @abc.abstractmethod
    def begin(self, shard: str, method: str, arguments: Sequence[Any]) -> Callable[[], Any]:
        """Begins a call of a method of a `Shard`.

        Returns:
            A function, to be called once: waits for the result, or raises the `StoreError` of the shard, or
            of not reaching it.
        """

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
        waits = {shard: self.begin(shard, method, given) for shard, given in arguments.items()}
        results, errors = {}, []
        for shard, wait in waits.items():
            try:
                results[shard] = wait()
            except StoreError as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return results

    @abc.abstractmethod
    def reader(self, shard: str) -> Reader:
        """A shard, for others to read from."""

    @abc.abstractmethod
    def close(self, generation: int | None = None) -> None:
        """Lets go of the shards; legal twice.

        Args:
            generation: The generation of the index; see `Shard.close`.
        """
