"""A codec together with one client's state, kept in a store. Must not know who carries the payloads."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from fedplug.codecs.encoding import Codec
from fedplug.errors import ArgumentError
from fedplug.stores.base import StateStore

__all__ = ["ClientCodec"]

_SLOTS = ("first", "second")


class ClientCodec:
    """Encodes what one client sends; its residual moves on only when the server has accepted a payload.

    In two steps, as a payload may be lost on its way, or refused. `encode_model` keeps the next state in the
    store as pending, durably, before there are bytes that could leave; `settle` makes it the state when the
    server names its receipt, and forgets it otherwise, so that the residual is what it was before. The update
    that was not accepted is lost then, as it is without compression. The order in each round:

        client.settle(receipt that the server's message names, or None)
        payloads, receipt = client.encode_model(update, round_num)

    Where a message is delivered twice, both answers are the same bytes. One `encode_model` writes one state
    of the model's size. Used by one thread at a time.
    """

    def __init__(self, codec: Codec, store: StateStore, client_id: str) -> None:
        """Opens what the store keeps for the client; nothing for a new one.

        Args:
            codec: Of all rounds of this client.
            store: From `fedplug.open_store`; it stays the caller's to close. May be shared by any number of
                clients of one process.
            client_id: Any text.

        Raises:
            StoreMismatchError: The client's state is of another codec.
            StoreError: The store is closed, damaged ...
        """
        self._codec = codec
        signature = {"codec": repr(codec.encoder), "min_size": codec.min_size}
        self._kept = store.open_process(f"client {client_id}", signature)

    @property
    def pending(self) -> str | None:
        """The receipt of what was encoded last, unless it is settled."""
        receipt: str | None = self._metadata()["pending"]
        return receipt

    def encode_model(self, arrays: Mapping[str, Any], round_num: int = 0) -> tuple[dict[str, bytes], str]:
        """Compresses the arrays of an update together, as `Codec.encode_model` does.

        Args:
            arrays: By name; the same names, shapes and dtypes in all rounds.
            round_num: 0 or more; for schedules and seeds.

        Returns:
            A payload for each array, and the receipt that stands for all of them: a text to be sent along.

        Raises:
            ArgumentError: What was encoded before is not settled; or as for `Codec.encode_model`.
            ConfigError: As for `Codec.encode_model`.
            NonFiniteError: As for `Codec.encode_model`.
            StateError: The client's state is of another model.
            StoreError: The next state cannot be stored. Like all errors, it leaves the state as it was.
        """
        kept = self._metadata()
        if kept["pending"] is not None:
            raise ArgumentError(
                f"payload {kept['pending']} of this client is not settled; call settle(receipt) with what "
                "the server accepted, or settle(None)"
            )
        state = self._kept.read_clients([kept["slot"]]).get(kept["slot"]) if kept["slot"] else None
        payloads, next_state = self._codec.encode_model(arrays, state, round_num)
        receipt = _receipt(payloads, round_num)
        free = _SLOTS[kept["slot"] == _SLOTS[0]]
        self._commit({free: next_state}, {"slot": kept["slot"], "pending": receipt, "pending_slot": free})
        return payloads, receipt

    def settle(self, accepted: str | None) -> bool:
        """Decides on what was encoded last; does nothing where that is decided.

        Args:
            accepted: The receipt of this client's payload that the server accepted last; untrusted. None: of
                none that it knows of.

        Returns:
            Whether that was the pending one, so that its state is the client's from now on.

        Raises:
            StoreError: The decision cannot be stored; it is still open.
        """
        kept = self._metadata()
        if kept["pending"] is None:
            return False
        is_accepted = bool(accepted == kept["pending"])
        slot = kept["pending_slot"] if is_accepted else kept["slot"]
        self._commit({}, {"slot": slot, "pending": None, "pending_slot": None})
        return is_accepted

    def _metadata(self) -> dict[str, Any]:
        return self._kept.metadata or {"slot": None, "pending": None, "pending_slot": None}

    def _commit(self, states: Mapping[str, Any], metadata: dict[str, Any]) -> None:
        last = self._kept.last_round
        number = 0 if last is None else last + 1
        self._kept.commit(number, client_states=states, server_state={}, metadata=metadata)


def _receipt(payloads: Mapping[str, bytes], round_num: int) -> str:
    """The same for the same bytes in the same round, and no other."""
    digest = hashlib.sha256()
    for name, payload in payloads.items():
        digest.update(f"{len(name.encode())} {len(payload)} {name}".encode())
        digest.update(payload)
    return f"{round_num}-{digest.hexdigest()[:32]}"
