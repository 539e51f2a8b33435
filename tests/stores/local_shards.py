"""A sharded store within this process, for tests of the protocol."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from fedplug.errors import ConfigError
from fedplug.stores.sharded.fleet import Fleet
from fedplug.stores.sharded.shard import Reader, Shard
from fedplug.stores.sharded.store import Identity, Options, ShardedStore

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

__all__ = ["LocalFleet", "LocalStore"]


class LocalFleet(Fleet):
    """Shards in this process.

    Args:
        folders: The folder of each shard, by name.

    Raises:
        StoreError: A shard cannot be opened; see `Shard`.
    """

    def __init__(self, folders: Mapping[str, Path]) -> None:
        self._folders = dict(folders)
        self._shards: dict[str, Shard] = {}
        try:
            for name, folder in folders.items():
                folder.mkdir(parents=True, exist_ok=True)
                self._shards[name] = Shard(folder, "local")
        except BaseException:
            self.close()
            raise

    @property
    def places(self) -> Mapping[str, str]:
        return {name: str(folder) for name, folder in self._folders.items()}

    def begin(self, shard: str, method: str, arguments: Sequence[Any]) -> Callable[[], Any]:
        """Returns a function that makes the call; see `Fleet.begin`."""
        return functools.partial(getattr(self._shards[shard], method), *arguments)

    def reader(self, shard: str) -> Reader:
        return self._shards[shard]

    def close(self, generation: int | None = None) -> None:
        """Closes the shards; see `Fleet.close`."""
        for shard in self._shards.values():
            shard.close(generation)


class LocalStore(ShardedStore):
    """A sharded store whose shards are folders beside the index.

    Args:
        folder: The folder of the index and the shards.
        shards: The names of the shards that can be reached.
        options: Keyword arguments of `Options`.
    """

    name: ClassVar[str] = "local"

    def __init__(self, folder: str | Path, shards: Sequence[str] = ("a", "b", "c"), **options: Any) -> None:
        self._folder = Path(folder)
        self._names = tuple(shards)
        super().__init__(self._folder, Options(**options))

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Raises `ConfigError`: this store has no URL."""
        raise ConfigError(f"{url!r}: shards in one process have no URL; write 'sqlite:///path'")

    def get_config(self) -> dict[str, Any]:
        return {"folder": str(self._folder), "shards": list(self._names), **vars(self._options)}

    def connect(self, identity: Identity) -> Fleet:
        return LocalFleet({name: self._folder / "shards" / name for name in self._names})
