"""A codec together with one client's state, kept in a store. Must not know who carries the payloads."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from fedplug.codecs.encoding import Codec
from fedplug.errors import ArgumentError
from fedplug.stores.base import StateStore

__all__ = ["ClientCodec"]


class _Slots(NamedTuple):
    """Where the store has a client's state, and one that is not accepted yet: two slots take turns."""

    current: str | None = None
    pending: str | None = None

    @property
    def free(self) -> str:
        """The slot of the pending state, or of the next one."""
        return "second" if self.current == "first" else "first"


class ClientCodec:
    """Encodes what one client sends; its residual moves on only when the server has accepted a payload.

    In two steps, as a payload may be lost on its way, or refused. `encode_model` keeps the next state in the
    store as pending, durably, before there are bytes that could leave; `settle` makes it the state when the
    server names its receipt, and forgets it otherwise, so that the residual is what it was before. The update
    that was not accepted is lost then, as it is without compression. The order in each round::

        client.settle(accepted)  # the receipt that the server's message names, or None
        payloads, receipt = client.encode_model(update, round_num)

    Where a message is delivered twice, both answers are the same bytes. Only `encode_model` writes: one state
    of the model's size, and the decision before it, in one commit. If the process ends between the two, the
    decision is open again, and is made again. Used by one thread at a time, one object a client.
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
        self._now = _Slots(**(self._kept.metadata or {}))

    @property
    def pending(self) -> str | None:
        """The receipt of what was encoded last, unless it is settled."""
        return self._now.pending

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
        current, pending = self._now
        if pending is not None:
            raise ArgumentError(
                f"payload {pending} of this client is not settled; call settle(receipt) with what the server "
                "accepted, or settle(None)"
            )
        state = self._kept.read_clients([current]).get(current) if current else None
        payloads, next_state = self._codec.encode_model(arrays, state, round_num)
        receipt = _receipt(payloads, round_num)
        after = _Slots(current, receipt)
        last = self._kept.last_round
        self._kept.commit(
            0 if last is None else last + 1,
            client_states={after.free: next_state},
            server_state={},
            metadata=after._asdict(),
        )
        self._now = after
        return payloads, receipt

    def settle(self, accepted: str | None) -> bool:
        """Decides on what was encoded last; does nothing where that is decided.

        Args:
            accepted: The receipt of this client's payload that the server accepted last; untrusted. None: of
                none that it knows of.

        Returns:
            Whether that was the pending one, so that its state is the client's from now on.
        """
        is_accepted = self._now.pending is not None and accepted == self._now.pending
        self._now = _Slots(self._now.free if is_accepted else self._now.current)
        return is_accepted


def _receipt(payloads: Mapping[str, bytes], round_num: int) -> str:
    """The same for the same bytes in the same round, and no other."""
    digest = hashlib.sha256()
    for name, payload in payloads.items():
        digest.update(f"{len(name.encode())} {len(payload)} {name}".encode())
        digest.update(payload)
    return f"{round_num}-{digest.hexdigest()[:32]}"
