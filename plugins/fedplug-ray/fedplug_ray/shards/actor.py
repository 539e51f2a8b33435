"""A shard as a Ray actor. It opens its folder at the first call, and forwards calls."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import ray

from fedplug.errors import StoreError, StoreInUseError
from fedplug.stores.sharded.shard import Shard

__all__ = ["RemoteShard", "ShardActor", "answer"]

# Actors of a killed driver live until Ray notices and their disks have answered.
_PREDECESSOR_SECONDS = 60.0


class ShardActor:
    """An actor on the machine whose disk has the folder. Ray restarts it there if its process dies.

    Args:
        folder: The folder of the shard.
        session: The session name. See `Shard`.
    """

    def __init__(self, folder: str, session: str) -> None:
        self._folder = folder
        self._session = session
        self._shard: Shard | None = None
        self._opening = threading.Lock()

    def call(self, method: str, *arguments: Any) -> Any:
        """Calls a method of the shard.

        Raises:
            StoreError: The method raised it, or the folder cannot be opened.
        """
        return getattr(self._opened(), method)(*arguments)

    def _opened(self) -> Shard:
        with self._opening:
            end = time.monotonic() + _PREDECESSOR_SECONDS
            while self._shard is None:
                try:
                    Path(self._folder).mkdir(parents=True, exist_ok=True)
                    self._shard = Shard(self._folder, self._session)
                except StoreInUseError as error:
                    if time.monotonic() > end:
                        raise StoreInUseError(
                            f"{error}; waited {_PREDECESSOR_SECONDS:g} s for the previous driver's shard "
                            "to end: it is in use, or its disk does not answer"
                        ) from error
                    time.sleep(0.1)
            return self._shard


def answer(reference: ray.ObjectRef[Any], place: str) -> Any:
    """Returns the result of a call of a shard.

    Args:
        reference: The reference to the result.
        place: The place of the shard, for error messages.

    Raises:
        StoreError: The shard's method raised it, or the shard is gone.
    """
    try:
        return ray.get(reference)
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, StoreError):
            raise cause from None
        raise StoreError(
            f"the shard in {place} does not answer: {' '.join(str(error).split())[:300]}; if its machine is "
            "gone, open the store again"
        ) from error


class RemoteShard:
    """A shard on any machine, to read from.

    Args:
        actor: The actor.
        place: The place of the shard, for error messages.
    """

    def __init__(self, actor: Any, place: str) -> None:
        self._actor = actor
        self._place = place

    def read(
        self, process_id: str, version: int, client_ids: Sequence[str]
    ) -> dict[str, dict[str, np.ndarray[Any, Any]]]:
        """Reads the states of clients. See `Shard.read`."""
        called = self._actor.call.remote("read", process_id, version, client_ids)
        found: dict[str, dict[str, np.ndarray[Any, Any]]] = answer(called, self._place)
        return found
