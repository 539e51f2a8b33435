"""The connection from a sharded store to its shards."""

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
        """The machine and folder of each shard, for error messages."""

    @abc.abstractmethod
    def begin(self, shard: str, method: str, arguments: Sequence[Any]) -> Callable[[], Any]:
        """Begins a call of a method of a `Shard`.

        Returns:
            A function to call once. It waits for the result, and raises `StoreError` if the shard raises it
            or cannot be reached.
        """

    def call(self, method: str, arguments: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
        """Calls a method of `Shard` on several shards in parallel, and returns when all calls have ended.

        Args:
            method: The name of the method.
            arguments: The arguments of each shard, by shard.

        Returns:
            The results, by shard.

        Raises:
            StoreError: At least one shard raised it. This is the first error in the order of the arguments.
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
        """Returns a shard for other shards to read from."""

    @abc.abstractmethod
    def close(self, generation: int | None = None) -> None:
        """Releases the shards. Closing twice is allowed.

        Args:
            generation: The generation of the index. See `Shard.close`.
        """
