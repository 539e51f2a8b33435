"""The shards of a cluster: one actor each, on the machine that has its folder."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import ray

from fedplug.stores.sharded.fleet import Fleet
from fedplug_ray.shards.actor import RemoteShard, ShardActor, answer
from fedplug_ray.shards.machines import Machine, on_node
from fedplug_ray.shards.references import NAMESPACE

__all__ = ["RayFleet"]

_AT_A_TIME = 16  # concurrent calls of an actor
_RETRIES = 3  # of a call whose actor died
_SECONDS_TO_CLOSE = 10


class RayFleet(Fleet):
    """The actors of a store's shards, which the constructor starts.

    Args:
        folder: The folder of the shards, on every machine.
        machines: The shards and their machines.
        session: A name for the time between opening and closing the store.
    """

    def __init__(self, folder: Path, machines: Sequence[Machine], session: str) -> None:
        self._machines = {machine.shard: machine for machine in machines}
        self._session = session
        self._folder = folder
        self._actors = {machine.shard: self._start(machine) for machine in machines}

    @property
    def places(self) -> Mapping[str, str]:
        return {name: f"{each.host}:{self._folder / name}" for name, each in self._machines.items()}

    def node(self, shard: str) -> str:
        """Returns the id of a shard's node."""
        return self._machines[shard].node

    def actor_name(self, shard: str) -> str:
        """Returns the name under which workers find a shard's actor."""
        return f"{self._session}/{shard}"

    def begin(self, shard: str, method: str, arguments: Sequence[Any]) -> Callable[[], Any]:
        called = self._actors[shard].call.remote(method, *arguments)
        return functools.partial(answer, called, self.places[shard])

    def reader(self, shard: str) -> RemoteShard:
        return RemoteShard(self._actors[shard], self.places[shard])

    def close(self, generation: int | None = None) -> None:
        """Closes the shards. See `Fleet.close`."""
        if ray.is_initialized():
            closing = [actor.call.remote("close", generation) for actor in self._actors.values()]
            with contextlib.suppress(ray.exceptions.RayError):
                ray.get(closing, timeout=_SECONDS_TO_CLOSE)
            for actor in self._actors.values():
                ray.kill(actor)
        self._actors = {}

    def _start(self, machine: Machine) -> Any:
        actor = ray.remote(ShardActor).options(
            name=self.actor_name(machine.shard),
            namespace=NAMESPACE,
            max_restarts=-1,
            max_task_retries=_RETRIES,
            max_concurrency=_AT_A_TIME,
            **on_node(machine.node),
        )
        return actor.remote(str(self._folder / machine.shard), self._session)
