"""``memory://``: a store in this process, for tests and for runs that need no restart; gone when closed.

Must not know files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

import numpy as np

from fedplug.errors import ConfigError, StoreError
from fedplug.stores import blob, rules
from fedplug.stores.base import ProcessState, StateStore, Tensors

__all__ = ["MemoryStore"]


class MemoryStore(StateStore):
    """Keeps the same bytes as a store on disk would, so that values and dtypes come back in the same way."""

    name: ClassVar[str] = "memory"

    def __init__(self) -> None:
        self._processes: dict[str, _MemoryProcess] | None = {}

    @classmethod
    def from_url(cls, url: str) -> Self:
        """A new, empty store; the URL is ``memory://`` and nothing more."""
        if url != "memory://":
            raise ConfigError(f"{url!r}: a memory store has no address; write 'memory://'")
        return cls()

    def get_config(self) -> dict[str, Any]:
        """Nothing: every memory store is new."""
        return {}

    def open_process(self, process_id: str, signature: Mapping[str, Any] | None = None) -> ProcessState:
        """See `StateStore.open_process`."""
        processes = self._opened()
        rules.check_text("process id", process_id)
        kept = processes.get(process_id)
        if kept is None and signature is None:
            raise rules.no_such_process("this memory store", process_id, processes)
        if kept is None:
            kept = _MemoryProcess(self, process_id, rules.to_json("signature", signature))
            processes[process_id] = kept
        elif signature is not None:
            rules.check_signature("this memory store", process_id, kept.signature_text, signature)
        return kept

    def processes(self) -> list[str]:
        """See `StateStore.processes`."""
        return sorted(self._opened())

    def close(self) -> None:
        """Forgets everything."""
        self._processes = None

    def _opened(self) -> dict[str, _MemoryProcess]:
        if self._processes is None:
            raise StoreError("the memory store is closed")
        return self._processes


class _MemoryProcess(ProcessState):
    def __init__(self, store: MemoryStore, process_id: str, signature: str) -> None:
        self.signature_text = signature
        self._store = store
        self._process_id = process_id
        self._round: int | None = None
        self._metadata = "null"
        self._clients: dict[str, bytes] = {}
        self._server: bytes | None = None

    @property
    def signature(self) -> Any:
        self._store._opened()
        return json.loads(self.signature_text)

    @property
    def last_round(self) -> int | None:
        self._store._opened()
        return self._round

    @property
    def metadata(self) -> Any:
        self._store._opened()
        return json.loads(self._metadata)

    def client_ids(self) -> list[str]:
        self._store._opened()
        return sorted(self._clients)

    def read_clients(self, client_ids: Iterable[str]) -> dict[str, dict[str, np.ndarray[Any, Any]]]:
        self._store._opened()
        asked = [rules.check_text("client id", client) for client in client_ids]
        return {client: blob.decode(self._clients[client]) for client in asked if client in self._clients}

    def read_server(self) -> dict[str, np.ndarray[Any, Any]] | None:
        self._store._opened()
        return None if self._server is None else blob.decode(self._server)

    def commit(
        self,
        round_num: int,
        *,
        client_states: Mapping[str, Tensors],
        server_state: Tensors,
        metadata: Any = None,
    ) -> None:
        self._store._opened()
        number = rules.check_round(self._process_id, self._round, round_num)
        # Everything that can fail comes before the first assignment.
        text = rules.to_json("metadata", metadata)
        rules.check_mapping("client_states", "client ids to states", client_states)
        clients = {
            rules.check_text("client id", client): blob.encode(tensors, f"client {client!r}")
            for client, tensors in client_states.items()
        }
        self._server = blob.encode(server_state, "server state")
        self._clients.update(clients)
        self._round, self._metadata = number, text

    def verify(self) -> None:
        self._store._opened()
