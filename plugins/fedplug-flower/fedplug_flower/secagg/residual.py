"""A client's residual under secure aggregation, which changes only when the server has counted the update."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from numpy.typing import NDArray

from fedplug.stores import StateStore

__all__ = ["Residual"]

State = Mapping[str, NDArray[Any]]


class Residual:
    """A client's last two states in a store: those before and after an update that is not confirmed.

    `fedplug.ClientCodec` is not for masked updates: its receipt is a digest of the payload, with which the
    server could test guesses.
    """

    def __init__(self, store: StateStore, signature: Mapping[str, Any]) -> None:
        """Opens the state of this node's client.

        Args:
            store: The node's store; the caller closes it.
            signature: The configuration of the encoder, which must stay the same.
        """
        self._kept = store.open_process("masked", signature)

    def read(self, accepted: Collection[str]) -> State | None:
        """Returns the state before the next update: that after the last one if it was accepted.

        Args:
            accepted: The receipts that the server's message names.
        """
        slot = self._current(accepted)
        return None if slot is None else self._kept.read_clients([slot])[slot]

    def write(self, state: State, receipt: str, accepted: Collection[str]) -> None:
        """Stores the state after an update durably; until it is confirmed, the state before it stays."""
        before = self._current(accepted)
        after = "second" if before == "first" else "first"
        last = self._kept.last_round
        self._kept.commit(
            0 if last is None else last + 1,
            client_states={after: state},
            server_state={},
            metadata={"receipt": receipt, "before": before, "after": after},
        )

    def _current(self, accepted: Collection[str]) -> str | None:
        kept = self._kept.metadata
        if kept is None:
            return None
        slot: str | None = kept["after" if kept["receipt"] in accepted else "before"]
        return slot
