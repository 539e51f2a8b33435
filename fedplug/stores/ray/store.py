"""Opening ``ray+sqlite:///folder``, and processes of it whose clients run where their states are."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import parse_qsl

import ray

from fedplug.errors import ConfigError
from fedplug.stores import rules
from fedplug.stores.base import PlacedState, Tensors
from fedplug.stores.ray.connection import connect
from fedplug.stores.ray.fleet import RayFleet
from fedplug.stores.ray.machines import assign, find_shards
from fedplug.stores.ray.references import Home, StateReference
from fedplug.stores.sharded.fleet import Fleet
from fedplug.stores.sharded.rewinding import RewindableProcess
from fedplug.stores.sharded.store import Identity, Options, ShardedStore, require_store

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

__all__ = ["RayProcess", "RayStore"]

_PREFIX = "ray+sqlite:///"
_WHOLE_NUMBERS = ("partitions", "replicas", "keep_rounds")
_SHARDS = "shards"


class RayProcess(RewindableProcess, PlacedState):
    """A process whose states are on the machines of a cluster."""

    _initial: tuple[Tensors, list[ray.ObjectRef[Any]]] | None = None

    def arranged(self, client_ids: Sequence[str]) -> list[str]:
        """As in `PlacedState`."""
        return self.record.placement.arranged(client_ids)

    def references(self, client_ids: Sequence[str], initial: Tensors) -> list[StateReference]:
        """As in `PlacedState`."""
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
    """The index in a folder of this machine, and a shard in the folder of the same path on every machine.

    The machines are those of the Ray cluster when it is opened. Nodes of one machine share its folder.
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
        """Opens the store, and makes it where there is none.

        Args:
            path: The folder, on every machine; relative to where this process runs.
            replicas: On how many further machines a client's state is kept; None: on as many as it is.
            lost: What follows when states are lost with a machine: ``"fail"``: an error that names their
                clients; ``"restart"``: these begin anew.
            partitions: Of a new store: slices of clients end where partitions end, and no more machines than
                partitions can have states. Default: 64.
            keep_rounds: How many rounds of each process to keep: `RayProcess.rewind` goes back to one of
                them. It may be another at each opening; fewer rounds are let go of at the next commit.

        Raises:
            ConfigError: An option has no such value, or the store has another number of partitions.
            StoreError: The store is in use, or cannot be opened.
        """
        self._path = Path(os.path.abspath(path))
        self._connected = False
        options = Options(replicas=replicas, lost=lost, partitions=partitions, keep_rounds=keep_rounds)
        super().__init__(self._path, options)

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Opens ``ray+sqlite:///relative/path`` or ``ray+sqlite:////absolute/path``; the path is not decoded.

        Options follow a question mark: ``?replicas=1&lost=restart&partitions=256&keep_rounds=5``.
        """
        path, options = _arguments(url)
        return cls(path, **options)

    @classmethod
    def look_into(cls, url: str) -> Self:
        """Opens the same for who only reads: makes none, and leaves states on the machines that have them."""
        path, options = _arguments(url)
        require_store(Path(path))
        options.setdefault("replicas", None)
        return cls(path, **options)

    def get_config(self) -> dict[str, Any]:
        """The path and the options."""
        return {"path": str(self._path), **vars(self._options)}

    def connect(self, identity: Identity) -> Fleet:
        """Starts a shard on every machine."""
        self._connected = connect()
        folder = self._path / _SHARDS
        machines = assign(find_shards(str(folder), identity.store), identity.store)
        return RayFleet(folder, machines, secrets.token_hex(8))

    def close(self) -> None:
        """As in `StateStore`; ends the shards, and the connection to the cluster if it was made here."""
        super().close()
        if self._connected:
            self._connected = False
            ray.shutdown()


def _arguments(url: str) -> tuple[str, dict[str, Any]]:
    """What a URL says: the path and the options."""
    place, _, query = url.partition("?")
    path = rules.folder_of(place, _PREFIX)
    options: dict[str, Any] = dict(parse_qsl(query, keep_blank_values=True))
    for name in _WHOLE_NUMBERS:
        if name in options and options[name].isascii() and options[name].isdigit():
            options[name] = int(options[name])
    if unknown := set(options) - {*_WHOLE_NUMBERS, "lost"}:
        raise ConfigError(
            f"{url!r}: there is no option {sorted(unknown)[0]!r}; there are replicas, lost, partitions and "
            "keep_rounds"
        )
    return path, options
