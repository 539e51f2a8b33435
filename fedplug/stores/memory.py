"""``memory://``: a store in this process, for tests and for runs that never restart, lost when closed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

import fedplug.kernels as kernels
from fedplug.errors import ConfigError, StoreError
from fedplug.stores import blob, rules
from fedplug.stores.base import Json, ProcessState, State, StateStore, Tensors, can_be_written, give_up
from fedplug.stores.forks import lock_for_forks

if TYPE_CHECKING:
    from typing import Self  # Python 3.11

__all__ = ["MemoryStore"]


class MemoryStore(StateStore):
    """Keeps copies of writable arrays. Values and dtypes are returned as by a store on disk."""

    name: ClassVar[str] = "memory"

    def __init__(self) -> None:
        self._processes: dict[str, _MemoryProcess] | None = {}

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Creates an empty store. The URL must be ``memory://``."""
        if url != "memory://":
            raise ConfigError(f"{url!r}: a memory store has no address; write 'memory://'")
        return cls()

    def get_config(self) -> dict[str, Json]:
        return {}

    def open_process(self, process_id: str, signature: Mapping[str, object] | None = None) -> ProcessState:
        processes = self._opened()
        rules.check_text("process id", process_id)
        kept = processes.get(process_id)
        if kept is None and signature is None:
            raise rules.no_such_process("this memory store", process_id, processes)
        if kept is None:
            new = _MemoryProcess(self, process_id, rules.to_json("signature", signature))
            kept = processes.setdefault(process_id, new)  # another thread may have been first
        if signature is not None:
            rules.check_signature("this memory store", process_id, kept.signature_text, signature)
        return kept

    def processes(self) -> list[str]:
        return sorted(self._opened())

    def close(self) -> None:
        """Discards everything."""
        self._processes = None

    def _opened(self) -> dict[str, _MemoryProcess]:
        if self._processes is None:
            raise StoreError("the memory store is closed")
        return self._processes


_deciding = lock_for_forks()
"""Taken for the end of each commit. Everything else only reads rounds, which never change."""


class _Round(NamedTuple):
    """The state as of one round. ``metadata`` is a JSON text."""

    number: int | None
    metadata: str
    clients: Mapping[str, State]
    server: State | None


class _MemoryProcess(ProcessState):
    def __init__(self, store: MemoryStore, process_id: str, signature: str) -> None:
        self.signature_text = signature
        self._store = store
        self._process_id = process_id
        self._last = _Round(None, "null", {}, None)

    @property
    def signature(self) -> Json:
        self._store._opened()
        return json.loads(self.signature_text)

    @property
    def last_round(self) -> int | None:
        return self._kept().number

    @property
    def metadata(self) -> Json:
        return json.loads(self._kept().metadata)

    def client_ids(self) -> list[str]:
        return sorted(self._kept().clients)

    def read_clients(self, client_ids: Iterable[str]) -> dict[str, State]:
        return {client: _copies(state) for client, state in self.view_clients(client_ids).items()}

    def view_clients(self, client_ids: Iterable[str]) -> dict[str, State]:
        clients = self._kept().clients
        asked = [rules.check_text("client id", client) for client in client_ids]
        return {client: dict(clients[client]) for client in asked if client in clients}

    def read_server(self) -> State | None:
        server = self._kept().server
        return None if server is None else _copies(server)

    def commit(
        self,
        round_num: int,
        *,
        client_states: Mapping[str, Tensors],
        server_state: Tensors,
        metadata: object = None,
    ) -> None:
        last = self._kept()
        number, text = rules.check_commit(self._process_id, last.number, round_num, client_states, metadata)
        clients = {
            client: _fixed(blob.checked(tensors, f"client {client!r}"))
            for client, tensors in client_states.items()
        }
        server = _fixed(blob.checked(server_state, "server state"))
        with _deciding:
            rules.check_round(self._process_id, self._kept().number, number)  # another thread may be first
            # One assignment: an interrupt leaves either the last round or this one, never a mixture.
            self._last = _Round(number, text, {**self._last.clients, **clients}, server)

    def damage(self) -> Iterator[str]:
        self._kept()
        return iter(())

    def _kept(self) -> _Round:
        self._store._opened()
        return self._last


def _fixed(arrays: State) -> State:
    """Returns read-only arrays: copies of the writable ones, and the others unchanged."""
    fixed = dict(arrays)
    for name, array in arrays.items():
        if can_be_written(array):
            fixed[name] = _copy(array)
            give_up(fixed[name])
    return fixed


def _copies(arrays: State) -> State:
    """Returns copies of the arrays, in memory that freed arrays may have left."""
    return {name: _copy(array) for name, array in arrays.items()}


def _copy(array: NDArray[np.generic]) -> NDArray[np.generic]:
    copy = kernels.empty(array.shape, array.dtype)
    np.copyto(copy, array)
    return copy
