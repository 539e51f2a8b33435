"""The store ``ray+sqlite:///folder``, whose clients run where their states are."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import parse_qsl

import numpy as np
import ray

from fedplug.errors import ConfigError
from fedplug.stores import rules
from fedplug.stores.base import PlacedState, Tensors
from fedplug.stores.sharded.fleet import Fleet
from fedplug.stores.sharded.rewinding import RewindableProcess
from fedplug.stores.sharded.store import Identity, Options, ShardedStore, require_store
from fedplug.stores.turns import in_turn
from fedplug_ray.connection import connect
from fedplug_ray.shards.fleet import RayFleet
from fedplug_ray.shards.machines import assign, find_shards
from fedplug_ray.shards.references import Home, StateReference

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

__all__ = ["RayProcess", "RayStore"]

_PREFIX = "ray+sqlite:///"
_WHOLE_NUMBERS = ("partitions", "replicas", "keep_rounds")
_SHARDS = "shards"


class RayProcess(RewindableProcess, PlacedState):
    """A process whose states are on the machines of a cluster."""

    _initial: tuple[Tensors, list[ray.ObjectRef[Any]]] | None = None

    @in_turn
    def read_clients(self, client_ids: Iterable[str]) -> dict[str, dict[str, np.ndarray[Any, Any]]]:
        """Returns copies of the clients' states, because the arrays that Ray returns are read-only."""
        found = super().read_clients(client_ids)
        return {
            client: {name: array.copy() for name, array in state.items()} for client, state in found.items()
        }

    def references(self, client_ids: Sequence[str], initial: Tensors) -> list[StateReference]:
        self.resolve()
        record, known, fleet = self.placed(), set(self.known(client_ids)), self.fleet
        assert isinstance(fleet, RayFleet)
        if self._initial is None or self._initial[0] is not initial:
            self._initial = initial, [ray.put(dict(initial))]
        placement, homes = record.placement, dict[int, Home]()
        references = []
        for client_id in client_ids:
            partition = placement.partition(client_id)
            if partition not in homes:
                shards = placement.homes_of(partition)
                homes[partition] = Home(
                    process_id=self.process_id,
                    partition=partition,
                    node=fleet.node(shards[0]),
                    version=record.versions[shards[0]],
                    actors=tuple(map(fleet.actor_name, shards)),
                    places=tuple(fleet.places[shard] for shard in shards),
                    initial=self._initial[1],
                )
            references.append(StateReference(homes[partition], client_id, client_id in known))
        return references


class RayStore(ShardedStore):
    """A store with the index in a folder of this machine, and a shard in the same folder of every machine.

    The machines are those of the Ray cluster at opening. Nodes on one machine share its folder.
    """

    name: ClassVar[str] = "ray"
    process_type = RayProcess

    def __init__(
        self,
        path: str | Path,
        replicas: int | None = 0,
        lost: str = "fail",
        partitions: int | None = None,
        keep_rounds: int = 1,
    ) -> None:
        """Opens the store, and creates it if there is none.

        Args:
            path: The folder, on every machine. Relative to this process's working directory.
            replicas: Number of additional machines that keep each client's state. None leaves it unchanged.
            lost: The action if states are lost with a machine: ``"fail"`` raises an error that names their
                clients, and ``"restart"`` lets these clients start afresh.
            partitions: Number of partitions of a new store, by default 64. Slices of clients end at
                partition boundaries, and at most this many machines can have states.
            keep_rounds: Number of rounds of each process to keep for `RayProcess.rewind`. It may differ at
                each opening. The next commit removes rounds beyond it.

        Raises:
            ConfigError: A value is not allowed, or the store has another number of partitions.
            StoreError: The store is in use, or cannot be opened.
        """
        self._path = Path(os.path.abspath(path))
        self._connected = False
        options = Options(replicas=replicas, lost=lost, partitions=partitions, keep_rounds=keep_rounds)
        try:
            super().__init__(self._path, options)
        except BaseException:
            self._disconnect()
            raise

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Opens ``ray+sqlite:///relative/path`` or ``ray+sqlite:////absolute/path``. The path is not decoded.

        Options follow a question mark: ``?replicas=1&lost=restart&partitions=256&keep_rounds=5``.
        """
        path, options = _arguments(url)
        return cls(path, **options)

    @classmethod
    def look_into(cls, url: str) -> Self:
        """Opens an existing store for reading, without creating one or moving states."""
        path, options = _arguments(url)
        require_store(Path(path))
        options.setdefault("replicas", None)
        return cls(path, **options)

    def get_config(self) -> dict[str, Any]:
        """Returns the path and the options."""
        return {"path": str(self._path), **vars(self._options)}

    def connect(self, identity: Identity) -> Fleet:
        """Starts a shard on every machine."""
        self._connected = connect()
        folder = self._path / _SHARDS
        machines = assign(find_shards(str(folder), identity.store), identity.store)
        return RayFleet(folder, machines, secrets.token_hex(8))

    def close(self) -> None:
        """Ends the shards, and the connection to the cluster if this store made it."""
        super().close()
        self._disconnect()

    def _disconnect(self) -> None:
        if self._connected:
            self._connected = False
            ray.shutdown()


def _arguments(url: str) -> tuple[str, dict[str, Any]]:
    """Splits a URL into the path and the options."""
    place, _, query = url.partition("?")
    path = rules.folder_of(place, _PREFIX)
    options: dict[str, Any] = dict(parse_qsl(query, keep_blank_values=True))
    for name in _WHOLE_NUMBERS:
        if name in options and options[name].isascii() and options[name].isdigit():
            options[name] = int(options[name])
    if unknown := set(options) - {*_WHOLE_NUMBERS, "lost"}:
        raise ConfigError(
            f"{url!r}: unknown option {sorted(unknown)[0]!r}; the options are replicas, lost, partitions and "
            "keep_rounds"
        )
    return path, options
