"""A sharded store all of which is in this process: what the protocol is tested on, crash by crash."""

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
        folders: By name.

    Raises:
        StoreError: As of `Shard`.
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
        """As in `Fleet`."""
        return {name: str(folder) for name, folder in self._folders.items()}

    def begin(self, shard: str, method: str, arguments: Sequence[Any]) -> Callable[[], Any]:
        """As in `Fleet`; the call is made when it is waited for."""
        return functools.partial(getattr(self._shards[shard], method), *arguments)

    def reader(self, shard: str) -> Reader:
        """As in `Fleet`."""
        return self._shards[shard]

    def close(self, generation: int | None = None) -> None:
        """Closes the shards; see `Fleet.close`."""
        for shard in self._shards.values():
            shard.close(generation)


class LocalStore(ShardedStore):
    """Its shards are folders beside the index.

    Args:
        folder: Of all of it.
        shards: The names of those that can be reached.
        options: As of `Options`.
    """

    name: ClassVar[str] = "local"

    def __init__(self, folder: str | Path, shards: Sequence[str] = ("a", "b", "c"), **options: Any) -> None:
        self._folder = Path(folder)
        self._names = tuple(shards)
        super().__init__(self._folder, Options(**options))

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Not offered."""
        raise ConfigError(f"{url!r}: shards in one process have no URL; write 'sqlite:///path'")

    def get_config(self) -> dict[str, Any]:
        """As in `StateStore`."""
        return {"folder": str(self._folder), "shards": list(self._names), **vars(self._options)}

    def connect(self, identity: Identity) -> Fleet:
        """As in `ShardedStore`."""
        return LocalFleet({name: self._folder / "shards" / name for name in self._names})
