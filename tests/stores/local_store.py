"""A sharded store within this process, for tests of the protocol."""

import functools
from pathlib import Path

from fedplug.stores.sharded.fleet import Fleet
from fedplug.stores.sharded.shard import Shard
from fedplug.stores.sharded.store import Options, ShardedStore


class LocalFleet(Fleet):
    """Shards in this process; ``folders`` has the folder of each, by name."""

    def __init__(self, folders):
        self._folders = dict(folders)
        self._shards = {}
        try:
            for name, folder in folders.items():
                folder.mkdir(parents=True, exist_ok=True)
                self._shards[name] = Shard(folder, "local")
        except BaseException:
            self.close()
            raise

    @property
    def places(self):
        return {name: str(folder) for name, folder in self._folders.items()}

    def begin(self, shard, method, arguments):
        return functools.partial(getattr(self._shards[shard], method), *arguments)

    def reader(self, shard):
        return self._shards[shard]

    def close(self, generation=None):
        for shard in self._shards.values():
            shard.close(generation)


class LocalStore(ShardedStore):
    """A sharded store whose shards are folders beside the index; those named in ``shards`` can be reached."""

    name = "local"

    def __init__(self, folder, shards=("a", "b", "c"), **options):
        self._folder = Path(folder).absolute()
        self._names = tuple(shards)
        super().__init__(self._folder, Options(**options))

    @classmethod
    def from_url(cls, url):
        raise NotImplementedError

    def get_config(self):
        return {"folder": str(self._folder), "shards": list(self._names), **vars(self._options)}

    def connect(self, identity):
        return LocalFleet({name: self._folder / "shards" / name for name in self._names})
